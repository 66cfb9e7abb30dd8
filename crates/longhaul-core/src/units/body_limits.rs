//! Limits on the body of a request, besides the window.

/// Share of a known byte limit that recovery aims at, in percent. The rest is room for later messages.
const GOAL_PERCENT: usize = 80;

/// Limits of an upstream on the body of a request. A limit that is not known is [`usize::MAX`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BodyLimits {
    /// Maximum bytes.
    pub bytes: usize,
    /// Bytes that recovery aims at.
    pub goal: usize,
    /// Maximum messages, or items of the input.
    pub items: usize,
}

impl BodyLimits {
    /// No known limit.
    pub const UNKNOWN: Self = Self { bytes: usize::MAX, goal: usize::MAX, items: usize::MAX };

    /// Creates a limit of `bytes` bytes.
    pub fn of_bytes(bytes: usize) -> Self {
        Self { bytes, goal: (bytes / 100).saturating_mul(GOAL_PERCENT), ..Self::UNKNOWN }
    }

    /// Creates a limit of `items` messages.
    pub fn of_items(items: usize) -> Self {
        Self { items, ..Self::UNKNOWN }
    }

    /// Returns both limits together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            goal: self.goal.min(other.goal),
            items: self.items.min(other.items),
        }
    }
}
