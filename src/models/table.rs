//! The table as it is embedded: searched in its own bytes, read where a row is found.

use super::ModelLimits;
use crate::rewrite::money::{InputPrices, Price};
use crate::rewrite::tokens::Tokens;

/// Sorted by its lines' bytes, so by model and then by provider. `config/models/make` writes it.
const TABLE: &str = include_str!("../../config/models/table.tsv");

/// How many of a row's numbers are counts of tokens. Prices follow.
const TOKEN_COLUMNS: usize = 3;

/// One row, its numbers still as text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableRow {
    model: &'static str,
    pub(super) provider: &'static str,
    /// Window, input, output and prices.
    numbers: &'static str,
}

impl TableRow {
    fn parse(line: &'static str) -> Option<Self> {
        let (model, rest) = line.split_once('\t')?;
        let (provider, numbers) = rest.split_once('\t')?;
        Some(Self {
            model,
            provider,
            numbers,
        })
    }

    /// What it says of the model's window.
    pub(super) fn limits(&self) -> Option<ModelLimits> {
        let mut numbers = self.numbers.split('\t');
        let mut next = || numbers.next()?.parse().ok().map(Tokens::new);
        Some(ModelLimits {
            model: self.model,
            provider: self.provider,
            window: next()?,
            input: next(),
            output: next(),
        })
    }

    /// What it says of the price of input; none where it does not know that of the plainest.
    pub(super) fn prices(&self) -> Option<InputPrices> {
        let mut prices = self.numbers.split('\t').skip(TOKEN_COLUMNS);
        let mut next = || Price::from_dollars_per_million(prices.next()?);
        Some(InputPrices {
            input: next()?,
            cached: next(),
            written: next(),
        })
    }
}

/// The rows for exactly this name.
pub(super) fn rows_named(name: &str) -> impl Iterator<Item = TableRow> {
    TABLE
        .get(lower_bound(name)..)
        .unwrap_or_default()
        .lines()
        .map_while(TableRow::parse)
        .take_while(move |row| row.model == name)
}

/// Where the first line begins whose name is not less than `name`: halved over bytes, each probe
/// moved back to the beginning of its line.
fn lower_bound(name: &str) -> usize {
    let (mut low, mut high) = (0, TABLE.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let bytes = TABLE.as_bytes().get(..middle).unwrap_or_default();
        let line = bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1)
            .max(low);
        let text = TABLE.get(line..).unwrap_or_default();
        let model = text.split('\t').next().unwrap_or_default();
        if model.as_bytes() < name.as_bytes() {
            low = text.find('\n').map_or(TABLE.len(), |end| line + end + 1);
        } else {
            high = line;
        }
    }
    low
}

#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = TableRow> {
    TABLE.lines().map(|line| TableRow::parse(line).unwrap())
}
