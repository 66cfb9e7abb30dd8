//! Defines every metric once.
//!
//! To add a metric, add:
//!
//! - a field to [`Metrics`], with its labels in `src/metrics/labels.rs`, and the call that counts;
//! - its row here, its description in `metrics.txt`, and both in `docs/reference/metrics.md`;
//! - a panel in `config/grafana/longhaul.json`, and an entry in `CHANGELOG.md`.
//!
//! Tests compare the table, the page and the panels.
//!
//! No label value comes from a request, so the set of series is fixed at compile time.

use std::fs;

use super::exposition::{SampleWriter, usd};
use crate::metrics::Metrics;
use longhaul_console::paragraphs::paragraph;

pub(super) struct MetricsSource<'s> {
    pub(super) metrics: &'s Metrics,
    /// Start of service, in seconds since 1970.
    pub(super) started: u64,
}

pub(super) struct Metric {
    /// Name by the Prometheus conventions: with the unit, and with `_total` for a counter.
    pub(super) name: &'static str,
    /// Type: `counter`, `gauge` or `histogram`.
    pub(super) kind: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) write: fn(&MetricsSource<'_>, &mut SampleWriter<'_>),
}

impl Metric {
    pub(super) fn help(&self) -> String {
        paragraph(include_str!("metrics.txt"), self.name)
    }
}

/// Declares the metrics, in the order of the page: type, name, labels and writer of each.
macro_rules! metrics {
    ($($kind:ident $name:ident [$($label:ident),*] $write:expr;)+) => {
        pub(super) const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            kind: stringify!($kind),
            labels: &[$(stringify!($label)),*],
            write: $write,
        }),+];
    };
}

metrics! {
    counter longhaul_requests_total [action, status] |of, out| out.matrix(&of.metrics.responses);
    counter longhaul_requests_ended_total [ending] |of, out| out.counters(&of.metrics.requests);
    gauge longhaul_inflight_requests [] |of, out| out.value(of.metrics.in_flight.get());
    histogram longhaul_request_seconds [] |of, out| out.histogram(&of.metrics.duration.snapshot());
    histogram longhaul_overhead_seconds [] |of, out| out.histogram(&of.metrics.overhead.0.snapshot());
    histogram longhaul_held_seconds [] |of, out| out.histogram(&of.metrics.held.snapshot());
    counter longhaul_acts_total [act] |of, out| out.counters(&of.metrics.actions);
    counter longhaul_chats_total [] |of, out| out.value(of.metrics.chats.count.get());
    counter longhaul_tokens_before_total [] |of, out| out.value(of.metrics.chats.before.get());
    counter longhaul_tokens_after_total [] |of, out| out.value(of.metrics.chats.after.get());
    counter longhaul_tokens_saved_total [] |of, out| out.value(of.metrics.chats.saved.get());
    counter longhaul_shadow_saved_tokens_total []
        |of, out| out.value(of.metrics.chats.shadow_saved.get());
    counter longhaul_prompt_tokens_total []
        |of, out| out.value(of.metrics.provider_tokens.prompt.get());
    counter longhaul_cached_tokens_total []
        |of, out| out.value(of.metrics.provider_tokens.cached.get());
    counter longhaul_completion_tokens_total []
        |of, out| out.value(of.metrics.provider_tokens.output.get());
    counter longhaul_rereads_after_clear_total [] |of, out| out.value(of.metrics.rereads.get());
    counter longhaul_imitated_clips_total [] |of, out| out.value(of.metrics.imitated_clips.get());
    counter longhaul_lost_reasoning_total [by] |of, out| out.counters(&of.metrics.lost_reasoning);
    counter longhaul_dropped_reasoning_total [] |of, out| out.value(of.metrics.dropped_reasoning.get());
    counter longhaul_windows_lowered_total [] |of, out| out.value(of.metrics.windows_lowered.get());
    counter longhaul_cost_usd_total [by] |of, out| out.dollar_counters(&of.metrics.costs.chats);
    counter longhaul_cost_unknown_requests_total [reason]
        |of, out| out.counters(&of.metrics.costs.chats_unknown);
    counter longhaul_saved_usd_total [] |of, out| out.value(usd(of.metrics.costs.saved.get()));
    counter longhaul_saved_unknown_tokens_total []
        |of, out| out.value(of.metrics.costs.saved_unknown.get());
    counter longhaul_rewrite_cost_usd_total []
        |of, out| out.value(usd(of.metrics.costs.rewrites.get()));
    counter longhaul_summary_cost_usd_total [by]
        |of, out| out.dollar_counters(&of.metrics.costs.summaries);
    counter longhaul_summary_cost_unknown_calls_total [reason]
        |of, out| out.counters(&of.metrics.costs.summaries_unknown);
    counter longhaul_compactions_total [trigger] |of, out| out.counters(&of.metrics.compactions);
    counter longhaul_summary_requests_total [outcome] |of, out| out.counters(&of.metrics.summaries);
    counter longhaul_summaries_withheld_total [reason] |of, out| out.counters(&of.metrics.withheld);
    gauge longhaul_quota_used_ratio [window]
        |of, out| of.metrics.quotas.used().for_each(|(label, used)| out.labelled(&[label], used));
    histogram longhaul_summary_seconds []
        |of, out| out.histogram(&of.metrics.summary_duration.snapshot());
    histogram longhaul_summary_wait_seconds []
        |of, out| out.histogram(&of.metrics.summary_wait.snapshot());
    counter longhaul_retries_total [kind, outcome] |of, out| out.matrix(&of.metrics.retries);
    counter longhaul_bypasses_total [reason] |of, out| out.counters(&of.metrics.bypasses);
    counter longhaul_unread_total [reason] |of, out| out.counters(&of.metrics.unread);
    counter longhaul_faults_total [reason] |of, out| out.counters(&of.metrics.faults);
    counter longhaul_modified_bytes_outside_cuts_total []
        |of, out| out.value(of.metrics.corrupted_bytes.get());
    counter longhaul_far_store_calls_total [outcome]
        |of, out| out.counters(&of.metrics.durable_store);
    counter longhaul_idle_releases_total [] |of, out| out.value(of.metrics.idle_releases.get());
    gauge longhaul_build_info [version] |_, out| out.labelled(&[env!("CARGO_PKG_VERSION")], 1);
    gauge process_start_time_seconds [] |of, out| out.value(of.started);
    gauge process_resident_memory_bytes [] |_, out| out.optional(resident_bytes());
    gauge process_open_fds [] |_, out| out.optional(open_descriptors());
    gauge process_max_fds [] |_, out| out.optional(max_descriptors());
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmRSS:").map(|kibibytes| kibibytes * 1024)
}

