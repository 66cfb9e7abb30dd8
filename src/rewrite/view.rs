//! How a conversation is forwarded: what stands for which of its messages.

use super::conversation::Conversation;
use super::cut_point::Kept;
use super::images;
use super::pace::Pace;
use super::placeholder::StandIn;
use super::placement::{self, Placement};
use super::plan::{Cut, Plan};
use super::prune::Fold;
use super::record::{Clip, Record};
use super::tokens::Tokens;
use super::wording;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a conversation is forwarded.
#[derive(Clone, Debug)]
pub struct View {
    kept: Kept,
    covers: usize,
    text: Option<Arc<str>>,
    placement: Placement,
    cleared: Vec<Cleared>,
    cleared_before: usize,
    clips: Vec<Clip>,
    images_before: usize,
    output: Option<Tokens>,
    pace: Pace,
}

#[derive(Clone, Debug)]
struct Cleared {
    at: usize,
    placeholder: StandIn,
    frees: Tokens,
}

impl View {
    /// A view in which only results are cleared, as `fold` says.
    pub fn new(kept: Kept, fold: &Fold) -> Self {
        let mut view = Self {
            kept,
            covers: kept.end,
            text: None,
            placement: Placement::default(),
            cleared: Vec::new(),
            cleared_before: 0,
            clips: Vec::new(),
            images_before: 0,
            output: None,
            pace: Pace::default(),
        };
        view.clear(fold);
        view
    }

