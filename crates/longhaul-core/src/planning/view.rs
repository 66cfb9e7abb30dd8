//! View of a conversation as it is forwarded: which messages are replaced, and by which text.

mod recall;

use crate::conversation::Conversation;
use crate::conversation::images;
use crate::planning::explanation::MessageDecision;
use crate::planning::plan::Replacement;
use crate::policy::Policy;
use crate::policy::cut_point::PinnedHead;
use crate::policy::placement;
use crate::policy::placement::Placement;
use crate::policy::record::{Clip, CompactionRecord, ProviderCompaction, RecordMatch};
use crate::policy::segments::{Segment, SegmentedText};
use crate::policy::thrash::ThrashState;
use crate::pruning::rule::PruneState;
use crate::pruning::tool_result::{CallClip, ClearDecision, ToolResult};
use crate::recall::RecallLink;
use crate::summary::user_messages::user_text;
use crate::units::tokens::Tokens;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub use recall::Recallable;

/// Conversation as it is forwarded.
#[derive(Clone, Debug, Default)]
pub struct ForwardedView {
    pinned_head: PinnedHead,
    summarised_until: usize,
    text: Option<SegmentedText>,
    /// Plain estimate of that text.
    text_tokens: Tokens,
    /// Compaction of the provider, in place of that text.
    provider: Option<ProviderCompaction>,
    placement: Placement,
    /// Whether longhaul may add a cache mark after the replacement text.
    adds_cache_mark: bool,
    cleared: Vec<ToolResult>,
    cleared_before: usize,
    /// Calls whose arguments are clipped, each with the message of its result.
    clipped_calls: Vec<(usize, CallClip)>,
    clips: Vec<Clip>,
    /// Messages in which a client shows pictures of results that left, ascending.
    pictures: Vec<usize>,
    images_before: usize,
    output_limit: Option<Tokens>,
    /// Messages whose bound thinking is removed, ascending and disjoint.
    without_thinking: Vec<Range<usize>>,
    thrash: ThrashState,
    /// Link of the lines by which an agent reads originals.
    recall: Option<Arc<RecallLink>>,
}

impl ForwardedView {
    /// Creates a view in which only tool results are cleared, according to `prune_state`.
    pub fn new(pinned_head: PinnedHead, prune_state: &PruneState) -> Self {
        let mut view = Self { pinned_head, summarised_until: pinned_head.end, ..Self::default() };
        view.set_cleared(prune_state);
        view
    }

    /// Creates the view of a request under `policy`: the rewrite of record `base`, if any, with further clips
    /// and with results cleared according to `prune_state`.
    pub(crate) fn of_request(
        policy: &Policy,
        pinned_head: PinnedHead,
        prune_state: &PruneState,
        base: Option<&RecordMatch>,
        clips: &[Clip],
    ) -> Self {
        let mut view = Self {
            placement: policy.settings.placement,
            adds_cache_mark: policy.settings.adds_cache_mark,
            recall: policy.settings.recall.clone(),
            ..Self::new(pinned_head, prune_state)
        };
        if let Some(base) = base {
            view = view.with_record(&base.record);
        }
        view.add_clips(clips.iter().copied());
        view
    }

    /// Returns the view with its replacement text merged into the adjacent user messages. `None` without
    /// a replacement text or an adjacent user message.
    pub fn merged_into_neighbours(&self, conversation: &Conversation<'_>) -> Option<Self> {
        let mut view = self.clone();
        view.placement = Placement::Merged;
        let neighbours = [self.pinned_head.end.checked_sub(1), Some(self.summarised_until)];
        let mut neighbours = neighbours.into_iter().flatten();
        let merges = neighbours.any(|at| view.merges_summary_into(conversation, at));
        merges.then_some(view)
    }

    /// Applies `record`: its replacement text, clips and dropped images.
    #[must_use]
    pub(crate) fn with_record(mut self, record: &CompactionRecord) -> Self {
        if let Some(text) = record.segmented_text() {
            self.pinned_head = PinnedHead { end: record.history_from };
            self.set_replacement(record.compacted_message_count, text);
            self.provider = record.provider_item().map(|(provider, _)| provider.clone());
        }
        self.clips.clone_from(&record.clips);
        self.images_before = record.images_before;
        self.thrash = record.thrash;
        self
    }

