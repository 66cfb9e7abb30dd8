//! What was worked out of a message that was met, beside what it was read as.

use crate::rewrite::chain::Link;
use crate::rewrite::window::script::Sampled;
use std::sync::OnceLock;

/// Each is filled in by whoever asks first, and is the same whoever does.
#[derive(Debug, Default)]
pub(in crate::rewrite) struct Notes {
    /// What the chain came to behind it.
    pub(in crate::rewrite) linked: OnceLock<Linked>,
    /// Whether it only points at an earlier read.
    pub(in crate::rewrite) points: OnceLock<bool>,
    /// What the script is that it is written in.
    pub(in crate::rewrite) script: OnceLock<Sampled>,
}

/// One link of a chain. What the message says is not in it: a note is the message's own.
#[derive(Clone, Copy, Debug)]
pub(in crate::rewrite) struct Linked {
    /// The link before the message.
    pub(in crate::rewrite) before: Link,
    /// Which of the calls before it the message answers.
    pub(in crate::rewrite) answers: Option<usize>,
    /// The link behind it.
    pub(in crate::rewrite) behind: Link,
}
