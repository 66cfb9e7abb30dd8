//! Puts equal load on several targets in turn and prints the cost per request of each.
//!
//! `load BODIES ROUNDS SECONDS NAME=ADDRESS@PID...`: the target named `nginx` is the baseline; the
//! target named `direct` is the upstream itself. Rounds are interleaved and the median is shown, so
//! that a busy machine disturbs all targets alike. If `LOADS` is set, it names the loads to
//! measure, separated by semicolons.

use bytes::Bytes;
use longhaul_bench::{Connection, Failure, Process, block_on};
use std::path::Path;
use std::time::{Duration, Instant};

/// The requests sent to every target.
struct Workload {
    name: &'static str,
    body: &'static str,
    connections: usize,
    /// Query that selects the upstream's reply; `None` for a single small reply.
    events: Option<&'static str>,
    path: &'static str,
}

const WORKLOADS: [Workload; 9] = [
    workload("4 KB", "4k", 1, None),
    workload("4 KB, 16 connections", "4k", 16, None),
    workload("100 KB", "100k", 1, None),
    workload("1 MB", "1m", 1, None),
    workload("4 MB", "4m", 1, None),
    workload("4 KB, 100 events at once", "4k", 4, Some("events=100")),
    workload("4 KB, 40 events 5 ms apart", "4k", 32, Some("events=40&pause_us=5000")),
    Workload { path: "/v1/responses", ..workload("Codex, 1 MB", "codex", 1, None) },
    Workload { path: "/v1/messages", ..workload("Claude Code, 1.2 MB", "claude", 1, None) },
];

const fn workload(
    name: &'static str,
    body: &'static str,
    connections: usize,
    events: Option<&'static str>,
) -> Workload {
    Workload { name, body, connections, events, path: "/v1/chat/completions" }
}

struct Target {
    name: String,
    address: String,
    process: Process,
}

impl Target {
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('=')?;
        let (address, process) = rest.split_once('@')?;
        Some(Self {
            name: name.to_owned(),
            address: address.to_owned(),
            process: Process(process.parse().ok()?),
        })
    }
}

/// Results of one round, in microseconds.
#[derive(Clone, Copy, Default)]
struct Figures {
    processor: f64,
    latency: f64,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bodies, rounds, seconds, targets @ ..] = arguments.as_slice() else {
        return Err("usage: load BODIES ROUNDS SECONDS NAME=ADDRESS@PID...".into());
    };
    let targets: Vec<Target> = targets
        .iter()
        .map(|text| Target::parse(text).ok_or_else(|| format!("no target: {text}")))
        .collect::<Result<_, _>>()?;
    let (rounds, seconds) = (rounds.parse()?, Duration::from_secs_f64(seconds.parse()?));
    println!("| load | target | CPU × nginx | CPU µs a request | µs added to direct |");
    println!("|---|---|--:|--:|--:|");
    let wanted = std::env::var("LOADS").unwrap_or_default();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.split(';').any(|it| it.trim() == name);
    for workload in WORKLOADS.iter().filter(|load| is_wanted(load.name)) {
        let body = body(Path::new(bodies), workload)?;
        let mut seen = vec![Vec::new(); targets.len()];
        for _ in 0..rounds {
            for (target, seen) in targets.iter().zip(&mut seen) {
                seen.push(block_on(round(target, workload, &body, seconds))??);
            }
        }
        let medians: Vec<Figures> = seen.iter().map(|rounds| median_of(rounds)).collect();
        print_rows(workload, &targets, &medians);
    }
    for target in &targets {
        let peak = target.process.memory_kib("VmHWM")?;
        println!("\n{}: peak memory {:.1} MB", target.name, peak as f64 / 1024.0);
    }
    Ok(())
}

/// Returns the body to send; it asks for a stream if the workload streams.
fn body(folder: &Path, workload: &Workload) -> Result<Bytes, Failure> {
    let path = folder.join(workload.body).with_extension("json");
    let mut text = std::fs::read_to_string(&path)?;
    if workload.events.is_some() {
        text.insert_str(1, r#""stream":true,"#);
    }
    Ok(text.into())
}

async fn round(
    target: &Target,
    workload: &Workload,
    body: &Bytes,
    time: Duration,
) -> Result<Figures, Failure> {
    // Warm-up: the first requests open connections and fault in pages, so they are not counted.
    run(target, workload, body, time / 10).await?;
    let before = target.process.processor_time()?;
    let mut latencies = run(target, workload, body, time).await?;
    let spent = target.process.processor_time()?.saturating_sub(before);
    Ok(Figures {
        processor: spent.as_secs_f64() * 1e6 / latencies.len() as f64,
        latency: median(&mut latencies),
    })
}

/// Sends requests one after another on each connection until `time` is over. Returns the duration
/// of each in microseconds.
async fn run(
    target: &Target,
    workload: &Workload,
    body: &Bytes,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let end = Instant::now() + time;
    let workers: Vec<_> = (0..workload.connections)
        .map(|_| {
            let (address, body) = (target.address.clone(), body.clone());
            let query = workload.events.unwrap_or_default();
            let path = workload.path;
            tokio::task::spawn_local(async move {
                let mut connection = Connection::open(&address).await?.to_path(path);
                let mut latencies = Vec::new();
                while latencies.is_empty() || Instant::now() < end {
                    let start = Instant::now();
                    connection.exchange(query, body.clone()).await?;
                    latencies.push(start.elapsed().as_secs_f64() * 1e6);
                }
                Ok::<_, Failure>(latencies)
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for worker in workers {
        latencies.extend(worker.await??);
    }
    Ok(latencies)
}

fn print_rows(workload: &Workload, targets: &[Target], medians: &[Figures]) {
    let of = |name: &str| {
        let mut named = targets.iter().zip(medians);
        named.find(|(target, _)| target.name == name).map(|(_, figures)| *figures)
    };
    let (nginx, direct) = (of("nginx"), of("direct"));
    for (target, figures) in targets.iter().zip(medians) {
        if target.name == "direct" {
            continue;
        }
        let or_dash = |figure: Option<f64>, digits: usize| {
            figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.digits$}"))
        };
        println!(
            "| {} | {} | {} | {:.0} | {} |",
            workload.name,
            target.name,
            or_dash(nginx.map(|nginx| figures.processor / nginx.processor), 2),
            figures.processor,
            or_dash(direct.map(|direct| figures.latency - direct.latency), 0),
        );
    }
}

fn median_of(rounds: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(figure).collect();
        median(&mut all)
    };
    Figures { processor: of(|round| round.processor), latency: of(|round| round.latency) }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
