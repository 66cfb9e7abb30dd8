//! Approvals of what an agent proposed.

use super::phrases::{Phrases, fold};
use super::rule_marks::is_question;
use std::ops::Range;
use std::sync::LazyLock;

pub(super) const APPROVALS: &str = include_str!("approvals.txt");
/// Words of a refusal or a delay in front.
pub(super) const REFUSALS: &str = include_str!("refusals.txt");
/// Words of a delay anywhere.
pub(super) const DELAYS: &str = include_str!("delays.txt");

/// Maximum characters of an approval. A longer message says more than yes.
const MAX_APPROVAL_CHARS: usize = 300;

/// Whether `text`, a message of the user, approves what the agent proposed.
///
/// An approval with a condition is one. A refusal, a delay and a message of more than 300 characters
/// are none. A question is one if it begins with more than a word such as `ok`.
pub(crate) fn approves(text: &str) -> bool {
    static YES: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[APPROVALS]));
    static NO: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[REFUSALS]));
    static LATER: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[DELAYS]));
    if text.chars().nth(MAX_APPROVAL_CHARS).is_some() {
        return false;
    }
    let folded = fold(text);
    let is_asked = is_question(text);
    // A word that is a clause of its own may only open the question.
    let counts = |it: &Range<usize>| {
        let words = folded.get(it.clone()).unwrap_or_default();
        !(is_asked && words.ends_with('^'))
    };
    let Some(yes) = YES.matches(&folded).find(counts) else {
        return false;
    };
    let is_first = NO.matches(&folded).next().is_none_or(|no| yes.start < no.start);
    is_first && !LATER.are_in(&folded)
}
