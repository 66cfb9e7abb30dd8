//! One index of several segments. An identifier keeps the score that it had when the texts of its own
//! segment were at hand.
//!
//! Each line of an index is divided into tiers of falling scores, each closed by a [`TIER_END`]. A number after
//! it counts the tiers that end there, if others are empty. A merge reads the scores from the lines.

use crate::identifiers::identifier_index::IdentifierIndex;
use crate::identifiers::rank::{IdentifierSource, IdentifierStats, TIERS, score_in_tier, tier};
use crate::identifiers::selection::Pass;
use crate::identifiers::{ORIGINS, lexer, render_passes};
use crate::units::tokens::Tokens;
use std::fmt::Write as _;

/// Share of the space for distinctive identifiers after one compaction, in percent, and points added for
/// each doubling. Identifiers of work long ago are seldom needed again.
const DISTINCTIVE_PERCENT: usize = 30;
const DISTINCTIVE_STEP: usize = 10;
const MAX_DISTINCTIVE_PERCENT: usize = 90;
/// Part of the share that belongs to identifiers that someone has named, in percent.
const NAMED_PERCENT: usize = 50;

/// Ends a tier in a line of an index.
const TIER_END: char = ';';
/// Maximum characters of all tiers' ends in a line. A number takes no more than the ends that it stands for.
pub(super) const TIER_CHARS: usize = TIERS;

/// Sections of a segment, for [`merge_indexes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentWords<'t> {
    /// Number of compactions that the segment stands for.
    pub(crate) compactions: u32,
    pub(crate) user: &'t str,
    /// The words of the model.
    pub(crate) prose: &'t str,
    /// Everything else but the index.
    pub(crate) others: &'t str,
    pub(crate) index: &'t str,
}

