//! Values derived from a cached message, stored with its parse.

use crate::rewrite::chain::PrefixHash;
use crate::rewrite::window::script::ScriptSample;
use std::sync::OnceLock;

/// Lazily computed values. Each depends only on the message, so any caller may fill it in.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct MessageMemo {
    /// The last prefix-hash step that ended with this message.
    pub(in crate::rewrite) hash_step: OnceLock<PrefixHashStep>,
    /// Whether the message only refers to an earlier read.
    pub(in crate::rewrite) is_reference: OnceLock<bool>,
    /// The script that the text is written in.
    pub(in crate::rewrite) script: OnceLock<ScriptSample>,
}

/// A step of a prefix hash. The message's own text is not included, because the memo belongs to
/// that message alone.
#[derive(Clone, Copy, Debug)]
pub(in crate::rewrite) struct PrefixHashStep {
    /// Hash of the prefix before the message.
    pub(in crate::rewrite) before: PrefixHash,
    /// Index of the call that the message answers, among those before it.
    pub(in crate::rewrite) call_index: Option<usize>,
    /// Hash of the prefix that ends with the message.
    pub(in crate::rewrite) after: PrefixHash,
}
