//! Selection of the identifiers that a list contains.

use crate::identifiers::rank::IdentifierStats;
use crate::units::tokens::Tokens;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Percentage of the space for distinctive identifiers before the working set is considered.
/// A frozen segment has a small index, and its facts have no other place: with 15, facts of results were lost.
const DISTINCTIVE_PERCENT: usize = 30;
/// Percentage points added for each doubling of the history beyond [`BASE_RATIO`].
const DISTINCTIVE_STEP: usize = 6;
/// History length, in multiples of the budget, from which the distinctive share grows.
const BASE_RATIO: usize = 4;
/// Upper limit of the distinctive share, in per cent.
const MAX_DISTINCTIVE_PERCENT: usize = 70;
/// Minimum space, in characters, for trying another identifier.
const MIN_CHARS: usize = 4;
/// Misfits after which a pass drops all identifiers that no longer fit.
const MAX_MISFITS: usize = 16;

/// Scores an identifier of a length.
pub(super) type Score = fn(&IdentifierStats, usize) -> u64;

/// A pass over the identifiers that are not chosen yet, best first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pass {
    /// Distinctive identifiers, up to a share of all space in percent.
    Distinctive(usize),
    /// Distinctive ones that only results have named, up to such a share.
    FromResults(usize),
    /// Distinctive ones that someone has named, up to such a share.
    Named(usize),
    /// Distinctive ones, while space is left.
    Rest,
    /// The working set, while space is left.
    WorkingSet,
}

/// Returns the passes over the identifiers of `history` tokens.
pub(super) fn passes(history: Tokens, budget: Tokens) -> [Pass; 3] {
    let distinctive = distinctive_percent(history, budget);
    [Pass::Distinctive(distinctive), Pass::WorkingSet, Pass::Rest]
}

/// Returns the share of distinctive identifiers, in per cent.
fn distinctive_percent(history: Tokens, budget: Tokens) -> usize {
    let times = history.to_chars() / (BASE_RATIO * budget.to_chars()).max(1);
    let doublings = times.max(1).ilog2() as usize;
    (DISTINCTIVE_PERCENT + DISTINCTIVE_STEP * doublings).min(MAX_DISTINCTIVE_PERCENT)
}

/// An identifier in a pass, in the order of scores and then of texts. The number is that of the candidate.
type Ranked<'t> = (u64, Reverse<&'t str>, usize);

/// Selects identifiers in passes.
pub(super) fn select<'t>(
    candidates: &[(&'t str, &'t IdentifierStats)],
    covered: &Range<usize>,
    max_chars: usize,
    passes: &[Pass],
    distinctive: Score,
) -> Vec<(&'t str, &'t IdentifierStats)> {
    let scores: Vec<u64> = candidates
        .iter()
        .map(|(text, entry)| distinctive(entry, text.len()))
        .collect();
    let mut is_chosen = vec![false; candidates.len()];
    let mut chosen = Vec::new();
    let mut left = max_chars;
    for &pass in passes {
        let share = match pass {
            Pass::Distinctive(percent) | Pass::FromResults(percent) | Pass::Named(percent) => {
                max_chars * percent / 100
            }
            Pass::Rest | Pass::WorkingSet => max_chars,
        };
        let floor = left.saturating_sub(share);
        let numbered = candidates.iter().zip(&scores).zip(&is_chosen).zip(0..);
        let ranked = numbered.filter_map(|(((&(text, entry), &score), is_chosen), number)| {
            let is_free = !is_chosen && pass.is_for(entry);
            is_free.then(|| {
                let age = covered.end.saturating_sub(entry.newest_message + 1);
                let score = match pass {
                    Pass::WorkingSet => entry.working_set_score(text.len(), age, covered.len()),
                    Pass::Distinctive(_) | Pass::FromResults(_) | Pass::Named(_) | Pass::Rest => {
                        score
                    }
                };
                (score, Reverse(text), number)
            })
        });
        let mut best = best(ranked.collect(), max_chars);
        let mut misfits = 0;
        while left >= floor + MIN_CHARS
            && let Some((_, Reverse(text), number)) = best.pop()
        {
            let cost = text.len() + 1;
            if left >= floor + cost {
                left -= cost;
                chosen.extend(candidates.get(number).copied());
                if let Some(is_chosen) = is_chosen.get_mut(number) {
                    *is_chosen = true;
                }
                continue;
            }
            misfits += 1;
            if misfits >= MAX_MISFITS {
                // Room only shrinks.
                best.retain(|(_, Reverse(text), _)| left > floor + text.len());
                misfits = 0;
            }
        }
    }
    chosen
}

impl Pass {
    fn is_for(self, entry: &IdentifierStats) -> bool {
        match self {
            Self::Distinctive(_) | Self::Rest | Self::WorkingSet => true,
            Self::FromResults(_) => entry.only_in_results,
            Self::Named(_) => !entry.only_in_results,
        }
    }
}

/// Returns the identifiers to try, the best on top. At most half as many fit in `max_chars`, even if all have the
/// shortest length. Identifiers past that point are never tried.
fn best(mut ranked: Vec<Ranked<'_>>, max_chars: usize) -> BinaryHeap<Ranked<'_>> {
    let max_count = 2 * max_chars / MIN_CHARS;
    if ranked.len() > max_count {
        ranked.select_nth_unstable_by(max_count, |one, other| other.cmp(one));
        ranked.truncate(max_count);
    }
    ranked.into()
}
