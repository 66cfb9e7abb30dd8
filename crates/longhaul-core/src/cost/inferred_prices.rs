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
/// Smallest determinant, as a share of the product of the diagonal, for which the replies differ enough.
const MIN_DETERMINANT: f64 = 1e-9;
/// Billionths of a dollar per token that correspond to a dollar per million tokens.
const NANOS_PER_DOLLAR_PER_MILLION: f64 = 1_000.0;

/// A number for each kind of token: plain input, cached input, output.
type Kinds = [f64; 3];

/// Sums over the replies of one model.
#[derive(Clone, Copy, Debug, Default)]
pub struct InferredPrices {
    replies: u32,
    /// Sums of products of two token counts: a symmetric matrix.
    products: [Kinds; 3],
    /// Sums of products of token counts and cost.
    costs: Kinds,
    /// Sum of squared costs.
    cost_squares: f64,
}

fn dot(one: Kinds, other: Kinds) -> f64 {
    one.into_iter().zip(other).map(|(a, b)| a * b).sum()
}

fn determinant_of([one, two, three]: [Kinds; 3]) -> f64 {
    let ([plain, cached, output], [p, c, o]) = (two, three);
    let minors = [cached * o - output * c, output * p - plain * o, plain * c - cached * p];
    dot(one, minors)
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
        let output = usage.output.unwrap_or(0);
        let tokens = [usage.input - cached, cached, output].map(f64::from);
        #[expect(
            clippy::cast_precision_loss,
            reason = "costs have far fewer digits than the mantissa"
        )]
        let cost = cost.as_nanos() as f64;
        let add = |sum: &mut f64, product: f64| *sum = *sum * MEMORY + product;
        self.replies = self.replies.saturating_add(1);
        let sums = self.products.iter_mut().zip(&mut self.costs);
        for ((products, costs), count) in sums.zip(tokens) {
            for (sum, other) in products.iter_mut().zip(tokens) {
                add(sum, count * other);
            }
            add(costs, count * cost);
        }
        add(&mut self.cost_squares, cost * cost);
    }

    /// Returns the prices if the replies determine them. A kind of token that no reply contains has no
    /// price.
    pub fn prices(&self) -> Option<TokenPrices> {
        if self.replies < MIN_REPLIES {
            return None;
        }
        let solution = self.solve()?;
        let [plain, cached, output] = solution;
        if self.relative_error(solution) > MAX_ERROR {
            return None;
        }
        // A negative price is a sign of a wrong model, unless rounding makes a price of zero negative.
        let rounding = -plain * MAX_ERROR;
        let price = |nanos: f64| {
            let nanos = if nanos > rounding { nanos.max(0.0) } else { nanos };
            Price::nearest(nanos / NANOS_PER_DOLLAR_PER_MILLION)
        };
        let used = |square: f64, price: Price| (square > 0.0).then_some(price);
        let [_, [_, cached_square, _], [.., output_square]] = self.products;
        Some(TokenPrices {
            origin: PriceOrigin::Inferred,
            input: price(plain)?,
            cached: used(cached_square, price(cached)?),
            written: None,
            output: used(output_square, price(output)?),
        })
    }

    /// Solves the normal equations by Cramer's rule. The price of a kind that no reply contains is zero.
    fn solve(&self) -> Option<Kinds> {
        let mut matrix = self.products;
        for (at, row) in matrix.iter_mut().enumerate() {
            if let Some(square) = row.get_mut(at).filter(|square| **square <= 0.0) {
                *square = 1.0;
            }
        }
        let [[plain, ..], [_, cached, _], [.., output]] = matrix;
        let determinant = determinant_of(matrix);
        if determinant <= MIN_DETERMINANT * plain * cached * output {
            return None;
        }
        // The matrix is symmetric, so a row can take the place of a column.
        Some([0, 1, 2].map(|at| {
            let mut replaced = matrix;
            if let Some(row) = replaced.get_mut(at) {
                *row = self.costs;
            }
            determinant_of(replaced) / determinant
        }))
    }

    /// Returns the root of the squared error of the fitted costs over their squares.
    fn relative_error(&self, prices: Kinds) -> f64 {
        let fitted = dot(prices, self.products.map(|row| dot(row, prices)));
        let error = self.cost_squares - 2.0 * dot(prices, self.costs) + fitted;
        if self.cost_squares > 0.0 { (error.max(0.0) / self.cost_squares).sqrt() } else { 0.0 }
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
    fn free_output_has_a_price_of_zero_whatever_the_rounding() {
        for step in 1..200_u32 {
            let replies = SIZES.map(|(input, cached, output)| {
                let (input, output) = (input * 7 + step * 13, output + step % 11);
                reply(input, cached, output, i64::from(input) * 2_000)
            });
            let prices = inferred(&replies).unwrap();
            let of_a_million = prices.output.unwrap().cost_of(1_000_000);
            assert!(of_a_million < Usd::from_nanos(1_000_000), "{step}");
        }
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
            reply(input, cached, output, if at % 2 == 0 { 9_000_000 } else { 1_000 })
        });
        assert_eq!(inferred(&odd), None);
        assert_eq!(inferred(&[at_price(1_000, 500, 100); 9]), None);
        assert_eq!(inferred(&[reply(0, 0, 0, 5); 9]), None);
        assert_eq!(inferred(&SIZES.map(|_| Usage::default())), None);
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
        for _ in 0..300 {
            replies.extend(SIZES.map(doubled));
        }
        let prices = inferred(&replies).unwrap();
        assert_eq!(Some(prices.input), Price::from_dollars_per_million("4"));
    }
}
