//! Defines every metric once. A test checks `docs/reference/metrics.md` against this table.
//!
//! No label value comes from a request, so the set of series is fixed at compile time.

use super::exposition::SampleWriter;
use super::process;
use crate::metrics::Metrics;

/// Sources of the metrics.
pub(super) struct MetricsSource<'s> {
    pub(super) metrics: &'s Metrics,
    /// Start of service, in seconds since 1970.
    pub(super) started: u64,
}

/// A metric.
pub(super) struct Metric {
    /// Name by the Prometheus conventions: with the unit, and with `_total` for a counter.
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    /// Description in one sentence.
    pub(super) help: &'static str,
    /// Names of the labels.
    pub(super) labels: &'static [&'static str],
    /// Writes the current values.
    pub(super) write: fn(&MetricsSource<'_>, &mut SampleWriter<'_>),
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MetricKind {
    /// A value that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

impl MetricKind {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// All metrics, in the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "longhaul_requests_total",
        kind: MetricKind::Counter,
        help: "Requests by their principal action and by the class of the response's status",
        labels: &["action", "status"],
        write: |of, out| out.matrix(&of.metrics.responses),
    },
    Metric {
        name: "longhaul_requests_ended_total",
        kind: MetricKind::Counter,
        help: "Requests by how they ended",
        labels: &["ending"],
        write: |of, out| out.counters(&of.metrics.requests),
    },
    Metric {
        name: "longhaul_inflight_requests",
        kind: MetricKind::Gauge,
        help: "Requests in progress",
        labels: &[],
        write: |of, out| out.value(of.metrics.in_flight.get()),
    },
    Metric {
        name: "longhaul_request_seconds",
        kind: MetricKind::Histogram,
        help: "Time from the head of a request to the end of its response",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.duration.snapshot()),
    },
    Metric {
        name: "longhaul_overhead_seconds",
        kind: MetricKind::Histogram,
        help: "Time added by longhaul, from the head of a request to the head of its response, without waits for the client's body, the upstream and a summary",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.overhead.snapshot()),
    },
    Metric {
        name: "longhaul_held_seconds",
        kind: MetricKind::Histogram,
        help: "Time from the head of a reply to its verdict; replies relayed unjudged are not counted",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.held.snapshot()),
    },
    Metric {
        name: "longhaul_acts_total",
        kind: MetricKind::Counter,
        help: "Actions applied to chats that were forwarded; one chat may have several",
        labels: &["act"],
        write: |of, out| out.counters(&of.metrics.actions),
    },
    Metric {
        name: "longhaul_chats_total",
        kind: MetricKind::Counter,
        help: "Chats that were read and forwarded",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.count.get()),
    },
    Metric {
        name: "longhaul_tokens_before_total",
        kind: MetricKind::Counter,
        help: "Tokens of the chats that were read, as received, by the plain estimate",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.before.get()),
    },
    Metric {
        name: "longhaul_tokens_after_total",
        kind: MetricKind::Counter,
        help: "Tokens of the chats that were read, as last sent, by the plain estimate",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.after.get()),
    },
    Metric {
        name: "longhaul_tokens_saved_total",
        kind: MetricKind::Counter,
        help: "Tokens removed from the chats that were read, by the plain estimate: as received, less as last sent",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.saved.get()),
    },
    Metric {
        name: "longhaul_shadow_saved_tokens_total",
        kind: MetricKind::Counter,
        help: "Tokens that mode on would have saved in chats forwarded in mode shadow",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.shadow_saved.get()),
    },
    Metric {
        name: "longhaul_prompt_tokens_total",
        kind: MetricKind::Counter,
        help: "Prompt tokens as reported by providers, including cached ones, for replies that longhaul inspected",
        labels: &[],
        write: |of, out| out.value(of.metrics.provider_tokens.prompt.get()),
    },
    Metric {
        name: "longhaul_cached_tokens_total",
        kind: MetricKind::Counter,
        help: "Prompt tokens read from the provider's cache, if reported, for replies that longhaul inspected",
        labels: &[],
        write: |of, out| out.value(of.metrics.provider_tokens.cached.get()),
    },
    Metric {
        name: "longhaul_completion_tokens_total",
        kind: MetricKind::Counter,
        help: "Output tokens as reported by providers",
        labels: &[],
        write: |of, out| out.value(of.metrics.provider_tokens.output.get()),
    },
    Metric {
        name: "longhaul_rereads_after_clear_total",
        kind: MetricKind::Counter,
        help: "Tool calls that repeat an earlier call, with the same arguments, whose result had been cleared or summarised",
        labels: &[],
        write: |of, out| out.value(of.metrics.refetches.get()),
    },
    Metric {
        name: "longhaul_windows_lowered_total",
        kind: MetricKind::Counter,
        help: "Windows learned from replies that are smaller than the window in force; each has a log line at the level WARN",
        labels: &[],
        write: |of, out| out.value(of.metrics.windows_lowered.get()),
    },
    Metric {
        name: "longhaul_cost_usd_total",
        kind: MetricKind::Counter,
        help: "Cost of answered chats in US dollars: the total charge if the provider reports one, else input and output at the prices of a price table, else the input at the list prices of the embedded table",
        labels: &["by"],
        write: |of, out| out.dollar_counters(&of.metrics.costs.chats),
    },
    Metric {
        name: "longhaul_cost_unknown_requests_total",
        kind: MetricKind::Counter,
        help: "Chats whose cost is unknown, including those that the client left unanswered; not included in any dollar total",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.costs.chats_unknown),
    },
    Metric {
        name: "longhaul_saved_usd_total",
        kind: MetricKind::Counter,
        help: "Cost that the removed tokens would have had, in US dollars at list prices; the costs of rewrites and summaries are not deducted",
        labels: &[],
        write: |of, out| out.dollars(of.metrics.costs.saved.get()),
    },
    Metric {
        name: "longhaul_saved_unknown_tokens_total",
        kind: MetricKind::Counter,
        help: "Removed tokens whose price is unknown, by the plain estimate",
        labels: &[],
        write: |of, out| out.value(of.metrics.costs.saved_unknown.get()),
    },
    Metric {
        name: "longhaul_rewrite_cost_usd_total",
        kind: MetricKind::Counter,
        help: "Extra cost in US dollars of tokens that the provider had cached before a rewrite: their full price less their cached price",
        labels: &[],
        write: |of, out| out.dollars(of.metrics.costs.rewrites.get()),
    },
    Metric {
        name: "longhaul_summary_cost_usd_total",
        kind: MetricKind::Counter,
        help: "Cost of longhaul's own calls in US dollars, including those whose answer was unusable",
        labels: &["for", "by"],
        write: |of, out| out.dollar_matrix(&of.metrics.costs.auxiliary),
    },
    Metric {
        name: "longhaul_summary_cost_unknown_calls_total",
        kind: MetricKind::Counter,
        help: "Calls of longhaul's own whose cost is unknown; not included in any dollar total",
        labels: &["for", "reason"],
        write: |of, out| out.matrix(&of.metrics.costs.auxiliary_unknown),
    },
    Metric {
        name: "longhaul_compactions_total",
        kind: MetricKind::Counter,
        help: "Compaction records that came into use, by trigger; from then on a record applies to every request of its conversation",
        labels: &["trigger"],
        write: |of, out| out.counters(&of.metrics.compactions),
    },
    Metric {
        name: "longhaul_summary_requests_total",
        kind: MetricKind::Counter,
        help: "Summary jobs by outcome; one job may take several calls",
        labels: &["outcome"],
        write: |of, out| out.counters(&of.metrics.summaries),
    },
    Metric {
        name: "longhaul_summaries_withheld_total",
        kind: MetricKind::Counter,
        help: "Summaries that were wanted but not requested, by reason: repeated failures, an hourly limit of the conversation, the caller or the process, an upstream that throttles, unused summaries",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.withheld),
    },
    Metric {
        name: "longhaul_summary_seconds",
        kind: MetricKind::Histogram,
        help: "Duration of summary jobs, successful or not",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.summary_duration.snapshot()),
    },
    Metric {
        name: "longhaul_summary_wait_seconds",
        kind: MetricKind::Histogram,
        help: "Time that requests waited for a summary; only requests that waited are counted",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.summary_wait.snapshot()),
    },
    Metric {
        name: "longhaul_retries_total",
        kind: MetricKind::Counter,
        help: "Retries after a refusal, by kind and outcome",
        labels: &["kind", "outcome"],
        write: |of, out| out.matrix(&of.metrics.retries),
    },
    Metric {
        name: "longhaul_bypasses_total",
        kind: MetricKind::Counter,
        help: "Chats forwarded unchanged, by reason; nothing: there was nothing to change",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.bypasses),
    },
    Metric {
        name: "longhaul_unread_total",
        kind: MetricKind::Counter,
        help: "Chats whose body was streamed through unread, by reason",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.unread),
    },
    Metric {
        name: "longhaul_faults_total",
        kind: MetricKind::Counter,
        help: "Error responses generated by longhaul in place of an upstream reply, by reason",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.faults),
    },
    Metric {
        name: "longhaul_modified_bytes_outside_cuts_total",
        kind: MetricKind::Counter,
        help: "Bytes outside the replacements that a rewrite changed by mistake; such a rewrite is not sent. Must stay 0",
        labels: &[],
        write: |of, out| out.value(of.metrics.corrupted_bytes.get()),
    },
    Metric {
        name: "longhaul_far_store_calls_total",
        kind: MetricKind::Counter,
        help: "Calls of the durable store, a file or a server, by outcome",
        labels: &["outcome"],
        write: |of, out| out.counters(&of.metrics.durable_store),
    },
    Metric {
        name: "longhaul_build_info",
        kind: MetricKind::Gauge,
        help: "Always 1; the label is the running version",
        labels: &["version"],
        write: |_, out| out.labelled(&[env!("CARGO_PKG_VERSION")], 1),
    },
    Metric {
        name: "process_start_time_seconds",
        kind: MetricKind::Gauge,
        help: "Start of service, in seconds since 1970",
        labels: &[],
        write: |of, out| out.value(of.started),
    },
    Metric {
        name: "process_resident_memory_bytes",
        kind: MetricKind::Gauge,
        help: "Resident memory; Linux only",
        labels: &[],
        write: |_, out| out.optional(process::resident_bytes()),
    },
    Metric {
        name: "process_open_fds",
        kind: MetricKind::Gauge,
        help: "Open files and sockets; Linux only",
        labels: &[],
        write: |_, out| out.optional(process::open_descriptors()),
    },
    Metric {
        name: "process_max_fds",
        kind: MetricKind::Gauge,
        help: "Maximum number of open files and sockets; Linux only",
        labels: &[],
        write: |_, out| out.optional(process::max_descriptors()),
    },
];

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
                MetricKind::Counter => {
                    let values = values(page, metric, label);
                    format!("`{label}`: {}", values.join(", "))
                }
                MetricKind::Gauge | MetricKind::Histogram => format!("`{label}`"),
            })
            .collect();
        format!(
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind.label(),
            labels.join("; "),
            metric.help
        )
    }

    #[test]
    fn documentation_lists_exactly_the_exported_metrics() {
        let metrics = Metrics::default();
        let source = MetricsSource {
            metrics: &metrics,
            started: 0,
        };
        let page = render(METRICS, &source);
        let rows: Vec<String> = METRICS.iter().map(|metric| row(&page, metric)).collect();
        let told: Vec<&str> = DOCS
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        assert_eq!(told, rows);
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
            let grows = metric.kind == MetricKind::Counter;
            assert_eq!(name.ends_with("_total"), grows, "{name}");
            let seconds = metric.kind == MetricKind::Histogram;
            assert!(!seconds || name.ends_with("_seconds"), "{name}");
            let plain = |text: &str| !text.contains(['"', '\\', '\n', '|']);
            assert!(plain(metric.help), "{name}: help needs escaping");
        }
    }
}
