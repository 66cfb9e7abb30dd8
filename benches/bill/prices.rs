//! What input costs: tokens that are new to the provider's prompt cache, and tokens that it knows.

use std::iter::Sum;
use std::ops::Add;

/// Multipliers of the price of uncached input, in hundredths.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Prices {
    /// How the pair is called in a table: write / read.
    pub(crate) name: &'static str,
    write: u64,
    read: u64,
}

/// OpenAI up to gpt-5.5, Gemini and Mistral.
pub(crate) const FREE_WRITES: Prices = Prices {
    name: "1 / 0.1",
    write: 100,
    read: 10,
};

/// The pairs that a bill is made out for. The others: Anthropic and OpenAI from gpt-5.6 on; Groq
/// and older models of OpenAI. From the documentation of the providers, November 2026.
pub(crate) const PRICES: [Prices; 3] = [
    Prices {
        name: "1.25 / 0.1",
        write: 125,
        read: 10,
    },
    FREE_WRITES,
    Prices {
        name: "1 / 0.5",
        write: 100,
        read: 50,
    },
];

/// Tokens of input, as the model counts them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Input {
    /// Those that the cache did not know.
    pub(crate) new: u64,
    /// Those that it knew.
    pub(crate) cached: u64,
}

impl Input {
    /// An input of `all` tokens of which the cache knew some.
    pub(crate) fn of(all: u64, cached: u64) -> Self {
        Self {
            new: all - cached,
            cached,
        }
    }

    /// All of it.
    pub(crate) fn tokens(self) -> u64 {
        self.new + self.cached
    }

    /// What it costs, in hundredths of an uncached token.
    pub(crate) fn cost(self, prices: Prices) -> u64 {
        self.new * prices.write + self.cached * prices.read
    }
}

impl Add for Input {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            new: self.new + other.new,
            cached: self.cached + other.cached,
        }
    }
}

impl Sum for Input {
    fn sum<I: Iterator<Item = Self>>(inputs: I) -> Self {
        inputs.fold(Self::default(), Add::add)
    }
}