/// Returns one index of several segments, oldest first, at most `budget` tokens. All identifiers of
/// the segments are ranked together. Those in `present` are left out.
pub(crate) fn merge_indexes(
    segments: &[SegmentWords<'_>],
    present: &str,
    budget: Tokens,
) -> String {
    let mut all = IdentifierIndex::default();
    for (at, segment) in segments.iter().enumerate().rev() {
        for (text, entry) in scored(segment, at) {
            all.add_entry(&text, entry);
        }
    }
    all.exclude(present);
    let compactions: u32 = segments.iter().map(|it| it.compactions).sum();
    let doublings = compactions.max(1).ilog2() as usize;
    let distinctive = DISTINCTIVE_PERCENT + DISTINCTIVE_STEP * doublings;
    let distinctive = distinctive.min(MAX_DISTINCTIVE_PERCENT);
    let named = distinctive * NAMED_PERCENT / 100;
    let passes = [
        Pass::Named(named),
        Pass::FromResults(distinctive - named),
        Pass::WorkingSet,
        Pass::Rest,
    ];
    render_passes(
        &all,
        &(0..segments.len()),
        &passes,
        budget,
        IdentifierStats::frozen_score,
    )
}

/// Returns the identifiers of a segment with their scores: those of its texts, and those that its index
/// has kept.
fn scored(segment: &SegmentWords<'_>, at: usize) -> Vec<(Box<str>, IdentifierStats)> {
    let mut texts = IdentifierIndex::default();
    texts.add_text(segment.user, IdentifierSource::User, at);
    texts.add_text(segment.prose, IdentifierSource::Assistant, at);
    texts.add_text(segment.others, IdentifierSource::Call, at);
    let mut scored = texts.into_scored();
    for line in segment.index.lines() {
        let label = ORIGINS.iter().find(|(label, _)| line.starts_with(label));
        if let Some((label, source)) = label {
            let words = line.get(label.len()..).unwrap_or_default();
            scored.extend(from_tiers(words, *source, at));
        }
    }
    scored
}

/// Reads the output of [`tiered`].
fn from_tiers(line: &str, source: IdentifierSource, at: usize) -> Vec<(Box<str>, IdentifierStats)> {
    let mut found: Vec<(usize, Box<str>, IdentifierStats)> = Vec::new();
    let (mut tier, mut read) = (0, 0);
    lexer::for_each_identifier(line, |word| {
        let rest = line.get(read..).unwrap_or_default();
        let Some(start) = position_in(rest, word.text) else {
            return;
        };
        let end = start + word.text.len();
        if is_count(rest.get(..end).unwrap_or_default()) {
            return;
        }
        tier += ended_tiers(rest.get(..start).unwrap_or_default());
        read += end;
        let mut entry = IdentifierStats::new(word, source, at);
        entry.only_in_results = source == IdentifierSource::Result;
        found.push((tier, word.text.into(), entry));
    });
    let mut scored = Vec::with_capacity(found.len());
    for tier in found.chunk_by_mut(|one, other| one.0 == other.0) {
        let count = tier.len() as u64;
        for (position, (tier, text, entry)) in (0..).zip(tier) {
            entry.frozen = score_in_tier(*tier, position, count);
            scored.push((std::mem::take(text), entry.clone()));
        }
    }
    scored
}

/// Returns the first position of `word` in `text`. Most words follow a space.
fn position_in(text: &str, word: &str) -> Option<usize> {
    let at_front = || (0..2).find(|&at| text.get(at..).is_some_and(|text| text.starts_with(word)));
    at_front().or_else(|| text.find(word))
}

/// Whether `text` ends with the number of a [`TIER_END`]. A word follows a space.
fn is_count(text: &str) -> bool {
    let number = text.rsplit_once(TIER_END).map(|(_, number)| number);
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the number of tiers that end in `text`, which stands between two words.
fn ended_tiers(text: &str) -> usize {
    let ends = text.split(TIER_END).skip(1);
    let counts = ends.map(|behind| {
        let number = behind.split(' ').next().unwrap_or_default();
        number.parse().unwrap_or(1)
    });
    counts.fold(0, |sum: usize, count| sum.saturating_add(count).min(TIERS))
}

/// Renders identifiers with their scores, the highest first, in tiers.
pub(super) fn tiered<'t>(words: impl Iterator<Item = (u64, &'t str)>) -> String {
    let (mut line, mut open) = (String::new(), 0);
    for (score, word) in words {
        let tier = tier(score);
        match tier - open {
            0 => {}
            1 => line.push(TIER_END),
            ended => _ = write!(line, "{TIER_END}{ended}"),
        }
        if !line.is_empty() {
            line.push(' ');
        }
        open = tier;
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that words with these scores give `line`, and that a merge reads their tiers from the line.
    fn check(words: &[(usize, &str)], line: &str) {
        let scored = words
            .iter()
            .map(|(tier, word)| (score_in_tier(*tier, 0, 1), *word));
        let rendered = tiered(scored);
        assert_eq!(rendered, line);
        let read = from_tiers(line, IdentifierSource::Result, 0);
        let read = read
            .iter()
            .map(|(text, entry)| (tier(entry.frozen), &**text));
        assert_eq!(read.collect::<Vec<_>>(), words, "{line}");
        assert!(!rendered.contains(";;"));
    }

    #[test]
    fn a_line_has_one_mark_between_the_words_of_two_tiers() {
        check(&[(0, "QX-1"), (0, "src/a.rs")], "QX-1 src/a.rs");
        check(&[(0, "QX-1"), (1, "src/a.rs")], "QX-1; src/a.rs");
        check(&[(2, "QX-1"), (6, "src/a.rs")], ";2 QX-1;4 src/a.rs");
        check(&[(13, "QX-1")], ";13 QX-1");
        check(&[(3, "port 8080"), (5, "KEY=3")], ";3 port 8080;2 KEY=3");
        check(
            &[(1, "ORDER=\"a;9 b\""), (3, "QX-1")],
            "; ORDER=\"a;9 b\";2 QX-1",
        );
    }

    #[test]
    fn a_forged_count_is_at_most_the_number_of_tiers() {
        for line in [
            ";99 QX-1",
            ";99999999999999999999 QX-1",
            ";;;;;;;;;;;;;;;;;; QX-1",
        ] {
            let read = from_tiers(line, IdentifierSource::User, 0);
            assert_eq!(read.len(), 1, "{line}");
        }
    }
}
