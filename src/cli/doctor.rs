//! `longhaul doctor`: tests every part that a request needs, and advises on each failure.

mod probe;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ArgMatches;
use clap::builder::styling::{AnsiColor, Style};
use tokio::net::TcpListener;

use super::check::model_report::ModelReport;
use super::check::{ask_upstream, problems_beside_store, upstream_key};
use super::pipe::write_styled_output;
use super::version;
use crate::cli::serve::listen_problem;
use crate::cli::{Done, Env, health};
use crate::config::{
    Config, ResolvedSettings, StoreLocation, reachable_address, unknown_variables,
};
use crate::error::Problem;
use crate::store::Store;
use Outcome::{Failed, Passed, Skipped, Warned};
use longhaul_console::table::{Align, Table};
use longhaul_console::terminal;
use longhaul_console::thousands::with_thousands;

enum Outcome {
    Passed,
    Skipped,
    Warned,
    Failed,
}

/// A line of the report: the outcome, what was tested, and what to do if there is something to do.
pub(super) struct Finding(Outcome, &'static str, String);

impl Outcome {
    fn on(self, subject: &'static str, text: impl Into<String>) -> Finding {
        Finding(self, subject, text.into())
    }
}

impl Finding {
    /// Returns the cells of the line, with the outcome in colour.
    fn cells(&self) -> [String; 3] {
        let Self(outcome, subject, text) = self;
        let (word, colour) = match outcome {
            Passed => ("ok", AnsiColor::Green),
            Skipped => ("skipped", AnsiColor::Yellow),
            Warned => ("warning", AnsiColor::Yellow),
            Failed => ("failed", AnsiColor::Red),
        };
        let style: Style = colour.on_default().bold();
        [format!("{style}{word}{style:#}"), (*subject).to_owned(), text.clone()]
    }
}

/// Tests the settings `found` and prints each finding. `file` is the configuration file. Fails if the output
/// cannot be written.
pub(super) fn doctor(
    found: Done<ResolvedSettings>,
    file: Option<&Path>,
    matches: &ArgMatches,
    env: &Env,
) -> Done<ExitCode> {
    let mut findings = vec![Passed.on("version", version::one_line())];
    let failed = |problem: &Problem| Failed.on("settings", problem.to_string());
    match found.and_then(|found| Config::from_resolved(&found)) {
        Err(problems) => findings.extend(problems.iter().map(failed)),
        Ok(config) => {
            findings.push(settings_finding(file));
            let warned = |problem: Problem| Warned.on("settings", problem.to_string());
            findings.extend(unknown_variables(env).into_iter().map(warned));
            // The line of the store has its own problem.
            let problems = problems_beside_store(&config);
            findings.extend(problems.iter().map(failed));
            let model = matches.get_one::<String>("model").map(String::as_str);
            let key = upstream_key(env);
            let runtime = crate::cli::runtime()?;
            findings.extend(runtime.block_on(reachability_findings(&config)));
            if problems.is_empty() {
                let target = config.for_upstream_of(model.unwrap_or_default());
                // The key of the environment is the one for `upstream.base`.
                let key = key.filter(|_| matches!(target, Cow::Borrowed(_)));
                findings.extend(runtime.block_on(probe::findings(&target, model, key)));
                let claude = config.for_upstream_of("claude-");
                if model.is_none() && matches!(claude, Cow::Owned(_)) {
                    let host = claude.upstream.base.authority();
                    let text = format!("`--model claude-…` tests {host}");
                    findings.push(Skipped.on("claude", text));
                }
            }
            drop(runtime);
            findings.push(window_finding(&config, model, key));
        }
    }
    let failures = findings.iter().filter(|finding| matches!(finding, Finding(Failed, ..))).count();
    let mut table = Table::new([Align::Left; 3]);
    for finding in &findings {
        table.push(finding.cells());
    }
    let mut page = table.render(terminal::width());
    if failures > 0 {
        // Writing to a String cannot fail.
        _ = writeln!(page, "{failures} failed");
    }
    write_styled_output(&page).map_err(|error| Problem::Output(error.to_string()))?;
    Ok(ExitCode::from(u8::from(failures > 0)))
}

fn settings_finding(file: Option<&Path>) -> Finding {
    Passed.on(
        "settings",
        match file {
            Some(path) => format!("from {}, the environment and flags", path.display()),
            None => "from the environment and flags; `longhaul init` writes a file".to_owned(),
        },
    )
}

/// Reports the window of the model and its source.
fn window_finding(config: &Config, model: Option<&str>, key: Option<&str>) -> Finding {
    let Some(model) = model else {
        let set = config.configured_window().map(|window| with_thousands(window.get()));
        let text = set.map_or_else(
            || "detected per model; --model NAME shows the window of one".to_owned(),
            |window| format!("{window} tokens for every model, as set"),
        );
        return Passed.on("window", text);
    };
    let may_ask = config.upstream.query_windows;
    let answer = may_ask.then(|| ask_upstream(config, model, key).ok()).flatten();
    let (is_known, window) =
        ModelReport::new(&config.for_upstream_of(model), model, answer).window();
    let outcome = if is_known { Passed } else { Warned };
    outcome.on("window", format!("{model}: {window}"))
}

/// Tests whether both ports are free or longhaul's own, and whether the store answers.
async fn reachability_findings(config: &Config) -> Vec<Finding> {
    let admin = config.admin.address();
    let is_running = match admin {
        Some(address) if address.port() != 0 => health::is_alive(reachable_address(address)).await,
        Some(_) | None => false,
    };
    let mut findings = vec![port_finding("listen", "--listen", config.listen, is_running).await];
    if let Some(address) = admin {
        findings.push(port_finding("admin", "--admin", address, is_running).await);
    }
    findings.push(store_finding(config).await);
    findings
}

async fn port_finding(
    subject: &'static str,
    flag: &str,
    address: SocketAddr,
    is_running: bool,
) -> Finding {
    match TcpListener::bind(address).await {
        Ok(_) => Passed.on(subject, format!("{address} is free")),
        Err(_) if is_running => Passed.on(subject, format!("a longhaul listens on {address}")),
        Err(error) => Failed.on(subject, listen_problem(flag, address, &error).to_string()),
    }
}

async fn store_finding(config: &Config) -> Finding {
    match &config.store.location {
        StoreLocation::Memory => Passed.on("store", "in memory: a restart loses summaries"),
        StoreLocation::File(path) => {
            // A running proxy holds the file open, so only its form is tested.
            match Store::check(&config.store) {
                Ok(()) => Passed.on("store", format!("in {}", path.display())),
                Err(problem) => Failed.on("store", problem.to_string()),
            }
        }
        StoreLocation::Redis(url) => {
            let store = Store::open(&config.store, &Arc::default(), &Arc::default());
            let store = match store {
                Ok(store) => store,
                Err(problem) => return Failed.on("store", problem.to_string()),
            };
            if store.wait_until_ready().await {
                Passed.on("store", format!("at {url}, which answers"))
            } else {
                let advice = "check that the server runs, and its password";
                Failed.on("store", format!("{url} does not answer; {advice}"))
            }
        }
    }
}
