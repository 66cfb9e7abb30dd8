//! Facts about the request that was refused, and what its size explains.

use crate::overflow::heuristics::RequestText;

/// Percentage of the assumed window above which the size of a request counts as evidence.
const NEAR_WINDOW_PERCENT: u64 = 80;

/// Percentage of the largest accepted request above which the size explains a refusal without a statement.
const ABOVE_ACCEPTED_PERCENT: u64 = 125;

/// Smallest size in tokens that counts as evidence if no request was accepted yet: the lowest default
/// window that Ollama has ever had.
const MIN_LARGE_TOKENS: u32 = 2_048;

/// Facts about the request that was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts<'a> {
    /// Size in tokens by longhaul's estimate.
    pub tokens: u32,
    /// Body as received, and target. Words from there are not evidence.
    pub text: RequestText<'a>,
    /// Size of that body in estimated tokens: more than `tokens` if the request was rewritten.
    pub body_tokens: u32,
    /// Assumed window in estimated tokens; `None` if unknown.
    pub window: Option<u32>,
    /// The largest request that this caller's model has accepted, in estimated tokens. Zero if none.
    pub largest_accepted: u32,
    /// Name of the model. Refusals quote the name, which may contain any word.
    pub model: &'a str,
    /// Requested output in tokens, if stated.
    pub output: Option<u32>,
    /// Whether the upstream adds to the prompt what the body does not hold, such as stored items and files.
    pub is_partial: bool,
    /// Whether the request holds a compaction that the provider wrote to an order of longhaul.
    pub has_compaction: bool,
}

impl RequestFacts<'_> {
    /// Whether the size of the request is evidence: near the assumed window, or above everything accepted.
    pub fn is_large(&self) -> bool {
        let is_above = self.tokens > self.largest_accepted && self.tokens >= MIN_LARGE_TOKENS;
        self.is_near_window() || is_above
    }

    /// Whether the size explains the first refusal that states nothing. If no request was accepted for
    /// comparison, three quarters of an assumed window are near enough.
    pub fn explains_silence(&self) -> bool {
        if let Some(window) = self.window.filter(|_| self.largest_accepted == 0) {
            return self.tokens >= window / 4 * 3;
        }
        let accepted = u64::from(self.largest_accepted) * ABOVE_ACCEPTED_PERCENT;
        let is_well_above = u64::from(self.tokens) * 100 >= accepted;
        self.is_near_window() || (is_well_above && self.is_large())
    }

    /// Whether the size explains a refusal that came again: smaller requests pass.
    pub fn explains_repetition(&self) -> bool {
        self.largest_accepted > 0 && self.tokens > self.largest_accepted
    }

    /// Whether the request is near the assumed window.
    pub fn is_near_window(&self) -> bool {
        let tokens = u64::from(self.tokens) * 100;
        let is_near = |window: u32| tokens >= u64::from(window) * NEAR_WINDOW_PERCENT;
        self.window.is_some_and(is_near)
    }
}