    /// Returns the thrash state.
    pub fn thrash(&self) -> ThrashState {
        self.thrash
    }

    pub(crate) fn set_thrash(&mut self, thrash: ThrashState) {
        self.thrash = thrash;
    }

    /// Copies the cleared results and the clipped calls from `prune_state`.
    pub(crate) fn set_cleared(&mut self, prune_state: &PruneState) {
        self.cleared_before = prune_state.cleared_before();
        self.clipped_calls = prune_state.clipped_calls().collect();
        self.pictures = prune_state.left_pictures().collect();
        self.cleared = prune_state.cleared().cloned().collect();
    }

    /// Replaces the messages from the pinned head up to `upto` by `text`.
    pub(crate) fn set_replacement(&mut self, upto: usize, text: SegmentedText) {
        self.summarised_until = upto.max(self.pinned_head.end);
        self.text_tokens = Tokens::estimate_text(&text);
        self.text = Some(text);
        self.provider = None;
    }

    /// Clips results; replaces their earlier clips.
    pub(crate) fn add_clips(&mut self, clips: impl IntoIterator<Item = Clip>) {
        let mut clips = clips.into_iter().peekable();
        if self.clips.is_empty() && clips.peek().is_none() {
            return;
        }
        let mut all = self.clips_by_message();
        all.extend(clips.map(|clip| (clip.message, clip)));
        self.clips = all.into_values().collect();
    }

    pub(crate) fn clips_by_message(&self) -> BTreeMap<usize, Clip> {
        let clips = self.clips.iter();
        clips.map(|clip| (clip.message, *clip)).collect()
    }

    /// Clips the results whose text has more than `characters` characters, unless they are clipped already.
    /// Returns whether there are any.
    pub fn clip_texts_above(&mut self, conversation: &Conversation<'_>, characters: u32) -> bool {
        let clipped = self.clips_by_message();
        let messages = conversation.messages().iter().enumerate();
        let long = messages.skip(self.summarised_until()).filter(|(at, it)| {
            let chars = it.content.text_chars(conversation.parts(it));
            let is_whole = !self.is_cleared(*at) && !clipped.contains_key(at);
            chars > characters && is_whole && it.is_replaceable_result()
        });
        let [largest, ..] = Clip::SIZES;
        let clips = long.filter_map(|(at, it)| Clip::new(at, it.text_tokens, largest));
        let clips: Vec<Clip> = clips.collect();
        let has_any = !clips.is_empty();
        self.add_clips(clips);
        has_any
    }

    /// Replaces the images before `message` by markers.
    pub fn drop_images_before(&mut self, message: usize) {
        self.images_before = self.images_before.max(message);
    }

    /// Lowers the output limit of the request.
    pub fn set_output_limit(&mut self, output: Tokens) {
        self.output_limit = Some(output);
    }

    /// Removes the bound thinking of the messages in `ranges`, which ascend and are disjoint. Replaces
    /// earlier ranges.
    pub fn remove_thinking(&mut self, ranges: Vec<Range<usize>>) {
        self.without_thinking = ranges;
    }

    /// Whether no text stands for the message at `at`.
    pub(crate) fn shows(&self, at: usize) -> bool {
        at < self.history_from() || at >= self.summarised_until
    }

    /// Index of the first message that the text or the provider's item replaces.
    pub fn history_from(&self) -> usize {
        self.provider.as_ref().map_or(self.pinned_head.end, |it| it.from)
    }

    /// Whether an item of the provider stands for history.
    pub fn is_by_provider(&self) -> bool {
        self.provider.is_some()
    }

