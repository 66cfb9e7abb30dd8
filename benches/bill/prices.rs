//! Prices of input tokens: uncached, and cached by the provider.

use crate::sessions::Api;
use std::iter::Sum;
use std::ops::Add;

/// Price multipliers relative to uncached input, in hundredths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Prices {
    /// Name of the pair in a table: write / read.
    pub(crate) name: &'static str,
    write: u64,
    read: u64,
}

/// OpenAI up to gpt-5.5, Gemini and Mistral.
pub(crate) const FREE_WRITES: Prices = Prices { name: "1 / 0.1", write: 100, read: 10 };

/// The price pairs that a bill covers. The others: Anthropic and OpenAI from gpt-5.6 on; Groq and
/// older models of OpenAI. From the documentation of the providers, November 2026.
pub(crate) const PRICES: [Prices; 3] = [
    Prices { name: "1.25 / 0.1", write: 125, read: 10 },
    FREE_WRITES,
    Prices { name: "1 / 0.5", write: 100, read: 50 },
];

/// The price pairs of the Messages API: marks of five minutes, marks of an hour, and free writes
/// for comparison. From Anthropic's documentation, November 2026.
const MESSAGES: [Prices; 3] = [
    Prices { name: "1.25 / 0.1", write: 125, read: 10 },
    Prices { name: "2 / 0.1", write: 200, read: 10 },
    FREE_WRITES,
];

/// Returns the price pairs that a bill of sessions of this API covers.
pub(crate) fn of(api: Api) -> [Prices; 3] {
    match api {
        Api::ChatCompletions | Api::Responses => PRICES,
        Api::Messages => MESSAGES,
    }
}

/// Tokens of input, as the model counts them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Input {
    /// Uncached tokens.
    pub(crate) new: u64,
    /// Cached tokens.
    pub(crate) cached: u64,
}

impl Input {
    /// Builds an input of `all` tokens, including `cached` cached ones.
    pub(crate) fn of(all: u64, cached: u64) -> Self {
        Self { new: all - cached, cached }
    }

    /// Total tokens.
    pub(crate) fn tokens(self) -> u64 {
        self.new + self.cached
    }

    /// Cost, in hundredths of an uncached token.
    pub(crate) fn cost(self, prices: Prices) -> u64 {
        self.new * prices.write + self.cached * prices.read
    }
}

impl Add for Input {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { new: self.new + other.new, cached: self.cached + other.cached }
    }
}

impl Sum for Input {
    fn sum<I: Iterator<Item = Self>>(inputs: I) -> Self {
        inputs.fold(Self::default(), Add::add)
    }
}
