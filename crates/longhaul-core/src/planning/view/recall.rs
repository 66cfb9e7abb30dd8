//! Lines of a view by which an agent reads originals, and the originals that they name.

use super::ForwardedView;
use crate::conversation::{Conversation, Message};
use crate::policy::record::Clip;
use crate::policy::segments::SegmentedText;
use crate::pruning::placeholder::is_shorter;
use crate::text::wording;
use crate::units::recall_id::RecallId;
use std::ops::Range;

/// A part of a conversation that a view replaces, and that an agent can read by an ID.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Recallable {
    /// The messages that a segment replaces.
    History(Range<usize>),
    /// The result in the message at this index.
    Result(usize),
}

impl ForwardedView {
    pub(super) fn clipped_text(
        &self,
        conversation: &Conversation<'_>,
        message: &Message,
        clip: &Clip,
    ) -> String {
        let text = conversation.text(message);
        let Some(link) = &self.recall else {
            return wording::clip(&text, clip.head, clip.tail).into_owned();
        };
        // A text that was clipped before keeps its own line.
        let (inner, line) = wording::split_recall_line(&text);
        let clipped = wording::clip(inner, clip.head, clip.tail);
        if clipped == inner && line.is_some() {
            return text.into_owned();
        }
        let line = link.line(link.result_id(&conversation.text_hash(message)));
        let with_line = [&*clipped, "\n", &line].concat();
        if is_shorter(conversation, message, &with_line) {
            with_line
        } else {
            wording::clip(&text, clip.head, clip.tail).into_owned()
        }
    }

    /// Returns `text` with the lines by which an agent reads the history that each segment replaces.
    pub(super) fn with_lines(&self, text: &SegmentedText) -> SegmentedText {
        let Some(link) = &self.recall else {
            return text.clone();
        };
        let covered = self.pinned_head.end..self.summarised_until;
        text.clone()
            .with_recall_lines(covered, |from, to| Some(link.line(link.segment_id(from, to)?)))
    }

    /// Returns the originals that the view replaces, each with its ID. Empty without recall.
    pub fn recallable(&self, conversation: &Conversation<'_>) -> Vec<(RecallId, Recallable)> {
        let Some(link) = &self.recall else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if let Some(text) = self.text.as_ref()
            && self.summarised_until > self.pinned_head.end
        {
            let mut from = self.pinned_head.end;
            let whole = [self.summarised_until];
            let ends = text.segments().iter().map(|segment| segment.until);
            let whole = whole.into_iter().filter(|_| text.segments().is_empty());
            for until in ends.chain(whole) {
                let id = link.segment_id(from, until);
                found.extend(id.map(|id| (id, Recallable::History(from..until))));
                from = until;
            }
        }
        let cleared = self.cleared.iter().map(|cleared| cleared.message);
        let cleared = cleared.filter(|&at| at >= self.summarised_until);
        let clipped = self.visible_clips().map(|clip| clip.message);
        // The unit of such a result has the arguments whole.
        let calls = self.visible_call_clips().map(|(result, _)| *result);
        let calls = calls.filter(|at| !self.replaces_content(*at));
        for at in cleared.chain(clipped).chain(calls) {
            if let Some(message) = conversation.message(at) {
                let id = link.result_id(&conversation.text_hash(message));
                found.push((id, Recallable::Result(at)));
            }
        }
        found
    }
}
