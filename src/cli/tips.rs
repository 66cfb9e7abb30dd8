//! Tips for words of other tools: where longhaul has what the word names.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// Commands and flags of other tools, each with what to do in longhaul.
const ELSEWHERE: [(&[&str], &str); 6] = [
    (
        &["dashboard", "ui", "--open"],
        "the dashboard of a running longhaul is at http://127.0.0.1:8485; --admin moves it",
    ),
    (
        &["wrap"],
        "`longhaul run -- COMMAND` starts an agent with its own proxy",
    ),
    (
        &["unwrap"],
        "`longhaul run` leaves nothing behind; elsewhere unset the base URL of the agent",
    ),
    (
        &["perf", "savings"],
        "`longhaul explain --replay FOLDER` shows what your agent's recorded sessions would cost",
    ),
    (
        &["update", "upgrade"],
        "install the new version as you installed this one",
    ),
    // Unknown words in a build without the lab alone.
    (
        &["demo", "eval", "--replay"],
        "this build leaves out demo, eval and explain --replay; build longhaul with its feature lab",
    ),
];

/// Adds the tip for the unknown word of `error`, if there is one.
pub(super) fn add_tip(error: &mut Error) {
    let word = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg]
        .into_iter()
        .find_map(|kind| {
            let ContextValue::String(word) = error.get(kind)? else {
                return None;
            };
            Some(word.clone())
        });
    let Some(word) = word else { return };
    let known = ELSEWHERE
        .iter()
        .find(|(words, _)| words.contains(&word.as_str()));
    if let Some((_, tip)) = known {
        let tips = vec![StyledStr::from(*tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}
