//! `longhaul check`: prints every setting with its value and source, or one model's window and its
//! source.

pub(super) mod model_report;

use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use http::HeaderValue;
use http::header::AUTHORIZATION;

use super::windows;
use crate::cli::{Done, Env};
use crate::config::{
    AdminListener, Config, Mode, ResolvedSettings, bearer_header, join_problems, report,
    report_json,
};
use crate::error::Problem;
use crate::learned::reported_windows::query::{QueryOutcome, WindowQuery};
use crate::request::headers::for_model_query;
use crate::server::{Certificates, refuse_self_loop};
use crate::store::Store;
use crate::summaries::SummaryUpstream;
use crate::telemetry::TraceDestination;
use crate::upstream::Upstream;
use longhaul_console::json::pretty_json;
use longhaul_console::terminal;

/// The environment variable of the upstream key: the name that every SDK reads.
pub(crate) const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Prints the requested page, or returns every problem, including those of files and addresses that
/// the settings name.
pub(super) fn check(
    found: Done<ResolvedSettings>,
    file: Option<&Path>,
    matches: &ArgMatches,
    env: &Env,
) -> Done<ExitCode> {
    crate::cli::warn_unknown_variables(env);
    let found = found?;
    let mut config = Config::from_resolved(&found)?;
    // The user's running longhaul is found in the folder.
    crate::cli::state_folder::keep_lessons(&mut config, env);
    // The problems of `serve`, found by the same code without any connection. Three conditions only show at start:
    // whether a port is free, whether a server answers, and whether another process has the store's file open.
    let mut problems = problems_beside_store(&config);
    problems.extend(Store::check(&config.store).err());
    if !problems.is_empty() {
        return Err(problems);
    }
    let exposed = config.exposed_file_warnings();
    for message in config.keyless_upstream_warnings().chain(exposed) {
        crate::cli::print_error(&format!("longhaul: {message}\n"));
    }
    let json = matches.get_flag("json");
    let Some(model) = matches.get_one::<String>("model") else {
        if json {
            crate::cli::print(&report_json(&found))?;
        } else {
            let note = file.map(|file| format!("# the file is {}\n", file.display()));
            crate::cli::print(&note.unwrap_or_default())?;
            print_settings(&found, &config, env)?;
            windows::print_held(&config, None)?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let asks = matches.get_flag("ask");
    let answer = asks.then(|| ask_upstream(&config, model, upstream_key(env))).transpose()?;
    let report = model_report::ModelReport::new(&config.for_upstream_of(model), model, answer);
    crate::cli::print(&if json { pretty_json(&report) } else { report.page(terminal::width()) })?;
    if !json {
        windows::print_held(&config, Some(model))?;
    }
    Ok(ExitCode::from(u8::from(!report.is_known())))
}

/// Prints every setting, the mode off, and the destination of traces.
fn print_settings(found: &ResolvedSettings, config: &Config, env: &Env) -> Done {
    crate::cli::print(&report(found, terminal::width()))?;
    if config.mode == Mode::Off {
        crate::cli::print("# the mode is off: chats are neither read nor changed\n")?;
    }
    match TraceDestination::from_env(env) {
        TraceDestination::Collector(collector) => {
            crate::cli::print(&format!("# traces go to {}\n", collector.origin()))
        }
        TraceDestination::Unusable(why) => {
            crate::cli::print(&format!("# there are no traces: {why}\n"))
        }
        TraceDestination::Disabled => Ok(()),
    }
}

/// Returns the key in the environment, if there is one.
pub(super) fn upstream_key(env: &Env) -> Option<&str> {
    env.get(KEY_VARIABLE).map(String::as_str).filter(|key| !key.is_empty())
}

/// Returns the value of `Authorization` for a key of the environment.
pub(super) fn bearer(key: &str) -> Result<HeaderValue, Problem> {
    let unusable = || format!("{KEY_VARIABLE} holds characters that no header can carry");
    bearer_header(key).map_err(|_| Problem::CommandLine(unusable()))
}

/// Queries the upstream for the model's window, as `serve` does in the background of a chat. Returns
/// the outcome, and the message of the fault that prevented an answer, if any.
pub(super) fn ask_upstream(
    config: &Config,
    model: &str,
    key: Option<&str>,
) -> Result<(QueryOutcome, Option<String>), Problem> {
    let own = config.upstream.base.origin();
    let config = &*config.for_upstream_of(model);
    let key = key.filter(|_| config.upstream.base.origin() == own);
    let upstream = Upstream::new(&config.upstream, None)?;
    let base = &config.upstream.base;
    let key = key.map(bearer).transpose()?;
    let credentials = key.into_iter().map(|key| (AUTHORIZATION, key)).collect();
    let path = Some(base.path()).filter(|path| !path.is_empty());
    let question = WindowQuery {
        model: model.to_owned(),
        base: base.clone(),
        host_kind: base.host_kind(),
        models_path: format!("{}/models", path.unwrap_or("/v1")),
        credentials: String::new(),
        headers: for_model_query(&credentials, base.host()),
    };
    let outcome = crate::cli::runtime()?.block_on(question.run(&upstream));
    let failure = outcome.fault.map(|fault| upstream.failure_message(fault, &base.origin()));
    Ok((outcome, failure))
}

/// Returns the start-up problems but those of the store, each once.
pub(super) fn problems_beside_store(config: &Config) -> Vec<Problem> {
    let certificates = config.tls.clone().map(Certificates::open).transpose();
    let tried = [
        Upstream::new(&config.upstream, None).map(drop),
        // With the same CA file as the upstream, the endpoint fails with the same problem.
        SummaryUpstream::new(&config.summary, &config.upstream).map(drop),
        certificates.map(drop),
    ];
    let loops = match crate::cli::runtime() {
        Ok(runtime) => runtime.block_on(loop_problems(config)),
        Err(problem) => vec![problem],
    };
    let tried = tried.into_iter().filter_map(Result::err);
    join_problems([tried.collect(), loops])
}

/// Returns a problem for each listener of `config` that is also an upstream.
async fn loop_problems(config: &Config) -> Vec<Problem> {
    let admin = match config.admin {
        AdminListener::Required(address) => Some(address),
        // `serve` continues without this listener.
        AdminListener::IfFree(_) | AdminListener::Off => None,
    };
    let mut problems = Vec::new();
    for listen in [config.listen].into_iter().chain(admin) {
        problems.extend(refuse_self_loop(config.upstream_bases(), listen).await.err());
    }
    problems
}
