//! Ratios between provider counts and longhaul's token estimate, which convert a window into
//! estimated tokens.
//!
//! Measured in the logs of recorded sessions, the providers' own input counts depend on the
//! estimate (characters over four) as follows:
//!
//! - one family of models: 22,000 + 0.96 × estimate;
//! - a second family: 37,000 to 53,000 + 1.2 to 1.6 × estimate;
//! - a third: about 3 × estimate.
//!
//! These numbers include reasoning and attachments that the logs omit. A count therefore has a
//! fixed and a proportional part, and the last count of a conversation reveals both.

use crate::units::tokens::Tokens;
use crate::window::reply_signals::TRUNCATED_PERCENT;
use serde::{Deserialize, Serialize};

/// A ratio of one, in thousandths.
const ONE: u32 = 1_000;
/// The smallest ratio, in thousandths. The lowest measured values are 0.96 and, on mixed code and
/// prose, 0.91. Only runs of spaces and base64 lie below, and the next message may contain neither.
const MIN_RATIO: u32 = 750;
/// The largest ratio, in thousandths. About 3 was measured; 4 is one token per character.
const MAX_RATIO: u32 = 4_000;
/// The smallest request that updates a model's average. In smaller requests, the tokens that the
/// provider adds weigh as much as the request.
const MIN_SAMPLE: Tokens = Tokens::new(4_000);
/// The approximate number of requests over which a model's ratio is averaged.
const AVERAGED_SAMPLES: u32 = 8;

/// The size of one request as longhaul estimates it and as the provider counts it. Both refer to
/// the forwarded request, after any compaction.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct CountSample {
    estimate: Tokens,
    counted: Tokens,
}

impl CountSample {
    /// Creates a sample; `None` if the count cannot cover the whole prompt. Some servers truncate
    /// the prompt, others leave out its cached part.
    pub fn new(estimate: Tokens, counted: u32) -> Option<Self> {
        let whole = counted > estimate.percent(TRUNCATED_PERCENT).get();
        whole.then_some(Self { estimate, counted: Tokens::new(counted) })
    }

    /// Returns at least as many tokens as the provider will count of a request of `request` estimated
    /// tokens. They are the count in proportion, and half of the difference of the sizes. Calls and their frames
    /// take up to 1.3 times the tokens of results of the same length.
    pub fn upper_count(self, request: Tokens) -> Tokens {
        let scaled = request.scaled(self.counted, self.estimate.max(Tokens::new(1)));
        let apart = (request - self.estimate) + (self.estimate - request);
        scaled + apart.divided_by(2).min(scaled) + scaled.percent(2)
    }
}

/// Provider tokens per estimated token, in thousandths, clamped to `MIN_RATIO` and `MAX_RATIO`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct TokenRatio(u32);

impl Default for TokenRatio {
    fn default() -> Self {
        Self(ONE)
    }
}

impl TokenRatio {
    /// Computes the ratio of `counted` provider tokens to `estimate` estimated tokens.
    pub fn from_counts(counted: Tokens, estimate: Tokens) -> Self {
        let thousandths = Tokens::new(ONE).scaled(counted, estimate).get();
        Self(thousandths.clamp(MIN_RATIO, MAX_RATIO))
    }

    /// Updates a model's moving average with another sample. The first sample becomes the average;
    /// a request that is too small leaves it unchanged.
    pub fn moving_average(before: Option<Self>, sample: CountSample) -> Option<Self> {
        if sample.estimate < MIN_SAMPLE {
            return before;
        }
        let Self(new) = Self::from_counts(sample.counted, sample.estimate);
        let average =
            before.map_or(new, |Self(old)| (old * (AVERAGED_SAMPLES - 1) + new) / AVERAGED_SAMPLES);
        Some(Self(average))
    }

    /// Whether the provider may count a request of `request` estimated tokens at `mark` or more.
    pub(super) fn may_reach(request: Tokens, mark: Tokens) -> bool {
        request.scaled(Tokens::new(MAX_RATIO), Tokens::new(ONE)) >= mark
    }

    /// Whether `self` differs from `other` by more than a sixteenth, the step in which counts move
    /// the thresholds.
    pub fn is_far_from(self, other: Self) -> bool {
        self.0.abs_diff(other.0) > other.0 / 16
    }

    /// Converts estimated tokens to provider tokens.
    pub fn to_counted(self, estimate: Tokens) -> Tokens {
        estimate.scaled(Tokens::new(self.0), Tokens::new(ONE))
    }

    fn to_estimated(self, counted: Tokens) -> Tokens {
        counted.scaled(Tokens::new(ONE), Tokens::new(self.0))
    }
}

/// The samples and ratios from which a conversation's token count is predicted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TokenCalibration {
    /// The conversation's last counted request, if any.
    pub last_sample: Option<CountSample>,
    /// The model's average ratio, if known.
    pub model_ratio: Option<TokenRatio>,
    /// The ratio expected from the scripts of the conversation's text.
    pub text_ratio: TokenRatio,
}

