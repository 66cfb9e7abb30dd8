//! Values derived from a cached message, stored with its parse.

use crate::conversation::parse_cache::cache_entry::JoinedMemo;
use crate::conversation::parse_cache::script_sample::ScriptSample;
use crate::units::scope::PrefixHash;
use std::sync::OnceLock;

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
    pub(super) joined: OnceLock<JoinedMemo>,
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
