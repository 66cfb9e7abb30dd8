//! `longhaul check`: every setting, its value and where it came from; or one model's window, and
//! who says so.

mod trial;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, ArgMatches, Command};
use http::header::{ACCEPT, AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderValue};

use super::number::number;
use super::window::Window;
use crate::config::{Choice, Config, Mode, Resolved, report, report_json};
use crate::error::Problem;
use crate::models::Place;
use crate::rewrite::policy::{Output, Policy, Profile, When};
use crate::telemetry::Wanted;
use crate::upstream::{Answer, Outcome, Question, Upstream};

/// Where the key for a question is taken from: the name that every SDK reads.
pub(super) const KEY: &str = "OPENAI_API_KEY";

/// Its part of the command line.
pub(super) fn command() -> Command {
    Command::new("check")
        .about("Print every setting and where it came from, or a model's window and why")
        .arg(
            Arg::new("model")
                .long("model")
                .value_name("NAME")
                .help("Print what this model holds at the upstream, who says so, and the marks"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .conflicts_with("model")
                .help("Print the settings as JSON: an array of key, value and source"),
        )
        .arg(
            Arg::new("ask")
                .long("ask")
                .action(ArgAction::SetTrue)
                .requires("model")
                .help("Ask the upstream too, with the key of OPENAI_API_KEY if it is set"),
        )
}

/// Prints what is asked for, or gives back every problem, those of the files and places that the
/// settings name too.
pub(super) fn check(
    found: Result<Resolved, Vec<Problem>>,
    matches: &ArgMatches,
    env: &BTreeMap<String, String>,
) -> Result<(), Vec<Problem>> {
    super::tell_strangers(env);
    let found = found?;
    let config = Config::of(&found)?;
    let problems = trial::problems(&config);
    if !problems.is_empty() {
        return Err(problems);
    }
    for told in config.keyless() {
        super::tell(&format!("longhaul: {told}\n"));
    }
    if matches.get_flag("json") {
        return super::print(&report_json(&found));
    }
    let Some(model) = matches.get_one::<String>("model") else {
        super::print(&report(&found))?;
        if config.mode == Mode::Off {
            super::print("# the mode is off: chats are neither read nor changed\n")?;
        }
        return match Wanted::of(env) {
            Wanted::At(collector) => {
                super::print(&format!("# traces go to {}\n", collector.origin()))
            }
            Wanted::Not(why) => super::print(&format!("# there are no traces: {why}\n")),
            Wanted::Nowhere => Ok(()),
        };
    };
    let answer = if matches.get_flag("ask") {
        Some(ask(&config, model, key(env))?)
    } else {
        None
    };
    super::print(&page(&config, model, answer))
}

/// The key in the environment, if there is one.
pub(super) fn key(env: &BTreeMap<String, String>) -> Option<&str> {
    env.get(KEY)
        .map(String::as_str)
        .filter(|key| !key.is_empty())
}

/// Asks the upstream, as serve does behind a chat.
fn ask(config: &Config, model: &str, key: Option<&str>) -> Result<Outcome, Problem> {
    let upstream = Upstream::new(&config.upstream)?;
    let base = &config.upstream.base;
    let mut headers = HeaderMap::new();
    headers.insert(HOST, base.host().clone());
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(key) = key {
        let value = HeaderValue::from_str(&format!("Bearer {key}"));
        let value = value.map_err(|_| {
            Problem::CommandLine(format!("{KEY} holds characters that no header can carry"))
        })?;
        headers.insert(AUTHORIZATION, value);
    }
    let path = Some(base.path()).filter(|path| !path.is_empty());
    let question = Question {
        model: model.to_owned(),
        scheme: base.scheme().clone(),
        authority: base.authority().clone(),
        place: Place::of(base.authority().host()),
        models: format!("{}/models", path.unwrap_or("/v1")),
        headers,
    };
    Ok(super::runtime()?.block_on(question.put(&upstream)))
}

/// What the model holds, who says so and what follows.
fn page(config: &Config, model: &str, outcome: Option<Outcome>) -> String {
    let asked = match outcome.map(|outcome| outcome.answer) {
        Some(Answer::Holds(tokens)) => Some(tokens),
        Some(Answer::Failed | Answer::Refused | Answer::Silent) | None => None,
    };
    let window = Window::of(config, model, asked);
    let policy = window.policy();
    let mut page = String::new();
    // Writing to a String cannot fail.
    _ = writeln!(page, "model   {model} at {}", config.upstream.base);
    let room = match policy.marks.output {
        Output::Apart => " of input; output has room of its own",
        Output::Shared => "",
    };
    _ = writeln!(
        page,
        "window  {} tokens{room} ({})",
        number(policy.rule_marks.window.get()),
        window.source()
    );
    _ = writeln!(page, "table   {}", window.why());
    _ = writeln!(page, "asked   {}", said(config, model, outcome));
    let marks = &policy.marks;
    _ = writeln!(
        page,
        "marks   usable {}, soft {}, hard {}",
        number(marks.usable.get()),
        number(marks.soft.get()),
        number(marks.hard.get())
    );
    _ = writeln!(
        page,
        "rule    {}",
        rule(config.conduct(model).wishes.profile, &policy)
    );
    page
}

/// What the upstream says, and what that counts for.
fn said(config: &Config, model: &str, outcome: Option<Outcome>) -> String {
    if let Some(Outcome {
        answer: Answer::Failed,
        fault: Some(fault),
        ..
    }) = outcome
    {
        return fault.message(&config.upstream.base.origin());
    }
    match outcome.map(|outcome| outcome.answer) {
        None if config.conduct(model).set_window().is_some() => {
            "not asked: the window is set".into()
        }
        None if !config.upstream.ask => "not asked: upstream.ask is off".into(),
        None => "not yet: serve asks behind the first chat, --ask asks now".into(),
        Some(Answer::Holds(tokens)) if config.conduct(model).set_window().is_some() => {
            format!(
                "{} tokens; the window is set, and that counts",
                number(tokens.get())
            )
        }
        Some(Answer::Holds(tokens)) => format!(
            "{} tokens: the marks follow that, the rule stays with the window",
            number(tokens.get())
        ),
        Some(Answer::Silent) => "the upstream does not say".into(),
        Some(Answer::Refused) => format!("the upstream refuses the credentials; {KEY} has them"),
        Some(Answer::Failed) => "the upstream gives no answer that says it, or none in time".into(),
    }
}

/// What clears, and when.
fn rule(profile: Profile, policy: &Policy) -> String {
    let profile = name::<Profile>(profile);
    let Some((when, rule)) = &policy.prune else {
        return format!("{profile}: clears nothing");
    };
    let marks = &policy.rule_marks;
    let when = match when {
        When::Always => "always".to_owned(),
        When::Mark => format!("at {}", number(marks.hard.get())),
        When::Pressure => format!("above {}", number(marks.pressure.get())),
    };
    format!(
        "{profile}: clears {when}; keeps the newest {} tokens of results, frees more than {}, from \
         {} user messages on",
        number(rule.protect.get()),
        number(rule.minimum.get()),
        rule.user_turns
    )
}

/// The word for a choice, as the settings have it.
fn name<T: Choice + PartialEq>(choice: T) -> &'static str {
    let named = T::ALL.iter().find(|(_, other)| *other == choice);
    named.map_or("", |(name, _)| name)
}
