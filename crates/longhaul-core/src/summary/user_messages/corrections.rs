//! Notes on older rules that newer ones certainly replace. Words that were sent stay as they are: a note
//! names the old rule in the section that brings the new one.

use super::RulesAround;
use super::entries::Entry;
use crate::text::wording;
use crate::user_words::{Piece, RuleWords, has_rule_mark, pieces, sentences};
use std::cell::OnceCell;

/// Maximum sentences that newer ones may replace, the newest. Bounds the pairs.
const MAX_OLDER: usize = 256;
/// Maximum sentences that each is compared with, the newest. Bounds the pairs.
const MAX_NEWER: usize = 96;
/// Maximum bytes of such a sentence.
const MAX_BYTES: usize = 400;
/// Maximum bytes of the newer rule in a note, which the newer value fits.
const MAX_NEW_BYTES: usize = 160;
/// Words between the two rules of a note, with their quotation marks.
pub(super) const IS_REPLACED_BY: &str = "\" is replaced by \"";
/// Maximum notes of one section, the newest.
const MAX_NOTES: usize = 8;
/// Minimum words that two sentences about the same have in common. Words of scripts without spaces do not
/// count.
const MIN_SHARED_WORDS: usize = 2;

/// Returns a note for each older sentence that a newer one replaces. `said` are the new messages, in order.
/// Of two earlier sentences, an earlier section had the note.
pub(super) fn notes(said: &[String], around: &RulesAround<'_>) -> Vec<String> {
    let earlier: Vec<Entry> = Entry::parse_section(around.earlier);
    let earlier = earlier.iter().filter_map(Entry::words);
    // The last entry of a section ends at the next heading.
    let earlier = earlier.map(|text| text.split("\n\n## ").next().unwrap_or_default());
    let head = around.head.iter().map(String::as_str);
    let mut all: Vec<Sentence<'_>> = head.chain(earlier).flat_map(Sentence::all).collect();
    let earlier = all.len();
    let new = said.iter().chain(&around.later);
    all.extend(new.flat_map(|text| Sentence::all(text)));
    let mut notes = Vec::new();
    let oldest = all.len().saturating_sub(MAX_OLDER);
    for (at, old) in all.iter().enumerate().skip(oldest) {
        let newer = all.iter().skip((at + 1).max(earlier)).rev().take(MAX_NEWER);
        let mut replacing = newer.filter(|new| new.replaces(old));
        let note = replacing.next().map(|new| note(old.text, new.text));
        notes.extend(note.filter(|note| !around.earlier.contains(&**note)));
    }
    notes.split_off(notes.len().saturating_sub(MAX_NOTES))
}

fn note(old: &str, new: &str) -> String {
    let quoted = |text, most| wording::one_line(text, most).replace('"', "'");
    ["\"", &quoted(old, MAX_BYTES), IS_REPLACED_BY, &quoted(new, MAX_NEW_BYTES), "\""].concat()
}

/// A sentence of the user, with its words.
struct Sentence<'t> {
    text: &'t str,
    /// Words as they stand, sorted, each once.
    words: Vec<&'t str>,
    rule: OnceCell<RuleWords>,
    is_rule: bool,
}

impl<'t> Sentence<'t> {
    /// Returns the sentences that the user says in a message.
    fn all(text: &'t str) -> Vec<Self> {
        let said = pieces(text).into_iter().filter_map(|piece| match piece {
            Piece::Said(said) => Some(said),
            Piece::Shown(_) => None,
        });
        let all = said.flat_map(with_corrections).filter(|it| it.len() <= MAX_BYTES);
        let sentence = |text: &'t str| {
            let mut words: Vec<&str> = text.split_whitespace().collect();
            words.sort_unstable();
            words.dedup();
            Self { words, rule: OnceCell::new(), is_rule: has_rule_mark(text), text }
        };
        all.map(sentence).collect()
    }

    /// Whether this sentence replaces the older one. At least one of both has the mark of a rule, or this one
    /// corrects.
    fn replaces(&self, old: &Self) -> bool {
        let is_old = |word: &&&str| old.words.binary_search(*word).is_ok();
        let shared = || self.words.iter().filter(is_old).take(MIN_SHARED_WORDS).count();
        self.text != old.text
            && (old.words.len() < MIN_SHARED_WORDS || shared() == MIN_SHARED_WORDS)
            && (self.is_rule || old.is_rule || self.rule().corrects())
            && self.rule().replaces(old.rule())
    }

    fn rule(&self) -> &RuleWords {
        self.rule.get_or_init(|| RuleWords::new(self.text))
    }
}

/// Returns the sentences of `said`. A sentence that only announces a correction begins the next one.
fn with_corrections(said: &str) -> Vec<&str> {
    let mut announced = None;
    let found = sentences(said).into_iter().filter_map(|sentence| {
        let at = sentence.as_ptr().addr() - said.as_ptr().addr();
        let start = announced.take().unwrap_or(at);
        if RuleWords::only_announces(sentence) {
            announced = Some(start);
            return None;
        }
        said.get(start..at + sentence.len())
    });
    found.collect()
}
