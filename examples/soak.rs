//! A soak: a few agents of each API repeat recorded sessions for hours, slowly, while the program is
//! restarted, killed, and replaced by an older program and back. All runs share one store file.
//!
//! The strict model refuses each request that its API would refuse. A line for each run of the program goes
//! to `runs.jsonl` in the folder. If the soak is stopped and started again, it continues after these lines.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a drill that meets what it does not expect fails"
)]

#[allow(dead_code, reason = "the load drill uses the rest")]
#[path = "../tests/it/load/process.rs"]
mod process;

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use longhaul_mock_model::{Model, ModelOptions, SessionRecording, Verdict};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use process::Server;

/// Window of the model and of the program, in tokens: each session fills several.
const WINDOW: u64 = 32_768;
/// Limit on the wait for a reply or an exit. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_mins(1);
/// Pause of an agent before it repeats a request that no program answered.
const RETRY: Duration = Duration::from_millis(500);
/// Growth of memory that is permitted between two runs of one program, in KiB, on top of a fifth.
const GROWTH_KIB: u64 = 16 << 10;

/// Plays the soak: cargo run --release --example soak -- --hours 2 --folder DIR --program PATH --older PATH
#[derive(Parser)]
struct Options {
    /// Duration of all runs together, in hours.
    #[arg(long, default_value_t = 2.0)]
    hours: f64,
    /// Duration of one run of the program, in minutes.
    #[arg(long, default_value_t = 3.0)]
    run: f64,
    /// Number of agents; a third of them speaks each API.
    #[arg(long, default_value_t = 9)]
    agents: usize,
    /// Seconds between two requests of an agent.
    #[arg(long, default_value_t = 4.0)]
    every: f64,
    /// Folder for the store file and the lines of the runs.
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// Program to test.
    #[arg(long, value_name = "PATH")]
    program: PathBuf,
    /// Program of the last form version, which takes every third run. It serves Chat Completions alone.
    #[arg(long, value_name = "PATH")]
    older: Option<PathBuf>,
}

/// A run of a program, as a line of the file.
#[derive(Debug, Deserialize, Serialize)]
struct Run {
    is_older: bool,
    is_killed: bool,
    minutes: f64,
    /// Requests that their clients sent, and replies that arrived whole with status 200.
    requests: usize,
    whole: usize,
    /// Requests that a stopping program left unanswered, and that their agents repeated.
    repeated: usize,
    /// Requests that the model refused as invalid or as too long.
    invalid: usize,
    overflowed: usize,
    prompt_tokens: u64,
    cached_tokens: u64,
    memory_kib: u64,
    descriptors: usize,
    /// Position of each agent: sessions played, and requests of the current one.
    positions: Vec<(usize, usize)>,
    wrong: Vec<String>,
}

#[derive(Default)]
struct Counts {
    requests: AtomicUsize,
    whole: AtomicUsize,
    repeated: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    fs::create_dir_all(&options.folder)?;
    let lines = options.folder.join("runs.jsonl");
    let mut runs = read(&lines)?;
    let model = Model::start(ModelOptions::with_window(WINDOW)).await?;
    while runs.iter().map(|run| run.minutes).sum::<f64>() < options.hours * 60.0 {
        let run = play(&options, &model, &runs).await?;
        let mut file = OpenOptions::new().create(true).append(true).open(&lines)?;
        writeln!(file, "{}", serde_json::to_string(&run)?)?;
        runs.push(run);
    }
    Ok(report(&runs))
}

fn read(lines: &Path) -> Result<Vec<Run>, Box<dyn Error>> {
    if !lines.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(lines)?;
    let runs = text.lines().map(serde_json::from_str);
    Ok(runs.collect::<Result<_, _>>()?)
}

