//! Approvals of what an agent proposed.

use super::phrases::{Phrases, fold};
use std::sync::LazyLock;

/// Openings of an approval, by language.
const APPROVALS: &str = include_str!("approvals.txt");
/// Openings of a refusal, and words that put off, by language.
const REFUSALS: &str = include_str!("refusals.txt");

/// Maximum characters of an approval. A longer message says more than yes.
const MAX_APPROVAL_CHARS: usize = 300;

/// Whether `text`, a message of the user, approves what the agent proposed.
///
/// An approval with a condition is one. A refusal, a delay and a message of more than 300 characters
/// are none.
pub(crate) fn approves(text: &str) -> bool {
    static YES: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[APPROVALS]));
    static NO: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[REFUSALS]));
    if text.chars().nth(MAX_APPROVAL_CHARS).is_some() {
        return false;
    }
    let folded = fold(text);
    YES.are_in(&folded) && !NO.are_in(&folded)
}
