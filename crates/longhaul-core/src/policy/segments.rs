//! Replacement text as frozen segments: each compaction adds one after the others, whose bytes stay.

use super::standing_words::StandingWords;
use crate::text::wording;
use crate::units::tokens::Tokens;
use serde::{Deserialize, Serialize};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A segment of a replacement text.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// End of the segment in the text, in bytes.
    pub end: usize,
    /// The segment covers the messages before this index that no earlier segment covers.
    pub until: usize,
    /// Compactions whose segments this one holds: more than one after a merge.
    pub compactions: u32,
}

/// Form in which the segments are sent. A record keeps its form, so that its bytes stay.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum SegmentForm {
    /// A content part each: for providers that cache up to a mark on a part.
    Parts,
    /// One string: for providers that cache every prefix of the tokens, and for those that take no
    /// parts.
    #[default]
    Text,
}

impl SegmentForm {
    /// Whether the form is [`SegmentForm::Text`], which records leave out.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn is_text(&self) -> bool {
        *self == Self::Text
    }
}

/// A segment outside its text.
#[derive(Clone, Debug)]
pub(crate) struct LooseSegment {
    /// The words of the segment, without separators and frame.
    pub(crate) text: String,
    /// See [`Segment::until`].
    pub(crate) until: usize,
    /// See [`Segment::compactions`].
    pub(crate) compactions: u32,
}

/// The whole replacement text, with the ends of its segments.
///
/// Invariant: the ends ascend and lie on character boundaries. A text without ends is one segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SegmentedText {
    text: Arc<str>,
    segments: Vec<Segment>,
    form: SegmentForm,
    /// Whether longhaul may add a cache mark after the last segment.
    may_add_mark: bool,
}

impl SegmentedText {
    /// Joins segments, in order, in the frame that describes the text to the model.
    pub(crate) fn join(segments: &[LooseSegment], form: SegmentForm) -> Self {
        let (mut text, mut ends) = (wording::summary_start(), Vec::new());
        for segment in segments {
            text.push_str(SEPARATOR);
            text.push_str(&wording::without_marks(&segment.text));
            ends.push(Segment {
                end: text.len(),
                until: segment.until,
                compactions: segment.compactions,
            });
        }
        text.push_str(&wording::summary_end());
        Self { segments: ends, form, ..text.into() }
    }

    /// Restores the text of a record. Ends that do not fit the text are dropped: the text is then one
    /// segment.
    pub(super) fn from_record(text: Arc<str>, segments: &[Segment], form: SegmentForm) -> Self {
        let mut start = 0;
        let fits = segments.iter().all(|segment| {
            let is_sound = segment.end > start && text.is_char_boundary(segment.end);
            start = segment.end;
            is_sound
        });
        let segments = if fits { segments.to_vec() } else { Vec::new() };
        Self { segments, form, ..text.into() }
    }

