//! `longhaul explain`: reports offline what longhaul would do with a request, and why.

use std::io::{self, Read};

use clap::ArgMatches;
use serde_json::json;

use super::pipe::{copy_to_output, input_file, read_input, write_output};
use crate::cli::Done;
use crate::cli::model_window::ModelWindow;
use crate::cli::own_client::{ask_admin, parse_answer};
use crate::config::{Config, Mode};
use crate::error::Problem;
use crate::explanation::report::{ExplanationReport, ReasonReport, clearing_hint};
use crate::explanation::verdict::UntouchedReason;
use crate::explanation::{ExplanationContext, table};
use longhaul_console::json::pretty_json;
use longhaul_console::terminal;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::explanation::RequestExplanation;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::record::PriorRecords;

/// The output format of `explain` for one request.
#[derive(Clone, Copy)]
enum ExplainFormat {
    Body,
    Json,
    Table,
}

/// Reads a request body and prints the result. Fails if the body cannot be read or is not JSON, or the output
/// cannot be written.
pub(super) fn explain(config: &Config, matches: &ArgMatches) -> Done {
    if let Some(path) = page(matches) {
        return explain_live(config, &path, matches.get_flag("json"));
    }
    let form = match (matches.get_flag("body"), matches.get_flag("json")) {
        (true, _) => ExplainFormat::Body,
        (false, true) => ExplainFormat::Json,
        (false, false) => ExplainFormat::Table,
    };
    let file = input_file(matches);
    let (body, rest) = read_input(file, config.limits.body_bytes)?;
    let folds = matches!(form, ExplainFormat::Table) && !matches.get_flag("all");
    let made = explain_body(config, &body, folds);
    let malformed = UntouchedReason::Bypassed(Bypass::Malformed);
    if let (Err(why), ExplainFormat::Json | ExplainFormat::Table) = (&made, form)
        && *why == malformed
    {
        let reason = why.description();
        return Err(Problem::InvalidInput {
            path: file.into(),
            reason: format!("{reason}; give the body of a chat completion request"),
        }
        .into());
    }
    let written = print_explanation(&made, &body, rest, form);
    Ok(written.map_err(|error| Problem::Output(error.to_string()))?)
}

/// Prints the result for `body`. `rest` is the input beyond the size limit, normally empty.
fn print_explanation(
    made: &Result<Explanation, UntouchedReason>,
    body: &[u8],
    rest: impl Read,
    form: ExplainFormat,
) -> io::Result<()> {
    let text = match form {
        ExplainFormat::Body => {
            let made = made.as_ref().ok();
            let forwarded = made.and_then(|made| made.forwarded.as_deref());
            return match forwarded {
                Some(forwarded) => write_output(forwarded),
                None => write_output(body).and_then(|()| copy_to_output(rest)),
            };
        }
        ExplainFormat::Json => match made {
            Ok(made) => pretty_json(&made.report),
            Err(why) => pretty_json(&json!({ "untouched": ReasonReport::new(*why) })),
        },
        ExplainFormat::Table => match made {
            Ok(made) => table::render(&made.report, terminal::width()),
            Err(why) => table::render_untouched(*why),
        },
    };
    write_output(text.as_bytes())
}

/// The result for a body that was read.
struct Explanation {
    report: ExplanationReport,
    /// The rewritten body, or `None` if the original is forwarded.
    forwarded: Option<Vec<u8>>,
}

/// Explains `body`. `folds` joins the messages that a digest replaces to one row.
fn explain_body(config: &Config, body: &[u8], folds: bool) -> Result<Explanation, UntouchedReason> {
    if config.mode == Mode::Off {
        return Err(UntouchedReason::Disabled);
    }
    if u64::try_from(body.len()).is_ok_and(|length| length > config.limits.body_bytes) {
        return Err(Bypass::TooLarge.into());
    }
    let conversation = Dialect::read_any(body)?;
    let window = ModelWindow::for_model(config, &conversation.model(), None);
    let policy = window.policy_for(&conversation);
    let plan = plan(&conversation, &policy, &PriorRecords::default(), SummarySource::Digest);
    let forwarded = match plan.view.replacements(&conversation) {
        None if conversation.is_stateful() => Err(Bypass::Stateful),
        None => Err(Bypass::Nothing),
        Some(plan) => match Splice::new(&conversation, &plan) {
            Some(splice) => Ok(splice.apply()),
            None => Err(Bypass::Unsound),
        },
    };
    let untouched = forwarded.as_ref().err().copied();
    let settings = config.settings_for(&conversation.model());
    let context =
        ExplanationContext { mode: config.mode, profile: settings.compaction.profile, untouched };
    let explanation =
        RequestExplanation::new(&conversation, &policy, &plan.view, plan.decisions.as_deref());
    let explanation = match (untouched, folds) {
        (Some(_), _) => explanation.unchanged(),
        (None, true) => explanation.folded(false),
        (None, false) => explanation,
    };
    let mut report = ExplanationReport::new(explanation, context, window.source());
    report.hint = clearing_hint(&conversation, &policy);
    report.add_subjects(&conversation);
    Ok(Explanation { report, forwarded: forwarded.ok() })
}

/// Returns the admin page that the arguments ask for; `None` if they name a file.
fn page(matches: &ArgMatches) -> Option<String> {
    let id = |name: &str| matches.get_one::<String>(name).map(|id| encoded(id));
    if matches.get_flag("last") {
        Some("/requests/last".to_owned())
    } else if let Some(id) = id("conversation") {
        Some(format!("/conversations/{id}/last"))
    } else {
        id("request").map(|id| format!("/requests/{id}"))
    }
}

/// Leaves only the characters of an id, so that any argument is a valid path.
fn encoded(id: &str) -> String {
    let letters = id.chars().take(64);
    letters.filter(char::is_ascii_alphanumeric).collect()
}

/// Asks the running longhauls for the explanation at `path` and prints it. Fails if none answers, or the
/// explanation is not kept.
fn explain_live(config: &Config, path: &str, json: bool) -> Done {
    let report: ExplanationReport = parse_answer(&ask_admin(config, "GET", path)?)?;
    crate::cli::print(&if json {
        pretty_json(&report)
    } else {
        table::render(&report, terminal::width())
    })
}
