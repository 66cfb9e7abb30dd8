//! What an accepted request did to its history, kept so that every later one starts from it.

use super::chain::{PrefixKeys, RecordKey};
use super::pace::ThrashDetector;
use super::tokens::Tokens;
use super::wording;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A tool result shortened in place to its beginning and end.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// The message.
    pub message: usize,
    /// What stays of its beginning.
    pub head: Tokens,
    /// What stays of its end.
    pub tail: Tokens,
}

impl Clip {
    /// What may stay of a result at each end, largest first: fixed sizes, so that a clip made twice is
    /// made alike.
    pub(super) const SIZES: [Tokens; 4] = [
        Tokens::new(2_000),
        Tokens::new(1_000),
        Tokens::new(500),
        Tokens::new(200),
    ];

    /// The clip of the result at `message`, which measures `text`, with `end` of it at each end; none
    /// where the note between them would leave it no shorter.
    pub(super) fn new(message: usize, text: Tokens, end: Tokens) -> Option<Self> {
        (text > end + end + wording::MAX_CLIP_NOTE).then_some(Self {
            message,
            head: end,
            tail: end,
        })
    }

    /// What it saves of a result that measures `text`, the note left out.
    pub(super) fn saved_tokens(&self, text: Tokens) -> Tokens {
        text - self.head - self.tail
    }
}

/// What was done to a conversation up to the prefix that this is kept under.
///
/// The names are those of the original design's `CompactionRecord`, and those that stores keep it
/// under: a change to them is a change of their format.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CompactionRecord {
    /// The whole text of the message that stands for history; none where no history was cut.
    pub text: Option<Arc<str>>,
    /// The model's own part of it, from which the next one is brought up to date.
    pub summary: Option<Arc<str>>,
    /// The one before.
    pub previous_summary: Option<Arc<str>>,
    /// How many system and developer messages led the conversation when it was made. The places
    /// below count them, and their number changes from request to request.
    pub head: usize,
    /// Where the prefix ends that it was made for; none where that is the one that it is kept under.
    pub made_for: Option<usize>,
    /// What `text` stands for begins here, behind the head and a first message that is kept.
    pub history_from: usize,
    /// Messages before this one are stood for by `text`.
    pub compacted_message_count: usize,
    /// Tool results before this message are cleared as far as a placeholder shortens them.
    pub cleared_before: usize,
    /// Results shortened in place.
    pub clips: Vec<Clip>,
    /// Images before this message are replaced by a marker.
    pub images_before: usize,
    /// The policy window that a refusal had shown when it was made, if one had.
    pub window: Option<Tokens>,
    /// The plain estimate of the request without it.
    pub tokens_before: Tokens,
    /// And with it.
    pub tokens_after: Tokens,
    /// How fast the conversation had filled when it was made.
    pub pace: ThrashDetector,
    /// How many records deep this conversation is.
    pub compaction_count: u32,
    /// The model whose conversation it is.
    pub model: String,
    /// When, in seconds since 1970.
    pub last_compacted_at: u64,
}

impl CompactionRecord {
    /// The same to be kept under a longer prefix than the one that it was made for, which ends at
    /// `at`.
    pub(crate) fn renewed_at(&self, at: usize) -> Self {
        Self {
            made_for: Some(at),
            ..self.clone()
        }
    }

    /// Where the prefix ends that it was made for, behind so many leading messages, if it was found
    /// under the one that ends at `at`.
    pub(crate) fn prefix_end(&self, at: usize, head: usize) -> usize {
        self.made_for.map_or(at, |made| self.map_index(made, head))
    }

    /// Whether it leaves the newest unit of a conversation as the client sent it: one who has gone back
    /// to where its cut lies asks for an answer to what it stands for. Clips may be of the newest
    /// results, and were made for them.
    pub(crate) fn keeps_newest_unit(&self, chains: &PrefixKeys) -> bool {
        let covered = self
            .text
            .as_ref()
            .map_or(0, |_| self.compacted_message_count);
        let changed = covered.max(self.cleared_before).max(self.images_before);
        self.map_index(changed, chains.head_len()) <= chains.newest_unit()
    }

    /// What it is worth to another model: its text. What was cleared and clipped beside that was for a
    /// window that is not the other's.
    fn for_other_model(&self, model: &str) -> Option<Self> {
        self.text.as_ref()?;
        Some(Self {
            made_for: None,
            cleared_before: 0,
            clips: Vec::new(),
            images_before: 0,
            window: None,
            pace: ThrashDetector::default(),
            model: model.to_owned(),
            ..self.clone()
        })
    }