/// Plays one run: agents continue where the last run left them. Runs end by SIGTERM and by SIGKILL in turn.
async fn play(options: &Options, model: &Model, before: &[Run]) -> Result<Run, Box<dyn Error>> {
    let is_older = options.older.is_some() && before.len() % 3 == 2;
    let is_killed = before.len() % 2 == 1;
    let program = match &options.older {
        Some(older) if is_older => older,
        _ => &options.program,
    };
    let seen_before = model.seen().len();
    let mut server = Server::run(&mut command(program, model.addr(), &options.folder));
    let counts = Arc::new(Counts::default());
    let began = Instant::now();
    let until = began + Duration::try_from_secs_f64(options.run * 60.0)?;
    let fresh = vec![(0, 0); options.agents];
    let positions = before.last().map_or(fresh, |last| last.positions.clone());
    let sessions = Arc::new([
        longhaul_mock_model::session()?,
        longhaul_mock_model::responses_session()?,
        longhaul_mock_model::messages_session()?,
    ]);
    let mut agents = JoinSet::new();
    for (name, &position) in positions.iter().enumerate() {
        let agent = Agent {
            name,
            proxy: server.address,
            client: Client::builder(TokioExecutor::new()).build_http(),
            sessions: Arc::clone(&sessions),
            counts: Arc::clone(&counts),
            position,
            // An older program passes the other APIs unread, and their sessions would overflow.
            rests: is_older && name % 3 != 0,
        };
        let every = Duration::try_from_secs_f64(options.every)?;
        agents.spawn(async move { (name, agent.work(every, until).await) });
    }
    tokio::time::sleep_until(until).await;
    let held = server.held();
    let mut wrong = Vec::new();
    if is_killed {
        drop(server);
    } else {
        server.terminate();
        match timeout(PATIENCE, server.ended()).await {
            Ok(0) => {}
            Ok(code) => wrong.push(format!("the program ended with {code} after SIGTERM")),
            Err(_) => wrong.push("the program did not end after SIGTERM".to_owned()),
        }
    }
    let mut positions = positions;
    while let Some(ended) = agents.join_next().await {
        let (name, position) = ended?;
        positions[name] = position;
    }
    let seen = model.seen();
    let seen = seen.get(seen_before..).unwrap_or_default();
    let count = |is: fn(Verdict) -> bool| seen.iter().filter(|seen| is(seen.verdict)).count();
    wrong.append(&mut counts.wrong.lock());
    Ok(Run {
        is_older,
        is_killed,
        minutes: began.elapsed().as_secs_f64() / 60.0,
        requests: counts.requests.load(Ordering::Relaxed),
        whole: counts.whole.load(Ordering::Relaxed),
        repeated: counts.repeated.load(Ordering::Relaxed),
        invalid: count(|verdict| matches!(verdict, Verdict::Broken(_))),
        overflowed: count(|verdict| verdict == Verdict::Overflowed),
        prompt_tokens: seen.iter().map(|seen| seen.prompt_tokens).sum(),
        cached_tokens: seen.iter().map(|seen| seen.cached_tokens).sum(),
        memory_kib: held.memory_kib,
        descriptors: held.descriptors,
        positions,
        wrong,
    })
}

fn command(program: &Path, upstream: SocketAddr, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("LONGHAUL_UPSTREAM_ASK", "false")
        .env("LONGHAUL_SUMMARY_MODEL", "none")
        .env("LONGHAUL_LOG_LEVEL", "error")
        .env("LONGHAUL_WINDOW", WINDOW.to_string())
        .env("LONGHAUL_ADMIN", "off")
        .env("XDG_STATE_HOME", folder)
        .env("LONGHAUL_STORE_SCOPE_SECRET", "a secret of thirty-two characters")
        .arg("--listen")
        .arg("127.0.0.1:0")
        .arg("--upstream")
        .arg(format!("http://{upstream}/v1"))
        .arg("--store")
        .arg(format!("file:{}", folder.join("records.db").display()));
    command
}

