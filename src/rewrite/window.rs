//! What replies teach about a window, in the plain estimate's own units.
//!
//! Providers count by their own tokenizers. A limit learned in our units makes every mark come
//! right for a denser tokenizer while the estimate itself stays as it is.

pub mod note;
pub mod silence;

use super::overflow::Overflow;
use super::tokens::Tokens;

/// Windows are rounded down to one of these, in thousands, so that replicas that learned from
/// different requests agree, and small differences move nothing. The list of the design goes to
/// 200; what lies above are the windows that are sold.
const GRID: [u32; 17] = [
    4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 200, 256, 400, 512, 1_000, 2_000,
];

/// The window that a refusal of a request of `estimate` tokens shows.
///
/// With both numbers it is the limit, scaled by our count over the upstream's. Without the
/// upstream's count nothing can be scaled: then it is the limit, but never more than nine tenths of
/// what was just refused.
pub fn learn(estimate: Tokens, overflow: &Overflow) -> Tokens {
    let refused = estimate.percent(90);
    let limit = overflow.limit.map(Tokens::new);
    let used = overflow
        .used
        .or_else(|| Some(overflow.limit?.saturating_add(overflow.excess?)));
    match (limit, used) {
        (Some(limit), Some(used)) if used > 0 => limit.scaled(estimate, Tokens::new(used)),
        (Some(limit), _) => limit.min(refused),
        (None, _) => refused,
    }
}

/// A learned window as the policy takes it.
pub fn policy_window(learned: Tokens) -> Tokens {
    let thousands = learned.get() / 1_000;
    let step = GRID.iter().rev().find(|&&step| step <= thousands);
    // Below the grid every token counts: hundreds.
    step.map_or_else(
        || Tokens::new(learned.get() / 100 * 100),
        |step| Tokens::new(step * 1_000),
    )
}
