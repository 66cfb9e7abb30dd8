//! The budget: the limit of a run, its cost so far, and the cost still to come.

use longhaul_core::cost::pricing::{Cost, Price, TokenPrices};
use longhaul_core::dialect::usage::Usage;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;
use longhaul_core::window::token_ratio::TokenRatio;

/// Price of output relative to input where only the price of input is known. No provider in the list of
/// models charges more.
const OUTPUT_FACTOR: u32 = 10;

/// A call that may be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallSize {
    /// Plain estimate of the input.
    pub(super) estimate: Tokens,
    /// Input as the provider probably counts it, before any count is known.
    pub(super) expected: Tokens,
    /// Maximum output.
    pub(super) output: Tokens,
    /// The prices of the model that is called, if known.
    pub(super) prices: Option<TokenPrices>,
    /// Whether the request marks input for the provider's cache, which may cost more.
    pub(super) has_cache_mark: bool,
    /// Whether a mark requests an hour in the cache, which costs more than minutes.
    pub(super) has_hour_mark: bool,
}

/// Calls that are still to be made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Planned {
    pub(super) steps: usize,
    pub(super) summaries: usize,
    pub(super) input: u64,
    pub(super) output: u64,
    /// Cost of the calls with a known price.
    pub(super) cost: Usd,
    /// Whether a call has no known price.
    pub(super) is_unpriced: bool,
}

impl Planned {
    /// Whether every answer is known.
    pub(super) fn is_nothing(&self) -> bool {
        self.steps + self.summaries == 0
    }
}

/// The cost reserved for a call in flight.
#[must_use]
#[derive(Debug)]
pub(super) struct Reserved(Usd);

/// The budget of a run.
#[derive(Debug)]
pub(super) struct Spending {
    limit: Option<Usd>,
    /// Cost of everything in the results file.
    spent: Usd,
    reserved: Usd,
    /// The highest ratio of counted to estimated tokens so far.
    ratio: Option<TokenRatio>,
    /// Whether a call was not made because of the limit.
    is_exhausted: bool,
    pub(super) planned: Planned,
}

impl Spending {
    /// Creates a budget of which `spent` is used up.
    pub(super) fn new(limit: Option<Usd>, spent: Usd) -> Self {
        Self {
            limit,
            spent,
            reserved: Usd::ZERO,
            ratio: None,
            is_exhausted: false,
            planned: Planned::default(),
        }
    }

    /// Adds a call to the plan.
    pub(super) fn plan(&mut self, size: CallSize, is_summary: bool) {
        let (input, cost) = self.most(size);
        let planned = &mut self.planned;
        if is_summary {
            planned.summaries += 1;
        } else {
            planned.steps += 1;
        }
        planned.input += u64::from(input.get());
        planned.output += u64::from(size.output.get());
        match cost {
            Some(cost) => planned.cost += cost,
            None => planned.is_unpriced = true,
        }
    }

    /// Reserves the expected cost of a call with its longest answer. Returns `None` if that cost may exceed
    /// the limit. No later call is then made, so that a run does not pick the cheap ones.
    pub(super) fn reserve(&mut self, size: CallSize) -> Option<Reserved> {
        let (_, cost) = self.most(size);
        if let Some(limit) = self.limit {
            let fits = cost.is_some_and(|cost| self.spent + self.reserved + cost <= limit);
            if self.is_exhausted || !fits {
                self.is_exhausted = true;
                return None;
            }
        }
        let cost = cost.unwrap_or(Usd::ZERO);
        self.reserved += cost;
        Some(Reserved(cost))
    }

    /// Returns the expected input of a call, corrected by the counts so far, and its cost with the longest answer.
    fn most(&self, size: CallSize) -> (Tokens, Option<Usd>) {
        let counted = self.ratio.map(|ratio| ratio.to_counted(size.estimate));
        let input = counted.map_or(size.expected, |counted| counted.max(size.expected));
        (input, size.cost(input))
    }

    /// Replaces a reservation by the cost of the answer. `usage` is `None` if the provider counted
    /// nothing; the reservation then counts, unless the call was refused.
    pub(super) fn settle(
        &mut self,
        Reserved(reserved): Reserved,
        size: CallSize,
        answer: CallCost,
    ) -> Option<Usd> {
        self.reserved -= reserved;
        let cost = match answer {
            CallCost::Free => Some(Usd::ZERO),
            CallCost::Counted(usage) => {
                let counted = TokenRatio::from_counts(Tokens::new(usage.input), size.estimate);
                if usage.input > 0 {
                    self.ratio = Some(self.ratio.map_or(counted, |before| before.max(counted)));
                }
                size.cost_of(&usage)
            }
            CallCost::Uncounted => size.prices.map(|_| reserved),
        };
        self.spent += cost.unwrap_or(Usd::ZERO);
        cost
    }

    /// Returns the cost of everything in the results file.
    pub(super) fn spent(&self) -> Usd {
        self.spent
    }

    /// Whether a call was not made because of the limit.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }
}

/// Cost of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallCost {
    /// The call was refused.
    Free,
    Counted(Usage),
    /// The provider answered, and counted nothing.
    Uncounted,
}

impl CallSize {
    /// Returns the most that the call can cost with this input.
    fn cost(&self, input: Tokens) -> Option<Usd> {
        let prices = self.prices?;
        let written = if self.has_cache_mark { input.get() } else { 0 };
        let usage = Usage {
            input: input.get(),
            written,
            written_for_hour: if self.has_hour_mark { written } else { 0 },
            ..Usage::default()
        };
        Some(prices.input_cost(&usage)? + output_cost(prices, self.output.get()))
    }

