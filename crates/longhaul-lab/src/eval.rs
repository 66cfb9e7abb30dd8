//! `longhaul eval`: what a model does next with the history as it came, and as longhaul forwards it.
//!
//! A run has three passes over the sessions. The first finds the requests that longhaul changes, the second
//! adds up the expected cost of the calls, and the third makes them. Only the third one reaches the upstream.

mod arms;
mod outcomes;
mod page;
mod paid_client;
mod replay;
mod replay_upstream;
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

use clap::builder::RangedU64ValueParser;
use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use parking_lot::Mutex;

use crate::command::{hide_defaults, runtime};
use crate::error::LabError;
use crate::evaluation::step_request::scored_prompt::DIALECT;
use crate::progress::{ProgressLine, print_error};
use crate::proxy::{PricedModel, ProxySettings, Settings};
use arms::{Arm, ArmFlags};
pub use arms::{ChoiceNames, SettingChange};
use longhaul_console::amounts::{short_tokens, short_usd, token_count};
use longhaul_console::json::pretty_json;
use longhaul_console::terminal;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;
use outcomes::Sample;
use paid_client::PaidClient;
use report::{ArmReport, EvalReport};
use results_file::{ResultsFile, private_file};
use samples::{Choice, Samples};
use sessions::EvalSession;
use spending::{Planned, Spending};
use upstream_client::UpstreamClient;

const DETAILS: &str = include_str!("eval/details.txt");
const EXAMPLES: &str = include_str!("eval/examples.txt");

/// Maximum requests to evaluate.
const MAX_SAMPLES: u64 = 1_000;
/// Maximum calls at a time.
const MAX_CONCURRENCY: u64 = 32;

/// Returns the command `eval` with its options. The names are the values of its repeatable options.
pub fn command(names: ChoiceNames) -> Command {
    let command = hide_defaults(EvalOptions::augment_args(Command::new("eval")))
        .about("Compare what a model does next with the original history and with longhaul's")
        .long_about(DETAILS)
        .after_help(EXAMPLES);
    arms::with_names(command, names)
}

/// The options of a run.
#[derive(Args)]
struct EvalOptions {
    /// Last request bodies, JSON, gzip or not; logs of agents; folders of both
    #[arg(value_name = "SESSIONS", required = true)]
    sessions: Vec<PathBuf>,
    /// The model to ask, by its name at the upstream
    #[arg(long, value_name = "NAME")]
    model: String,
    #[command(flatten)]
    arms: ArmFlags,
    #[arg(long, value_name = "COUNT", default_value = "40")]
    #[arg(help = "Evaluate this many requests [default: 40]", value_parser = count(MAX_SAMPLES))]
    samples: usize,
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    #[arg(help = "Choose other requests; an equal seed chooses the same ones [default: 1]")]
    seed: u64,
    /// Enough for a call with its arguments.
    #[arg(long = "max-tokens", value_name = "TOKENS", default_value = "1024")]
    #[arg(help = "Limit each answer to this many tokens [default: 1024]")]
    #[arg(value_parser = output_limit)]
    output: Tokens,
    /// Score the recorded steps instead: how likely are they? Needs a server such as vLLM
    #[arg(long = "likelihood")]
    is_scoring: bool,
    /// Stop before everything in the results file costs more than this
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    max_cost: Option<Usd>,
    #[arg(long, value_name = "COUNT", default_value = "4")]
    #[arg(help = "Make this many calls at a time [default: 4]", value_parser = count(MAX_CONCURRENCY))]
    concurrency: usize,
    #[arg(long, value_name = "FILE", default_value = "longhaul-eval.jsonl")]
    #[arg(
        help = "Keep answers in this file, and reuse those that it has [default: longhaul-eval.jsonl]"
    )]
    results: PathBuf,
    #[arg(long, value_name = "FILE")]
    #[arg(
        help = "Write the page of disagreements to this file [default: the results file, as .html]"
    )]
    page: Option<PathBuf>,
    /// Spend the stated cost without asking
    #[arg(long = "yes")]
    is_agreed: bool,
    /// Print the report as JSON
    #[arg(long = "json")]
    is_json: bool,
}

