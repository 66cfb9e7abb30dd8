//! Sentences in which an agent states a proposal.

use super::phrases::{Phrases, fold, is_unspaced};
use super::pieces::{Piece, pieces};
use super::rule_marks::is_question;
use super::sentences::{Sentence, split};
use std::sync::LazyLock;

/// Phrases of a sentence that states a proposal, by language.
pub(super) const PROPOSALS: &str = include_str!("proposals.txt");
/// Phrases of a question that asks for approval, by language.
pub(super) const PERMISSIONS: &str = include_str!("permissions.txt");

/// Maximum sentences of a proposal.
const MAX_SENTENCES: usize = 16;
/// Maximum sentences in front of the question, in a message without a marked proposal.
const MAX_UNMARKED: usize = 6;
/// Minimum words of a question that says what the agent is about to do.
const MIN_QUESTION_WORDS: usize = 8;

/// Returns the sentences of `agent_text` that state its proposal; none if the message proposes nothing.
///
/// - From the first marked sentence up to the question for approval. If the message asks nothing, to the end of
///   the paragraph and its lists.
/// - Without a marked sentence: the paragraph in front of the question, a question that says more than
///   `shall I go ahead`, and the options below.
pub(crate) fn proposal(agent_text: &str) -> Vec<&str> {
    let all = said_sentences(agent_text);
    let question = all.iter().rposition(|it| asks(it.text));
    let (front, rest) = all.split_at_checked(question.unwrap_or(all.len())).unwrap_or_default();
    let recent = front.get(front.len().saturating_sub(MAX_SENTENCES)..).unwrap_or_default();
    let marked = recent.iter().position(|it| proposes(it.text));
    let chosen: Vec<&Sentence<'_>> = if let Some(start) = marked {
        let first = recent.get(start).map(|it| it.paragraph);
        let goes_on =
            |it: &&Sentence<'_>| question.is_some() || it.is_item || Some(it.paragraph) == first;
        recent.iter().skip(start).take_while(goes_on).collect()
    } else if question.is_some() {
        let last = recent.last().map(|it| it.paragraph);
        let front = recent.iter().rev().take(MAX_UNMARKED);
        let front: Vec<_> = front.take_while(|it| Some(it.paragraph) == last).collect();
        let options = rest.iter().skip(1).filter(|it| it.is_item).take(MAX_UNMARKED);
        front.into_iter().rev().chain(rest.first()).chain(options).collect()
    } else {
        Vec::new()
    };
    let says = chosen.into_iter().filter(|it| !only_announces(it));
    says.map(|it| it.text).collect()
}

/// Returns the sentences of a text without what the text shows.
fn said_sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found: Vec<Sentence<'_>> = Vec::new();
    for piece in pieces(text) {
        if let Piece::Said(text) = piece {
            let first = found.last().map_or(0, |it| it.paragraph + 1);
            found.extend(split(text).into_iter().map(|mut it| {
                it.paragraph += first;
                it
            }));
        }
    }
    found
}

/// Whether a sentence is a heading such as `My proposal:`, or a question that names no action.
fn only_announces(sentence: &Sentence<'_>) -> bool {
    let text = sentence.text;
    let words = text.split_whitespace().count();
    let is_heading = words <= 3 && !sentence.is_item && !text.ends_with(['.', '!']);
    (is_heading && !text.contains(is_unspaced)) || (words < MIN_QUESTION_WORDS && asks(text))
}

fn proposes(sentence: &str) -> bool {
    static PHRASES: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[PROPOSALS]));
    PHRASES.are_in(&fold(sentence))
}

/// Whether a sentence asks the user for approval.
fn asks(sentence: &str) -> bool {
    static PHRASES: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[PERMISSIONS]));
    is_question(sentence) && PHRASES.are_in(&fold(sentence))
}