impl TokenCalibration {
    /// Converts the provider's `window` to estimated tokens: the size at which the last count plus
    /// the growth since reaches the window. Growth is converted at the higher of the two ratios.
    ///
    /// The conversion depends on the size of the counted request alone. A count taken before a
    /// compaction therefore cannot trigger another one.
    pub(crate) fn estimated_window(&self, window: Tokens) -> Tokens {
        let ratio = self.model_ratio.unwrap_or_default().max(self.text_ratio);
        let estimated = match self.last_sample {
            None => ratio.to_estimated(window),
            Some(CountSample { estimate, counted }) if counted <= window => {
                estimate + ratio.to_estimated(window - counted)
            }
            Some(CountSample { estimate, counted }) => {
                estimate - ratio.to_estimated(counted - window)
            }
        };
        let (least, most) = (TokenRatio(MAX_RATIO), TokenRatio(MIN_RATIO));
        estimated.clamp(least.to_estimated(window), most.to_estimated(window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Tokens = Tokens::new(100_000);

    /// Checks the window after the conversation's last sample and one sample of its model.
    fn check(last: Option<(u32, u32)>, model: Option<(u32, u32)>, expect: u32) {
        let sample =
            |(estimate, counted)| CountSample::new(Tokens::new(estimate), counted).unwrap();
        let counts = TokenCalibration {
            last_sample: last.map(sample),
            model_ratio: model.and_then(|model| TokenRatio::moving_average(None, sample(model))),
            text_ratio: TokenRatio::default(),
        };
        assert_eq!(counts.estimated_window(WINDOW).get(), expect, "{last:?}, {model:?}");
    }

    #[test]
    fn without_counts_the_window_is_unchanged() {
        check(None, None, 100_000);
    }

    #[test]
    fn the_models_average_ratio_scales_the_window() {
        check(None, Some((10_000, 16_000)), 62_500);
    }

    #[test]
    fn fixed_overhead_in_a_count_is_deducted_once() {
        // 22,000 plus the estimate, rather than 3.2 times the estimate at every size.
        check(Some((10_000, 32_000)), None, 78_000);
        check(Some((50_000, 72_000)), None, 78_000);
    }

    #[test]
    fn growth_since_the_count_is_scaled_by_the_models_ratio() {
        check(Some((50_000, 60_000)), Some((50_000, 80_000)), 75_000);
    }

    #[test]
    fn a_count_above_the_window_shrinks_it_below_the_sent_size() {
        check(Some((90_000, 120_000)), None, 70_000);
    }

    #[test]
    fn counts_keep_the_window_within_its_range() {
        check(Some((90_000, u32::MAX)), None, 25_000);
        check(None, Some((4_000, u32::MAX)), 25_000);
        check(Some((500_000, 301_000)), None, 133_333);
    }

    #[test]
    fn small_requests_do_not_update_the_models_ratio() {
        check(None, Some((3_999, 10_000)), 100_000);
    }

    #[test]
    fn another_request_is_counted_higher_the_further_it_is_from_the_sample() {
        let sample = CountSample::new(Tokens::new(10_000), 15_000).unwrap();
        let upper = |request| sample.upper_count(Tokens::new(request)).get();
        assert_eq!(upper(10_000), 15_300);
        assert_eq!(upper(12_000), 18_000 + 1_000 + 360);
        assert_eq!(upper(4_000), 6_000 + 3_000 + 120);
        assert_eq!(upper(1_000), 1_500 + 1_500 + 30);
    }

    #[test]
    fn a_truncated_prompt_yields_no_sample() {
        let of = |counted| CountSample::new(Tokens::new(10_000), counted);
        assert_eq!(of(6_000), None);
        assert!(of(6_001).is_some());
    }

    #[test]
    fn moving_average_follows_gradually() {
        let sample = |counted| CountSample::new(Tokens::new(10_000), counted).unwrap();
        let first = TokenRatio::moving_average(None, sample(10_000));
        assert_eq!(first, Some(TokenRatio(1_000)));
        assert_eq!(TokenRatio::moving_average(first, sample(18_000)), Some(TokenRatio(1_100)));
        let mut at = first;
        for _ in 0..64 {
            at = TokenRatio::moving_average(at, sample(18_000));
        }
        assert!(at > Some(TokenRatio(1_750)), "{at:?}");
    }

    #[test]
    fn estimates_convert_to_counts_by_the_ratio() {
        let sample = CountSample::new(Tokens::new(10_000), 16_000).unwrap();
        let ratio = TokenRatio::moving_average(None, sample).unwrap();
        assert_eq!(ratio.to_counted(Tokens::new(500)), Tokens::new(800));
    }

    #[test]
    fn may_reach_holds_from_a_quarter_of_the_mark() {
        let may_reach = |request| TokenRatio::may_reach(Tokens::new(request), WINDOW);
        assert_eq!([24_999, 25_000, 25_001].map(may_reach), [false, true, true]);
    }

    #[test]
    fn is_far_from_holds_beyond_a_sixteenth() {
        let (ratio, denser) = (TokenRatio(1_600), TokenRatio(3_200));
        for (ratio, step) in [(ratio, 100), (denser, 200)] {
            let moved = |to: u32| TokenRatio(to).is_far_from(ratio);
            let TokenRatio(at) = ratio;
            let within = [at - step, at, at + step].map(moved);
            assert_eq!(within, [false; 3], "{ratio:?}");
            let beyond = [at - step - 1, at + step + 1].map(moved);
            assert_eq!(beyond, [true; 2], "{ratio:?}");
        }
    }
}
