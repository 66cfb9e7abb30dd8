//! Notes on older rules that newer ones certainly replace. Words that were sent stay as they are: a note
//! names the old rule in the section that brings the new one.

use super::RulesAround;
use super::entries::Entry;
use crate::text::wording;
use crate::user_words::{Piece, pieces, replaces, sentences};

/// Maximum sentences that are compared, the newest of each side. Bounds the pairs.
const MAX_SENTENCES: usize = 96;
/// Maximum bytes of such a sentence.
const MAX_BYTES: usize = 400;

/// Returns a note for each older sentence that a newer one replaces. `said` are the new messages, in order.
pub(super) fn notes(said: &[String], around: &RulesAround<'_>) -> Vec<String> {
    let earlier: Vec<Entry> = Entry::parse_section(around.earlier);
    let earlier = earlier.iter().filter_map(Entry::words);
    // The last entry of a section ends at the next heading.
    let earlier = earlier.map(|text| text.split_once("\n\n## ").map_or(text, |(text, _)| text));
    let known: Vec<&str> = earlier.flat_map(of_message).collect();
    let new = said.iter().chain(&around.later);
    let new: Vec<&str> = new.flat_map(|text| of_message(text)).collect();
    let own = said
        .iter()
        .map(|text| of_message(text).len())
        .sum::<usize>();
    let all: Vec<&str> = known.iter().chain(&new).copied().collect();
    let olds = all.len() - new.len() + own;
    let mut notes = Vec::new();
    for (at, old) in all
        .iter()
        .enumerate()
        .take(olds)
        .skip(olds.saturating_sub(MAX_SENTENCES))
    {
        let newer = all.iter().skip(at + 1).rev().take(MAX_SENTENCES);
        let mut newer = newer.filter(|_| at < all.len());
        let Some(new) = newer.find(|new| *new != old && replaces(new, old)) else {
            continue;
        };
        let note = format!("{}{}", replaced(old), quoted(new));
        if !around.earlier.contains(&*replaced(old)) && !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Returns the beginning of a note, which names the old rule.
fn replaced(old: &str) -> String {
    format!("{} is replaced by ", quoted(old))
}

/// Returns `sentence` on one line, in quotation marks.
fn quoted(sentence: &str) -> String {
    let line = wording::one_line(sentence, MAX_BYTES);
    format!("\"{}\"", line.replace('"', "'"))
}

/// Returns the sentences of a message that the user says, without shown material.
fn of_message(text: &str) -> Vec<&str> {
    let said = pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Said(said) => Some(said),
        Piece::Shown(_) => None,
    });
    let all = said.flat_map(sentences);
    all.filter(|sentence| sentence.len() <= MAX_BYTES).collect()
}
