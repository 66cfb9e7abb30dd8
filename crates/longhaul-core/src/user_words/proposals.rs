//! Sentences in which an agent states a proposal.

use super::phrases::{Phrases, fold};
use super::pieces::{Piece, pieces};
use super::rule_marks::is_question;
use super::sentences::{Sentence, split};
use std::sync::LazyLock;

/// Phrases of a sentence that states a proposal, by language.
const PROPOSALS: &str = include_str!("proposals.txt");
/// Phrases of a question that asks for approval, by language.
const PERMISSIONS: &str = include_str!("permissions.txt");

/// Maximum sentences of a proposal.
const MAX_SENTENCES: usize = 16;
/// Maximum sentences in front of the question, in a message without a marked proposal.
const MAX_UNMARKED: usize = 6;

/// Returns the sentences of `agent_text` that state its proposal; none if the message proposes nothing.
pub(crate) fn proposal(agent_text: &str) -> Vec<&str> {
    let said = pieces(agent_text)
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Said(text) => Some(text),
            Piece::Shown(_) => None,
        });
    let all: Vec<Sentence<'_>> = said.flat_map(split).collect();
    let question = all.iter().rposition(|it| asks(it.text));
    let end = question.unwrap_or(all.len());
    let body = all.get(..end).unwrap_or_default();
    let from = body.len().saturating_sub(MAX_SENTENCES);
    let recent = body.get(from..).unwrap_or_default();
    let start = recent.iter().position(|it| proposes(it.text));
    let chosen = match start {
        Some(start) => recent.get(start..),
        None if question.is_some() => {
            let paragraph = recent.last().map(|it| it.paragraph);
            let first = recent.iter().position(|it| Some(it.paragraph) == paragraph);
            let least = recent.len().saturating_sub(MAX_UNMARKED);
            recent.get(first.unwrap_or_default().max(least)..)
        }
        None => None,
    };
    chosen
        .unwrap_or_default()
        .iter()
        .map(|it| it.text)
        .collect()
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
