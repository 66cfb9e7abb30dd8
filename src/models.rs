//! Windows and prices of known models, by host and name: a table embedded in the program.
//!
//! A name alone is not enough: of the names that `OpenRouter` shares with other providers, 29% have
//! another window there. A row therefore applies to its own provider's hosts.
//!
//! At an unknown host, perhaps a gateway, the smallest window of any model with that name applies.
//! For local hosts the table is not used: a server there has the window with which it was started.

pub(crate) mod hosts;
mod names;
mod table;

pub(crate) use hosts::HostKind;
use longhaul_core::cost::pricing::TokenPrices;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::TableWindow;
use table::TableRow;

/// The row of the table that matches a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TableMatch {
    pub(crate) limits: ModelLimits,
    pub(crate) kind: MatchKind,
}

/// The limits of a model, from one row of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ModelLimits {
    /// The model's name in the table.
    pub(crate) model: &'static str,
    pub(crate) provider: &'static str,
    /// Limit of input and output together.
    pub(crate) window: Tokens,
    /// Limit of the input, if the output has its own limit.
    pub(crate) input: Option<Tokens>,
    pub(crate) output: Option<Tokens>,
}

impl ModelLimits {
    /// Returns the window from which the policy is computed.
    pub(crate) fn table_window(&self) -> TableWindow {
        self.input.map_or(TableWindow::Total(self.window), TableWindow::Input)
    }
}

/// Kinds of match between a model and a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MatchKind {
    /// The host's provider lists the model under exactly this name.
    Exact,
    /// The host's provider lists the name without a variant, date, region or prefix.
    Normalised,
    /// The host is unknown. The row has the smallest window among the model's makers, or among all
    /// providers if no maker lists it.
    OtherHost { rows: usize },
}

/// Looks up `model` at a host. Returns `None` for a local host or an unlisted model.
pub(crate) fn look_up(host: HostKind, model: &str) -> Option<TableMatch> {
    if host == HostKind::Local {
        return None;
    }
    if let Some(base) = names::without_wide_window(model) {
        let found = look_up_name(host, base)?;
        let limits = ModelLimits { window: WIDE_WINDOW, input: None, ..found.limits };
        return Some(TableMatch { limits, ..found });
    }
    look_up_name(host, model)
}

/// Looks up a name as spelt, and then whatever its case.
fn look_up_name(host: HostKind, model: &str) -> Option<TableMatch> {
    let found = |(at, name)| match host {
        HostKind::Local => None,
        HostKind::Unknown => match_smallest(name),
        HostKind::Provider(provider) => match_provider(provider, name, at),
    };
    names::candidates(model).enumerate().find_map(found).or_else(|| {
        let lower = model.to_ascii_lowercase();
        let mut spellings = names::candidates(&lower).flat_map(table::spellings);
        // A name in another case is not an exact match.
        spellings.find_map(|name| found((1, name)))
    })
}

/// Whether the provider at `host` is known and has a model whose name begins with the same word.
pub(crate) fn has_family(host: HostKind, model: &str) -> bool {
    let family = model.split('-').next();
    matches!(host, HostKind::Provider(_))
        && table::all_names(host).any(|name| name.split('-').next() == family)
}

/// Maximum names that [`near_names`] returns.
const NEAR_NAMES: usize = 3;

/// Returns the names in the table that `model` is probably a misspelling of, the nearest first. Of a
/// known provider, only the names of that provider; none for a local host.
pub(crate) fn near_names(host: &str, model: &str) -> Vec<&'static str> {
    // Above this similarity, people read two names as the same word.
    const NEAR: f64 = 0.9;
    let host = HostKind::from_host(host);
    if host == HostKind::Local {
        return Vec::new();
    }
    let lower = model.to_ascii_lowercase();
    let mut near: Vec<(f64, &'static str)> = table::all_names(host)
        .map(|name| (strsim::jaro_winkler(&name.to_ascii_lowercase(), &lower), name))
        .filter(|(similarity, _)| *similarity > NEAR)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.dedup_by_key(|(_, name)| *name);
    near.into_iter().map(|(_, name)| name).take(NEAR_NAMES).collect()
}

/// Returns the model at a known provider whose window holds `least` tokens and whose name resembles `model` most.
pub(crate) fn wider_model(host: HostKind, model: &str, least: Tokens) -> Option<&'static str> {
    let HostKind::Provider(_) = host else {
        return None;
    };
    let holds = |name: &&str| {
        look_up(host, name).is_some_and(|found| found.limits.table_window().tokens() >= least)
    };
    let similarity = |name: &&str| strsim::jaro_winkler(name, model);
    table::all_names(host).filter(holds).max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
}

/// Window of a model whose name ends in `[1m]`, as coding agents mark it.
const WIDE_WINDOW: Tokens = Tokens::new(1_000_000);

/// Returns the list prices of `model` at `host`: input, in the lowest tier.
///
/// Only the provider's own row counts: another provider may charge another price. A
/// name with a variant is not looked up without it, since the variant often makes the price
/// (`:free`, `:nitro`).
pub(crate) fn prices(host: &str, model: &str) -> Option<TokenPrices> {
    let HostKind::Provider(provider) = HostKind::from_host(host) else {
        return None;
    };
    let mut forms =
        names::candidates(model).take(if names::has_variant(model) { 1 } else { usize::MAX });
    let row = forms.find_map(|name| table::rows_named(name).find(|row| row.provider == provider));
    row?.prices()
}

/// Returns list prices of `model` at any host, first those of its maker: a proposal where no price is known.
pub(crate) fn proposed_prices(model: &str) -> Option<TokenPrices> {
    let rows = || names::candidates(model).flat_map(table::rows_named);
    let makers = rows().filter(|row| hosts::is_maker(row.provider));
    makers.chain(rows()).find_map(|row| row.prices())
}

/// Returns the provider's own row for `name`, which is candidate number `at` for the requested
/// name.
fn match_provider(provider: &str, name: &str, at: usize) -> Option<TableMatch> {
    let row = table::rows_named(name).find(|row| row.provider == provider)?;
    Some(TableMatch {
        limits: row.limits()?,
        kind: if at == 0 { MatchKind::Exact } else { MatchKind::Normalised },
    })
}

/// Returns the row with the smallest window for `name`: among those of the model's makers, if there
/// are any.
fn match_smallest(name: &str) -> Option<TableMatch> {
    let makers = table::rows_named(name).filter(|row| hosts::is_maker(row.provider));
    let makers: Vec<TableRow> = makers.collect();
    let rows = if makers.is_empty() { table::rows_named(name).collect() } else { makers };
    let smallest = rows
        .iter()
        .filter_map(TableRow::limits)
        .min_by_key(|entry| entry.input.unwrap_or(entry.window))?;
    Some(TableMatch { limits: smallest, kind: MatchKind::OtherHost { rows: rows.len() } })
}

#[cfg(test)]
mod tests;
