//! `longhaul check`: prints every setting with its value and source, or one model's window and its
//! source.

pub(crate) mod preflight;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, ArgMatches, Command};
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderValue};

use super::flags::switch;
use crate::cli::model_window::ModelWindow;
use crate::config::{ChoiceSetting, Config, Mode, ResolvedSettings, report, report_json};
use crate::display::thousands::with_thousands;
use crate::error::Problem;
use crate::learned::reported_windows::query::{QueryOutcome, WindowAnswer, WindowQuery};
use crate::models::HostKind;
use crate::telemetry::TraceDestination;
use crate::upstream::Upstream;
use longhaul_core::policy::{OutputWindow, Policy, Profile, PruneTrigger};

/// The environment variable of the upstream key: the name that every SDK reads.
pub(super) const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// Builds the `check` subcommand.
pub(super) fn command() -> Command {
    Command::new("check")
        .about("Print every setting and its source, or a model's window and why")
        .arg(
            Arg::new("model")
                .long("model")
                .value_name("NAME")
                .help("Print this model's window at the upstream, its source, and the marks"),
        )
        .arg(
            switch(
                "json",
                "Print the settings as JSON: an array of key, value and source",
            )
            .conflicts_with("model"),
        )
        .arg(
            switch(
                "ask",
                "Also ask the upstream, with the key in OPENAI_API_KEY if it is set",
            )
            .requires("model"),
        )
}

/// Prints the requested page, or returns every problem, including those of files and addresses that
/// the settings name.
pub(super) fn check(
    found: Result<ResolvedSettings, Vec<Problem>>,
    matches: &ArgMatches,
    env: &BTreeMap<String, String>,
) -> Result<(), Vec<Problem>> {
    crate::cli::warn_unknown_variables(env);
    let found = found?;
    let config = Config::from_resolved(&found)?;
    let problems = preflight::startup_problems(&config);
    if !problems.is_empty() {
        return Err(problems);
    }
    for told in config.keyless_upstream_warnings() {
        crate::cli::print_error(&format!("longhaul: {told}\n"));
    }
    if matches.get_flag("json") {
        return crate::cli::print(&report_json(&found));
    }
    let Some(model) = matches.get_one::<String>("model") else {
        crate::cli::print(&report(&found))?;
        if config.mode == Mode::Off {
            crate::cli::print("# the mode is off: chats are neither read nor changed\n")?;
        }
        return match TraceDestination::from_env(env) {
            TraceDestination::Collector(collector) => {
                crate::cli::print(&format!("# traces go to {}\n", collector.origin()))
            }
            TraceDestination::Unusable(why) => {
                crate::cli::print(&format!("# there are no traces: {why}\n"))
            }
            TraceDestination::Disabled => Ok(()),
        };
    };
    let answer = if matches.get_flag("ask") {
        Some(ask_upstream(&config, model, upstream_key(env))?)
    } else {
        None
    };
    crate::cli::print(&model_page(&config, model, answer))
}

/// Returns the key in the environment, if there is one.
pub(super) fn upstream_key(env: &BTreeMap<String, String>) -> Option<&str> {
    env.get(KEY_VARIABLE)
        .map(String::as_str)
        .filter(|key| !key.is_empty())
}

/// Asks the upstream for the model's window, as `serve` does in the background of a chat.
fn ask_upstream(config: &Config, model: &str, key: Option<&str>) -> Result<QueryOutcome, Problem> {
    let upstream = Upstream::new(&config.upstream)?;
    let base = &config.upstream.base;
    let mut headers = HeaderMap::new();
    headers.insert(HOST, base.host().clone());
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(key) = key {
        let value = HeaderValue::from_str(&format!("Bearer {key}"));
        let value = value.map_err(|_| {
            Problem::CommandLine(format!(
                "{KEY_VARIABLE} holds characters that no header can carry"
            ))
        })?;
        headers.insert(AUTHORIZATION, value);
    }
    let path = Some(base.path()).filter(|path| !path.is_empty());
    let question = WindowQuery {
        model: model.to_owned(),
        scheme: base.scheme().clone(),
        authority: base.authority().clone(),
        host_kind: HostKind::from_host(base.authority().host()),
        models_path: format!("{}/models", path.unwrap_or("/v1")),
        headers,
    };
    Ok(crate::cli::runtime()?.block_on(question.run(&upstream)))
}

