//! Cache entries of messages, parsed or joined from several parsed ones.

use crate::conversation::parse_cache::parsed_messages::{MAX_MEMBERS, ParsedMessage};
use crate::conversation::parse_cache::{Fingerprint, MessageMemo};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum CacheEntry {
    /// The memo of a message that was joined from several parsed ones.
    Joined(Arc<MessageMemo>),
    /// The parse of a message, with its memo.
    Parsed(Arc<ParsedMessage>),
}

/// The memo of a joined message, kept in the memo of the last message that was joined.
#[derive(Debug)]
pub(super) struct JoinedMemo {
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
