//! `longhaul eval`: what a model does next with the history as it came, and as longhaul forwards it.
//!
//! A run has three passes over the sessions. The first finds the requests that longhaul changes, the second
//! adds up what the calls will cost, and the third makes them. Only the third one reaches the upstream.

mod arms;
mod caller;
mod gateway;
mod outcomes;
mod page;
mod progress;
mod replay;
mod report;
mod results_file;
mod samples;
mod sessions;
mod spending;
mod upstream_client;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::{Arg, ArgMatches, Command, value_parser};
use parking_lot::Mutex;

use super::flags::switch;
use super::print_error;
use crate::cli::model_window::ModelWindow;
use crate::config::{Config, Layers, Mode, SummaryModel, token_count};
use crate::display::amounts::{short_tokens, short_usd};
use crate::error::Problem;
use arms::Arm;
use caller::{Caller, PricedModel};
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;
use outcomes::Sample;
use progress::Progress;
use report::{ArmReport, EvalReport};
use results_file::{ResultsFile, private_file};
use samples::{Choice, Samples};
use sessions::EvalSession;
use spending::{Planned, Spending};
use upstream_client::UpstreamClient;

const LONG: &str = "\
    Asks a model for its next step at some requests of your own sessions: with the history as it \
    came, with the same history once more as a control, and with the history as longhaul \
    forwards it. Compares the steps: tool, main argument, files, and whether the model refuses \
    or asks back. Shows how often the steps agree, with intervals, and says if there are too few \
    requests to tell.\n\n\
    Only requests that longhaul changes are chosen, spread over the sessions. The command states \
    the cost and asks before it spends. Answers are kept in a results file; run the command \
    again to go on. The key is read from OPENAI_API_KEY. Sessions are last request bodies, logs \
    of Claude Code, Codex, OpenCode and pi, or folders of them.";