fn open_descriptors() -> Option<u64> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    // The listing of the directory itself holds one descriptor.
    Some(open.saturating_sub(1))
}

/// Returns the maximum number of open files and sockets.
fn max_descriptors() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    open_files_limit(&limits)
}

/// Returns the number after `name` in the lines of `/proc/self/status`.
fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Returns the soft limit on open files from the table of `/proc/self/limits`.
fn open_files_limit(limits: &str) -> Option<u64> {
    let row = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    row.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::exposition::render;
    use super::*;

    const DOCS: &str = include_str!("../../docs/reference/metrics.md");

    /// Returns the values of a label, in the order of the page.
    fn values(page: &str, metric: &Metric, label: &str) -> Vec<String> {
        let mut values = Vec::new();
        let of = |line: &&str| line.starts_with(&format!("{}{{", metric.name));
        for line in page.lines().filter(of) {
            let (_, rest) = line.split_once(&format!("{label}=\"")).unwrap();
            let value = rest.split('"').next().unwrap().to_owned();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// Returns a metric's row in the documentation.
    fn row(page: &str, metric: &Metric) -> String {
        let labels: Vec<String> = metric
            .labels
            .iter()
            .map(|label| match metric.kind {
                "counter" => {
                    let values = values(page, metric, label);
                    format!("`{label}`: {}", values.join(", "))
                }
                _ => format!("`{label}`"),
            })
            .collect();
        format!(
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind,
            labels.join("; "),
            metric.help()
        )
    }

    #[test]
    fn documentation_lists_exactly_the_exported_metrics() {
        let metrics = Metrics::default();
        let source = MetricsSource { metrics: &metrics, started: 0 };
        let page = render(METRICS, &source);
        let rows: Vec<String> = METRICS.iter().map(|metric| row(&page, metric)).collect();
        let documented: Vec<&str> = DOCS.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(documented, rows);
    }

    #[test]
    fn metric_names_follow_prometheus_conventions() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len(), "names are unique");
        for metric in METRICS {
            let name = metric.name;
            assert!(name.starts_with("longhaul_") || name.starts_with("process_"));
            assert!(["counter", "gauge", "histogram"].contains(&metric.kind));
            let grows = metric.kind == "counter";
            assert_eq!(name.ends_with("_total"), grows, "{name}");
            let seconds = metric.kind == "histogram";
            assert!(!seconds || name.ends_with("_seconds"), "{name}");
            let plain = |text: &str| !text.contains(['"', '\\', '\n', '|']);
            let help = metric.help();
            assert!(!help.is_empty() && plain(&help), "{name}: help needs escaping");
        }
    }
}

#[cfg(test)]
mod process_tests {
    use super::*;

    #[test]
    fn reads_memory_in_kibibytes() {
        let status = "Name:\tlonghaul\nVmHWM:\t  9000 kB\nVmRSS:\t    7812 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(7_812));
        assert_eq!(kibibytes("VmRSS:\t7812 pages\n", "VmRSS:"), None);
    }

    #[test]
    fn reads_the_soft_limit_on_open_files() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(open_files_limit(limits), Some(1_024));
        assert_eq!(open_files_limit("Max open files  unlimited  unlimited"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_memory_and_open_descriptors_on_linux() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
        assert!(open_descriptors().is_some_and(|open| open > 2));
    }
}
