//! Every metric there is, each defined once. `docs/metrics.md` is held to this table.
//!
//! No label's value comes from a request: what can be counted is known when the program is compiled.

use super::exposition::SampleWriter;
use super::process;
use crate::metrics::Metrics;

/// Where the numbers come from.
pub(super) struct MetricsSource<'s> {
    pub(super) metrics: &'s Metrics,
    /// When the process began to serve, in seconds since 1970.
    pub(super) started: u64,
}

/// One metric.
pub(super) struct Metric {
    /// As Prometheus has it: with its unit, and `_total` for what only grows.
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    /// What it counts, in a sentence.
    pub(super) help: &'static str,
    /// What tells its numbers apart.
    pub(super) labels: &'static [&'static str],
    /// Writes its numbers.
    pub(super) write: fn(&MetricsSource<'_>, &mut SampleWriter<'_>),
}

/// What kind of numbers a metric has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MetricKind {
    /// They only grow.
    Counter,
    /// They come and go.
    Gauge,
    /// Lengths of time in buckets.
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

/// All of them, in the order of the page.
pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "longhaul_requests_total",
        kind: MetricKind::Counter,
        help: "Requests by the act that tells most of what was done to them, and by the class of their answer's status",
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
        help: "Requests under way",
        labels: &[],
        write: |of, out| out.value(of.metrics.in_flight.get()),
    },
    Metric {
        name: "longhaul_request_seconds",
        kind: MetricKind::Histogram,
        help: "From the head of a request to the end of its answer",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.duration.snapshot()),
    },
    Metric {
        name: "longhaul_overhead_seconds",
        kind: MetricKind::Histogram,
        help: "What longhaul itself took, from the head of a request to the head of its answer, without the waits for the client's body, the upstream and a summary",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.overhead.snapshot()),
    },
    Metric {
        name: "longhaul_acts_total",
        kind: MetricKind::Counter,
        help: "What was done to chats that went on; one chat may have several",
        labels: &["act"],
        write: |of, out| out.counters(&of.metrics.actions),
    },
    Metric {
        name: "longhaul_chats_total",
        kind: MetricKind::Counter,
        help: "Chats that were read and went on",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.count()),
    },
    Metric {
        name: "longhaul_tokens_before_total",
        kind: MetricKind::Counter,
        help: "Tokens of the chats that were read, as they came, in the plain estimate",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.before()),
    },
    Metric {
        name: "longhaul_tokens_after_total",
        kind: MetricKind::Counter,
        help: "Tokens of the chats that were read, as they went on last, in the plain estimate",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.after()),
    },
    Metric {
        name: "longhaul_tokens_saved_total",
        kind: MetricKind::Counter,
        help: "Tokens taken out of the chats that were read, in the plain estimate: as they came, less as they went on last",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.saved()),
    },
    Metric {
        name: "longhaul_shadow_saved_tokens_total",
        kind: MetricKind::Counter,
        help: "Tokens that mode on would have saved where the mode was shadow",
        labels: &[],
        write: |of, out| out.value(of.metrics.chats.shadow_saved()),
    },
    Metric {
        name: "longhaul_prompt_tokens_total",
        kind: MetricKind::Counter,
        help: "Tokens of prompts as their providers counted them, those from a cache among them; of answers that were looked at",
        labels: &[],
        write: |of, out| out.value(of.metrics.provider_tokens.prompt.get()),
    },
    Metric {
        name: "longhaul_cached_tokens_total",
        kind: MetricKind::Counter,
        help: "Tokens of prompts that came from the provider's cache, where it says so; of answers that were looked at",
        labels: &[],
        write: |of, out| out.value(of.metrics.provider_tokens.cached.get()),
    },
    Metric {
        name: "longhaul_completion_tokens_total",
        kind: MetricKind::Counter,
        help: "Tokens of answers as their providers counted them",
        labels: &[],
        write: |of, out| out.value(of.metrics.provider_tokens.output.get()),
    },
    Metric {
        name: "longhaul_rereads_after_clear_total",
        kind: MetricKind::Counter,
        help: "Calls of the same tool with the same arguments as an earlier one whose result was cleared or summarised by then: the price of forgetting",
        labels: &[],
        write: |of, out| out.value(of.metrics.refetches.get()),
    },
    Metric {
        name: "longhaul_cost_usd_total",
        kind: MetricKind::Counter,
        help: "What answered chats cost, in US dollars: all that was charged where the provider says it, else their input at the list prices of the embedded table",
        labels: &["by"],
        write: |of, out| out.dollar_counters(&of.metrics.costs.chats),
    },
    Metric {
        name: "longhaul_cost_unknown_requests_total",
        kind: MetricKind::Counter,
        help: "Chats, answered or left before they were, whose cost is unknown; not included in any dollar total",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.costs.chats_unknown),
    },
    Metric {
        name: "longhaul_saved_usd_total",
        kind: MetricKind::Counter,
        help: "What the tokens that were taken out would have cost, in US dollars at list prices; what rewrites and summaries cost is still to be taken off",
        labels: &[],
        write: |of, out| out.dollars(of.metrics.costs.saved.get()),
    },
    Metric {
        name: "longhaul_saved_unknown_tokens_total",
        kind: MetricKind::Counter,
        help: "Tokens that were taken out and whose price nobody knows, in the plain estimate",
        labels: &[],
        write: |of, out| out.value(of.metrics.costs.saved_unknown.get()),
    },
    Metric {
        name: "longhaul_rewrite_cost_usd_total",
        kind: MetricKind::Counter,
        help: "What was paid at the full price for tokens that the provider had cached before a rewrite, above what they cost from its cache, in US dollars",
        labels: &[],
        write: |of, out| out.dollars(of.metrics.costs.rewrites.get()),
    },
    Metric {
        name: "longhaul_summary_cost_usd_total",
        kind: MetricKind::Counter,
        help: "What the calls of longhaul's own cost, in US dollars, those whose answer was of no use too",
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
        help: "Records that came into use, by what made them: from then on they stand in every request of their conversation",
        labels: &["trigger"],
        write: |of, out| out.counters(&of.metrics.compactions),
    },
    Metric {
        name: "longhaul_summary_requests_total",
        kind: MetricKind::Counter,
        help: "Summaries that were to be written, by what became of them; one may take several calls",
        labels: &["outcome"],
        write: |of, out| out.counters(&of.metrics.summaries),
    },
    Metric {
        name: "longhaul_summaries_withheld_total",
        kind: MetricKind::Counter,
        help: "Times that a summary was wanted and not asked for, by what kept it: failures in a row, a cap on the hour of the conversation, the caller or the process, an upstream that throttles, summaries that nobody used",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.withheld),
    },
    Metric {
        name: "longhaul_summary_seconds",
        kind: MetricKind::Histogram,
        help: "How long summaries took, from the request for one to its end, good or bad",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.summary_duration.snapshot()),
    },
    Metric {
        name: "longhaul_summary_wait_seconds",
        kind: MetricKind::Histogram,
        help: "How long requests waited for a summary, those that did",
        labels: &[],
        write: |of, out| out.histogram(&of.metrics.summary_wait.snapshot()),
    },
    Metric {
        name: "longhaul_retries_total",
        kind: MetricKind::Counter,
        help: "Second sends after a refusal, by what was sent and what became of it",
        labels: &["kind", "outcome"],
        write: |of, out| out.matrix(&of.metrics.retries),
    },
    Metric {
        name: "longhaul_bypasses_total",
        kind: MetricKind::Counter,
        help: "Chats that went on as they came, by the reason; nothing: there was nothing to change",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.bypasses),
    },
    Metric {
        name: "longhaul_unread_total",
        kind: MetricKind::Counter,
        help: "Chats whose body was streamed through unread, by the reason",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.unread),
    },
    Metric {
        name: "longhaul_faults_total",
        kind: MetricKind::Counter,
        help: "Answers of longhaul's own making in place of the upstream's, by the reason",
        labels: &["reason"],
        write: |of, out| out.counters(&of.metrics.faults),
    },
    Metric {
        name: "longhaul_modified_bytes_outside_cuts_total",
        kind: MetricKind::Counter,
        help: "Bytes outside what was replaced that a rewrite came out with changed; it was not sent. Must stay 0",
        labels: &[],
        write: |of, out| out.value(of.metrics.corrupted_bytes.get()),
    },
    Metric {
        name: "longhaul_far_store_calls_total",
        kind: MetricKind::Counter,
        help: "Calls of the store behind memory, a file or a server, by what became of them",
        labels: &["outcome"],
        write: |of, out| out.counters(&of.metrics.durable_store),
    },
    Metric {
        name: "longhaul_build_info",
        kind: MetricKind::Gauge,
        help: "1, with the version that runs",
        labels: &["version"],
        write: |_, out| out.labelled(&[env!("CARGO_PKG_VERSION")], 1),
    },
    Metric {
        name: "process_start_time_seconds",
        kind: MetricKind::Gauge,
        help: "When the process began to serve, in seconds since 1970",
        labels: &[],
        write: |of, out| out.value(of.started),
    },
    Metric {
        name: "process_resident_memory_bytes",
        kind: MetricKind::Gauge,
        help: "Memory in use; on Linux",
        labels: &[],
        write: |_, out| out.optional(process::resident_bytes()),
    },
    Metric {
        name: "process_open_fds",
        kind: MetricKind::Gauge,
        help: "Files and sockets that are open; on Linux",
        labels: &[],
        write: |_, out| out.optional(process::open_descriptors()),
    },
    Metric {
        name: "process_max_fds",
        kind: MetricKind::Gauge,
        help: "How many may be open; on Linux",
        labels: &[],
        write: |_, out| out.optional(process::max_descriptors()),
    },
];

#[cfg(test)]
mod tests {
    use super::super::exposition::render;
    use super::*;

    const DOCS: &str = include_str!("../../docs/metrics.md");

    /// The values of a label, in the order of the page.
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

    /// A metric as the page for people has it.
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
    fn the_page_for_people_has_every_metric_and_no_other() {
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
    fn names_are_as_prometheus_has_them() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len(), "each is there once");
        for metric in METRICS {
            let name = metric.name;
            assert!(name.starts_with("longhaul_") || name.starts_with("process_"));
            let grows = metric.kind == MetricKind::Counter;
            assert_eq!(name.ends_with("_total"), grows, "{name}");
            let seconds = metric.kind == MetricKind::Histogram;
            assert!(!seconds || name.ends_with("_seconds"), "{name}");
            let plain = |text: &str| !text.contains(['"', '\\', '\n', '|']);
            assert!(plain(metric.help), "{name}: what would have to be escaped");
        }
    }
}