const EXAMPLES: &str = "\
Examples:
  longhaul eval sessions/*.json.gz --model gpt-5-mini
  longhaul eval ~/.claude/projects --upstream openrouter.ai/api/v1 --model NAME
  longhaul eval session.json --upstream http://127.0.0.1:8080/v1 --model NAME
  longhaul eval session.json --model NAME --profile auto --profile frugal
  longhaul eval session.json --model NAME --max-cost 2 --json";

/// Requests to evaluate, unless the command names a number.
const SAMPLES: usize = 40;
/// Most requests to evaluate.
const MAX_SAMPLES: usize = 1_000;
/// Most output of a step, unless the command names a number: enough for a call with its arguments.
const OUTPUT: &str = "1024";
/// Calls at a time, unless the command names a number.
const CONCURRENCY: usize = 4;
/// Most calls at a time.
const MAX_CONCURRENCY: usize = 32;
/// The results file, unless the command names one.
const RESULTS: &str = "longhaul-eval.jsonl";

/// Builds the `eval` subcommand.
pub(super) fn command() -> Command {
    let number = |name: &'static str, value: &'static str, help: String| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("eval")
        .about("Compare what a model does next with the original history and with longhaul's")
        .long_about(LONG)
        .after_help(EXAMPLES)
        .arg(
            Arg::new("sessions")
                .value_name("SESSIONS")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("Last request bodies, JSON, gzip or not; logs of agents; folders of both"),
        )
        .arg(
            Arg::new("model")
                .long("model")
                .value_name("NAME")
                .required(true)
                .help("The model to ask, by its name at the upstream"),
        )
        .args(arms::flags())
        .arg(
            number(
                "samples",
                "COUNT",
                format!("Evaluate this many requests [default: {SAMPLES}]"),
            )
            .value_parser(value_parser!(u64).range(1..=MAX_SAMPLES as u64)),
        )
        .arg(
            number(
                "seed",
                "NUMBER",
                "Choose other requests; an equal seed chooses the same ones [default: 1]".to_owned(),
            )
            .value_parser(value_parser!(u64)),
        )
        .arg(
            number(
                "max-tokens",
                "TOKENS",
                format!("Limit each answer to this many tokens [default: {OUTPUT}]"),
            ),
        )
        .arg(
            number(
                "max-cost",
                "DOLLARS",
                "Stop before everything in the results file costs more than this".to_owned(),
            )
            .value_parser(dollars),
        )
        .arg(
            number(
                "concurrency",
                "COUNT",
                format!("Make this many calls at a time [default: {CONCURRENCY}]"),
            )
            .value_parser(value_parser!(u64).range(1..=MAX_CONCURRENCY as u64)),
        )
        .arg(
            Arg::new("results")
                .long("results")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help(format!(
                    "Keep answers in this file, and reuse those that it has [default: {RESULTS}]"
                )),
        )
        .arg(
            Arg::new("page")
                .long("page")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Write the page of disagreements to this file [default: the results file, as .html]",
                ),
        )
        .arg(switch("yes", "Spend the stated cost without asking"))
        .arg(switch("json", "Print the report as JSON"))
}

/// The options of a run.
struct EvalOptions {
    model: String,
    samples: usize,
    seed: u64,
    output: Tokens,
    max_cost: Option<Usd>,
    concurrency: usize,
    results: PathBuf,
    page: PathBuf,
    is_agreed: bool,
    is_json: bool,
}

impl EvalOptions {
    fn new(matches: &ArgMatches) -> Result<Self, Problem> {
        let number = |name: &str, default: usize| {
            let given = matches.get_one::<u64>(name).copied();
            given.map_or(default, |given| usize::try_from(given).unwrap_or(default))
        };
        let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
        let results = path("results").unwrap_or_else(|| RESULTS.into());
        let output = matches.get_one::<String>("max-tokens");
        let output = token_count(output.map_or(OUTPUT, String::as_str)).filter(|most| *most > 0);
        let output = output.ok_or_else(|| {
            Problem::CommandLine("--max-tokens: expected tokens, like 1024 or 2k".to_owned())
        })?;
        Ok(Self {
            model: matches
                .get_one::<String>("model")
                .cloned()
                .unwrap_or_default(),
            samples: number("samples", SAMPLES),
            seed: matches.get_one("seed").copied().unwrap_or(1),
            output: Tokens::new(output),
            max_cost: matches.get_one::<Usd>("max-cost").copied(),
            concurrency: number("concurrency", CONCURRENCY),
            page: path("page").unwrap_or_else(|| results.with_extension("html")),
            results,
            is_agreed: matches.get_flag("yes"),
            is_json: matches.get_flag("json"),
        })
    }
}

/// Evaluates the sessions and prints the report. `layers` returns the settings, and `key` authorises the
/// calls.
///
/// # Errors
/// The settings or sessions cannot be used, nobody agreed to the cost, or no call can succeed.
pub(super) fn eval(
    layers: impl Fn() -> Layers,
    matches: &ArgMatches,
    key: Option<&str>,
) -> Result<(), Vec<Problem>> {
    let options = EvalOptions::new(matches)?;
    let arms = arms::arms(layers, matches)?;
    let paths = matches.get_many::<PathBuf>("sessions").unwrap_or_default();
    let paths: Vec<&Path> = paths.map(PathBuf::as_path).collect();
    let sessions = sessions::read(&paths, &options.model)?;
    let Some(first) = arms.first() else {
        return Ok(());
    };
    if arms.iter().any(|arm| arm.config.mode == Mode::Off) {
        let reason = "longhaul changes nothing: the mode is off; pass --mode on".to_owned();
        return Err(Problem::CommandLine(reason).into());
    }
    let same_file = |one: &Path, other: &Path| {
        let full = |path: &Path| std::fs::canonicalize(path).ok();
        one == other || full(one).is_some_and(|path| full(other) == Some(path))
    };
    if same_file(&options.page, &options.results) {
        let reason = "--page and --results name the same file".to_owned();
        return Err(Problem::CommandLine(reason).into());
    }
    let results = ResultsFile::open(&options.results)?;
    let report = crate::cli::runtime()?.block_on(async {
        let upstream = UpstreamClient::start(&first.config, key).await?;
        let summaries = summary_upstream(&first.config).await?;
        let upstreams = (upstream, summaries);
        let caller = new_caller(&options, &first.config, upstreams, results);
        run(&options, &sessions, &arms, caller).await
    })?;
    write_page(&options.page, &page::render(&report))?;
    print_error(&format!(
        "longhaul: answers are in {}, disagreements in {}\n",
        options.results.display(),
        options.page.display()
    ));
    crate::cli::print(&if options.is_json {
        report.json()
    } else {
        report.table(crate::display::terminal::width())
    })
}

/// Starts the client of the endpoint for summaries, if the settings name one.
async fn summary_upstream(config: &Config) -> Result<Option<UpstreamClient>, Problem> {
    let Some(endpoint) = &config.summary.endpoint else {
        return Ok(None);
    };
    let mut config = config.clone();
    config.upstream.base = endpoint.base.clone();
    config.upstream.messages = None;
    config.upstream.authorization = None;
    let authorization = endpoint.authorization.as_ref();
    let key = authorization.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    UpstreamClient::start(&config, key).await.map(Some)
}

/// Makes the three passes.
async fn run(
    options: &EvalOptions,
    sessions: &[EvalSession],
    arms: &[Arm],
    caller: Caller,
) -> Result<EvalReport, Problem> {
    let caller = Arc::new(caller);
    let progress = Progress::new();
    let (mut changed, mut may_fit) = (Vec::new(), Vec::new());
    for (number, session) in sessions.iter().enumerate() {
        progress.show_replay(number + 1, sessions.len());
        let bodies = session.bodies();
        may_fit.push(
            bodies
                .map(|body| caller.may_fit(session.dialect, &body))
                .collect(),
        );
        let mut of_arms = Vec::new();
        for arm in arms {
            let replayed = replay::replay(arm, session, &options.model, None, None).await?;
            of_arms.push(replayed.changed);
        }
        changed.push(of_arms);
    }
    let choice = samples::choose(&changed, &may_fit, options.samples, options.seed);
    if choice.samples.is_empty() {
        let reason = nothing_to_compare(&choice);
        return Err(Problem::CommandLine(reason.to_owned()));
    }
    ask_all(&caller, options, sessions, arms, &choice.samples, &progress).await?;
    let planned = caller.spending.lock().planned;
    drop(progress);
    let count: usize = choice.samples.values().map(Vec::len).sum();
    print_error(&plan_text(options, &caller, planned, (count, &choice)));
    agree(options, planned)?;
    caller.begin_spending();
    let progress = Progress::new();
    let samples = ask_all(&caller, options, sessions, arms, &choice.samples, &progress).await?;
    drop(progress);
    let spending = caller.spending.lock();
    let reports = arms.iter().enumerate();
    Ok(EvalReport {
        model: options.model.clone(),
        upstream: caller.upstream.base.clone(),
        sessions: sessions.len(),
        requests: choice.requests,
        changed: choice.changed,
        too_large: choice.too_large,
        failed_summaries: caller.failed_summaries.load(Ordering::Relaxed),
        spent: spending.spent(),
        is_stopped_by_cost: spending.is_exhausted(),
        arms: reports
            .map(|(number, arm)| ArmReport::new(&arm.name, number, &samples))
            .collect(),
        samples,
    })
}

fn new_caller(
    options: &EvalOptions,
    config: &Config,
    (upstream, summary_upstream): (UpstreamClient, Option<UpstreamClient>),
    results: ResultsFile,
) -> Caller {
    let priced = |name: &str| PricedModel {
        name: name.to_owned(),
        prices: config.prices(name),
    };
    let summary_model = match &config.summary.model {
        SummaryModel::Named(name) => PricedModel {
            name: name.clone(),
            prices: match &config.summary.endpoint {
                Some(endpoint) => config.prices_at(endpoint.base.authority().host(), name),
                None => config.prices(name),
            },
        },
        SummaryModel::Disabled | SummaryModel::SameAsConversation => priced(&options.model),
    };
    let window = ModelWindow::for_model(config, &options.model, None);
    let tokens = window.policy().prune_thresholds.actual_window;
    let spending = Spending::new(options.max_cost, results.cost());
    Caller {
        is_spending: AtomicBool::new(false),
        model: priced(&options.model),
        summary_model,
        upstream,
        summary_upstream,
        results: Mutex::new(results),
        spending: Mutex::new(spending),
        rules: config.overflow_rules.clone(),
        output: options.output,
        window: (!window.is_assumed()).then_some(tokens),
        failed_summaries: AtomicUsize::new(0),
        needs_newer_key: AtomicBool::new(false),
    }
}

/// Asks for the steps at all chosen requests, session by session.
async fn ask_all(
    caller: &Arc<Caller>,
    options: &EvalOptions,
    sessions: &[EvalSession],
    arms: &[Arm],
    samples: &Samples,
    progress: &Progress,
) -> Result<Vec<Sample>, Problem> {
    let mut found = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let Some(wanted) = samples.get(&number) else {
            continue;
        };
        progress.show_replay(number + 1, sessions.len());
        let asked = outcomes::ask(caller, session, arms, wanted, options.concurrency, progress);
        found.extend(asked.await?);
    }
    Ok(found)
}

/// Returns the reason why no request was chosen.
fn nothing_to_compare(choice: &Choice) -> &'static str {
    if choice.too_large > 0 {
        "no request that longhaul changes fits the model's window as it came, so that there is nothing to \
         compare; ask a model with a larger window"
    } else {
        "longhaul changes no request of these sessions under these settings; give longer sessions, or \
         another --window or --profile"
    }
}

/// Words the plan and its cost.
fn plan_text(
    options: &EvalOptions,
    caller: &Caller,
    planned: Planned,
    (count, choice): (usize, &Choice),
) -> String {
    let apart = if choice.too_large > 0 {
        let number = choice.too_large;
        format!("; {number} do not fit the model's window as they came")
    } else {
        String::new()
    };
    let text = format!(
        "longhaul: {count} of {} changed requests{apart}",
        choice.changed
    );
    let spent = caller.spending.lock().spent();
    let so_far = if spent > Usd::ZERO {
        format!("; the results file has cost {} so far", short_usd(spent))
    } else {
        String::new()
    };
    if planned.is_nothing() {
        return text + "; the results file has every answer\n";
    }
    let cost = if planned.is_unpriced {
        format!(
            "unknown, since no price of {} is known; a [[price]] table states one",
            options.model
        )
    } else {
        format!(
            "about {} by the prices of {}, without any discount for cached input",
            short_usd(planned.cost),
            options.model
        )
    };
    format!(
        "{text}\nlonghaul: to ask: {} steps and {} summaries, about {} tokens of input and at most {} of \
         output\nlonghaul: cost: {cost}{so_far}\n",
        planned.steps,
        planned.summaries,
        short_tokens(planned.input),
        short_tokens(planned.output)
    )
}

/// Asks for consent to the cost, unless nothing is left to pay or the command line gives consent.
///
/// # Errors
/// Nobody agrees, or the cost of a limited run is unknown.
fn agree(options: &EvalOptions, planned: Planned) -> Result<(), Problem> {
    if planned.is_nothing() {
        return Ok(());
    }
    if options.max_cost.is_some() && planned.is_unpriced {
        return Err(Problem::CommandLine(
            "--max-cost needs prices: state them in a [[price]] table, or leave the flag out"
                .to_owned(),
        ));
    }
    if options.is_agreed {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Problem::CommandLine(
            "nothing was spent: pass --yes to agree to this cost".to_owned(),
        ));
    }
    print_error("longhaul: ask the model? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    let is_yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
    if read.is_ok() && is_yes {
        Ok(())
    } else {
        Err(Problem::CommandLine("nothing was spent".to_owned()))
    }
}

/// Replaces the page. Its owner alone can read it.
fn write_page(path: &Path, page: &str) -> Result<(), Problem> {
    let written = private_file(path, true).and_then(|mut file| file.write_all(page.as_bytes()));
    written
        .map_err(|error| Problem::CommandLine(format!("cannot write {}: {error}", path.display())))
}

/// Parses an amount of dollars.
fn dollars(text: &str) -> Result<Usd, String> {
    let number = text.trim().trim_start_matches('$').parse().ok();
    number
        .and_then(Usd::from_dollars)
        .ok_or_else(|| "expected dollars, like 2 or 0.50".to_owned())
}
