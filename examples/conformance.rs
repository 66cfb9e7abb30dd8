//! Tests a proxy against the transparency contract of longhaul's own tests: every exchange is
//! played directly and through the proxy, and both sides must receive identical bytes.
//!
//! Without a URL, longhaul itself is tested, from this library.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the cases are tests: what they do not expect they panic at, and that is a line of the table"
)]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/it/transparency/contract.rs"]
mod contract;

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use contract::between::{Ahead, Between, Standing};
use contract::case::{Case, Scheme};
use contract::compare::difference;
use contract::exchange::Upstream;
use contract::multiplexed;
use contract::peer::wait_at_most;
use longhaul::Config;
use tokio::net::TcpListener;

/// Plays every exchange of the contract directly and through a proxy, and shows the differences.
///
/// The proxy under test must forward every request to this tool, which plays the upstream: choose a
/// port, configure the proxy to forward to http://127.0.0.1:PORT with paths unchanged, start it,
/// and run
///
///     cargo run --example conformance -- http://127.0.0.1:8080 --upstream-listen 127.0.0.1:PORT
///
/// The exit code is 0 if every line holds.
#[derive(Parser)]
struct Options {
    /// URL of the proxy, plain HTTP. Without it, longhaul itself is tested.
    #[arg(requires = "upstream_listen")]
    url: Option<String>,
    /// Address on which this tool listens as the upstream that the proxy forwards to.
    #[arg(long, value_name = "ADDRESS")]
    upstream_listen: Option<SocketAddr>,
    /// Seconds to wait for expected data.
    #[arg(long, default_value_t = 3)]
    patience: u64,
    /// Field that the proxy is known to add to replies, such as server or date; may be repeated.
    #[arg(long, value_name = "FIELD")]
    ignore: Vec<String>,
    /// Plays the lines over HTTP/2 with prior knowledge too, if they have a form in HTTP/2.
    #[arg(long)]
    http2: bool,
    /// Plays only the lines whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
}

