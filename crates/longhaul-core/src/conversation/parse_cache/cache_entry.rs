//! Cache entries of messages, parsed or joined from several parsed ones, and values derived from them.

use crate::conversation::parse_cache::Fingerprint;
use crate::conversation::parse_cache::parsed_messages::{MAX_MEMBERS, ParsedMessage};
use crate::conversation::parse_cache::script_sample::ScriptSample;
use crate::units::scope::PrefixHash;
use std::sync::{Arc, OnceLock};

#[derive(Clone, Debug)]
pub(crate) enum CacheEntry {
    /// The memo of a message that was joined from several parsed ones.
    Joined(Arc<MessageMemo>),
    /// The parse of a message, with its memo.
    Parsed(Arc<ParsedMessage>),
}

/// Lazily computed values. Each depends only on the message, so any caller may fill it in.
#[derive(Debug, Default)]
pub(crate) struct MessageMemo {
    /// The last prefix-hash step that ended with this message.
    pub(crate) hash_step: OnceLock<PrefixHashStep>,
    /// Whether the message only refers to an earlier read.
    pub(crate) is_reference: OnceLock<bool>,
    /// Whether the message begins like the result of a rejected call.
    pub(crate) may_be_rejected: OnceLock<bool>,
    /// Whether each call may have a result with the user's words, or load rules.
    pub(crate) may_hold_words: OnceLock<Box<[bool]>>,
    pub(crate) text_hash: OnceLock<[u8; 32]>,
    /// Cache marks in the bytes of the message, up to the maximum of a request.
    pub(crate) cache_marks: OnceLock<u8>,
    /// Characters of the message in a summary's section of user messages. `None` if the section leaves the
    /// message out.
    pub(crate) request_chars: OnceLock<Option<u32>>,
    /// Characters that clipping the arguments of each call saves.
    pub(crate) clipped_chars: OnceLock<Box<[u32]>>,
    pub(crate) script: OnceLock<ScriptSample>,
    /// The memo of the joined message that ends with this message.
    joined: OnceLock<JoinedMemo>,
}

/// A step of a prefix hash. The message's own text is not included, because the memo belongs to
/// that message alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixHashStep {
    pub(crate) before: PrefixHash,
    /// Index of the call that the message answers, among those before it.
    pub(crate) call_index: Option<usize>,
    /// Hash of the prefix that ends with the message.
    pub(crate) after: PrefixHash,
}

/// The memo of a joined message, kept in the memo of the last message that was joined.
#[derive(Debug)]
struct JoinedMemo {
    /// The messages that were joined.
    pieces: Box<[Fingerprint]>,
    memo: Arc<MessageMemo>,
}

impl CacheEntry {
    /// Returns the entry of the message that is joined from the messages with these entries. Returns
    /// `None` in these cases:
    ///
    /// - One of the messages is not cached.
    /// - There are more than [`MAX_MEMBERS`].
    /// - Another joined message ends with the last of them.
    pub(crate) fn of_joined<'e>(
        pieces: impl Iterator<Item = Option<&'e Self>> + Clone,
    ) -> Option<Self> {
        if pieces.clone().nth(MAX_MEMBERS).is_some() {
            return None;
        }
        let fingerprints = pieces.clone().map(|piece| Some(piece?.parsed()?.fingerprint));
        let last = pieces.last()??.memo();
        let stored = if let Some(stored) = last.joined.get() {
            stored
        } else {
            let pieces = fingerprints.clone().collect::<Option<_>>()?;
            let memo = Arc::new(MessageMemo::default());
            last.joined.get_or_init(|| JoinedMemo { pieces, memo })
        };
        let stored_pieces = stored.pieces.iter().copied().map(Some);
        stored_pieces.eq(fingerprints).then(|| Self::Joined(Arc::clone(&stored.memo)))
    }

    pub(crate) fn memo(&self) -> &MessageMemo {
        match self {
            Self::Joined(memo) => memo,
            Self::Parsed(parsed) => &parsed.memo,
        }
    }

    /// Returns the parse, unless the message was joined.
    pub(super) fn parsed(&self) -> Option<&Arc<ParsedMessage>> {
        match self {
            Self::Joined(_) => None,
            Self::Parsed(parsed) => Some(parsed),
        }
    }
}