/// Renders the model's window, its source and the resulting marks.
fn model_page(config: &Config, model: &str, outcome: Option<QueryOutcome>) -> String {
    let asked = match outcome.map(|outcome| outcome.answer) {
        Some(WindowAnswer::Window(tokens)) => Some(tokens),
        Some(WindowAnswer::Failed | WindowAnswer::Unauthorized | WindowAnswer::NoWindow) | None => {
            None
        }
    };
    let window = ModelWindow::for_model(config, model, asked);
    let policy = window.policy();
    let mut page = String::new();
    // Writing to a String cannot fail.
    _ = writeln!(page, "model   {model} at {}", config.upstream.base);
    let room = match policy.thresholds.output {
        OutputWindow::Separate => " of input; output has its own limit",
        OutputWindow::Shared => "",
    };
    _ = writeln!(
        page,
        "window  {} tokens{room} ({})",
        with_thousands(policy.prune_thresholds.window.get()),
        window.source()
    );
    _ = writeln!(page, "table   {}", window.table_match());
    _ = writeln!(page, "asked   {}", describe_answer(config, model, outcome));
    let marks = &policy.thresholds;
    _ = writeln!(
        page,
        "marks   usable {}, soft {}, hard {}",
        with_thousands(marks.usable.get()),
        with_thousands(marks.soft.get()),
        with_thousands(marks.hard.get())
    );
    _ = writeln!(
        page,
        "rule    {}",
        describe_rule(config.settings_for(model).compaction.profile, &policy)
    );
    page
}

/// Describes the upstream's answer and its effect.
fn describe_answer(config: &Config, model: &str, outcome: Option<QueryOutcome>) -> String {
    if let Some(QueryOutcome {
        answer: WindowAnswer::Failed,
        fault: Some(fault),
        ..
    }) = outcome
    {
        return fault.message(&config.upstream.base.origin());
    }
    match outcome.map(|outcome| outcome.answer) {
        None if config.settings_for(model).configured_window().is_some() => {
            "not asked: the window is set".into()
        }
        None if !config.upstream.query_windows => "not asked: upstream.ask is off".into(),
        None => "not yet: serve asks in the background of the first chat, --ask asks now".into(),
        Some(WindowAnswer::Window(tokens))
            if config.settings_for(model).configured_window().is_some() =>
        {
            format!(
                "{} tokens; the window that is set takes precedence",
                with_thousands(tokens.get())
            )
        }
        Some(WindowAnswer::Window(tokens)) => format!(
            "{} tokens: used for the marks; the rule keeps to the window",
            with_thousands(tokens.get())
        ),
        Some(WindowAnswer::NoWindow) => "the upstream does not report a window".into(),
        Some(WindowAnswer::Unauthorized) => {
            format!("the upstream refuses the credentials; check {KEY_VARIABLE}")
        }
        Some(WindowAnswer::Failed) => "the upstream gives no usable answer, or none in time".into(),
    }
}

/// Describes the clearing rule and when it applies.
fn describe_rule(profile: Profile, policy: &Policy) -> String {
    let profile = choice_name::<Profile>(profile);
    let Some((when, rule)) = &policy.prune else {
        return format!("{profile}: clears nothing");
    };
    let marks = &policy.prune_thresholds;
    let when = match when {
        PruneTrigger::Always if policy.weighs_clearing => "if likely to pay".to_owned(),
        PruneTrigger::Always => "always".to_owned(),
        PruneTrigger::HardMark => format!("at {}", with_thousands(marks.hard.get())),
        PruneTrigger::Pressure => format!("above {}", with_thousands(marks.pressure.get())),
    };
    format!(
        "{profile}: clears {when}; keeps the newest {} tokens of results, frees more than {}, from \
         {} user messages on",
        with_thousands(rule.protect.get()),
        with_thousands(rule.minimum.get()),
        rule.user_turns
    )
}

/// Returns the name of a choice as the settings spell it.
fn choice_name<T: ChoiceSetting + PartialEq>(choice: T) -> &'static str {
    let named = T::ALL.iter().find(|(_, other)| *other == choice);
    named.map_or("", |(name, _)| name)
}
