//! Marks by which a sentence states a rule.

use super::phrases::{Phrases, fold, lines};
use crate::collections::StaticSet;
use std::ops::Range;
use std::sync::LazyLock;

/// Marks of a rule, by language.
pub(super) const MARKS: [&str; 17] = texts!("marks/":
    "en" "de" "fr" "es" "pt" "it" "nl" "pl" "ru" "uk" "zh" "ja" "ko" "ar" "hi" "tr" "more"
);
/// Words that look like a mark and state no rule.
pub(super) const NARRATION: &str = include_str!("narration.txt");
/// Words in front of an imperative, such as `please`.
pub(super) const LEAD_INS: &str = include_str!("lead_ins.txt");
/// Openings of questions that ask the agent to do something.
pub(super) const REQUESTS: &str = include_str!("requests.txt");

/// Maximum characters of a sentence that states a rule. A longer one is a text without sentence ends.
const MAX_RULE_CHARS: usize = 600;

/// Whether `sentence` bears a mark of a rule: an order, a prohibition, a limit or a wish for all time.
///
/// A question is no rule, except a request such as `can you please`. A sentence of more than 600
/// characters is none either.
pub(crate) fn has_rule_mark(sentence: &str) -> bool {
    static PHRASES: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&MARKS));
    static OTHERS: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[NARRATION]));
    if sentence.chars().nth(MAX_RULE_CHARS).is_some() {
        return false;
    }
    let folded = without_lead_ins(&fold(sentence));
    let others: Vec<Range<usize>> = OTHERS.matches(&folded).collect();
    // Neighbours share the space between them.
    let is_other = |mark: &Range<usize>| {
        let mut others = others.iter();
        others.any(|it| it.start + 1 < mark.end && mark.start + 1 < it.end)
    };
    PHRASES.matches(&folded).any(|mark| !is_other(&mark))
        && (!is_question(sentence) || is_request(&folded))
}

/// Whether `sentence` ends with a question mark.
pub(super) fn is_question(sentence: &str) -> bool {
    let end = sentence.trim_end_matches(|c: char| c.is_whitespace() || "\"'”»)`*_!".contains(c));
    end.ends_with(['?', '？', '؟'])
}

fn is_request(folded: &str) -> bool {
    static PHRASES: LazyLock<Phrases> = LazyLock::new(|| Phrases::new(&[REQUESTS]));
    PHRASES.are_in(folded)
}

/// Returns a folded text without the words in front of the imperatives of its clauses.
fn without_lead_ins(folded: &str) -> String {
    static WORDS: LazyLock<StaticSet<&str>> = LazyLock::new(|| lines(LEAD_INS).collect());
    let mut out = String::new();
    for word in folded.split(' ') {
        if !(out.ends_with("^ ") && WORDS.contains(word)) {
            out.extend([word, " "]);
        }
    }
    out
}
