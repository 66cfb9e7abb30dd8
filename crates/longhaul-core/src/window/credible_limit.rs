//! Credibility of the limit that a refusal states.

use crate::overflow::Overflow;
use crate::units::tokens::Tokens;
use crate::window::{DENSITY_TOLERANCE, SHORT_REQUEST};

/// Maximum factor between a stated prompt size and longhaul's estimate of the same prompt.
const CREDIBLE_FACTOR: u32 = 4;

/// Whether a refusal of a request of `estimate` tokens states its limit credibly. If not, the limit
/// may be a number of somebody else's text, and counts for the refused conversation alone.
///
/// A limit is credible in these cases:
///
/// - The refusal also states the prompt size, within a factor of four of the estimate. No
///   tokenizer differs by more from the estimate.
/// - The limit differs by at most an eighth from one of the `known` windows.
///
/// A refusal without a limit is credible: its window follows from the size of the request.
pub fn is_credible_limit(
    estimate: Tokens,
    overflow: &Overflow,
    known: impl IntoIterator<Item = Tokens>,
) -> bool {
    let Some(limit) = overflow.limit else {
        return true;
    };
    let matches_estimate = overflow.prompt_size().is_some_and(|used| {
        let used = Tokens::new(used).max(SHORT_REQUEST);
        let estimate = estimate.max(SHORT_REQUEST);
        used.divided_by(CREDIBLE_FACTOR) <= estimate && estimate.divided_by(CREDIBLE_FACTOR) <= used
    });
    matches_estimate
        || known.into_iter().any(|known| {
            let tolerance = known.divided_by(DENSITY_TOLERANCE);
            let limit = Tokens::new(limit);
            limit <= known + tolerance && known <= limit + tolerance
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_credible(estimate: u32, limit: u32, used: Option<u32>, known: Option<u32>) -> bool {
        let overflow = Overflow::stated(Some(limit), used);
        is_credible_limit(Tokens::new(estimate), &overflow, known.map(Tokens::new))
    }

    #[test]
    fn a_stated_prompt_size_must_be_near_the_estimate() {
        assert!(is_credible(40_000, 32_000, Some(41_000), None));
        assert!(is_credible(40_000, 32_000, Some(10_000), None));
        assert!(!is_credible(60_000, 1_000, Some(2_000), None));
        assert!(!is_credible(10_000, 1_000, Some(50_000), None));
    }

    #[test]
    fn a_limit_alone_must_be_near_a_known_window() {
        assert!(!is_credible(40_000, 1_000, None, None));
        assert!(!is_credible(40_000, 1_000, None, Some(200_000)));
        assert!(is_credible(210_000, 199_999, None, Some(200_000)));
    }

    #[test]
    fn a_refusal_without_a_limit_is_credible() {
        let overflow = Overflow::stated(None, None);
        assert!(is_credible_limit(Tokens::new(40_000), &overflow, None));
    }
}
