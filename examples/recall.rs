//! A mock agent works for many windows through the real proxy, and then looks for planted facts. Prints
//! what it finds in the prompt and by recall, and what the lines of recall cost.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "an agent that meets what it does not expect fails"
)]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/it/recall/agent.rs"]
mod agent;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use longhaul::Config;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use agent::{Agent, Findings, WINDOW, model, play};

/// Plays the agent: cargo run --example recall -- --windows 100 --facts 40
///
/// The exit code is 0 if no request failed, and every fact and every result is found.
#[derive(Parser)]
struct Options {
    /// Length of the history, in windows of 8,192 tokens.
    #[arg(long, default_value_t = 100)]
    windows: usize,
    /// Number of planted facts.
    #[arg(long, default_value_t = 40)]
    facts: usize,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    let found = work(&options).await?;
    let share = |part: usize, whole: usize| format!("{part} of {whole}");
    let lines = 100.0 * blocks(found.line_bytes) / blocks(found.forwarded_bytes);
    println!("| windows of {WINDOW} tokens | {} |\n|---|--:|", options.windows);
    for (what, figure) in [
        ("requests answered", share(found.requests, found.requests + found.refused)),
        ("facts in the last request", share(found.in_prompt, found.planted)),
        ("facts found by one search", share(found.by_search, found.planted)),
        (
            "results in the last request, or behind one ID in it",
            share(found.results_reached, found.results),
        ),
        ("IDs in the last request", found.ids.to_string()),
        ("lines, in percent of the forwarded bytes", format!("{lines:.2}")),
    ] {
        println!("| {what} | {figure} |");
    }
    let is_complete = found.refused == 0
        && found.by_search == found.planted
        && found.results_reached == found.results;
    Ok(ExitCode::from(u8::from(!is_complete)))
}

/// Runs the proxy and the agent.
async fn work(options: &Options) -> Result<Findings, Box<dyn Error>> {
    let model = model().await;
    let (base, window) = (model.url(), WINDOW.to_string());
    let settings = [
        ("upstream.base", base.as_str()),
        ("upstream.ask", "false"),
        ("listen", "127.0.0.1:0"),
        ("window", &window),
        ("summary.model", "none"),
        ("recall", "url"),
    ];
    let config = Config::default_with(settings).map_err(|problems| format!("{problems:?}"))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let agent = Agent::of(listener.local_addr()?);
    let (stop, stopped) = oneshot::channel();
    let served = longhaul::run(config, listener, async { _ = stopped.await }, || ());
    let served = tokio::spawn(served);
    let found = play(&agent, &model, options.windows, options.facts).await;
    _ = stop.send(());
    served.await??;
    Ok(found)
}

/// Returns a count of bytes in blocks of 64, as a number to compute with.
fn blocks(count: usize) -> f64 {
    u32::try_from(count / 64).map_or(f64::MAX, f64::from)
}