    /// Returns the user's words that an item of the provider hides, and the message behind which they stand. The
    /// message is `None` until the user says more.
    pub fn restated_words(
        &self,
        conversation: &Conversation<'_>,
    ) -> Option<(Option<usize>, &Arc<str>)> {
        let words = self.provider.as_ref()?.restated.as_ref()?;
        let mut later = conversation.messages().iter().enumerate().skip(words.from);
        let request = later.find(|(_, message)| user_text(conversation, message).is_some());
        Some((request.map(|(at, _)| at), &words.text))
    }

    /// Returns the number of messages whose bound thinking is removed.
    pub fn thinking_removals(&self, conversation: &Conversation<'_>) -> usize {
        self.removed_thinking(conversation).count()
    }

    /// Index before which every message is replaced or pinned.
    pub fn summarised_until(&self) -> usize {
        self.summarised_until
    }

    /// Returns the single messages that are changed, each with the kind of change and the tokens
    /// that it saves.
    pub(crate) fn savings_by_message(
        &self,
        conversation: &Conversation<'_>,
    ) -> BTreeMap<usize, (MessageDecision, Tokens)> {
        use MessageDecision::{ArgumentsClipped, Clipped, ImagesDropped, ThinkingRemoved};
        let images = self.dropped_images(conversation);
        let images = images.map(|(at, _, saves)| (at, ImagesDropped, saves));
        let thinking = self.removed_thinking(conversation);
        let thinking = thinking.map(|(at, saves)| (at, ThinkingRemoved, saves));
        let calls = self.visible_call_clips();
        let calls = calls.map(|(_, clip)| (clip.message, ArgumentsClipped, clip.saves));
        let mut changes = BTreeMap::new();
        for (at, decision, saves) in images.chain(thinking).chain(calls) {
            let change = changes.entry(at).or_insert((decision, Tokens::ZERO));
            change.1 += saves;
        }
        for clip in self.visible_clips() {
            let saves = clip.saved_tokens(conversation);
            changes.insert(clip.message, (Clipped, saves));
        }
        for cleared in &self.cleared {
            let decision = MessageDecision::ToolResult(ClearDecision::Cleared);
            changes.insert(cleared.message, (decision, cleared.own_frees()));
        }
        changes
    }

    /// Whether the view contains a replacement text.
    pub fn is_condensed(&self) -> bool {
        self.text.is_some()
    }

    /// Returns the replacement text, if any.
    pub fn summary(&self) -> Option<&SegmentedText> {
        self.text.as_ref()
    }

    /// Returns the plain estimate of the replacement text, if any.
    pub fn summary_tokens(&self) -> Option<Tokens> {
        if let Some(provider) = &self.provider {
            return Some(provider.tokens);
        }
        let link = self.recall.as_ref();
        self.text.as_ref().map(|text| {
            let lines = u32::try_from(text.segments().len().max(1)).unwrap_or(u32::MAX);
            let line = link.map(|link| link.line_tokens().get());
            let lines = line.unwrap_or_default().saturating_mul(lines);
            self.text_tokens + Tokens::new(lines)
        })
    }

    /// Whether any result is cleared, or a call clipped, outside the replaced history.
    pub fn is_pruned(&self) -> bool {
        let mut cleared = self.cleared.iter();
        cleared.any(|cleared| cleared.message >= self.summarised_until) || self.clips_calls()
    }

    /// Returns the number of cleared results outside the replaced history, and the tokens that this
    /// saves, with those of clipped calls.
    pub fn pruned_totals(&self) -> (usize, Tokens) {
        let standing = self.cleared.iter().filter(|it| it.message >= self.summarised_until);
        let calls = self.visible_call_clips().map(|(_, clip)| clip.saves);
        standing.fold((0, calls.sum()), |(count, frees), it| (count + 1, frees + it.own_frees()))
    }

    /// Whether any image is replaced by a marker.
    pub fn drops_images(&self, conversation: &Conversation<'_>) -> bool {
        self.dropped_images(conversation).next().is_some()
    }

