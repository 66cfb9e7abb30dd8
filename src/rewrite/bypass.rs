//! Why a request passed untouched.

/// Why a request passed untouched. Not an error: each is a normal way to be, counted by label.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Bypass {
    /// A key that we act upon stands twice in one object.
    Duplicate,
    /// Not JSON in UTF-8, or longer than a body we can address.
    Malformed,
    /// Nothing to change.
    Nothing,
    /// JSON, but not the shape of a chat completion.
    Shape,
    /// Signed over its body, which a change would void.
    Signed,
    /// Longer than one body may be, or of more messages than are read.
    TooLarge,
    /// What we made of it was not smaller, or not sound: a fault of ours, and harmless.
    Unsound,
}

impl Bypass {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Duplicate,
        Self::Malformed,
        Self::Nothing,
        Self::Shape,
        Self::Signed,
        Self::TooLarge,
        Self::Unsound,
    ];

    /// Its name in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Malformed => "malformed",
            Self::Nothing => "nothing",
            Self::Shape => "shape",
            Self::Signed => "signed",
            Self::TooLarge => "too-large",
            Self::Unsound => "unsound",
        }
    }
}