    /// What stands for history goes there.
    #[must_use]
    pub fn placing(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// The same with what stands for history in the user messages beside it; none where nothing does,
    /// or neither message beside it takes it in.
    pub fn merged(&self, conversation: &Conversation<'_>) -> Option<Self> {
        let view = self.clone().placing(Placement::Merged);
        let beside = [self.kept.end.checked_sub(1), Some(self.covers)];
        let mut beside = beside.into_iter().flatten();
        let takes = beside.any(|at| view.merges(conversation, at));
        takes.then_some(view)
    }

    /// With what `record` did: its summary, its clips, its images.
    #[must_use]
    pub fn after(mut self, record: &Record) -> Self {
        if let Some(text) = &record.text {
            self.kept = Kept {
                end: record.history_from,
            };
            self.cover(record.compacted_message_count, Arc::clone(text));
        }
        self.clips.clone_from(&record.clips);
        self.images_before = record.images_before;
        self.pace = record.pace;
        self
    }

    /// How fast the conversation fills.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// From here on it fills at this pace.
    pub(super) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Takes over what `fold` has cleared.
    pub fn clear(&mut self, fold: &Fold) {
        self.cleared_before = fold.cleared_before();
        self.cleared = fold
            .cleared()
            .map(|result| Cleared {
                at: result.message,
                placeholder: result.placeholder.clone(),
                frees: result.frees,
            })
            .collect();
    }

    /// `text` stands for the messages from the kept front up to `upto`.
    pub fn cover(&mut self, upto: usize, text: Arc<str>) {
        self.covers = upto.max(self.kept.end);
        self.text = Some(text);
    }

    /// Shortens results in place; earlier clips of them give way.
    pub fn clip(&mut self, clips: impl IntoIterator<Item = Clip>) {
        let mut all = self.clips_by_message();
        all.extend(clips.into_iter().map(|clip| (clip.message, clip)));
        self.clips = all.into_values().collect();
    }

    /// The clips, each under its message.
    pub(super) fn clips_by_message(&self) -> BTreeMap<usize, Clip> {
        let clips = self.clips.iter();
        clips.map(|clip| (clip.message, *clip)).collect()
    }

    /// Replaces the images before `message` by markers.
    pub fn drop_images_before(&mut self, message: usize) {
        self.images_before = self.images_before.max(message);
    }

    /// Lowers what the request asks for as output.
    pub fn ask_for(&mut self, output: Tokens) {
        self.output = Some(output);
    }

    /// Messages before this one are stood for by a summary, or kept for good.
    pub fn covers(&self) -> usize {
        self.covers
    }

    /// Whether a summary stands in it.
    pub fn is_summarised(&self) -> bool {
        self.text.is_some()
    }

    /// The plain estimate of the summary that stands in it, if one does.
    pub fn summary_tokens(&self) -> Option<Tokens> {
        self.text.as_deref().map(Tokens::of_text)
    }

    /// Whether any result is cleared that still stands.
    pub fn is_pruned(&self) -> bool {
        self.cleared.iter().any(|cleared| cleared.at >= self.covers)
    }

    /// How many results that still stand are cleared, and what that saves.
    pub fn pruned(&self) -> (usize, Tokens) {
        let standing = self
            .cleared
            .iter()
            .filter(|cleared| cleared.at >= self.covers);
        standing.fold((0, Tokens::ZERO), |(count, frees), cleared| {
            (count + 1, frees + cleared.frees)
        })
    }

    /// Whether a marker stands for any image.
    pub fn drops_images(&self, conversation: &Conversation<'_>) -> bool {
        self.dropped_images(conversation).next().is_some()
    }

    /// The plain estimate of what it costs.
    pub fn tokens(&self, conversation: &Conversation<'_>) -> Tokens {
        let messages = conversation.messages().len();
        let mut tokens = conversation.envelope().tools
            + conversation.tokens_of(0..self.kept.end)
            + self.summary_tokens().unwrap_or_default()
            + conversation.tokens_of(self.covers..messages)
            - self.pruned().1;
        for clip in self.live_clips() {
            let text = conversation
                .message(clip.message)
                .map(|message| message.text_tokens);
            tokens -= clip.saves(text.unwrap_or_default());
        }
        tokens
            - self
                .dropped_images(conversation)
                .map(|(.., saves)| saves)
                .sum()
    }

    /// The cuts that make it, or none if it is the conversation as it came.
    pub fn plan(&self, conversation: &Conversation<'_>) -> Option<Plan> {
        let mut cuts: Vec<Cut> = Vec::new();
        if let Some(text) = &self.text
            && self.covers > self.kept.end
        {
            cuts.push(Cut::History {
                from: self.kept.end,
                to: self.covers,
                text: Arc::clone(text),
                placement: self.placement,
            });
        }
        for cleared in &self.cleared {
            if cleared.at >= self.covers
                && let Some(message) = conversation.message(cleared.at)
            {
                cuts.push(Cut::Result {
                    at: cleared.at,
                    text: cleared.placeholder.words(conversation, message),
                });
            }
        }
        for clip in self.live_clips() {
            if let Some(message) = conversation.message(clip.message) {
                let text = conversation.text(message);
                let text = wording::clip(&text, clip.head, clip.tail);
                cuts.push(Cut::Result {
                    at: clip.message,
                    text: Cow::Owned(text.into_owned()),
                });
            }
        }
        let dropped = self.dropped_images(conversation);
        cuts.extend(dropped.map(|(at, part, _)| Cut::Image { at, part }));
        cuts.sort_by_key(Cut::place);
        if let Some(tokens) = self.output {
            cuts.push(Cut::Output { tokens });
        }
        (!cuts.is_empty()).then(|| Plan::new(cuts))
    }

    /// What of it is worth keeping, once a request that used it was accepted.
    pub fn record(&self, conversation: &Conversation<'_>) -> Record {
        Record {
            text: self.text.clone(),
            head: conversation.head(),
            history_from: self.kept.end,
            compacted_message_count: self.covers,
            cleared_before: self.cleared_before,
            clips: self.live_clips().copied().collect(),
            images_before: self.images_before,
            pace: self.pace,
            ..Record::default()
        }
    }

    /// The shortest prefix that holds all that this view changes.
    pub fn reaches(&self) -> usize {
        let clips = self
            .clips
            .iter()
            .map(|clip| clip.message + 1)
            .max()
            .unwrap_or_default();
        let cleared = self
            .cleared
            .iter()
            .map(|cleared| cleared.at + 1)
            .max()
            .unwrap_or_default();
        self.covers.max(cleared).max(clips).max(self.images_before)
    }

    /// Whether the result at `message` is cleared.
    pub(super) fn clears(&self, message: usize) -> bool {
        self.cleared
            .binary_search_by_key(&message, |cleared| cleared.at)
            .is_ok()
    }

    /// Whether the result at `message` is cleared or behind what stands for history.
    pub(super) fn forgets(&self, message: usize) -> bool {
        let covered = self.text.is_some() && (self.kept.end..self.covers).contains(&message);
        covered || self.clears(message)
    }

    /// The clips that show: a result that was cleared since then is no longer there to be clipped.
    fn live_clips(&self) -> impl Iterator<Item = &Clip> {
        self.clips
            .iter()
            .filter(|clip| clip.message >= self.covers && !self.clears(clip.message))
    }

    /// Whether the content of the result at `at` is replaced as a whole.
    fn replaces(&self, at: usize) -> bool {
        self.clears(at) || self.clips.iter().any(|clip| clip.message == at)
    }

    /// Whether the message at `at` is rewritten already, to take in what stands for history.
    fn merges(&self, conversation: &Conversation<'_>, at: usize) -> bool {
        let (from, to) = (self.kept.end, self.covers);
        self.placement == Placement::Merged
            && self.text.is_some()
            && placement::takes_in(conversation, from, to, at)
    }

    /// The images that markers stand for: each with its message, its part of that, and what goes.
    fn dropped_images<'c>(
        &'c self,
        conversation: &'c Conversation<'_>,
    ) -> impl Iterator<Item = (usize, usize, Tokens)> + 'c {
        let standing = self.covers..self.images_before.max(self.covers);
        (0..self.kept.end.min(self.images_before))
            .chain(standing)
            .filter_map(|at| Some((at, conversation.message(at)?)))
            .filter(move |&(at, message)| {
                !message.role.instructs() && !self.replaces(at) && !self.merges(conversation, at)
            })
            .flat_map(move |(at, message)| {
                let images = images::of(conversation, message);
                images.map(move |(part, saves)| (at, part, saves))
            })
    }
}

#[cfg(test)]
mod tests;