    /// Returns the whole text.
    pub fn as_arc(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the ends of the segments. Empty for a text of a single segment that records no end.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Allows or forbids a cache mark of longhaul's own after the last segment.
    #[must_use]
    pub(crate) fn with_added_mark(mut self, may_add_mark: bool) -> Self {
        self.may_add_mark = may_add_mark;
        self
    }

    /// Whether longhaul may add a cache mark after the last segment. Only parts can carry a mark.
    pub(crate) fn may_add_mark(&self) -> bool {
        self.may_add_mark && self.form == SegmentForm::Parts
    }

    /// Adds a line after each segment: `line` returns the line for the history from one message up to
    /// another. `covered` is the history of the whole text.
    #[must_use]
    pub(crate) fn with_recall_lines(
        self,
        covered: Range<usize>,
        line: impl Fn(usize, usize) -> Option<String>,
    ) -> Self {
        let whole = [Segment {
            end: self.text.strip_suffix(&*wording::summary_end()).unwrap_or(&self.text).len(),
            until: covered.end,
            compactions: 1,
        }];
        let is_whole = self.segments.is_empty();
        let segments = if is_whole { &whole[..] } else { &self.segments };
        let (mut text, mut ends) = (String::new(), Vec::with_capacity(segments.len()));
        let mut from = covered.start;
        for (piece, segment) in cut(&self.text, segments) {
            text.push_str(piece);
            if let Some(line) = line(from, segment.until) {
                text.extend([SEPARATOR, &line]);
            }
            ends.push(Segment { end: text.len(), ..*segment });
            from = segment.until;
        }
        text.push_str(rest(&self.text, segments));
        Self { text: text.into(), segments: if is_whole { Vec::new() } else { ends }, ..self }
    }

    /// Returns the form in which the text is sent.
    pub fn form(&self) -> SegmentForm {
        self.form
    }

    /// Takes the segments out of the text, which covers the messages before `until`.
    pub(crate) fn loose(&self, until: usize) -> Vec<LooseSegment> {
        if self.segments.is_empty() {
            return vec![LooseSegment {
                text: wording::unwrap_summary(&self.text).to_owned(),
                until,
                compactions: 1,
            }];
        }
        let start = wording::summary_start();
        let segments = self.pieces_of_segments().map(|(text, segment)| {
            let text = text.strip_prefix(&*start).unwrap_or(text);
            LooseSegment {
                text: text.strip_prefix(SEPARATOR).unwrap_or(text).to_owned(),
                until: segment.until,
                compactions: segment.compactions,
            }
        });
        segments.collect()
    }

    /// Returns the pieces to send: the frame and the first segment, each further segment, and the end
    /// of the frame. Joined, they are the text. In the form of one string there is one piece.
    pub(crate) fn pieces(&self) -> Vec<&str> {
        if self.form == SegmentForm::Text || self.segments.is_empty() {
            return vec![&self.text];
        }
        let pieces = self.pieces_of_segments().map(|(piece, _)| piece);
        let pieces = pieces.chain([rest(&self.text, &self.segments)]);
        pieces.filter(|piece| !piece.is_empty()).collect()
    }

    /// Returns the plain estimate of the text without its frame.
    pub(crate) fn tokens_in_segments(&self) -> Tokens {
        Tokens::estimate_text(&self.text) - Tokens::estimate_text(&wording::wrap_summary(""))
    }

    /// Returns the text up to the end of each segment, from the end of the one before.
    pub(crate) fn pieces_of_segments(&self) -> impl Iterator<Item = (&str, &Segment)> {
        cut(&self.text, &self.segments)
    }
}

/// Cuts `text` at the ends of `segments`.
fn cut<'t>(text: &'t str, segments: &'t [Segment]) -> impl Iterator<Item = (&'t str, &'t Segment)> {
    let starts = std::iter::once(0).chain(segments.iter().map(|segment| segment.end));
    let pieces = starts.zip(segments);
    pieces.map(|(start, it)| (text.get(start..it.end).unwrap_or_default(), it))
}

/// Returns what follows the last of `segments`.
fn rest<'t>(text: &'t str, segments: &[Segment]) -> &'t str {
    text.get(segments.last().map_or(0, |last| last.end)..).unwrap_or_default()
}

/// Place of a compaction in a conversation.
#[derive(Clone, Debug)]
pub struct SegmentPlace<'t> {
    /// Text of the earlier compactions, if any, and the end of the history that it covers.
    pub earlier: Option<(&'t SegmentedText, usize)>,
    /// History that the text covers from now on.
    pub covered: Range<usize>,
    /// Messages after the covered history that stay as long as the text.
    pub retained: Range<usize>,
    /// End of the messages in which a newer rule may replace an older one.
    pub said_until: usize,
    /// Words that stay by a setting or a wish.
    pub words: &'t StandingWords,
}

impl SegmentPlace<'_> {
    /// Returns the messages that no earlier segment covers.
    pub fn part(&self) -> Range<usize> {
        let earlier = self.earlier.map(|(_, until)| until);
        earlier.unwrap_or(self.covered.start)..self.covered.end
    }
}

/// Stands before each segment.
const SEPARATOR: &str = "\n\n";

impl Deref for SegmentedText {
    type Target = str;
    fn deref(&self) -> &str {
        &self.text
    }
}

impl<T: Into<Arc<str>>> From<T> for SegmentedText {
    /// Takes `text` as a single segment in the form of one string.
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            segments: Vec::new(),
            form: SegmentForm::default(),
            may_add_mark: false,
        }
    }
}

#[cfg(test)]
mod tests;
