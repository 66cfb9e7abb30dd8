//! Reasons for forwarding a request unchanged.

/// The reason a request was forwarded unchanged. Not an error: each is a normal outcome, counted by
/// label.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Bypass {
    /// An object contains a key that longhaul uses twice.
    Duplicate,
    /// The body is not JSON in UTF-8, or exceeds the addressable length.
    Malformed,
    /// There is nothing to change.
    Nothing,
    /// The body is JSON, but not a chat.
    Shape,
    /// The body is signed, and a change would invalidate the signature.
    Signed,
    /// The provider keeps the history, and the body holds only its newest part.
    Stateful,
    /// The body exceeds the size limit, or has too many messages.
    TooLarge,
    /// The rewritten body was not smaller, or not sound: a bug in longhaul, without effect.
    Unsound,
}

impl Bypass {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Duplicate,
        Self::Malformed,
        Self::Nothing,
        Self::Shape,
        Self::Signed,
        Self::Stateful,
        Self::TooLarge,
        Self::Unsound,
    ];

    /// Returns the name of the reason in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Malformed => "malformed",
            Self::Nothing => "nothing",
            Self::Shape => "shape",
            Self::Signed => "signed",
            Self::Stateful => "stateful",
            Self::TooLarge => "too-large",
            Self::Unsound => "unsound",
        }
    }
}
