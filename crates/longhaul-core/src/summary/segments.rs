//! Frozen segments: a compaction adds a segment for the history that is new, and merges the oldest
//! segments once all of them exceed their budget.
//!
//! The segments of digests are a pure function of the history and the cuts: the fold repeats them
//! without a record. Work is proportional to the new history. A merge reads segments, not history.

mod merge;

use crate::conversation::Conversation;
use crate::conversation::tool_arguments::DecodedCalls;
pub use crate::policy::segments::SegmentPlace;
use crate::policy::segments::{LooseSegment, SegmentForm, SegmentedText};
use crate::policy::{KeptText, SummaryBudgets};
use crate::summary::digest::segment_text;
use crate::summary::user_messages::FirstRequest;
use crate::text::wording;
use crate::units::tokens::Tokens;

/// Share of the budget of all segments for the oldest one after a merge, in percent.
const OLDEST_PERCENT: u32 = 65;
/// Share for the second segment after a merge of later ones. The rest is room for new segments, so that
/// merges are rare.
const LATER_PERCENT: u32 = 15;
/// Share of the budget for the newest segments that a merge does not touch, in percent.
const UNMERGED_PERCENT: u32 = 20;

/// Adds a segment for the new history: the model's `prose` or else a digest, then the generated sections.
/// `budgets` are those of all segments. The estimate is at most [`SummaryBudgets::nominal`] plus the frame. A text
/// that is used later needs a `place` that retains no message: those behind it may be cleared by then.
pub fn with_segment(
    conversation: &Conversation<'_>,
    place: &SegmentPlace<'_>,
    prose: Option<&str>,
    budgets: &SummaryBudgets,
) -> SegmentedText {
    let earlier = place.earlier.map(|(text, _)| text.tokens_in_segments());
    let part = conversation.tokens_of(place.part());
    let own = budgets.of_segment(part, earlier.unwrap_or_default());
    let calls = DecodedCalls::new(conversation, place.part());
    let text = segment_text(&calls, prose, place, &own);
    let (mut segments, form) = match place.earlier {
        Some((earlier, until)) => (earlier.loose(until), earlier.form()),
        // A client that marks parts for the provider's cache has a provider that takes parts.
        None if conversation.has_cache_marks() => (Vec::new(), SegmentForm::Parts),
        None => (Vec::new(), SegmentForm::Text),
    };
    let ordinal = 1 + segments.iter().map(|it| it.compactions).sum::<u32>();
    match segments.last_mut() {
        // No line of a small part of the history fits.
        Some(last) if text.is_empty() => {
            (last.until, last.compactions) = (place.covered.end, last.compactions + 1);
        }
        Some(_) | None => segments.push(LooseSegment {
            text: format!("{}\n{text}", wording::segment_heading(ordinal, ordinal)),
            until: place.covered.end,
            compactions: 1,
        }),
    }
    let segments = within(segments, &place.words.kept, budgets);
    SegmentedText::join(&segments, form)
}

/// Merges segments if all of them exceed the budgets.
///
/// The segments after the oldest are merged until they stand for as many compactions as it. Only then is
/// the oldest merged with them. Its bytes therefore change in geometric steps.
fn within(
    mut segments: Vec<LooseSegment>,
    kept: &[KeptText],
    budgets: &SummaryBudgets,
) -> Vec<LooseSegment> {
    let size = |segments: &[LooseSegment]| {
        let sizes = segments.iter().map(|it| Tokens::estimate_text(&it.text) + GAP);
        sizes.sum::<Tokens>()
    };
    let compactions =
        |segments: &[LooseSegment]| segments.iter().map(|it| it.compactions).sum::<u32>();
    let limit = budgets.nominal();
    if size(&segments) <= limit {
        return segments;
    }
    // The newest segments stay as they are, the very newest in any case.
    let unmerged = (1..segments.len())
        .rev()
        .take_while(|&at| {
            let newest = segments.get(at..).unwrap_or_default();
            at + 1 == segments.len() || size(newest) <= limit.percent(UNMERGED_PERCENT)
        })
        .last()
        .unwrap_or(segments.len());
    let newest = segments.split_off(unmerged);
    let shared = limit - budgets.requests;
    let later = segments.get(1..).unwrap_or_default();
    let oldest = segments.get(..1).unwrap_or_default();
    let fits = size(oldest) + shared.percent(LATER_PERCENT) + size(&newest) <= limit;
    if later.len() > 1 && compactions(later) < compactions(oldest) && fits {
        let later = segments.split_off(1);
        let room = shared.percent(LATER_PERCENT);
        let left = limit - size(&segments) - size(&newest) - room;
        let requests = left.min(budgets.requests.divided_by(2));
        let merged = merge::merge(&later, kept, (requests, room), FirstRequest::Elsewhere);
        segments.push(merged);
    } else {
        let room = shared.percent(OLDEST_PERCENT);
        let requests = (limit - size(&newest) - room).min(budgets.requests);
        let merged = merge::merge(&segments, kept, (requests, room), FirstRequest::Included);
        segments = vec![merged];
    }
    segments.extend(newest);
    segments
}

/// Tokens of the line above a segment.
pub(crate) const HEADING_TOKENS: Tokens = Tokens::new(12);
/// Tokens for the empty line before a segment, and for the rounding of the estimate.
const GAP: Tokens = Tokens::new(2);
