//! The table of metrics with its numbers, in the text format 0.0.4 of Prometheus.

use std::fmt::{Display, Write as _};

use super::table::{Metric, Source};
use crate::metrics::{Counters, Grid, Label, Reading};
use crate::rewrite::money::Usd;

/// Every metric of `table`, with what it stands at.
pub(super) fn page(table: &[Metric], source: &Source<'_>) -> String {
    let mut page = String::new();
    for metric in table {
        let (name, kind) = (metric.name, metric.kind.label());
        // Writing to a String cannot fail.
        _ = writeln!(page, "# HELP {name} {}", metric.help);
        _ = writeln!(page, "# TYPE {name} {kind}");
        (metric.read)(
            source,
            &mut Samples {
                page: &mut page,
                metric,
            },
        );
    }
    page
}

/// Where one metric's numbers are written.
pub(super) struct Samples<'p> {
    page: &'p mut String,
    metric: &'p Metric,
}

impl Samples<'_> {
    /// The number of a metric without labels.
    pub(super) fn one(&mut self, value: impl Display) {
        self.line("", &[], &value);
    }

    /// The same, where the system says it.
    pub(super) fn maybe(&mut self, value: Option<impl Display>) {
        if let Some(value) = value {
            self.one(value);
        }
    }

    /// A number for these values of its labels.
    pub(super) fn labelled(&mut self, values: &[&str], value: impl Display) {
        let pairs: Vec<(&str, &str)> = self
            .metric
            .labels
            .iter()
            .copied()
            .zip(values.iter().copied())
            .collect();
        debug_assert_eq!(values.len(), self.metric.labels.len());
        self.line("", &pairs, &value);
    }

    /// A number for each value of the one label.
    pub(super) fn each<L: Label>(&mut self, counters: &Counters<L>) {
        for (label, count) in counters.iter() {
            self.labelled(&[label.label()], count);
        }
    }

    /// A number for each pair of values of the two labels.
    pub(super) fn pairs<A: Label, B: Label>(&mut self, grid: &Grid<A, B>) {
        for (one, other, count) in grid.iter() {
            self.labelled(&[one.label(), other.label()], count);
        }
    }

    /// So many billionths of a dollar, in dollars.
    pub(super) fn dollars(&mut self, nanos: u64) {
        self.one(usd(nanos));
    }

    /// The same for each value of the one label.
    pub(super) fn dollars_each<L: Label>(&mut self, counters: &Counters<L>) {
        for (label, nanos) in counters.iter() {
            self.labelled(&[label.label()], usd(nanos));
        }
    }

    /// The same for each pair of values of the two labels.
    pub(super) fn dollars_pairs<A: Label, B: Label>(&mut self, grid: &Grid<A, B>) {
        for (one, other, nanos) in grid.iter() {
            self.labelled(&[one.label(), other.label()], usd(nanos));
        }
    }

    /// What a histogram has counted, in seconds.
    pub(super) fn buckets(&mut self, reading: &Reading) {
        for (bound, count) in &reading.buckets {
            let bound = bound.as_secs_f64().to_string();
            self.line("_bucket", &[("le", &bound)], count);
        }
        self.line("_bucket", &[("le", "+Inf")], &reading.count);
        self.line("_sum", &[], &reading.sum.as_secs_f64());
        self.line("_count", &[], &reading.count);
    }

    /// Label values are our own words, in which nothing needs to be escaped.
    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: &dyn Display) {
        let name = self.metric.name;
        _ = write!(self.page, "{name}{suffix}");
        for (at, (label, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            _ = write!(self.page, "{before}{label}=\"{value}\"");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        _ = writeln!(self.page, "{after} {value}");
    }
}

fn usd(nanos: u64) -> Usd {
    Usd::of_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}
