//! A load drill: thousands of agents use the real program for minutes. Clients disconnect and read
//! slowly, the upstream resets connections, stalls and lies, the store stalls, the settings are reloaded,
//! a hostile caller attacks, and SIGTERM arrives in the middle.
//! The drill reports the outcome of every request, and the program's resources before, during and
//! after.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a drill that meets what it does not expect fails"
)]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/it/load/drill.rs"]
mod drill;

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;

/// Plays the drill: cargo run --release --example load -- --agents 2000 --minutes 3
///
/// Each agent takes two descriptors here and two in the program: raise the limit (ulimit -n) to
/// match. The exit code is 0 if nothing was lost, duplicated or leaked.
#[derive(Parser)]
struct Options {
    /// Number of concurrent agents. 0 for the hostile caller alone.
    #[arg(long, default_value_t = 2_000)]
    agents: usize,
    /// Duration in minutes, without the SIGTERM at the end.
    #[arg(long, default_value_t = 3.0)]
    minutes: f64,
    /// Seconds between two reloads of the settings.
    #[arg(long, default_value_t = 10)]
    reload: u64,
    /// Lets no hostile caller attack meanwhile.
    #[arg(long)]
    peaceful: bool,
    /// Minutes without a request after the agents have gone.
    #[arg(long, default_value_t = 0.0)]
    idle: f64,
    /// Program to test, if not the one built here.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    let program = options.program.map_or_else(built, Ok)?;
    let size = drill::Size {
        agents: options.agents,
        lasting: Duration::try_from_secs_f64(options.minutes * 60.0)?,
        reload_every: Duration::from_secs(options.reload.max(1)),
        has_hostile: !options.peaceful,
        idle: Duration::try_from_secs_f64(options.idle * 60.0)?,
    };
    let report = drill::play(&program, size).await;
    println!("| requests | |\n|---|--:|");
    for (name, count) in &report.counts {
        println!("| {name} | {count} |");
    }
    println!("| attacks of the hostile caller | {} |", report.attacks);
    println!(
        "\n| the program holds | descriptors | threads | KiB | processor ticks |\n|---|--:|--:|--:|--:|"
    );
    let names = ["before", "in the middle", "at the end", "when all have gone"];
    for (name, held) in names.into_iter().zip(report.held) {
        let (descriptors, threads, memory) = (held.descriptors, held.threads, held.memory_kib);
        let ticks = held.ticks;
        println!("| {name} | {descriptors} | {threads} | {memory} | {ticks} |");
    }
    println!();
    if !report.stalled {
        println!("redis-server is not installed: the store was in memory, and did not stall");
    }
    for wrong in &report.wrong {
        println!("WRONG: {wrong}");
    }
    if report.wrong.is_empty() {
        println!("nothing was lost, doubled or leaked");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

/// Builds the program next to this example and returns its path.
fn built() -> Result<PathBuf, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let folder = own.parent().and_then(|folder| folder.parent());
    let folder = folder.ok_or("this example is not where cargo puts it")?;
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--locked", "--bin", "longhaul"]);
    if folder.ends_with("release") {
        build.arg("--release");
    }
    if !build.status()?.success() {
        return Err("the program does not build".into());
    }
    Ok(folder.join("longhaul"))
}
