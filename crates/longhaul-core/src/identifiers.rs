//! Index of the identifiers in replaced history that nobody can guess. These are addresses, digests, and the
//! codes and values that the user or the model has named.
//!
//! Files, commands and names stand in the steps of a digest, and are not collected. Identifiers that only
//! results contain are not listed: a model makes no use of words without the place where they stood. Identifiers
//! that are still visible in the conversation are left out, and long listings of similar ones are damped.

mod identifier_index;
mod kind;
mod lexer;
mod likeness;
mod rank;

use crate::conversation::Message;
use crate::conversation::tool_arguments::DecodedCalls;
use crate::units::tokens::Tokens;
use identifier_index::IdentifierIndex;
use rank::IdentifierSource;

pub(super) const HEADING: &str = "## Identifiers";

/// Lines of an index, by the strongest source of their identifiers.
const ORIGINS: [(&str, IdentifierSource); 2] = [
    ("Named by the user: ", IdentifierSource::User),
    ("Named in the conversation: ", IdentifierSource::Assistant),
];

/// Returns the index of the messages of `calls`, at most `budget` tokens. Identifiers that an agent can still
/// read are left out: those in the messages `visible` and in the texts `present`. Empty if no identifiers remain.
pub(crate) fn index_messages(
    calls: &DecodedCalls<'_, '_>,
    visible: impl Iterator<Item = usize>,
    present: [&str; 2],
    budget: Tokens,
) -> String {
    let conversation = calls.conversation;
    let mut index = IdentifierIndex::from_messages(calls);
    for text in present {
        index.exclude(text);
    }
    for message in visible.filter_map(|at| conversation.message(at)) {
        index.exclude(&conversation.text(message));
        for_each_argument(calls, message, |value| index.exclude(value));
    }
    render(&index, budget)
}

/// Returns one index of several segments, oldest first, at most `budget` tokens. Of each, `segments` holds the
/// words of the user, the prose and the index. All identifiers are ranked together. Those in `present` are left out.
pub(crate) fn merge_indexes(segments: &[[&str; 3]], present: &str, budget: Tokens) -> String {
    let mut all = IdentifierIndex::default();
    for (at, [user, prose, index]) in segments.iter().enumerate().rev() {
        all.add_user_text(user, at);
        all.add_text(prose, IdentifierSource::Assistant, at);
        for (label, source) in ORIGINS {
            let lines = index.lines();
            for words in lines.filter_map(|line| line.strip_prefix(label)) {
                all.add_text(words, source, at);
            }
        }
    }
    all.exclude(present);
    render(&all, budget)
}

/// Calls `found` with each argument value of the calls in `message`. If the arguments of a call
/// cannot be parsed, `found` receives them as one raw string.
fn for_each_argument(calls: &DecodedCalls<'_, '_>, message: &Message, mut found: impl FnMut(&str)) {
    for (call, arguments) in calls.of(message) {
        let mut decoded = false;
        for (_, value) in arguments.pairs() {
            decoded = true;
            found(&value);
        }
        if let Some(raw) = call.arguments.filter(|_| !decoded) {
            found(&raw.decode(calls.conversation.body()));
        }
    }
}

/// Renders the identifiers with the highest scores that fit, a line for each origin.
fn render(index: &IdentifierIndex, budget: Tokens) -> String {
    let labels: usize = ORIGINS.iter().map(|(label, _)| label.len() + 1).sum();
    let mut left = budget.to_chars().saturating_sub(HEADING.len() + labels);
    let chosen: Vec<_> = index
        .best_first()
        .into_iter()
        .filter(|(text, _)| {
            let rest = left.checked_sub(text.len() + 1);
            left = rest.unwrap_or(left);
            rest.is_some()
        })
        .collect();
    let mut text = String::new();
    for (label, source) in ORIGINS {
        let words = chosen.iter().filter(|(_, origin)| *origin == source);
        let words: Vec<&str> = words.map(|(text, _)| *text).collect();
        if !words.is_empty() {
            text.extend(["\n", label, &words.join(" ")]);
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("{HEADING}{text}")
}

#[cfg(test)]
mod tests;
