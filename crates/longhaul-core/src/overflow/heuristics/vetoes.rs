//! Statements that are about something other than the window, by the lists of vetoes in `heuristics.tsv`.

use crate::overflow::heuristics::numbers::StatedSize;
use crate::overflow::heuristics::statement::Statement;
use crate::overflow::vocabulary::matches;

/// Statuses, outer or inside a body, that no evidence outweighs: payment, throttling, overload, time,
/// storage, the path, the method, or the framing.
pub(super) fn is_final_status(status: u16) -> bool {
    matches!(
        status,
        402 | 404..=406 | 408 | 410 | 411 | 414 | 415 | 425 | 426 | 429 | 431 | 507 | 529
    )
}

/// Whether a statement is about throttling, overload or money.
pub(super) fn is_final(statement: &Statement) -> bool {
    statement.sentences().any(|one| matches("final", one))
}

/// Whether a statement is about something other than the window. `measured` is the size of the request
/// with a smaller limit, if the refusal states both.
pub(super) fn is_vetoed(statement: &Statement, measured: Option<StatedSize>) -> bool {
    let text = statement.text();
    let is_measured = measured.is_some();
    // An output next to the two numbers is a part of the sum.
    let is_sum = measured.is_some_and(|stated| stated.output.is_some());
    let is_output = matches("output", text) && !matches("input", text) && !is_sum;
    let is_media = matches("media", text) && !matches("token", text);
    let names_tools = |one: &str| matches("tool", one) && !matches("prompt-with-tools", one);
    is_output
        || is_media
        || is_final(statement)
        || statement.sentences().any(|one| {
            matches("veto", one)
                || (!is_measured && (matches("outweighed", one) || names_tools(one)))
        })
}