/// Result of a line of the contract.
enum Outcome {
    Differs(String),
    Held,
    /// Complete, but in another order.
    Reordered,
    /// Cannot be played to this proxy, with the reason.
    Skipped(&'static str),
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::parse();
    wait_at_most(Duration::from_secs(options.patience));
    // A script panics on unexpected data; the table shows the reason.
    std::panic::set_hook(Box::new(|_| ()));
    let between = match (&options.url, options.upstream_listen) {
        (Some(url), Some(listen)) => {
            Between::Running { proxy: address(url)?, upstream: Upstream::listen(listen.port()) }
        }
        _ => Between::Each(longhaul),
    };
    println!("| line of the contract | outcome |\n|---|---|");
    let multiplexed = Multiplexed::new(&options, &between);
    let (mut held, mut all) = (0_usize, 0_usize);
    for case in contract::cases().filter(|case| case.name.contains(&options.only)) {
        let name = case.name.replace('|', "\\|");
        if let Some(multiplexed) = &multiplexed
            && let Some(outcome) = multiplexed.play(&case).await
        {
            all += 1;
            match outcome {
                Ok(()) => held += 1,
                Err(how) => println!("| {name}, HTTP/2 | **differs**: {} |", shortened(&how)),
            }
        }
        all += 1;
        match outcome(case, &between, &options.ignore).await {
            Outcome::Differs(how) => println!("| {name} | **differs**: {how} |"),
            Outcome::Held => {
                held += 1;
                println!("| {name} | held |");
            }
            Outcome::Reordered => println!("| {name} | differs in the order of fields |"),
            Outcome::Skipped(why) => {
                all -= 1;
                println!("| {name} | not played: {why} |");
            }
        }
    }
    println!("\n{held} of {all} lines hold");
    let whole = held == all;
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The proxy for clients on HTTP/2, and the upstream that the proxy forwards to.
struct Multiplexed {
    proxy: SocketAddr,
    upstream: Arc<TcpListener>,
    /// Stops a proxy of this tool's own.
    _standing: Option<Standing>,
}

impl Multiplexed {
    /// Returns `None` if HTTP/2 was not requested.
    fn new(options: &Options, between: &Between) -> Option<Self> {
        options.http2.then(|| match between {
            Between::Each(start) => {
                let upstream = Upstream::listen(0);
                let address = upstream.local_addr().expect("a bound socket");
                let standing =
                    start(&Ahead { upstream: &format!("http://{address}/v1"), ca_file: None });
                Self { proxy: standing.address, upstream, _standing: Some(standing) }
            }
            Between::Running { proxy, upstream } => {
                Self { proxy: *proxy, upstream: Arc::clone(upstream), _standing: None }
            }
        })
    }

    /// Plays a case; `None` if it has no form in HTTP/2. A panic of the script is a difference.
    async fn play(&self, case: &Case) -> Option<Result<(), String>> {
        multiplexed::play(case, self.proxy, &self.upstream).await
    }
}

async fn outcome(case: Case, between: &Between, ignored: &[String]) -> Outcome {
    let running = matches!(between, Between::Running { .. });
    if case.scheme == Scheme::Https && running {
        return Outcome::Skipped("the proxy would have to speak TLS to this tool");
    }
    let mut allows = case.allows.to_vec();
    if running {
        // Every proxy has two connections and may announce so on each.
        allows.push("hop-by-hop");
    }
    let (mut direct, mut proxied) = match contract::play(case, between.clone()).await {
        Err(how) => return Outcome::Differs(shortened(&how)),
        Ok(heard) => heard,
    };
    let replies = [&mut direct, &mut proxied].map(|heard| &mut heard.replies);
    for reply in replies.into_iter().flatten() {
        for name in ignored {
            reply.drop_fields(name);
        }
    }
    if difference(&direct, &proxied, &allows).is_none() {
        return Outcome::Held;
    }
    for heard in [&mut direct, &mut proxied] {
        let messages = heard.requests.iter_mut().chain(&mut heard.replies);
        messages.for_each(|message| message.fields.sort());
    }
    match difference(&direct, &proxied, &allows) {
        None => Outcome::Reordered,
        Some(how) => Outcome::Differs(shortened(&how)),
    }
}

/// Formats a text as a table cell.
fn shortened(how: &str) -> String {
    const SHOWN: usize = 300;
    let line: Vec<&str> = how.split_whitespace().collect();
    let line = line.join(" ").replace('|', "\\|");
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("`{} …`", line[..at].replace('`', "'")),
        None => format!("`{}`", line.replace('`', "'")),
    }
}

fn address(url: &str) -> Result<SocketAddr, Box<dyn Error>> {
    let rest = url.strip_prefix("http://").ok_or("a URL like http://127.0.0.1:8080")?;
    let authority = rest.split('/').next().unwrap_or(rest);
    let port = if authority.contains(':') { "" } else { ":80" };
    let mut found = format!("{authority}{port}").to_socket_addrs()?;
    found.next().ok_or_else(|| "the proxy's name has no address".into())
}

/// Starts longhaul in this process, in front of a case's upstream.
fn longhaul(ahead: &Ahead<'_>) -> Standing {
    let mut settings = vec![
        ("upstream.base", ahead.upstream),
        ("upstream.ask", "false"),
        // The contract names foreign hosts.
        ("public", "true"),
    ];
    settings.extend(ahead.ca_file.map(|file| ("upstream.ca_file", file)));
    let config = Config::default_with(settings).expect("settings that are valid");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a fresh socket");
    let listener = TcpListener::from_std(listener).expect("a runtime");
    let address = listener.local_addr().expect("a bound socket");
    let served = longhaul::run(config, listener, std::future::pending(), || ());
    let task = tokio::spawn(async move {
        served.await.expect("settings that work");
    });
    Standing { address, ends_with: Box::new(Ending(task.abort_handle())) }
}

/// Aborts a task on drop.
struct Ending(tokio::task::AbortHandle);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}