    /// Returns the plain estimate of the view's size.
    pub fn tokens(&self, conversation: &Conversation<'_>) -> Tokens {
        let messages = conversation.messages().len();
        let mut tokens = conversation.params().tool_tokens
            + conversation.tokens_of(0..self.history_from())
            + self.summary_tokens().unwrap_or_default()
            + conversation.tokens_of(self.summarised_until..messages)
            - self.pruned_totals().1;
        for clip in self.visible_clips() {
            tokens -= clip.saved_tokens(conversation);
        }
        if let Some((Some(_), words)) = self.restated_words(conversation) {
            let line = self.recall.as_ref().map_or(Tokens::ZERO, |link| link.line_tokens());
            tokens += Tokens::estimate_text(words) + line;
        }
        let thinking = self.removed_thinking(conversation);
        let images = self.dropped_images(conversation);
        let images: Tokens = images.map(|(.., saves)| saves).sum();
        tokens - thinking.map(|(_, saves)| saves).sum() - images
    }

    /// Returns the replacements that produce the view, or `None` if it equals the original
    /// conversation.
    pub fn replacements(&self, conversation: &Conversation<'_>) -> Option<Vec<Replacement>> {
        let mut cuts: Vec<Replacement> = Vec::new();
        // The mark stands after the steps, or else after the text: breaks mostly leave both as they are.
        let may_mark = self.adds_cache_mark && conversation.dialect().facts().marks_results;
        let last = self.cleared.last().map(|it| it.message);
        let marked = last.filter(|at| may_mark && *at >= self.summarised_until);
        if let Some(ProviderCompaction { item: Some(item), from, .. }) = &self.provider {
            let (from, item) = (*from, Arc::clone(item));
            cuts.push(Replacement::Provider { from, to: self.summarised_until, item });
            if let Some((Some(at), words)) = self.restated_words(conversation) {
                // The item itself takes no line by which an agent reads the history.
                let text = Arc::clone(self.with_lines(&Arc::clone(words).into()).as_arc());
                cuts.push(Replacement::Words { at, text });
            }
        } else if let Some(text) = &self.text
            && self.summarised_until > self.pinned_head.end
        {
            cuts.push(Replacement::History {
                from: self.pinned_head.end,
                to: self.summarised_until,
                text: self
                    .with_lines(text)
                    .with_added_mark(self.adds_cache_mark && marked.is_none()),
                placement: self.placement,
            });
        }
        let calls = self.visible_call_clips();
        cuts.extend(calls.map(|(result, _)| Replacement::Arguments { result: *result }));
        for cleared in &self.cleared {
            let at = cleared.message;
            if at >= self.summarised_until
                && let Some(message) = conversation.message(at)
            {
                cuts.push(Replacement::Result {
                    at,
                    text: cleared.placeholder.render(conversation, message),
                    marked: marked == Some(at),
                });
            }
        }
        for clip in self.visible_clips() {
            if let Some(message) = conversation.message(clip.message) {
                cuts.push(Replacement::Result {
                    at: clip.message,
                    text: Cow::Owned(self.clipped_text(conversation, message, clip)),
                    marked: false,
                });
            }
        }
        let thinking = self.removed_thinking(conversation);
        cuts.extend(thinking.map(|(at, _)| Replacement::Thinking { at }));
        let dropped = self.dropped_images(conversation);
        cuts.extend(dropped.map(|(at, part, _)| Replacement::Image { at, part }));
        cuts.sort_by_key(Replacement::position);
        if let Some(tokens) = self.output_limit {
            cuts.push(Replacement::Output { tokens });
        }
        (!cuts.is_empty()).then_some(cuts)
    }

    /// Returns the record to store once a request that used this view was accepted.
    pub fn to_record(&self, conversation: &Conversation<'_>) -> CompactionRecord {
        let text = self.text.as_ref();
        let segments = text.map(SegmentedText::segments);
        CompactionRecord {
            text: text.map(|text| Arc::clone(text.as_arc())),
            segments: segments.map(<[Segment]>::to_vec).unwrap_or_default(),
            form: text.map(SegmentedText::form).unwrap_or_default(),
            provider: self.provider.clone(),
            head: conversation.head_len(),
            history_from: self.pinned_head.end,
            compacted_message_count: self.summarised_until,
            cleared_before: self.cleared_before,
            clips: self.visible_clips().copied().collect(),
            images_before: self.images_before,
            thrash: self.thrash,
            ..CompactionRecord::default()
        }
    }

