//! What models hold, by host and name: a table that is part of the program.
//!
//! A name alone says little: of the names that `OpenRouter` shares with other providers, 29% have
//! another window there. So a row counts under its own provider's hosts. Where the host is nobody's
//! that is known, a gateway perhaps, the smallest window counts that a model of that name has. On
//! this machine and its network the table is not asked: a server there holds what it was told to.

mod hosts;
mod names;
mod table;

use crate::rewrite::money::InputPrices;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::TableWindow;
pub(crate) use hosts::HostKind;
use table::TableRow;

/// What the table says of a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TableMatch {
    /// The row.
    pub(crate) limits: ModelLimits,
    /// How it was come by.
    pub(crate) kind: MatchKind,
}

/// One row, without its prices.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ModelLimits {
    /// The name in the table.
    pub(crate) model: &'static str,
    /// Whose row it is.
    pub(crate) provider: &'static str,
    /// What input and output may measure together.
    pub(crate) window: Tokens,
    /// What input may measure, where output has room of its own.
    pub(crate) input: Option<Tokens>,
    /// The most output.
    pub(crate) output: Option<Tokens>,
}

impl ModelLimits {
    /// What the window is worked out from.
    pub(crate) fn table_window(&self) -> TableWindow {
        self.input
            .map_or(TableWindow::Total(self.window), TableWindow::Input)
    }
}

/// Why a row was taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MatchKind {
    /// The provider at that host has it under that name.
    Exact,
    /// The provider has it under that name without a variant, date, region or prefix.
    Normalised,
    /// Nobody is known at that host. So many providers have the name, and this is the smallest window
    /// among those who made the model, or else among all.
    OtherHost {
        /// How many rows there were to choose from.
        rows: usize,
    },
}

/// What `model` holds at `host` (a name or an address, without a port), as far as the table knows.
pub(crate) fn look_up(host: &str, model: &str) -> Option<TableMatch> {
    match HostKind::from_host(host) {
        HostKind::Local => None,
        HostKind::Unknown => names::candidates(model).find_map(match_smallest),
        HostKind::Provider(provider) => names::candidates(model)
            .enumerate()
            .find_map(|(at, name)| match_provider(provider, name, at)),
    }
}

/// What input of `model` is sold at by the provider at `host`: the list price, of its lowest tier.
///
/// A price is taken from the provider's own row alone: what others ask for a model of that name says
/// nothing of what is asked here. Nor does a variant's name without the variant, which is often
/// what makes the price (`:free`, `:nitro`).
pub(crate) fn prices(host: &str, model: &str) -> Option<InputPrices> {
    let HostKind::Provider(provider) = HostKind::from_host(host) else {
        return None;
    };
    let mut forms = names::candidates(model).take(if names::has_variant(model) {
        1
    } else {
        usize::MAX
    });
    let row = forms.find_map(|name| table::rows_named(name).find(|row| row.provider == provider));
    row?.prices()
}

/// The provider's own row for `name`, the form at `at` of what was asked for.
fn match_provider(provider: &str, name: &str, at: usize) -> Option<TableMatch> {
    let row = table::rows_named(name).find(|row| row.provider == provider)?;
    Some(TableMatch {
        limits: row.limits()?,
        kind: if at == 0 {
            MatchKind::Exact
        } else {
            MatchKind::Normalised
        },
    })
}

/// The smallest of the rows for `name`: of those of its makers, if there are any.
fn match_smallest(name: &str) -> Option<TableMatch> {
    let makers = || table::rows_named(name).filter(|row| hosts::makes_models(row.provider));
    let rows = if makers().next().is_some() {
        makers().collect::<Vec<TableRow>>()
    } else {
        table::rows_named(name).collect()
    };
    let smallest = rows
        .iter()
        .filter_map(TableRow::limits)
        .min_by_key(|entry| entry.input.unwrap_or(entry.window))?;
    Some(TableMatch {
        limits: smallest,
        kind: MatchKind::OtherHost { rows: rows.len() },
    })
}

#[cfg(test)]
mod tests;
