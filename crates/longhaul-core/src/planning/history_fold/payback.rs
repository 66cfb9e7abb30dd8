//! Whether a break of the prefix that no window forces is likely to pay for itself.
//!
//! After a break, the provider reads the rest of the prompt at the price of new input once. Later
//! requests no longer pay for the freed tokens. The number of later requests is unknown. A session is
//! likely to continue for a fraction of the requests so far.

use super::HistoryFold;
use crate::policy::{Profile, PruneTrigger};
use crate::units::tokens::Tokens;

/// Expected remaining requests, in percent of the requests so far.
const EXPECTED_PERCENT: u64 = 15;
/// Size to which a history is likely to grow, in percent of its size now. On the sessions for building,
/// 100 to 140 cost the same, and 160 costs more.
const LIKELY_GROWTH_PERCENT: u64 = 130;
/// Additional cost of a token that is read again, in tenths of the price of a cached token. The
/// highest common ratio is a cache write at 1.25 and a read at 0.1 of the input price.
const REREAD_TENTHS: u64 = 115;
/// Cost of a token of reasoning that the model makes again, in the same unit. Anthropic lists output at five times
/// the input price.
const RETHOUGHT_TENTHS: u64 = 500;

impl HistoryFold<'_, '_> {
    /// Whether clearing now is forced by the window, or likely to pay.
    pub(super) fn clearing_is_worthwhile(&self, point: usize) -> bool {
        let policy = self.policy;
        if !policy.weighs_clearing {
            return true;
        }
        if self.prune_size(point) >= policy.prune_thresholds.window_hard_threshold {
            // A cut in the same break frees more and keeps more.
            return !self.cuts_first;
        }
        let mark = policy.prune_thresholds.window_hard_threshold;
        if policy.settings.proactive && is_likely_to_reach(mark, self.prune_size(point)) {
            // The cut at the threshold frees more. Clearing would only postpone the cut.
            return false;
        }
        let Some(first) = self.prune_state.first_clearable() else {
            return true;
        };
        let freed = self.clearable_tokens();
        let reread = self.conversation.tokens_of(first..point) - freed;
        let lost = self.conversation.bound_reasoning(first..point);
        // The reasoning of a finished turn matters least.
        let newest = point.checked_sub(1).and_then(|at| self.conversation.message(at));
        let starts_turn = newest.is_some_and(|message| message.role.is_user());
        (lost == Tokens::ZERO || starts_turn)
            && is_likely_to_pay(self.requests, reread, lost, freed)
    }

    /// Clears results after a cut has failed, if the rule is one that fires at every request. Returns
    /// whether anything was cleared.
    pub(super) fn clear_by_rule(&mut self) -> bool {
        let fires = self.policy.weighs_clearing && self.rule_would_fire(PruneTrigger::Always);
        if fires {
            self.prune_state.clear_all_clearable();
        }
        fires
    }

    /// Whether a cut is forced by the window, or likely to pay, at this size of the conversation. What
    /// remains counts with its nominal size.
    pub(super) fn cutting_is_worthwhile(&self, size: Tokens) -> bool {
        let policy = self.policy;
        let output = self.conversation.output_tokens();
        let forced =
            policy.thresholds.window_hard_threshold.min(policy.thresholds.max_input(output));
        // Under `frugal`, a cut below the window's own hard threshold has to be likely to pay.
        if policy.settings.profile != Profile::Frugal || size >= forced {
            return true;
        }
        let fixed = self.fixed_tokens + self.pinned_tokens();
        let reread = policy.budgets_excluding(fixed).nominal() + policy.keep_recent;
        let freed = size - fixed - reread;
        is_likely_to_pay(self.requests, reread, Tokens::ZERO, freed)
    }
}

/// Whether a break after `requests` requests is likely to pay. The provider reads `reread` tokens again, and the model
/// makes `lost` tokens of reasoning again. Every later request is `freed` tokens shorter.
fn is_likely_to_pay(requests: usize, reread: Tokens, lost: Tokens, freed: Tokens) -> bool {
    let expected = (requests as u64).saturating_mul(EXPECTED_PERCENT);
    let saved = expected.saturating_mul(u64::from(freed.get()));
    // `saved` is in percent, `REREAD_TENTHS` in tenths.
    let (reread, lost) = (u64::from(reread.get()), u64::from(lost.get()));
    saved / 10 >= REREAD_TENTHS * reread + RETHOUGHT_TENTHS * lost
}

/// Whether a history of `size` is likely to grow to `mark`.
fn is_likely_to_reach(mark: Tokens, size: Tokens) -> bool {
    u64::from(size.get()) * LIKELY_GROWTH_PERCENT >= u64::from(mark.get()) * 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_likely_to_grow_by_three_tenths() {
        let reaches = |size| is_likely_to_reach(Tokens::new(130_000), Tokens::new(size));
        assert!(!reaches(99_999));
        assert!(reaches(100_000));
    }

    #[test]
    fn a_cache_break_pays_if_the_expected_requests_earn_it_back() {
        let check = |requests, reread, freed, expect| {
            let [reread, freed] = [reread, freed].map(Tokens::new);
            let pays = |lost| is_likely_to_pay(requests, reread, Tokens::new(lost), freed);
            assert_eq!(pays(0), expect, "{requests}");
            assert!(expect || !pays(1), "{requests}");
        };
        // After 100 requests, 15 more are expected.
        check(100, 15_000, 11_500, true);
        check(100, 15_000, 11_499, false);
        check(0, 1, 1_000_000, false);
        check(1, 0, 0, true);
        check(usize::MAX, u32::MAX, u32::MAX, true);
        // Reasoning weighs more than four times as much.
        let pays =
            |lost| is_likely_to_pay(100, Tokens::ZERO, Tokens::new(lost), Tokens::new(10_000));
        assert!(pays(3_000) && !pays(3_001));
    }
}
