//! Renders the metrics in the Prometheus text format 0.0.4.

use std::fmt::{Display, Write as _};

use super::table::{Metric, MetricsSource};
use crate::metrics::{CounterMatrix, Counters, HistogramSnapshot, Label};
use longhaul_core::units::usd::Usd;

/// Renders every metric of `table` with its current values.
pub(super) fn render(table: &[Metric], source: &MetricsSource<'_>) -> String {
    let mut page = String::new();
    for metric in table {
        let (name, kind) = (metric.name, metric.kind);
        _ = writeln!(page, "# HELP {name} {}", metric.help());
        _ = writeln!(page, "# TYPE {name} {kind}");
        (metric.write)(source, &mut SampleWriter { page: &mut page, metric });
    }
    page
}

pub(super) struct SampleWriter<'p> {
    page: &'p mut String,
    metric: &'p Metric,
}

impl SampleWriter<'_> {
    /// Writes the value of a metric without labels.
    pub(super) fn value(&mut self, value: impl Display) {
        self.write_line("", &[], &value);
    }

    /// Like [`value`](Self::value), if the system provides a value.
    pub(super) fn optional(&mut self, value: Option<impl Display>) {
        if let Some(value) = value {
            self.value(value);
        }
    }

    /// Writes the value for these values of the metric's labels.
    pub(super) fn labelled(&mut self, values: &[&str], value: impl Display) {
        let pairs: Vec<(&str, &str)> =
            self.metric.labels.iter().copied().zip(values.iter().copied()).collect();
        debug_assert_eq!(values.len(), self.metric.labels.len());
        self.write_line("", &pairs, &value);
    }

    /// Writes a value for each value of the only label.
    pub(super) fn counters<L: Label>(&mut self, counters: &Counters<L>) {
        for (label, count) in counters.iter() {
            self.labelled(&[label.label()], count);
        }
    }

    /// Writes a value for each pair of values of the two labels.
    pub(super) fn matrix<A: Label, B: Label>(&mut self, grid: &CounterMatrix<A, B>) {
        for (one, other, count) in grid.iter() {
            self.labelled(&[one.label(), other.label()], count);
        }
    }

    /// Writes an amount in dollars for each value of the only label.
    pub(super) fn dollar_counters<L: Label>(&mut self, counters: &Counters<L>) {
        for (label, nanos) in counters.iter() {
            self.labelled(&[label.label()], usd(nanos));
        }
    }

    pub(super) fn histogram(&mut self, reading: &HistogramSnapshot) {
        for (bound, count) in &reading.buckets {
            let bound = bound.as_secs_f64().to_string();
            self.write_line("_bucket", &[("le", &bound)], count);
        }
        self.write_line("_bucket", &[("le", "+Inf")], &reading.count);
        self.write_line("_sum", &[], &reading.sum.as_secs_f64());
        self.write_line("_count", &[], &reading.count);
    }

    /// Writes one line. Label values come from closed sets and need no escaping.
    fn write_line(&mut self, suffix: &str, labels: &[(&str, &str)], value: &dyn Display) {
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

/// Returns an amount in dollars, from billionths of a dollar.
pub(super) fn usd(nanos: u64) -> Usd {
    Usd::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}
