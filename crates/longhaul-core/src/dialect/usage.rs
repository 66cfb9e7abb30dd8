//! Token usage of one request, as its reply reports it.

use crate::units::usd::Usd;

/// Tokens of one request and its reply, in the provider's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, including tokens read from or written to a cache.
    pub input: u32,
    /// Generated tokens, including reasoning; `None` if not reported.
    pub output: Option<u32>,
    /// Prompt tokens read from a cache; `None` if not reported.
    pub cached: Option<u32>,
    /// Prompt tokens written to a cache; 0 if not reported.
    pub written: u32,
    /// Total cost of the request; `None` if not reported.
    pub cost: Option<Usd>,
}
