//! Suspected causes of refusals, until a smaller request was accepted.

use crate::units::scope::RecordKey;

/// Suspected cause of a refusal. If no smaller request satisfies the refusal, the cause is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suspicion {
    /// Unknown words, by their fingerprint without digits.
    Words(u64),
    /// A limit on bytes. Such refusals have few words of their own.
    ByteLimit,
    /// The provider compacts conversations with the model of this key. No refusal suggests it, and a failed
    /// compaction refutes it.
    Compacts(RecordKey),
    /// The API refuses the images or documents before a message of one conversation.
    MediaBefore {
        /// Key of the conversation's first prefix.
        conversation: RecordKey,
        /// Index of the first message whose images stay.
        message: usize,
    },
}