    /// Returns the length, in messages, of the shortest prefix that contains all changes.
    pub fn changed_prefix_len(&self) -> usize {
        let clips = self.clips.iter().map(|clip| clip.message + 1);
        let cleared = self.cleared.iter().map(|cleared| cleared.message + 1);
        let calls = self.clipped_calls.iter().map(|(result, _)| result + 1);
        let pictures = self.pictures.last().map_or(0, |at| at + 1);
        let all = clips.chain(cleared).chain(calls).chain([self.images_before, pictures]);
        all.fold(self.summarised_until, usize::max)
    }

    pub(crate) fn is_cleared(&self, message: usize) -> bool {
        self.cleared.binary_search_by_key(&message, |cleared| cleared.message).is_ok()
    }

    /// Whether the result at `message` is cleared or replaced with its history.
    pub(crate) fn hides_result(&self, message: usize) -> bool {
        let covered =
            self.text.is_some() && (self.history_from()..self.summarised_until).contains(&message);
        covered || self.is_cleared(message)
    }

    /// Returns the clips of results that are neither replaced with their history nor cleared since.
    fn visible_clips(&self) -> impl Iterator<Item = &Clip> {
        self.clips
            .iter()
            .filter(|clip| clip.message >= self.summarised_until && !self.is_cleared(clip.message))
    }

    /// Whether the arguments of any call are clipped.
    pub(crate) fn clips_calls(&self) -> bool {
        self.visible_call_clips().next().is_some()
    }

    /// Returns the clipped calls that are not replaced with their history.
    fn visible_call_clips(&self) -> impl Iterator<Item = &(usize, CallClip)> {
        let calls = self.clipped_calls.iter();
        calls.filter(|(result, _)| *result >= self.summarised_until)
    }

    /// Whether the whole content of the result at `at` is replaced.
    fn replaces_content(&self, at: usize) -> bool {
        self.is_cleared(at) || self.clips.iter().any(|clip| clip.message == at)
    }

    /// Whether the replacement text is merged into the message at `at`.
    fn merges_summary_into(&self, conversation: &Conversation<'_>, at: usize) -> bool {
        let (from, to) = (self.pinned_head.end, self.summarised_until);
        self.placement == Placement::Merged
            && self.text.is_some()
            && self.provider.is_none()
            && placement::merges_into(conversation, from, to, at)
    }

    /// Returns the messages whose bound thinking is removed, each with the tokens that this saves.
    fn removed_thinking<'c>(
        &'c self,
        conversation: &'c Conversation<'_>,
    ) -> impl Iterator<Item = (usize, Tokens)> + 'c {
        let messages = self.without_thinking.iter().flat_map(Clone::clone);
        messages.filter(|&at| self.shows(at)).filter_map(|at| {
            let saves = conversation.message(at)?.bound_thinking?;
            let is_last = at + 1 == conversation.messages().len();
            let is_removable = !is_last || !conversation.bound_thinking_spans(at).is_empty();
            is_removable.then_some((at, saves))
        })
    }

    /// Returns the images replaced by markers: message index, part index and tokens saved.
    fn dropped_images<'c>(
        &'c self,
        conversation: &'c Conversation<'_>,
    ) -> impl Iterator<Item = (usize, usize, Tokens)> + 'c {
        let standing = self.summarised_until..self.images_before.max(self.summarised_until);
        let pictures = self.pictures.iter().copied().filter(move |at| *at >= standing.end);
        (0..self.history_from().min(self.images_before))
            .chain(standing.clone())
            .chain(pictures)
            .filter_map(|at| Some((at, conversation.message(at)?)))
            .filter(move |&(at, message)| {
                !message.role.is_instruction()
                    && !self.replaces_content(at)
                    && !self.merges_summary_into(conversation, at)
            })
            .flat_map(move |(at, message)| {
                let images = images::image_parts(conversation, message);
                images.map(move |(part, saves)| (at, part, saves))
            })
    }
}

#[cfg(test)]
mod tests;
