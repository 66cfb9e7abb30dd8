//! `longhaul explain`: reports offline what longhaul would do with a request, and why.

use clap::ArgMatches;
use serde_json::json;

use super::pipe::{copy_to_output, input_file, read_input, write_output};
use crate::cli::Done;
use crate::cli::model_window::ModelWindow;
use crate::cli::own_client::{ask_admin, parse_answer};
use crate::config::{Config, Mode};
use crate::error::Problem;
use crate::explanation::report::{ExplanationReport, ReasonReport, clearing_hint, history_text};
use crate::explanation::verdict::UntouchedReason;
use crate::explanation::{ExplanationContext, PlanCause, table};
use longhaul_console::json::pretty_json;
use longhaul_console::terminal;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::explanation::RequestExplanation;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::record::PriorRecords;

/// Reads a request body and prints the result. Fails if the body cannot be read or is not JSON, or the output
/// cannot be written.
pub(super) fn explain(config: &Config, matches: &ArgMatches) -> Done {
    let (as_body, as_json) = (matches.get_flag("body"), matches.get_flag("json"));
    if let Some(path) = page(matches) {
        let report: ExplanationReport = parse_answer(&ask_admin(config, "GET", &path)?)?;
        return print_report(&report, as_json);
    }
    let file = input_file(matches);
    let (body, rest) = read_input(file, config.limits.body_bytes)?;
    let folds = !as_body && !as_json && !matches.get_flag("all");
    let made = explain_body(config, &body, folds);
    if as_body {
        let written = match made.ok().and_then(|(_, forwarded)| forwarded) {
            Some(forwarded) => write_output(&forwarded),
            // The rest is the input beyond the size limit, normally empty.
            None => write_output(&body).and_then(|()| copy_to_output(rest)),
        };
        return Ok(written.map_err(|error| Problem::Output(error.to_string()))?);
    }
    match made {
        Ok((report, _)) => print_report(&report, as_json),
        Err(why) if why == UntouchedReason::Bypassed(Bypass::Malformed) => {
            let reason = why.description();
            Err(Problem::InvalidInput {
                path: if file.as_os_str() == "-" { "standard input".into() } else { file.into() },
                reason: format!("{reason}; give the body of a chat, or an agent's log to --replay"),
            }
            .into())
        }
        Err(why) if as_json => {
            crate::cli::print(&pretty_json(&json!({ "untouched": ReasonReport::new(why) })))
        }
        Err(why) => {
            let reason = why.description();
            crate::cli::print(&format!("The request passes unchanged: {reason}.\n"))
        }
    }
}

fn print_report(report: &ExplanationReport, as_json: bool) -> Done {
    crate::cli::print(&if as_json {
        pretty_json(report)
    } else {
        table::render(report, terminal::width())
    })
}

/// Explains `body`. Also returns the rewritten body; `None` if the original is forwarded. `folds` joins the
/// messages that a digest replaces to one row.
fn explain_body(
    config: &Config,
    body: &[u8],
    folds: bool,
) -> Result<(ExplanationReport, Option<Vec<u8>>), UntouchedReason> {
    if config.mode == Mode::Off {
        return Err(UntouchedReason::Disabled);
    }
    if u64::try_from(body.len()).is_ok_and(|length| length > config.limits.body_bytes) {
        return Err(Bypass::TooLarge.into());
    }
    let conversation = Dialect::read_any(body)?;
    let config = &*config.for_upstream_of(&conversation.model());
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
    let (source, text) = (window.source(), history_text(true));
    let mut report = ExplanationReport::new(explanation, context, PlanCause::Plan, source, text);
    report.hint = clearing_hint(&conversation, &policy);
    report.add_subjects(&conversation);
    Ok((report, forwarded.ok()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn an_explanation_fits_a_terminal_of_80_columns() {
        let mut lines = 0;
        for folder in ["sessions", "sessions_responses", "messages/sessions"] {
            let files = std::fs::read_dir(format!("fixtures/{folder}")).unwrap();
            let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            files.retain(|path| path.extension().is_some_and(|ending| ending == "gz"));
            files.sort();
            for path in files.iter().step_by(9) {
                let mut body = Vec::new();
                let file = std::fs::File::open(path).unwrap();
                flate2::read::GzDecoder::new(file).read_to_end(&mut body).unwrap();
                for (window, folds) in [("6000", true), ("32000", false)] {
                    let config = Config::default_with([("window", window)]).unwrap();
                    let (report, _) = explain_body(&config, &body, folds).unwrap();
                    let page = table::render(&report, Some(80));
                    let wide = page.lines().find(|line| line.chars().count() > 80);
                    assert_eq!(wide, None, "{}", path.display());
                    lines += page.lines().count();
                }
            }
        }
        assert!(lines > 500, "{lines}");
    }
}
