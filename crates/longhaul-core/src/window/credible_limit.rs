//! Credibility of the limit that a refusal states.

use crate::overflow::{Evidence, LimitKind, Overflow};
use crate::units::tokens::Tokens;
use crate::window::{DENSITY_TOLERANCE, SHORT_REQUEST};

/// Maximum factor between a stated prompt size and longhaul's estimate of the same prompt.
const CREDIBLE_FACTOR: u32 = 4;

/// Whether a refusal of a request of `estimate` tokens states its limit credibly. If not, the limit
/// may belong to another text, and counts for the refused conversation alone.
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

/// Whether a refusal states its window credibly if longhaul sees only `visible` tokens of the prompt, because
/// the provider keeps the rest.
///
/// The refusal has to state the limit and a larger prompt, and the prompt holds the visible tokens, within a factor
/// of four. A limit without the size of the prompt cannot be checked.
pub fn is_credible_given_hidden_history(visible: Tokens, overflow: &Overflow) -> bool {
    let (Some(limit), Some(used)) = (overflow.limit, overflow.prompt_size()) else {
        return false;
    };
    overflow.evidence == Evidence::Stated
        && overflow.kind == LimitKind::Window
        && Tokens::new(limit) >= SHORT_REQUEST
        && used > limit
        && visible.divided_by(CREDIBLE_FACTOR) <= Tokens::new(used)
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
    fn given_hidden_history_both_numbers_must_exceed_what_is_visible() {
        let is_credible = |visible: u32, limit: Option<u32>, used: Option<u32>| {
            let overflow = Overflow::stated(limit, used);
            is_credible_given_hidden_history(Tokens::new(visible), &overflow)
        };
        assert!(is_credible(100, Some(32_000), Some(40_000)));
        assert!(is_credible(100_000, Some(20_000), Some(25_000)));
        // Numbers of another text.
        assert!(!is_credible(100_004, Some(20_000), Some(25_000)));
        assert!(!is_credible(100, Some(200), Some(300)));
        assert!(!is_credible(100, Some(32_000), Some(32_000)));
        for (limit, used) in [(Some(32_000), None), (None, Some(40_000)), (None, None)] {
            assert!(!is_credible(100, limit, used), "{limit:?} {used:?}");
        }
        let of_account =
            Overflow { kind: LimitKind::Request, ..Overflow::stated(Some(32_000), Some(40_000)) };
        assert!(!is_credible_given_hidden_history(Tokens::new(100), &of_account));
    }

    #[test]
    fn a_refusal_without_a_limit_is_credible() {
        let overflow = Overflow::stated(None, None);
        assert!(is_credible_limit(Tokens::new(40_000), &overflow, None));
    }
}
