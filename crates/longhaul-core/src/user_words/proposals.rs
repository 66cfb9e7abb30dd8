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
/// - From the first marked sentence up to the question for approval, or to the end of the paragraph and its
///   lists if the message asks nothing.
/// - Without a marked sentence: the paragraph in front of the question, a question that says more than
///   `shall I go ahead`, and the options below.
pub(crate) fn proposal(agent_text: &str) -> Vec<&str> {
    let said = pieces(agent_text)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Said(text) => Some(text),
            Piece::Shown(_) => None,
        });
    let mut all: Vec<Sentence<'_>> = Vec::new();
    for text in said {
        let first = all.last().map_or(0, |it| it.paragraph + 1);
        all.extend(split(text).into_iter().map(|it| Sentence {
            paragraph: first + it.paragraph,
            ..it
        }));
    }
    let question = all.iter().rposition(|it| asks(it.text));
    let end = question.unwrap_or(all.len());
    let before = all.get(..end).unwrap_or_default();
    let recent = before.get(before.len().saturating_sub(MAX_SENTENCES)..);
    let recent = recent.unwrap_or_default();
    let marked = recent.iter().position(|it| proposes(it.text));
    let chosen: Vec<&Sentence<'_>> = match (marked, question) {
        (Some(start), Some(_)) => recent.iter().skip(start).collect(),
        (Some(start), None) => passage(recent.get(start..).unwrap_or_default())
            .iter()
            .collect(),
        (None, Some(at)) => {
            let last = recent.last().map(|it| it.paragraph);
            let front = recent.iter().filter(|it| Some(it.paragraph) == last);
            let skipped = front.clone().count().saturating_sub(MAX_UNMARKED);
            let asked = all.get(at);
            let options = all.iter().skip(at + 1).filter(|it| it.is_item);
            front
                .skip(skipped)
                .chain(asked)
                .chain(options.take(MAX_UNMARKED))
                .collect()
        }
        (None, None) => Vec::new(),
    };
    let says = chosen
        .into_iter()
        .filter(|it| !is_heading(it) && !is_short_question(it.text));
    says.map(|it| it.text).collect()
}

/// Returns the first paragraph of `sentences`, with the lists behind.
fn passage<'s, 't>(sentences: &'s [Sentence<'t>]) -> &'s [Sentence<'t>] {
    let first = sentences.first().map(|it| it.paragraph);
    let goes_on = |it: &&Sentence<'_>| Some(it.paragraph) == first || it.is_item;
    let count = sentences.iter().take_while(goes_on).count();
    sentences.get(..count).unwrap_or_default()
}

/// Whether a text only announces the next one, such as `My proposal:`.
fn is_heading(sentence: &Sentence<'_>) -> bool {
    let text = sentence.text;
    let is_short = text.split_whitespace().count() <= 3 && !text.contains(is_unspaced);
    is_short && !sentence.is_item && !text.ends_with(['.', '!'])
}

/// Whether a text asks for approval and says nothing else.
fn is_short_question(text: &str) -> bool {
    asks(text) && text.split_whitespace().count() < MIN_QUESTION_WORDS
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