/// A client that repeats one recorded session. Each repetition has its own credential, hence a scope.
struct Agent {
    name: usize,
    proxy: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    sessions: Arc<[SessionRecording; 3]>,
    counts: Arc<Counts>,
    position: (usize, usize),
    rests: bool,
}

impl Agent {
    /// Sends requests until `until`; returns the position after the last request that was answered.
    async fn work(mut self, every: Duration, until: Instant) -> (usize, usize) {
        let sessions = Arc::clone(&self.sessions);
        let session = &sessions[self.name % 3];
        while !self.rests && Instant::now() < until {
            let Some(request) = session.requests().nth(self.position.1) else {
                self.position = (self.position.0 + 1, 0);
                continue;
            };
            self.counts.requests.fetch_add(1, Ordering::Relaxed);
            let asked = timeout(PATIENCE, self.ask(session.path(), request.body())).await;
            match asked {
                Ok(Ok(StatusCode::OK)) => {
                    self.counts.whole.fetch_add(1, Ordering::Relaxed);
                    self.position.1 += 1;
                    sleep(every).await;
                }
                // The program is stopping, or was killed: the next run answers the request.
                Ok(Err(_)) if Instant::now() >= until => {
                    self.counts.repeated.fetch_add(1, Ordering::Relaxed);
                    sleep(RETRY).await;
                }
                other => {
                    let at = self.position;
                    let text = format!("agent {}, request {at:?}: {other:?}", self.name);
                    self.counts.wrong.lock().push(text);
                    self.position.1 += 1;
                    sleep(every).await;
                }
            }
        }
        self.position
    }

    /// Sends a request and reads the whole reply; returns its status.
    async fn ask(
        &self,
        path: &str,
        body: Vec<u8>,
    ) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
        let key = format!("soak-{}-{}", self.name, self.position.0);
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{}/v1{path}", self.proxy))
            .header("content-type", "application/json")
            .header("anthropic-version", "2023-06-01");
        let request = if path == "/messages" {
            request.header("x-api-key", key)
        } else {
            request.header("authorization", format!("Bearer {key}"))
        };
        let reply = self.client.request(request.body(Full::from(body))?).await?;
        let status = reply.status();
        reply.into_body().collect().await?;
        Ok(status)
    }
}

/// Prints the sums of all runs; fails if a request was lost, refused as invalid, or memory grew.
fn report(runs: &[Run]) -> ExitCode {
    let mut wrong: Vec<String> = runs.iter().flat_map(|run| run.wrong.clone()).collect();
    println!("| | program | older program |\n|---|--:|--:|");
    let row = |name: &str, value: fn(&Run) -> u64| {
        let sum = |is_older| -> u64 {
            let own = runs.iter().filter(|run| run.is_older == is_older);
            own.map(value).sum()
        };
        println!("| {name} | {} | {} |", sum(false), sum(true));
    };
    row("runs", |_| 1);
    row("ended by SIGKILL", |run| run.is_killed.into());
    row("requests", |run| run.requests as u64);
    row("answered whole", |run| run.whole as u64);
    row("unanswered at the end of a run, and repeated", |run| run.repeated as u64);
    row("refused by the model as too long", |run| run.overflowed as u64);
    row("refused by the model as invalid", |run| run.invalid as u64);
    row("tokens sent", |run| run.prompt_tokens);
    row("tokens found in the prompt cache", |run| run.cached_tokens);
    let own: Vec<&Run> = runs.iter().filter(|run| !run.is_older).collect();
    if own.iter().any(|run| run.invalid > 0) {
        wrong.push("a request was refused as invalid".to_owned());
    }
    if let [first, .., last] = own.as_slice() {
        let (from, to) = (first.memory_kib, last.memory_kib);
        println!("\nmemory at the end of the first run {from} KiB, of the last run {to} KiB");
        if to > from + from / 5 + GROWTH_KIB {
            wrong.push(format!("memory grew from {from} to {to} KiB"));
        }
    }
    for line in &wrong {
        println!("WRONG: {line}");
    }
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
