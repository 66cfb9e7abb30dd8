//! `longhaul compact`: compacts a request body now, through the upstream.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use clap::ArgMatches;
use http::header::AUTHORIZATION;
use http::{Method, Request};
use tokio::time::Instant;

use super::check::{KEY_VARIABLE, bearer};
use super::pipe::{input_file, read_input, write_output};
use super::print_error;
use crate::chat::explicit_compaction::compact_body;
use crate::cli::Done;
use crate::config::{Config, Mode, StoreLocation, SummaryModel};
use crate::error::{Fault, Problem};
use crate::metrics::{Action, SummaryOutcome};
use crate::proxy_state::ProxyState;
use crate::report::ChatReport;
use crate::telemetry;
use longhaul_core::planning::continuation;

/// The advice for a mode in which nothing is compacted.
const SWITCHED_OFF_ADVICE: &str = "compaction is switched off; pass --mode on, and set at most two of DISABLE_PRUNE, \
                   DISABLE_AUTOCOMPACT and DISABLE_COMPACT_ON_OVERFLOW";

/// Reads a body and prints it compacted. `key` authorises the calls to the upstream. Fails if the
/// body cannot be read or is not a chat, the mode is off, or the output cannot be written.
pub(super) fn compact(config: Config, matches: &ArgMatches, key: Option<&str>) -> Done {
    let file = input_file(matches);
    let done = read_body(&config, file).and_then(|body| {
        let _waits = telemetry::start_log(config.log);
        let (compacted, report) = run_compaction(config, file, body, key)?;
        print_error(&outcome_line(&report));
        let continued =
            matches.get_flag("continue").then(|| continuation::append_continue_message(&compacted));
        let body = continued.flatten().unwrap_or_else(|| compacted.to_vec());
        write_output(&body).map_err(|error| Problem::Output(error.to_string()))
    });
    Ok(done?)
}

/// Reads the body, within the size limit that the proxy has.
fn read_body(config: &Config, file: &Path) -> Result<Vec<u8>, Problem> {
    let limit = config.limits.body_bytes;
    let (body, _) = read_input(file, limit)?;
    if u64::try_from(body.len()).is_ok_and(|length| length > limit) {
        return Err(Problem::InvalidInput {
            path: file.into(),
            reason: format!("more than the {limit} bytes that limits.body allows"),
        });
    }
    Ok(body)
}

fn run_compaction(
    config: Config,
    file: &Path,
    body: Vec<u8>,
    key: Option<&str>,
) -> Result<(Bytes, ChatReport), Problem> {
    let origin = config.upstream.base.origin();
    let (mut head, ()) = Request::new(()).into_parts();
    head.method = Method::POST;
    if let Some(key) = key {
        head.headers.insert(AUTHORIZATION, bearer(key)?);
    }
    let state = Arc::new(build_state(config)?);
    let compacted = crate::cli::runtime()?
        .block_on(async {
            let compacted = Box::pin(compact_body(&state, head, Bytes::from(body))).await;
            state.close(Instant::now()).await;
            compacted
        })
        .map_err(|fault| {
            if matches!(fault, Fault::ChatTooLarge | Fault::NotAChat) {
                let path = file.into();
                let reason = fault.message(&origin);
                Problem::InvalidInput { path, reason }
            } else if fault == Fault::CompactionOff {
                Problem::CommandLine(SWITCHED_OFF_ADVICE.to_owned())
            } else {
                Problem::CommandLine(fault.message(&origin))
            }
        })?;
    // Rules replaced the history, because no model wrote a summary.
    if compacted.1.actions().contains(&Action::Digest) {
        // The call may have been too long for a window that no source gives.
        let is_refused = state.metrics.summaries.get(SummaryOutcome::Refused) > 0;
        if is_refused && state.config.configured_window().is_none() {
            print_error(
                "longhaul: the model refused the call for a summary; if its window is smaller than \
                 assumed, pass --window TOKENS, such as --window 32k\n",
            );
        }
        if asks_without_key(&state.config, key) {
            print_error(&format!(
                "longhaul: {KEY_VARIABLE} is not set: the upstream was asked without a key\n"
            ));
        }
    }
    Ok(compacted)
}

/// Whether the request for a summary would go to the upstream without any key, from the environment
/// or the settings.
fn asks_without_key(config: &Config, key: Option<&str>) -> bool {
    config.summary.model != SummaryModel::Disabled
        && config.summary.endpoint.is_none()
        && config.mode == Mode::On
        && config.upstream.authorization.is_none()
        && key.is_none()
}

/// Builds the state from the settings. If the store is unavailable, for example because a
/// running longhaul has locked its file, a store in memory replaces it. The caller only needs the
/// new body.
fn build_state(mut config: Config) -> Result<ProxyState, Problem> {
    // Originals would be gone with this process, or be held by a running one.
    config.recall = None;
    config.store.keeps_originals = false;
    match ProxyState::new(config.clone()) {
        Err(Problem::Store(why) | Problem::StoreInUse(why)) => {
            print_error(&format!("longhaul: {why}; continuing without a store\n"));
            config.store.location = StoreLocation::Memory;
            ProxyState::new(config)
        }
        built => built,
    }
}

/// Summarises the outcome in one line.
fn outcome_line(report: &ChatReport) -> String {
    let (before, after) = (report.before, report.after);
    match report.action_labels() {
        Some(action) => format!("longhaul: {action}: about {before} tokens became {after}\n"),
        None => format!("longhaul: nothing to gain: about {before} tokens stay unchanged\n"),
    }
}
