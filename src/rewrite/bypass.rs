//! Why a request passed untouched.

/// Why a request passed untouched. Not an error: each is a normal way to be, counted by label.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Bypass {
    /// Switched off for this request, or altogether.
    Disabled,
    /// A key that we act upon stands twice in one object.
    Duplicate,
    /// The body comes compressed.
    Encoded,
    /// Not JSON in UTF-8, or longer than a body we can address.
    Malformed,
    /// Nothing to change.
    Nothing,
    /// No chat completion.
    NotChat,
    /// JSON, but not the shape of a chat completion.
    Shape,
    /// Signed over its body, which a change would void.
    Signed,
    /// Past a limit on what is buffered.
    TooLarge,
    /// What we made of it was not smaller, or not sound: a fault of ours, and harmless.
    Unsound,
}

impl Bypass {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Disabled,
        Self::Duplicate,
        Self::Encoded,
        Self::Malformed,
        Self::Nothing,
        Self::NotChat,
        Self::Shape,
        Self::Signed,
        Self::TooLarge,
        Self::Unsound,
    ];

    /// Its name in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Duplicate => "duplicate",
            Self::Encoded => "encoded",
            Self::Malformed => "malformed",
            Self::Nothing => "nothing",
            Self::NotChat => "not-chat",
            Self::Shape => "shape",
            Self::Signed => "signed",
            Self::TooLarge => "too-large",
            Self::Unsound => "unsound",
        }
    }
}
