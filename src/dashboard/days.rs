//! Requests, tokens and costs by day and model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::costs::RequestCost;
use longhaul_core::units::usd::Usd;

/// Maximum days kept, the newest ones.
const MAX_DAYS: usize = 62;
/// Maximum models of one day. Further ones are added up under [`OTHER_MODELS`].
const MAX_MODELS: usize = 50;
/// Name under which further models are added up.
const OTHER_MODELS: &str = "(other models)";
/// Milliseconds of a day.
const DAY_MILLIS: u64 = 24 * 60 * 60 * 1_000;
/// Maximum characters of a model's name, which the client chooses.
const MAX_MODEL_CHARS: usize = 100;

/// Totals by day, in UTC, and model.
#[derive(Debug, Default)]
pub(crate) struct DayTotals {
    /// By the number of days since 1970.
    days: BTreeMap<u64, BTreeMap<String, DayNumbers>>,
}

/// Numbers of one model on one day.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct DayNumbers {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
    /// Known cost, in billionths of a dollar.
    pub(crate) cost: i64,
    /// Requests whose cost is unknown.
    pub(crate) unknown: u64,
    /// Estimated savings, in billionths of a dollar.
    pub(crate) saved: i64,
}

/// Numbers of a model on a day.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct DayRow {
    /// Number of days since 1970, in UTC.
    pub(crate) day: u64,
    pub(crate) model: String,
    #[serde(flatten)]
    pub(crate) numbers: DayNumbers,
}

/// A request that has ended.
pub(super) struct DayRequest<'a> {
    pub(super) is_error: bool,
    pub(super) before: u64,
    pub(super) after: u64,
    pub(super) cost: Option<&'a RequestCost>,
}

impl DayTotals {
    /// Adds a request to `model` that ended at `now`, in milliseconds since 1970.
    pub(super) fn add(&mut self, now: u64, model: &str, request: &DayRequest<'_>) {
        let numbers = self.numbers(now / DAY_MILLIS, model);
        numbers.requests += 1;
        numbers.errors += u64::from(request.is_error);
        numbers.tokens_before += request.before;
        numbers.tokens_after += request.after;
        let Some(spent) = request.cost else { return };
        if let Some(usage) = spent.usage {
            numbers.prompt_tokens += u64::from(usage.input);
            numbers.cached_tokens += u64::from(usage.cached.unwrap_or(0));
            numbers.output_tokens += u64::from(usage.output.unwrap_or(0));
        }
        match spent.cost.amount() {
            Some(usd) => numbers.cost += usd.as_nanos(),
            None => numbers.unknown += 1,
        }
        numbers.saved += spent.comparison.saved.map_or(0, Usd::as_nanos);
    }

    /// Returns all rows, the newest day first.
    pub(crate) fn rows(&self) -> Vec<DayRow> {
        let days = self.days.iter().rev();
        days.flat_map(|(day, models)| {
            models.iter().map(|(model, numbers)| DayRow {
                day: *day,
                model: model.clone(),
                numbers: *numbers,
            })
        })
        .collect()
    }

    /// Restores rows of an earlier process.
    pub(crate) fn restore(&mut self, rows: Vec<DayRow>) {
        let most = MAX_DAYS * (MAX_MODELS + 1);
        for row in rows.into_iter().take(most) {
            let models = self.days.entry(row.day).or_default();
            models.insert(row.model, row.numbers);
        }
        while self.days.len() > MAX_DAYS {
            self.days.pop_first();
        }
    }

    fn numbers(&mut self, day: u64, model: &str) -> &mut DayNumbers {
        if !self.days.contains_key(&day) && self.days.len() >= MAX_DAYS {
            self.days.pop_first();
        }
        let models = self.days.entry(day).or_default();
        let model: String = model.chars().take(MAX_MODEL_CHARS).collect();
        let name = if models.contains_key(&model) || models.len() < MAX_MODELS {
            model
        } else {
            OTHER_MODELS.to_owned()
        };
        models.entry(name).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> DayRequest<'static> {
        DayRequest { is_error: true, before: 10, after: 4, cost: None }
    }

    #[test]
    fn days_and_models_are_bounded_and_restored() {
        let mut totals = DayTotals::default();
        for day in 0..100 {
            totals.add(day * DAY_MILLIS + 5, "m", &request());
        }
        for model in 0..100 {
            totals.add(99 * DAY_MILLIS, &model.to_string(), &request());
        }
        let rows = totals.rows();
        assert_eq!(rows.len(), MAX_DAYS - 1 + MAX_MODELS + 1);
        assert_eq!(rows[0].day, 99);
        let others = rows.iter().find(|row| row.model == OTHER_MODELS).unwrap();
        assert_eq!(others.numbers.requests, 100 - MAX_MODELS as u64 + 1);
        let mut restored = DayTotals::default();
        restored.restore(rows.clone());
        assert!(restored.rows() == rows);
    }
}
