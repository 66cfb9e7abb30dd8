//! Compaction records: the rewrite of an accepted request, stored so that later requests start from
//! it.

use crate::conversation::Conversation;
use crate::policy::cache_price::CachePrice;
use crate::policy::segments::{Segment, SegmentForm, SegmentedText};
use crate::policy::thinking_removal::PriorThinking;
use crate::policy::thrash::ThrashState;
use crate::prefix::keys::{HeadDependence, PrefixKeys};
use crate::text::wording;
use crate::units::scope::RecordKey;
use crate::units::tokens::Tokens;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Clip of a tool result: only its beginning and end are kept.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Index of the message.
    pub message: usize,
    /// Tokens kept at the beginning.
    pub head: Tokens,
    /// Tokens kept at the end.
    pub tail: Tokens,
}

impl Clip {
    /// Possible sizes of each end, largest first. They are fixed so that repeated clips are
    /// identical.
    pub(crate) const SIZES: [Tokens; 4] =
        [Tokens::new(2_000), Tokens::new(1_000), Tokens::new(500), Tokens::new(200)];

    /// Returns the end of clips to one size that free at least `excess` of results of these sizes, the largest
    /// first. Returns the smallest end if none frees as much.
    pub(crate) fn end_that_frees(excess: Tokens, sizes: impl Iterator<Item = Tokens>) -> Tokens {
        let [.., least] = Self::SIZES;
        let mut sizes = sizes.peekable();
        let (mut sum, mut results) = (Tokens::ZERO, 0);
        while let Some(size) = sizes.next() {
            (sum, results) = (sum + size, results + 1);
            let left = (sum - excess).divided_by(results);
            if sum > excess && sizes.peek().is_none_or(|next| left >= *next) {
                let end = (left - wording::MAX_CLIP_NOTE).divided_by(2);
                return end.max(least);
            }
        }
        least
    }

    /// Creates a clip of the result at `message`, of size `text`, that keeps `end` at each end.
    /// Returns `None` if the note between the ends would leave it no shorter.
    pub(crate) fn new(message: usize, text: Tokens, end: Tokens) -> Option<Self> {
        (text > end + end + wording::MAX_CLIP_NOTE).then_some(Self {
            message,
            head: end,
            tail: end,
        })
    }

    /// Returns the tokens that the clip saves, not counting the note.
    pub(crate) fn saved_tokens(&self, conversation: &Conversation<'_>) -> Tokens {
        let message = conversation.message(self.message);
        message.map_or(Tokens::ZERO, |it| it.text_tokens - self.head - self.tail)
    }
}

/// The provider's own compaction, which stands for history in place of the record's text.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderCompaction {
    /// Item or message of the provider, as JSON. `None` if the provider failed: the text stands then, and
    /// no other summary of the same history is paid for.
    pub item: Option<Arc<str>>,
    /// Plain estimate of the item.
    pub tokens: Tokens,
    /// First message that the item replaces. Some providers let nothing stand before it.
    pub from: usize,
    /// Words of the user that follow behind a later request, if the item hides them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restated: Option<RestatedWords>,
}

/// Words of the user, and rules, in messages that an item of the provider replaces.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RestatedWords {
    /// Text of the message that states the words again.
    pub text: Arc<str>,
    /// The message follows the first request of the user from this index on.
    pub from: usize,
}

/// Rewrite of a conversation up to the prefix under which the record is stored.
///
/// Field names are those of the original design's `CompactionRecord` and of the stored format:
/// renaming one changes the format.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CompactionRecord {
    /// Whole text of the message that replaces history; `None` if no history was cut.
    pub text: Option<Arc<str>>,
    /// Segments of `text`, in order. Their bytes never change, and later records repeat them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
    /// Form in which `text` is sent.
    #[serde(default, skip_serializing_if = "SegmentForm::is_text")]
    pub form: SegmentForm,
    /// Compaction by the provider, which binds it to the caller's account and to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderCompaction>,
    /// The model's own part of `text`, which the next summary updates.
    pub summary: Option<Arc<str>>,
    /// Summary before this one.
    pub previous_summary: Option<Arc<str>>,
    /// Whether a summary call has shown the leading messages, for `text` or for a summary that
    /// `text` extends.
    pub head_dependence: HeadDependence,
    /// Number of leading system and developer messages when the record was made. The indices below
    /// include them, and their number changes from request to request.
    pub head: usize,
    /// End of the prefix that the record was made for; `None` if it is stored under that prefix.
    pub made_for: Option<usize>,
    /// First message that `text` replaces, after the head and a pinned first message.
    pub history_from: usize,
    /// `text` covers the messages before this index.
    pub compacted_message_count: usize,
    /// Tool results before this message are cleared if a placeholder shortens them.
    pub cleared_before: usize,
    /// Clipped results.
    pub clips: Vec<Clip>,
    /// Images before this message are replaced by a marker.
    pub images_before: usize,
    /// Policy window learned from a refusal before the record was made, if any.
    pub window: Option<Tokens>,
    /// Price class by which `frugal` chose the thresholds. Later requests keep it, so that a change of
    /// prices moves no threshold within a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_price: Option<CachePrice>,
    /// Plain estimate of the request without the record.
    pub tokens_before: Tokens,
    /// Plain estimate of the request with the record.
    pub tokens_after: Tokens,
    /// Thrash state when the record was made.
    pub thrash: ThrashState,
    /// Number of successive records of this conversation.
    pub compaction_count: u32,
    /// Model of the conversation.
    pub model: String,
    /// Time of the compaction, in seconds since 1970.
    pub last_compacted_at: u64,
}