    /// Returns the cost of an answer: the provider's own figure, or one by the prices.
    fn cost_of(&self, usage: &Usage) -> Option<Usd> {
        if let Some(reported) = Cost::from_usage(Some(usage), None).amount() {
            return Some(reported);
        }
        let prices = self.prices?;
        // Without a price for cached input, all input costs the same.
        let uncached = Usage { cached: None, ..*usage };
        let input = prices.input_cost(usage).or_else(|| prices.input_cost(&uncached))?;
        let output = usage.output.unwrap_or_else(|| self.output.get());
        Some(input + output_cost(prices, output))
    }
}

fn output_cost(prices: TokenPrices, output: u32) -> Usd {
    let (price, tokens): (Price, u32) = match prices.output {
        Some(price) => (price, output),
        None => (prices.input, output.saturating_mul(OUTPUT_FACTOR)),
    };
    price.cost_of(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::cost::pricing::PriceOrigin;

    /// A dollar per million input tokens, and five per million output tokens.
    fn size(input: u32, output: u32) -> CallSize {
        CallSize {
            estimate: Tokens::new(input),
            expected: Tokens::new(input),
            output: Tokens::new(output),
            prices: Some(TokenPrices {
                origin: PriceOrigin::Setting,
                input: Price::stated("1").unwrap(),
                cached: Price::stated("0.1"),
                written: Price::stated("1.25"),
                output: Price::stated("5"),
            }),
            has_cache_mark: false,
            has_hour_mark: false,
        }
    }

    fn usage(input: u32, output: u32) -> Usage {
        Usage { input, output: Some(output), ..Usage::default() }
    }

    #[test]
    fn a_call_is_made_only_if_its_most_expensive_outcome_fits() {
        let limit = Usd::from_nanos(2_500_000);
        let mut spending = Spending::new(Some(limit), Usd::ZERO);
        // 1,000 tokens at a microdollar, and 100 at five.
        let first = spending.reserve(size(1_000, 100)).unwrap();
        assert!(spending.reserve(size(1_000, 100)).is_none());
        assert!(spending.is_exhausted());
        let cost = spending.settle(first, size(1_000, 100), CallCost::Counted(usage(1_000, 20)));
        assert_eq!(cost, Some(Usd::from_nanos(1_100_000)));
        // A smaller call would fit, but the run has stopped.
        assert!(spending.reserve(size(10, 1)).is_none());
    }

    #[test]
    fn a_refusal_costs_nothing_and_an_uncounted_answer_costs_its_reservation() {
        let mut spending = Spending::new(None, Usd::ZERO);
        let call = size(1_000, 0);
        for (answer, spent) in [(CallCost::Free, 0), (CallCost::Uncounted, 1_000_000)] {
            let reserved = spending.reserve(call).unwrap();
            _ = spending.settle(reserved, call, answer);
            assert_eq!(spending.spent(), Usd::from_nanos(spent));
        }
    }

    #[test]
    fn counts_of_the_provider_correct_the_estimate_of_later_calls() {
        let mut spending = Spending::new(Some(Usd::from_nanos(3_500_000)), Usd::ZERO);
        let call = size(1_000, 0);
        let reserved = spending.reserve(call).unwrap();
        _ = spending.settle(reserved, call, CallCost::Counted(usage(1_500, 0)));
        // 1.5 of 3.5 are spent, and the next call counts 1.5 as well: 3.0. A third one would not fit.
        let reserved = spending.reserve(call).unwrap();
        _ = spending.settle(reserved, call, CallCost::Counted(usage(1_500, 0)));
        assert!(spending.reserve(call).is_none());
    }

    #[test]
    fn a_limit_without_a_price_allows_no_call() {
        let unpriced = CallSize { prices: None, ..size(10, 10) };
        let mut limited = Spending::new(Some(Usd::from_nanos(1)), Usd::ZERO);
        assert!(limited.reserve(unpriced).is_none());
        let mut free = Spending::new(None, Usd::ZERO);
        assert!(free.reserve(unpriced).is_some());
        free.plan(unpriced, false);
        free.plan(size(10, 10), true);
        assert_eq!(
            free.planned,
            Planned {
                steps: 1,
                summaries: 1,
                input: 20,
                output: 20,
                cost: Usd::from_nanos(60_000),
                is_unpriced: true
            }
        );
    }

    #[test]
    fn marked_input_costs_the_price_of_cache_writes_at_most() {
        let marked = CallSize { has_cache_mark: true, ..size(1_000, 0) };
        let mut spending = Spending::new(None, Usd::ZERO);
        spending.plan(marked, false);
        assert_eq!(spending.planned.cost, Usd::from_nanos(1_250_000));
        let for_hour = CallSize { has_hour_mark: true, ..marked };
        spending.plan(for_hour, false);
        assert_eq!(spending.planned.cost, Usd::from_nanos(1_250_000 + 2_000_000));
    }

    #[test]
    fn output_without_a_price_counts_ten_times_the_input_price() {
        let mut call = size(0, 100);
        call.prices = call.prices.map(|prices| TokenPrices { output: None, ..prices });
        let mut spending = Spending::new(None, Usd::ZERO);
        spending.plan(call, false);
        assert_eq!(spending.planned.cost, Usd::from_nanos(1_000_000));
    }
}
