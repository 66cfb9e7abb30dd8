//! Prices of a model, inferred from the costs that its provider reports.
//!
//! A reply's cost is a sum of products: tokens of plain input, cached input and output, each times its
//! price. Several replies with different proportions determine the prices by least squares.

use crate::cost::pricing::{Price, PriceOrigin, TokenPrices};
use crate::dialect::usage::Usage;

/// Replies needed before prices are inferred: more than there are prices, so that a wrong model of the
/// cost shows.
const MIN_REPLIES: u32 = 5;
/// Largest error of the fitted costs, as a share of the costs. Tiers, fees and rounding exceed it.
const MAX_ERROR: f64 = 0.01;
/// Weight of all earlier replies after each new one, so that the prices follow a change.
const MEMORY: f64 = 0.98;
/// Smallest pivot, as a share of the largest entry, for which an equation counts as independent.
const MIN_PIVOT: f64 = 1e-9;
/// Billionths of a dollar per token that correspond to a dollar per million tokens.
const NANOS_PER_DOLLAR_PER_MILLION: f64 = 1_000.0;

/// Sums over the replies of one model.
#[derive(Clone, Copy, Debug, Default)]
pub struct InferredPrices {
    replies: u32,
    /// Sums of products of token counts: plain input, cached input, output.
    products: [[f64; 3]; 3],
    /// Sums of products of token counts and cost.
    costs: [f64; 3],
    /// Sum of squared costs.
    squares: f64,
}