    /// Where `at` lies behind so many leading messages.
    fn map_index(&self, at: usize, head: usize) -> usize {
        at.saturating_sub(self.head) + head
    }

    /// The record in the places that it has behind so many leading messages.
    #[must_use]
    fn with_head(self: Arc<Self>, head: usize) -> Arc<Self> {
        if self.head == head {
            return self;
        }
        let moved = |at| self.map_index(at, head);
        let clips = self.clips.iter().map(|clip| Clip {
            message: moved(clip.message),
            ..*clip
        });
        Arc::new(Self {
            head,
            made_for: self.made_for.map(moved),
            history_from: moved(self.history_from),
            compacted_message_count: moved(self.compacted_message_count),
            cleared_before: moved(self.cleared_before),
            clips: clips.collect(),
            images_before: moved(self.images_before),
            pace: self.pace.map_position(moved),
            ..Self::clone(&self)
        })
    }
}

/// A record as it was found: where its prefix ends, and whether a request that used it was
/// accepted.
#[derive(Clone, Debug)]
pub struct RecordMatch {
    /// The prefix that it was made for ends before this message.
    pub prefix_end: usize,
    /// Whether a request to this model with it was accepted: then it is used always, else only when needed.
    pub adopted: bool,
    /// The record, its places in the conversation that it was found for.
    pub record: Arc<CompactionRecord>,
}

/// What is known of a conversation before its request is planned.
#[derive(Clone, Debug, Default)]
pub struct PriorRecords {
    /// The deepest record in use.
    pub adopted: Option<RecordMatch>,
    /// A deeper one that waits to be needed.
    pub ready: Option<RecordMatch>,
    /// Where the record in use has to be kept once more: it is about to be out of sight.
    pub renewal: Option<RecordKey>,
    /// Whether some prefix of this conversation has been through here before.
    pub seen: bool,
}

impl RecordMatch {
    /// A record as it was found under the prefix that ends at `at`, in use if `adopted`. One of another
    /// model waits until it is needed, whatever it is to that one.
    fn new(
        record: Arc<CompactionRecord>,
        (at, adopted): (usize, bool),
        chains: &PrefixKeys,
    ) -> Option<Self> {
        let head = chains.head_len();
        if record.model == chains.model() {
            return Some(Self {
                prefix_end: record.prefix_end(at, head),
                adopted,
                record: record.with_head(head),
            });
        }
        let record = record.with_head(head).for_other_model(chains.model())?;
        Some(Self {
            prefix_end: record.compacted_message_count,
            adopted: false,
            record: Arc::new(record),
        })
    }
}

impl PriorRecords {
    /// Whether a record is known now that covers more than those `before`, ready or in use: the next
    /// request is planned with it.
    pub fn covers_more_than(&self, before: &Self) -> bool {
        self.summarised_until() > before.summarised_until()
    }

    /// How many messages the largest record stands for, ready or in use.
    pub fn summarised_until(&self) -> Option<usize> {
        let found = self.ready.iter().chain(&self.adopted);
        found.map(|it| it.record.compacted_message_count).max()
    }

    /// Looks through what a store says of each prefix, newest first.
    pub fn look_up(
        chains: &PrefixKeys,
        mut look: impl FnMut(RecordKey) -> Option<(bool, Arc<CompactionRecord>)>,
        mut seen: impl FnMut(RecordKey) -> bool,
    ) -> Self {
        let mut known = Self::default();
        for (at, key) in chains.newest_first() {
            // Kept once more, a record may be met before one that was made for more.
            if known
                .adopted
                .as_ref()
                .is_some_and(|found| at < found.prefix_end)
            {
                break;
            }
            known.seen = known.seen || seen(key);
            let Some((adopted, record)) = look(key) else {
                continue;
            };
            known.seen = known.seen || adopted;
            if !record.keeps_newest_unit(chains) {
                continue;
            }
            // Of two alike, the model's own: the other would not be kept beside it.
            let own = usize::from(record.model == chains.model());
            let Some(found) = RecordMatch::new(record, (at, adopted), chains) else {
                continue;
            };
            if !found.adopted {
                let is_first = |it: &RecordMatch| it.prefix_end >= found.prefix_end + own;
                known.ready = known.ready.filter(is_first).or(Some(found));
            } else if known
                .adopted
                .as_ref()
                .is_none_or(|it| it.prefix_end < found.prefix_end)
            {
                known.adopted = Some(found);
                known.renewal = chains.closer_than(at);
            }
        }
        // One that waits is none where it was made for less.
        let adopted = known.adopted.as_ref().map_or(0, |found| found.prefix_end);
        known.ready = known.ready.filter(|found| found.prefix_end > adopted);
        known
    }
}

#[cfg(test)]
mod tests;
