//! Reasons for forwarding a request unchanged.

crate::labels! {
    /// The reason a request was forwarded unchanged. Not an error: each is a normal outcome, counted by
    /// label.
    Bypass {
        /// An object contains a key that longhaul uses twice.
        Duplicate = "duplicate",
        /// The body is not JSON in UTF-8, or exceeds the addressable length.
        Malformed = "malformed",
        /// There is nothing to change.
        Nothing = "nothing",
        /// The body is JSON, but not a chat.
        Shape = "shape",
        /// The body is signed, and a change would invalidate the signature.
        Signed = "signed",
        /// The provider keeps the history, and the body holds only its newest part.
        Stateful = "stateful",
        /// The body exceeds the size limit, or has too many messages.
        TooLarge = "too-large",
        /// The rewritten body was not smaller, or not sound: a bug in longhaul, without effect.
        Unsound = "unsound",
    }
}