impl InferredPrices {
    /// Adds a reply, if its usage states its cost.
    pub fn add(&mut self, usage: &Usage) {
        let Some(cost) = usage.cost else { return };
        // Writing to the cache has a price of its own, which so few replies do not show.
        if usage.written > 0 || usage.input == 0 {
            return;
        }
        let cached = usage.cached.unwrap_or(0).min(usage.input);
        let tokens = [
            f64::from(usage.input - cached),
            f64::from(cached),
            f64::from(usage.output.unwrap_or(0)),
        ];
        #[expect(
            clippy::cast_precision_loss,
            reason = "costs have far fewer digits than the mantissa"
        )]
        let cost = cost.as_nanos() as f64;
        self.replies = self.replies.saturating_add(1);
        for (at, one) in tokens.iter().enumerate() {
            for (sum, other) in self.products[at].iter_mut().zip(tokens) {
                *sum = *sum * MEMORY + one * other;
            }
            self.costs[at] = self.costs[at] * MEMORY + one * cost;
        }
        self.squares = self.squares * MEMORY + cost * cost;
    }

    /// Returns the prices if the replies determine them. A kind of token that no reply contains has no
    /// price.
    pub fn prices(&self) -> Option<TokenPrices> {
        if self.replies < MIN_REPLIES {
            return None;
        }
        let used: Vec<usize> = (0..3).filter(|&at| self.products[at][at] > 0.0).collect();
        let solution = self.solve(&used)?;
        if self.relative_error(&used, &solution) > MAX_ERROR {
            return None;
        }
        let price = |kind: usize| {
            let at = used.iter().position(|&it| it == kind)?;
            Price::nearest(solution.get(at)? / NANOS_PER_DOLLAR_PER_MILLION)
        };
        // A negative price is a sign of a wrong model.
        let is_sound = used.iter().all(|&kind| price(kind).is_some());
        is_sound.then_some(())?;
        Some(TokenPrices {
            origin: PriceOrigin::Inferred,
            input: price(0)?,
            cached: price(1),
            written: None,
            output: price(2),
        })
    }

    /// Solves the normal equations of the `used` kinds by Gaussian elimination with pivots.
    fn solve(&self, used: &[usize]) -> Option<Vec<f64>> {
        let size = used.len();
        let mut rows: Vec<Vec<f64>> = used
            .iter()
            .map(|&row| {
                let left = used.iter().map(|&column| self.products[row][column]);
                left.chain([self.costs[row]]).collect()
            })
            .collect();
        for column in 0..size {
            let largest = rows.iter().skip(column).map(|row| row[column].abs());
            let largest = largest.fold(0.0, f64::max);
            if largest <= MIN_PIVOT * self.products[used[column]][used[column]] {
                return None;
            }
            let pivot = (column..size).find(|&row| rows[row][column].abs() >= largest)?;
            rows.swap(column, pivot);
            for row in column + 1..size {
                let factor = rows[row][column] / rows[column][column];
                for at in column..=size {
                    rows[row][at] -= factor * rows[column][at];
                }
            }
        }
        let mut solution = vec![0.0; size];
        for row in (0..size).rev() {
            let known: f64 = (row + 1..size).map(|at| rows[row][at] * solution[at]).sum();
            solution[row] = (rows[row][size] - known) / rows[row][row];
        }
        Some(solution)
    }

    /// Returns the root of the squared error of the fitted costs over their squares.
    fn relative_error(&self, used: &[usize], solution: &[f64]) -> f64 {
        let mut error = self.squares;
        for (at, &one) in used.iter().enumerate() {
            error -= 2.0 * solution[at] * self.costs[one];
            for (other_at, &other) in used.iter().enumerate() {
                error += solution[at] * solution[other_at] * self.products[one][other];
            }
        }
        if self.squares > 0.0 {
            (error.max(0.0) / self.squares).sqrt()
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::usd::Usd;

    fn reply(input: u32, cached: u32, output: u32, nanos: i64) -> Usage {
        Usage {
            input,
            cached: Some(cached),
            output: Some(output),
            cost: Some(Usd::from_nanos(nanos)),
            ..Usage::default()
        }
    }

    /// A reply at $2, $0.50 and $8 per million tokens.
    fn at_price(input: u32, cached: u32, output: u32) -> Usage {
        let (plain, read) = (i64::from(input - cached), i64::from(cached));
        let cost = plain * 2_000 + read * 500 + i64::from(output) * 8_000;
        reply(input, cached, output, cost)
    }

    fn inferred(replies: &[Usage]) -> Option<TokenPrices> {
        let mut inferred = InferredPrices::default();
        for usage in replies {
            inferred.add(usage);
        }
        inferred.prices()
    }

    const SIZES: [(u32, u32, u32); 6] = [
        (1_000, 0, 100),
        (2_000, 900, 300),
        (5_000, 4_000, 20),
        (9_000, 5_000, 800),
        (12_000, 11_000, 90),
        (700, 0, 700),
    ];

    #[test]
    fn several_replies_determine_the_prices() {
        let replies = SIZES.map(|(input, cached, output)| at_price(input, cached, output));
        let prices = inferred(&replies).unwrap();
        let listed = |dollars| Price::from_dollars_per_million(dollars);
        assert_eq!(Some(prices.input), listed("2"));
        assert_eq!((prices.cached, prices.output), (listed("0.5"), listed("8")));
        assert_eq!(inferred(&replies[..4]), None, "too few");
    }

    #[test]
    fn what_no_reply_contains_has_no_price() {
        let replies = SIZES.map(|(input, ..)| at_price(input, 0, 0));
        let prices = inferred(&replies).unwrap();
        assert_eq!((prices.cached, prices.output), (None, None));
    }

    #[test]
    fn costs_that_are_no_sum_of_prices_or_are_all_alike_determine_nothing() {
        let mut at = 0;
        let odd = SIZES.map(|(input, cached, output)| {
            at += 1;
            reply(
                input,
                cached,
                output,
                if at % 2 == 0 { 9_000_000 } else { 1_000 },
            )
        });
        assert_eq!(inferred(&odd), None);
        assert_eq!(inferred(&[at_price(1_000, 500, 100); 9]), None);
        assert_eq!(inferred(&[reply(0, 0, 0, 5); 9]), None);
    }

    #[test]
    fn the_prices_follow_a_change() {
        let mut replies = Vec::new();
        for _ in 0..10 {
            replies.extend(SIZES.map(|(input, cached, output)| at_price(input, cached, output)));
        }
        let doubled = |(input, cached, output)| {
            let usage = at_price(input, cached, output);
            let cost = usage.cost.unwrap().as_nanos() * 2;
            reply(input, cached, output, cost)
        };
        for _ in 0..120 {
            replies.extend(SIZES.map(doubled));
        }
        let prices = inferred(&replies).unwrap();
        assert_eq!(Some(prices.input), Price::from_dollars_per_million("4"));
    }
}