/// Returns the parser of a count from 1 to `most`.
fn count(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Evaluates the sessions and returns the report. `settings` returns the settings with some changes, and
/// `key` authorises the calls. Fails if the settings or sessions cannot be used, nobody agreed to the cost, or
/// no call can succeed.
pub fn eval<E: From<LabError>>(
    settings: impl Fn(&[SettingChange<'_>]) -> Result<Settings, Vec<E>>,
    matches: &ArgMatches,
    key: Option<&str>,
) -> Result<String, Vec<E>> {
    let options = EvalOptions::from_arg_matches(matches);
    let options = options.map_err(|error| vec![LabError::CommandLine(error.to_string()).into()])?;
    let arms = options.arms.arms(options.is_scoring, settings)?;
    let report = eval_arms(&options, &arms, key);
    report.map_err(|errors| errors.into_iter().map(E::from).collect())
}

fn eval_arms(
    options: &EvalOptions,
    arms: &[Arm],
    key: Option<&str>,
) -> Result<String, Vec<LabError>> {
    let Some(first) = arms.first() else {
        return Ok(String::new());
    };
    // A server on this machine or in its network may take no key.
    let base = first.settings.upstream_bases().base;
    if key.is_none() && !first.settings.has_key() && base.starts_with("https:") {
        let reason = format!("no key for {base}: set OPENAI_API_KEY to the key that pays");
        return Err(LabError::Unanswered(reason).into());
    }
    let sessions = sessions::read(&options.sessions, &options.model)?;
    if arms.iter().any(|arm| arm.settings.is_off()) {
        let reason = "longhaul changes nothing: the mode is off; pass --mode on".to_owned();
        return Err(LabError::CommandLine(reason).into());
    }
    let is_other = |session: &&EvalSession| options.is_scoring && session.dialect != DIALECT;
    if let Some(EvalSession { recording, .. }) = sessions.iter().find(is_other) {
        let name = &recording.name;
        let reason = format!("{name}: --likelihood takes chat completions and logs of agents");
        return Err(LabError::CommandLine(reason).into());
    }
    let same_file = |one: &Path, other: &Path| {
        let full = |path: &Path| std::fs::canonicalize(path).ok();
        one == other || full(one).is_some_and(|path| full(other) == Some(path))
    };
    let page = options.page.clone();
    let page = page.unwrap_or_else(|| options.results.with_extension("html"));
    if same_file(&page, &options.results) {
        let reason = "--page and --results name the same file".to_owned();
        return Err(LabError::CommandLine(reason).into());
    }
    let results = ResultsFile::open(&options.results)?;
    let report = runtime()?.block_on(async {
        let caller = new_caller(options, &*first.settings, key, results).await?;
        run(options, &sessions, arms, caller).await
    })?;
    print_error(&format!("longhaul: answers are in {}\n", options.results.display()));
    if !options.is_scoring {
        write_page(&page, &page::render(&report))?;
        print_error(&format!("longhaul: disagreements are in {}\n", page.display()));
    }
    match report.failure() {
        Some(reason) => {
            Err(LabError::Unanswered(format!("no call had an answer: {reason}")).into())
        }
        None if options.is_json => Ok(pretty_json(&report)),
        None => Ok(report.table(terminal::width())),
    }
}

/// Makes the three passes.
async fn run(
    options: &EvalOptions,
    sessions: &[EvalSession],
    arms: &[Arm],
    caller: PaidClient,
) -> Result<EvalReport, LabError> {
    let caller = Arc::new(caller);
    let progress = ProgressLine::new();
    let (mut changed, mut may_fit, mut largest) = (Vec::new(), Vec::new(), Tokens::ZERO);
    for (number, session) in sessions.iter().enumerate() {
        progress.show_step("replaying session", number + 1, sessions.len());
        let sizes = session.recording.bodies().map(|body| caller.size(session.dialect, &body));
        let fits = sizes.map(|size| {
            largest = largest.max(size);
            caller.may_fit(size)
        });
        may_fit.push(fits.collect());
        let mut of_arms = Vec::new();
        for arm in arms {
            let mut replayed = replay::replay(arm, session, &options.model, None, None).await?;
            for (at, is_changed) in replayed.changed.iter_mut().enumerate() {
                *is_changed &= !options.is_scoring || session.recording.step_after(at).is_some();
            }
            of_arms.push(replayed.changed);
        }
        changed.push(of_arms);
    }
    let choice = samples::choose(&changed, &may_fit, options.samples, options.seed);
    let wider = || wider_model(arms, &options.model, largest);
    if choice.samples.is_empty() {
        let reason = if choice.too_large > 0 {
            format!("{TOO_LARGE}, so that there is nothing to compare; {}", wider())
        } else {
            NO_CHANGE.to_owned()
        };
        return Err(LabError::CommandLine(reason));
    }
    ask_all(&caller, options, sessions, arms, &choice.samples, &progress).await?;
    let planned = caller.spending.lock().planned;
    drop(progress);
    let count: usize = choice.samples.values().map(Vec::len).sum();
    print_error(&plan_text(options, &caller, planned, (count, &choice)));
    if choice.too_large > 0 {
        print_error(&format!("longhaul: to compare those too, {}\n", wider()));
    }
    confirm_cost(options, planned)?;
    caller.begin_spending();
    let progress = ProgressLine::new();
    let samples = ask_all(&caller, options, sessions, arms, &choice.samples, &progress).await?;
    drop(progress);
    let spending = caller.spending.lock();
    let reports = arms.iter().enumerate();
    Ok(EvalReport {
        model: options.model.clone(),
        upstream: caller.upstream.bases.base.clone(),
        sessions: sessions.len(),
        choice,
        failed_summaries: caller.failed_summaries.load(Ordering::Relaxed),
        spent: spending.spent(),
        is_stopped_by_cost: spending.is_exhausted(),
        arms: reports.map(|(number, arm)| ArmReport::new(&arm.name, number, &samples)).collect(),
        samples,
    })
}

/// Starts the clients of the upstream and, if the settings name one, of the endpoint for summaries.
async fn new_caller(
    options: &EvalOptions,
    settings: &dyn ProxySettings,
    key: Option<&str>,
    results: ResultsFile,
) -> Result<PaidClient, LabError> {
    let upstream = UpstreamClient::start(settings, key).await?;
    let summary_upstream = match settings.summary_endpoint() {
        Some((settings, key)) => Some(UpstreamClient::start(&*settings, key.as_deref()).await?),
        None => None,
    };
    let known = settings.known_model(&options.model);
    let model = PricedModel { name: options.model.clone(), prices: known.prices };
    let spending = Spending::new(options.max_cost, results.cost());
    Ok(PaidClient {
        is_spending: AtomicBool::new(false),
        summary_model: settings.summary_model().unwrap_or_else(|| model.clone()),
        model,
        upstream,
        summary_upstream,
        results: Mutex::new(results),
        spending: Mutex::new(spending),
        rules: settings.overflow_rules(),
        read_summary: settings.summary_reader(),
        output: if options.is_scoring { Tokens::new(1) } else { options.output },
        window: known.largest_window,
        failed_summaries: AtomicUsize::new(0),
        answers: AtomicUsize::new(0),
        needs_newer_key: AtomicBool::new(false),
        is_scoring: options.is_scoring,
    })
}

/// Queries the model for the steps at all chosen requests, session by session.
async fn ask_all(
    caller: &Arc<PaidClient>,
    options: &EvalOptions,
    sessions: &[EvalSession],
    arms: &[Arm],
    samples: &Samples,
    progress: &ProgressLine,
) -> Result<Vec<Sample>, LabError> {
    let mut found = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        let Some(wanted) = samples.get(&number) else {
            continue;
        };
        progress.show_step("replaying session", number + 1, sessions.len());
        let outcomes = outcomes::ask(caller, session, arms, wanted, options.concurrency, progress);
        found.extend(outcomes.await?);
    }
    Ok(found)
}

const TOO_LARGE: &str = "no request that longhaul changes fits the model's window as it came";
const NO_CHANGE: &str = "longhaul changes no request of these sessions under these settings; give longer \
    sessions, or a --window below the model's, or another --profile";

/// Advises a model that accepts the `largest` request as it came, at the same window of longhaul.
fn wider_model(arms: &[Arm], model: &str, largest: Tokens) -> String {
    let settings = arms.first().map(|arm| &arm.settings);
    let wider = settings.and_then(|settings| settings.wider_model(model, largest));
    let wider = wider.map_or_else(
        || "ask a model with a larger window".to_owned(),
        |wider| format!("pass --model {wider}"),
    );
    let window = settings.map_or(Tokens::ZERO, |settings| settings.known_model(model).window);
    format!("{wider}, and keep the window of longhaul with --window {}", window.get())
}

/// Words the plan and its cost.
fn plan_text(
    options: &EvalOptions,
    caller: &PaidClient,
    planned: Planned,
    (count, choice): (usize, &Choice),
) -> String {
    let apart = if choice.too_large > 0 {
        let number = choice.too_large;
        format!("; {number} do not fit the model's window as they came")
    } else {
        String::new()
    };
    let text = format!("longhaul: {count} of {} changed requests{apart}", choice.changed);
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
/// Fails if nobody agrees, or the cost of a limited run is unknown.
fn confirm_cost(options: &EvalOptions, planned: Planned) -> Result<(), LabError> {
    if planned.is_nothing() {
        return Ok(());
    }
    if options.max_cost.is_some() && planned.is_unpriced {
        return Err(LabError::CommandLine(
            "--max-cost needs prices: state them in a [[price]] table, or leave the flag out"
                .to_owned(),
        ));
    }
    if options.is_agreed {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(LabError::CommandLine(
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
        Err(LabError::CommandLine("nothing was spent".to_owned()))
    }
}

/// Replaces the page. Its owner alone can read it.
fn write_page(path: &Path, page: &str) -> Result<(), LabError> {
    let written = private_file(path, true).and_then(|mut file| file.write_all(page.as_bytes()));
    written
        .map_err(|error| LabError::CommandLine(format!("cannot write {}: {error}", path.display())))
}

/// Parses the most output of a step.
fn output_limit(text: &str) -> Result<Tokens, String> {
    let most = token_count(text).filter(|most| *most > 0);
    most.map(Tokens::new).ok_or_else(|| "expected tokens, like 1024 or 2k".to_owned())
}

/// Parses an amount of dollars.
fn dollars(text: &str) -> Result<Usd, String> {
    let number = text.trim().trim_start_matches('$').parse().ok();
    number.and_then(Usd::from_dollars).ok_or_else(|| "expected dollars, like 2 or 0.50".to_owned())
}
