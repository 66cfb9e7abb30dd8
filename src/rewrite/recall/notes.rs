//! What was worked out of a message that was met, beside what it was read as.

use crate::rewrite::chain::PrefixHash;
use crate::rewrite::window::script::ScriptSample;
use std::sync::OnceLock;

/// Each is filled in by whoever asks first, and is the same whoever does.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct MessageMemo {
    /// What the chain came to behind it.
    pub(in crate::rewrite) hash_step: OnceLock<PrefixHashStep>,
    /// Whether it only points at an earlier read.
    pub(in crate::rewrite) is_reference: OnceLock<bool>,
    /// What the script is that it is written in.
    pub(in crate::rewrite) script: OnceLock<ScriptSample>,
}

/// One link of a chain. What the message says is not in it: a note is the message's own.
#[derive(Clone, Copy, Debug)]
pub(in crate::rewrite) struct PrefixHashStep {
    /// The link before the message.
    pub(in crate::rewrite) before: PrefixHash,
    /// Which of the calls before it the message answers.
    pub(in crate::rewrite) call_index: Option<usize>,
    /// The link behind it.
    pub(in crate::rewrite) after: PrefixHash,
}
