//! `longhaul forget`, and the learned windows that `longhaul check` prints.

use clap::ArgMatches;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::own_client::{ask_admin, parse_answer};
use crate::admin::FORGET_PATH;
use crate::cli::Done;
use crate::config::Config;
use crate::learned::learned_models::HeldWindow;
use crate::wall_clock;
use longhaul_console::printable::printable_name;

/// Drops the learned windows of a model from a running longhaul. Fails if no longhaul answers.
pub(super) fn forget(config: &Config, matches: &ArgMatches) -> Done {
    let model = matches.get_one::<String>("model").map_or("", String::as_str);
    let query = utf8_percent_encode(model, NON_ALPHANUMERIC);
    let path = format!("{FORGET_PATH}?model={query}");
    let dropped = parse_answer::<Vec<HeldWindow>>(&ask_admin(config, "POST", &path)?)?;
    crate::cli::print(&if dropped.is_empty() {
        format!("no learned window of {}\n", printable_name(model))
    } else {
        dropped.iter().map(|it| line("dropped", it)).collect()
    })
}

/// Prints the learned windows of a running longhaul, of one model or all. Prints nothing if none answers.
pub(super) fn print_held(config: &Config, model: Option<&str>) -> Done {
    let body = ask_admin(config, "GET", "/windows");
    let held: Vec<HeldWindow> = body.and_then(|it| parse_answer(&it)).unwrap_or_default();
    let text: String = held
        .iter()
        .filter(|it| model.is_none_or(|model| it.model == model))
        .map(|it| line("learned", it))
        .collect();
    crate::cli::print(&text)
}

fn line(verb: &str, window: &HeldWindow) -> String {
    let until = window.until.map(|at| wall_clock::local(at, ", held until %d %b %Y %H:%M %:z"));
    let until = until.unwrap_or_default();
    // Clients choose the names of models.
    let model = printable_name(&window.model);
    format!("# {verb}: {model} takes about {} estimated tokens{until}\n", window.tokens)
}