impl CompactionRecord {
    /// Returns the key under which the record is stored for the prefix `prefix`. Returns `None` if
    /// `prefix_keys` do not cover the leading messages that the record depends on.
    pub fn key(&self, prefix_keys: &PrefixKeys, prefix: RecordKey) -> Option<RecordKey> {
        prefix_keys.record_key(prefix, self.head_dependence)
    }

    /// Returns a copy to be stored under a longer prefix; the record itself was made for the prefix
    /// that ends at `at`.
    #[must_use]
    pub fn renewed_at(&self, at: usize) -> Self {
        Self { made_for: Some(at), ..self.clone() }
    }

    /// Returns the end of the prefix that the record was made for, in a conversation with `head`
    /// leading messages. The record was found under the prefix that ends at `at`.
    pub fn prefix_end(&self, at: usize, head: usize) -> usize {
        self.made_for.map_or(at, |made_for| self.map_index(made_for, head))
    }

    /// Returns the replacement text with its segments. `None` if no history was cut.
    pub fn segmented_text(&self) -> Option<SegmentedText> {
        let text = Arc::clone(self.text.as_ref()?);
        Some(SegmentedText::from_record(text, &self.segments, self.form))
    }

    /// Returns the provider's compaction with its item, if there is one.
    pub fn provider_item(&self) -> Option<(&ProviderCompaction, &Arc<str>)> {
        let provider = self.provider.as_ref()?;
        Some((provider, provider.item.as_ref()?))
    }

    /// Whether the newest unit of the conversation stays as the client sent it. If a user rewinds
    /// to the record's cut, their request must be sent unchanged. Clips do not count: they may be
    /// made for the newest results.
    pub fn keeps_newest_unit(&self, prefix_keys: &PrefixKeys) -> bool {
        let covered = self.text.as_ref().map_or(0, |_| self.compacted_message_count);
        let changed = covered.max(self.cleared_before).max(self.images_before);
        self.map_index(changed, prefix_keys.head_len()) <= prefix_keys.newest_unit()
    }

    /// Returns the part that another model can use: the text. Clearing and clips were made for the
    /// window of the first model.
    fn for_other_model(&self, model: &str) -> Option<Self> {
        self.text.as_ref()?;
        Some(Self {
            made_for: None,
            provider: None,
            cleared_before: 0,
            clips: Vec::new(),
            images_before: 0,
            window: None,
            cache_price: None,
            thrash: ThrashState::default(),
            model: model.to_owned(),
            ..self.clone()
        })
    }

    /// Maps index `at` to a conversation with `head` leading messages.
    fn map_index(&self, at: usize, head: usize) -> usize {
        at.saturating_sub(self.head) + head
    }

    /// Returns the record with its indices mapped to a conversation with `head` leading messages.
    #[must_use]
    fn with_head(self: Arc<Self>, head: usize) -> Arc<Self> {
        if self.head == head {
            return self;
        }
        let moved = |at| self.map_index(at, head);
        let clips = self.clips.iter().map(|clip| Clip { message: moved(clip.message), ..*clip });
        let segments =
            self.segments.iter().map(|segment| Segment { until: moved(segment.until), ..*segment });
        let provider = self.provider.clone();
        Arc::new(Self {
            head,
            provider: provider.map(|it| ProviderCompaction {
                from: moved(it.from),
                restated: it.restated.map(|it| RestatedWords { from: moved(it.from), ..it }),
                ..it
            }),
            made_for: self.made_for.map(moved),
            history_from: moved(self.history_from),
            compacted_message_count: moved(self.compacted_message_count),
            cleared_before: moved(self.cleared_before),
            clips: clips.collect(),
            segments: segments.collect(),
            images_before: moved(self.images_before),
            thrash: self.thrash.map_position(moved),
            ..Self::clone(&self)
        })
    }
}

/// Record found in the store for a conversation.
#[derive(Clone, Debug)]
pub struct RecordMatch {
    /// End of the prefix that the record was made for (exclusive message index).
    pub prefix_end: usize,
    /// Whether this model accepted a request with the record. Such a record always applies, others
    /// only when needed.
    pub adopted: bool,
    /// Record, with indices of the conversation that it was found for.
    pub record: Arc<CompactionRecord>,
}

