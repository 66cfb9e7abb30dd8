//! Requests, tokens and costs by hour, day and model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::costs::RequestCost;
use longhaul_core::cost::pricing::{Cost, Price};
use longhaul_core::units::usd::Usd;

/// Maximum hours and days kept apart: 62 days, and the hours of two. Older days are added up on the first.
const MAX_SPANS: usize = 62 + 48;
/// Maximum models of one hour or day. Further ones are added up under [`OTHER_MODELS`].
const MAX_MODELS: usize = 50;
/// Names under which further models, and days that are no longer kept apart, are added up.
const OTHER_MODELS: &str = "(other models)";
const EARLIER_DAYS: &str = "(earlier days)";
const HOUR_MILLIS: u64 = 60 * 60 * 1_000;
const DAY_HOURS: u64 = 24;
/// Maximum characters of a model's name, which the client chooses.
pub(super) const MAX_MODEL_CHARS: usize = 100;

/// Totals by time, in UTC, and model: by hour today and yesterday, before by day.
#[derive(Debug, Default)]
pub(crate) struct DayTotals {
    /// By the number of hours since 1970; a day is at its first hour.
    spans: BTreeMap<u64, BTreeMap<String, DayNumbers>>,
}

/// Declares numbers that add up field by field.
macro_rules! sums {
    ($(#[$of:meta])* $visible:vis struct $name:ident {
        $($(#[$about:meta])* $seen:vis $field:ident: $number:ty,)+
    }) => {
        $(#[$of])*
        $visible struct $name {
            $($(#[$about])* $seen $field: $number,)+
        }

        impl $name {
            fn add_all(&mut self, other: &Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

sums! {
    /// Numbers of one conversation, or of one model in one hour or day.
    #[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
    #[serde(default)]
    pub(crate) struct DayNumbers {
        pub(crate) requests: u64,
        pub(crate) errors: u64,
        /// Requests that were refused as too large and then answered.
        pub(crate) mended: u64,
        pub(crate) tokens_before: u64,
        pub(crate) tokens_after: u64,
        /// Tokens that mode shadow would have saved.
        pub(crate) shadow_saved: u64,
        pub(crate) prompt_tokens: u64,
        pub(crate) cached_tokens: u64,
        pub(crate) output_tokens: u64,
        /// Known cost of the chats.
        pub(crate) cost: Usd,
        /// The part of it that providers reported; the rest is at set or listed prices.
        pub(crate) reported: Usd,
        /// Number of chats whose cost is known.
        pub(crate) known: u64,
        /// Number of chats whose cost is unknown.
        pub(crate) unknown: u64,
        /// Estimated cost of the tokens removed from the chats.
        pub(crate) saved: Usd,
        /// Removed tokens whose price is unknown.
        pub(crate) saved_unknown: u64,
        /// Extra cost of tokens that had to be paid in full after rewrites.
        pub(crate) rewrites: Usd,
        /// Known cost of summary calls.
        pub(crate) summaries: Usd,
        /// Number of summary calls whose cost is unknown.
        pub(crate) calls_unknown: u64,
        /// Amount that mode shadow would have saved, and the tokens of it whose price is unknown.
        pub(crate) would_save: Usd,
        pub(crate) would_save_unknown: u64,
    }
}

/// Numbers of a model in an hour or on a day.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct DayRow {
    /// Number of days since 1970, in UTC.
    pub(crate) day: u64,
    /// Hour of the day; zero also in the row of a whole day.
    #[serde(default)]
    pub(crate) hour: u64,
    pub(crate) model: String,
    #[serde(flatten)]
    pub(crate) numbers: DayNumbers,
}

impl DayNumbers {
    /// Adds a request that has ended, with its tokens as received, as forwarded and as planned.
    pub(super) fn add(
        &mut self,
        is_error: bool,
        is_mended: bool,
        [before, after, planned]: [u64; 3],
        cost: Option<&RequestCost>,
    ) {
        self.requests += 1;
        self.errors += u64::from(is_error);
        self.mended += u64::from(is_mended);
        self.tokens_before += before;
        self.tokens_after += after;
        self.shadow_saved += after.saturating_sub(planned);
        let Some(spent) = cost else { return };
        if let Some(usage) = spent.usage {
            self.prompt_tokens += u64::from(usage.input);
            self.cached_tokens += u64::from(usage.cached.unwrap_or(0));
            self.output_tokens += u64::from(usage.output.unwrap_or(0));
        }
        self.add_cost(spent);
    }

    /// Adds tokens that mode shadow would have saved. History is sent again with every request, so the provider
    /// would most likely have had them in its cache.
    pub(super) fn add_shadow(&mut self, tokens: u64, cached_price: Option<Price>) {
        match (cached_price, u32::try_from(tokens)) {
            (Some(price), Ok(tokens)) => self.would_save += price.cost_of(tokens),
            _ => self.would_save_unknown += tokens,
        }
    }

    pub(super) fn add_cost(&mut self, spent: &RequestCost) {
        match spent.cost.amount() {
            Some(usd) => {
                self.cost += usd;
                self.known += 1;
                if matches!(spent.cost, Cost::Reported(_)) {
                    self.reported += usd;
                }
            }
            None => self.unknown += 1,
        }
        match spent.comparison.saved {
            Some(usd) => self.saved += usd,
            None => self.saved_unknown += u64::from(spent.comparison.removed.get()),
        }
        self.rewrites += spent.comparison.rewrite_cost.unwrap_or_default();
    }
}

impl DayTotals {
    /// Returns the numbers of `model` at `now`, in milliseconds since 1970.
    pub(super) fn at(&mut self, now: u64, model: &str) -> &mut DayNumbers {
        let hour = now / HOUR_MILLIS;
        if !self.spans.contains_key(&hour) {
            self.merge_before((hour / DAY_HOURS).saturating_sub(1) * DAY_HOURS);
        }
        self.numbers(hour, model)
    }

    /// Returns all rows, the newest first.
    pub(crate) fn rows(&self) -> Vec<DayRow> {
        let spans = self.spans.iter().rev();
        spans
            .flat_map(|(hour, models)| {
                models.iter().map(move |(model, numbers)| DayRow {
                    day: hour / DAY_HOURS,
                    hour: hour % DAY_HOURS,
                    model: model.clone(),
                    numbers: *numbers,
                })
            })
            .collect()
    }

    /// Adds rows of other totals.
    pub(super) fn add(&mut self, rows: Vec<DayRow>) {
        for row in rows.into_iter().take(MAX_SPANS * (MAX_MODELS + 2)) {
            let hour = row.day.saturating_mul(DAY_HOURS).saturating_add(row.hour);
            self.numbers(hour, &row.model).add_all(&row.numbers);
        }
        let newest = self.spans.last_key_value().map_or(0, |(hour, _)| *hour);
        self.merge_before((newest / DAY_HOURS).saturating_sub(1) * DAY_HOURS);
    }

    /// Adds the hours before `hour` to their days, and the oldest days to the first one.
    fn merge_before(&mut self, hour: u64) {
        let old: Vec<u64> = self.spans.range(..hour).map(|(hour, _)| *hour).collect();
        for hour in old {
            self.merge(hour, hour - hour % DAY_HOURS, None);
        }
        while self.spans.len() > MAX_SPANS {
            let mut hours = self.spans.keys().copied();
            let (Some(first), Some(second)) = (hours.next(), hours.next()) else { return };
            self.merge(second, first, Some(EARLIER_DAYS));
        }
    }

    fn merge(&mut self, from: u64, to: u64, name: Option<&str>) {
        let models = if from == to { None } else { self.spans.remove(&from) };
        for (model, numbers) in models.into_iter().flatten() {
            self.numbers(to, name.unwrap_or(&model)).add_all(&numbers);
        }
    }

    fn numbers(&mut self, hour: u64, model: &str) -> &mut DayNumbers {
        let models = self.spans.entry(hour).or_default();
        let model: String = model.chars().take(MAX_MODEL_CHARS).collect();
        let named = models.len() - usize::from(models.contains_key(OTHER_MODELS));
        let is_free = named < MAX_MODELS || model == EARLIER_DAYS;
        let name = if is_free || models.contains_key(&model) { model } else { OTHER_MODELS.into() };
        models.entry(name).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MILLIS: u64 = DAY_HOURS * HOUR_MILLIS;

    #[test]
    fn hours_become_days_and_old_days_one_row_and_no_request_is_lost() {
        let mut totals = DayTotals::default();
        for hour in 0..200 * DAY_HOURS {
            totals.at(hour * HOUR_MILLIS + 5, "m").add(true, false, [10, 4, 3], None);
        }
        for model in 0..100 {
            totals.at(200 * DAY_MILLIS, &model.to_string()).add(true, true, [10, 4, 4], None);
        }
        let rows = totals.rows();
        let sum = |of: fn(&DayNumbers) -> u64| rows.iter().map(|row| of(&row.numbers)).sum::<u64>();
        assert_eq!(sum(|of| of.requests), 200 * DAY_HOURS + 100);
        assert_eq!((sum(|of| of.mended), sum(|of| of.shadow_saved)), (100, 200 * DAY_HOURS));
        assert!(rows.len() <= MAX_SPANS + MAX_MODELS + 1, "{}", rows.len());
        let of = |day| rows.iter().filter(move |row| row.day == day);
        assert_eq!((of(199).count(), of(198).count()), (24, 1));
        let earlier = rows.iter().find(|row| row.model == EARLIER_DAYS).unwrap();
        assert_eq!(earlier.day, 0, "the first day stays");
        let others = rows.iter().find(|row| row.model == OTHER_MODELS).unwrap();
        assert_eq!(others.numbers.requests, 100 - MAX_MODELS as u64);
        let mut restored = DayTotals::default();
        restored.add(rows.clone());
        assert!(restored.rows() == rows);
        let old = r#"[{"day":3,"model":"m","requests":2,"cost":5,"unknown":1,"saved":7}]"#;
        let mut restored = DayTotals::default();
        restored.add(serde_json::from_str(old).unwrap());
        let row = restored.rows().pop().unwrap();
        assert_eq!((row.day, row.hour, row.numbers.cost.as_nanos()), (3, 0, 5));
    }
}