/// Stored records of a conversation, looked up before its request is planned.
#[derive(Clone, Debug, Default)]
pub struct PriorRecords {
    /// Deepest record in use.
    pub adopted: Option<RecordMatch>,
    /// Deeper record that is used only when needed.
    pub ready: Option<RecordMatch>,
    /// Prefix under which the record in use has to be stored again before it is too far back to be
    /// found.
    pub renewal: Option<RecordKey>,
    /// Whether longhaul has seen some prefix of this conversation before.
    pub seen: bool,
    /// Whether a summary that covers more than these records is being made.
    pub pending: bool,
    /// Facts about the conversation's thinking.
    pub thinking: PriorThinking,
}

impl RecordMatch {
    /// Creates the match of a record found under the prefix that ends at `at`, in use if `adopted`.
    /// A record of another model waits until it is needed, even if that model has adopted it.
    fn new(
        record: Arc<CompactionRecord>,
        (at, adopted): (usize, bool),
        prefix_keys: &PrefixKeys,
    ) -> Option<Self> {
        let head = prefix_keys.head_len();
        if record.model == prefix_keys.model() {
            return Some(Self {
                prefix_end: record.prefix_end(at, head),
                adopted,
                record: record.with_head(head),
            });
        }
        let record = record.with_head(head).for_other_model(prefix_keys.model())?;
        Some(Self {
            prefix_end: record.compacted_message_count,
            adopted: false,
            record: Arc::new(record),
        })
    }
}

impl PriorRecords {
    /// Returns the records with their texts in place of the items that `applies` rejects.
    #[must_use]
    pub fn with_items_that(mut self, applies: impl Fn(&RecordMatch) -> bool) -> Self {
        for found in [&mut self.adopted, &mut self.ready].into_iter().flatten() {
            if found.record.provider_item().is_some() && !applies(found) {
                let text = CompactionRecord { provider: None, ..(*found.record).clone() };
                found.record = Arc::new(text);
            }
        }
        self
    }

    /// Whether there is now a record, ready or in use, that covers more than those in `before`. The
    /// next request is then planned with it.
    pub fn covers_more_than(&self, before: &Self) -> bool {
        self.summarised_until() > before.summarised_until()
    }

    /// Returns the number of messages before the end of the largest covered range, ready or in use.
    pub fn summarised_until(&self) -> Option<usize> {
        let found = self.ready.iter().chain(&self.adopted);
        found.map(|it| it.record.compacted_message_count).max()
    }

    /// Returns the newest record, whether or not it is in use.
    pub fn newest(&self) -> Option<&RecordMatch> {
        self.ready.as_ref().or(self.adopted.as_ref())
    }

    /// Looks up the records of all prefixes in a store, newest first.
    pub fn look_up(
        prefix_keys: &PrefixKeys,
        mut look: impl FnMut(RecordKey) -> Option<(bool, Arc<CompactionRecord>)>,
        mut seen: impl FnMut(RecordKey) -> bool,
    ) -> Self {
        let mut known = Self::default();
        for (at, key) in prefix_keys.newest_first() {
            // A record stored again may be found before one that was made for a longer prefix.
            if known.adopted.as_ref().is_some_and(|found| at < found.prefix_end) {
                break;
            }
            known.seen = known.seen || seen(key);
            for key in prefix_keys.record_keys(key) {
                if let Some((adopted, record)) = look(key) {
                    known.add(record, (at, adopted), prefix_keys);
                }
            }
        }
        // A waiting record counts only if it was made for a longer prefix than the one in use.
        let adopted = known.adopted.as_ref().map_or(0, |found| found.prefix_end);
        known.ready = known.ready.filter(|found| found.prefix_end > adopted);
        known
    }

    /// Adds a record found under the prefix that ends at `at`, in use if `adopted`, unless a found
    /// one is preferred. Longer prefixes were added before.
    fn add(
        &mut self,
        record: Arc<CompactionRecord>,
        (at, adopted): (usize, bool),
        prefix_keys: &PrefixKeys,
    ) {
        self.seen = self.seen || adopted;
        if !record.keeps_newest_unit(prefix_keys) {
            return;
        }
        // Between two equally deep records, the model's own wins: the other would not be stored
        // with it.
        let own = usize::from(record.model == prefix_keys.model());
        let Some(found) = RecordMatch::new(record, (at, adopted), prefix_keys) else {
            return;
        };
        if !found.adopted {
            let is_first = |it: &RecordMatch| it.prefix_end >= found.prefix_end + own;
            self.ready = self.ready.take().filter(is_first).or(Some(found));
        } else if self.adopted.as_ref().is_none_or(|it| it.prefix_end < found.prefix_end) {
            self.adopted = Some(found);
            self.renewal = prefix_keys.renewal_key(at);
        }
    }
}

#[cfg(test)]
mod tests;
