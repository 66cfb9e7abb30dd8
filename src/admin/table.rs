//! Every metric there is, each defined once. `docs/metrics.md` is held to this table.
//!
//! No label's value comes from a request: what can be counted is known when the program is compiled.

use super::exposition::Samples;
use super::process;
use crate::metrics::Metrics;

/// Where the numbers come from.
pub(super) struct Source<'s> {
    pub(super) metrics: &'s Metrics,
    /// When the process began to serve, in seconds since 1970.
    pub(super) started: u64,
}

/// One metric.
pub(super) struct Metric {
    /// As Prometheus has it: with its unit, and `_total` for what only grows.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// What it counts, in a sentence.
    pub(super) help: &'static str,
    /// What tells its numbers apart.
    pub(super) labels: &'static [&'static str],
    /// Writes its numbers.
    pub(super) read: fn(&Source<'_>, &mut Samples<'_>),
}

/// What kind of numbers a metric has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// They only grow.
    Counter,
    /// They come and go.
    Gauge,
    /// Lengths of time in buckets.
    Histogram,
}

impl Kind {
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
        kind: Kind::Counter,
        help: "Requests by the act that tells most of what was done to them, and by the class of their answer's status",
        labels: &["action", "status"],
        read: |of, out| out.pairs(&of.metrics.answers),
    },
    Metric {
        name: "longhaul_requests_ended_total",
        kind: Kind::Counter,
        help: "Requests by how they ended",
        labels: &["ending"],
        read: |of, out| out.each(&of.metrics.requests),
    },
    Metric {
        name: "longhaul_inflight_requests",
        kind: Kind::Gauge,
        help: "Requests under way",
        labels: &[],
        read: |of, out| out.one(of.metrics.in_flight.get()),
    },
    Metric {
        name: "longhaul_request_seconds",
        kind: Kind::Histogram,
        help: "From the head of a request to the end of its answer",
        labels: &[],
        read: |of, out| out.buckets(&of.metrics.duration.read()),
    },
    Metric {
        name: "longhaul_overhead_seconds",
        kind: Kind::Histogram,
        help: "What longhaul itself took, from the head of a request to the head of its answer, without the waits for the client's body, the upstream and a summary",
        labels: &[],
        read: |of, out| out.buckets(&of.metrics.overhead.read()),
    },
    Metric {
        name: "longhaul_acts_total",
        kind: Kind::Counter,
        help: "What was done to chats that went on; one chat may have several",
        labels: &["act"],
        read: |of, out| out.each(&of.metrics.acts),
    },
    Metric {
        name: "longhaul_chats_total",
        kind: Kind::Counter,
        help: "Chats that were read and went on",
        labels: &[],
        read: |of, out| out.one(of.metrics.chats.count()),
    },
    Metric {
        name: "longhaul_tokens_before_total",
        kind: Kind::Counter,
        help: "Tokens of the chats that were read, as they came, in the plain estimate",
        labels: &[],
        read: |of, out| out.one(of.metrics.chats.before()),
    },
    Metric {
        name: "longhaul_tokens_after_total",
        kind: Kind::Counter,
        help: "Tokens of the chats that were read, as they went on last, in the plain estimate",
        labels: &[],
        read: |of, out| out.one(of.metrics.chats.after()),
    },
    Metric {
        name: "longhaul_tokens_saved_total",
        kind: Kind::Counter,
        help: "Tokens taken out of the chats that were read, in the plain estimate: as they came, less as they went on last",
        labels: &[],
        read: |of, out| out.one(of.metrics.chats.saved()),
    },
    Metric {
        name: "longhaul_shadow_saved_tokens_total",
        kind: Kind::Counter,
        help: "Tokens that mode on would have saved where the mode was shadow",
        labels: &[],
        read: |of, out| out.one(of.metrics.chats.shadow_saved()),
    },
    Metric {
        name: "longhaul_prompt_tokens_total",
        kind: Kind::Counter,
        help: "Tokens of prompts as their providers counted them, those from a cache among them; of answers that were looked at",
        labels: &[],
        read: |of, out| out.one(of.metrics.counted.prompt.get()),
    },
    Metric {
        name: "longhaul_cached_tokens_total",
        kind: Kind::Counter,
        help: "Tokens of prompts that came from the provider's cache, where it says so; of answers that were looked at",
        labels: &[],
        read: |of, out| out.one(of.metrics.counted.cached.get()),
    },
    Metric {
        name: "longhaul_completion_tokens_total",
        kind: Kind::Counter,
        help: "Tokens of answers as their providers counted them",
        labels: &[],
        read: |of, out| out.one(of.metrics.counted.output.get()),
    },
    Metric {
        name: "longhaul_rereads_after_clear_total",
        kind: Kind::Counter,
        help: "Calls of the same tool with the same arguments as an earlier one whose result was cleared or summarised by then: the price of forgetting",
        labels: &[],
        read: |of, out| out.one(of.metrics.rereads.get()),
    },
    Metric {
        name: "longhaul_cost_usd_total",
        kind: Kind::Counter,
        help: "What answered chats cost, in US dollars: all that was charged where the provider says it, else their input at the list prices of the embedded table",
        labels: &["by"],
        read: |of, out| out.dollars_each(&of.metrics.money.chats),
    },
    Metric {
        name: "longhaul_cost_unknown_requests_total",
        kind: Kind::Counter,
        help: "Chats, answered or left before they were, whose cost is unknown; not included in any dollar total",
        labels: &["reason"],
        read: |of, out| out.each(&of.metrics.money.chats_unknown),
    },
    Metric {
        name: "longhaul_saved_usd_total",
        kind: Kind::Counter,
        help: "What the tokens that were taken out would have cost, in US dollars at list prices; what rewrites and summaries cost is still to be taken off",
        labels: &[],
        read: |of, out| out.dollars(of.metrics.money.saved.get()),
    },
    Metric {
        name: "longhaul_saved_unknown_tokens_total",
        kind: Kind::Counter,
        help: "Tokens that were taken out and whose price nobody knows, in the plain estimate",
        labels: &[],
        read: |of, out| out.one(of.metrics.money.saved_unknown.get()),
    },
    Metric {
        name: "longhaul_rewrite_cost_usd_total",
        kind: Kind::Counter,
        help: "What was paid at the full price for tokens that the provider had cached before a rewrite, above what they cost from its cache, in US dollars",
        labels: &[],
        read: |of, out| out.dollars(of.metrics.money.rewrites.get()),
    },
    Metric {
        name: "longhaul_summary_cost_usd_total",
        kind: Kind::Counter,
        help: "What the calls of longhaul's own cost, in US dollars, those whose answer was of no use too",
        labels: &["for", "by"],
        read: |of, out| out.dollars_pairs(&of.metrics.money.asides),
    },
    Metric {
        name: "longhaul_summary_cost_unknown_calls_total",
        kind: Kind::Counter,
        help: "Calls of longhaul's own whose cost is unknown; not included in any dollar total",
        labels: &["for", "reason"],
        read: |of, out| out.pairs(&of.metrics.money.asides_unknown),
    },
    Metric {
        name: "longhaul_compactions_total",
        kind: Kind::Counter,
        help: "Records that came into use, by what made them: from then on they stand in every request of their conversation",
        labels: &["trigger"],
        read: |of, out| out.each(&of.metrics.compactions),
    },
    Metric {
        name: "longhaul_summary_requests_total",
        kind: Kind::Counter,
        help: "Summaries that were to be written, by what became of them; one may take several calls",
        labels: &["outcome"],
        read: |of, out| out.each(&of.metrics.summaries),
    },
    Metric {
        name: "longhaul_summaries_withheld_total",
        kind: Kind::Counter,
        help: "Times that a summary was wanted and not asked for, by what kept it: failures in a row, a cap on the hour of the conversation, the caller or the process, an upstream that throttles, summaries that nobody used",
        labels: &["reason"],
        read: |of, out| out.each(&of.metrics.withheld),
    },
    Metric {
        name: "longhaul_summary_seconds",
        kind: Kind::Histogram,
        help: "How long summaries took, from the request for one to its end, good or bad",
        labels: &[],
        read: |of, out| out.buckets(&of.metrics.summary_duration.read()),
    },
    Metric {
        name: "longhaul_summary_wait_seconds",
        kind: Kind::Histogram,
        help: "How long requests waited for a summary, those that did",
        labels: &[],
        read: |of, out| out.buckets(&of.metrics.summary_wait.read()),
    },
    Metric {
        name: "longhaul_retries_total",
        kind: Kind::Counter,
        help: "Second sends after a refusal, by what was sent and what became of it",
        labels: &["kind", "outcome"],
        read: |of, out| out.pairs(&of.metrics.again),
    },
    Metric {
        name: "longhaul_bypasses_total",
        kind: Kind::Counter,
        help: "Chats that went on as they came, by the reason; nothing: there was nothing to change",
        labels: &["reason"],
        read: |of, out| out.each(&of.metrics.bypasses),
    },
    Metric {
        name: "longhaul_unread_total",
        kind: Kind::Counter,
        help: "Chats whose body was streamed through unread, by the reason",
        labels: &["reason"],
        read: |of, out| out.each(&of.metrics.unread),
    },
    Metric {
        name: "longhaul_faults_total",
        kind: Kind::Counter,
        help: "Answers of longhaul's own making in place of the upstream's, by the reason",
        labels: &["reason"],
        read: |of, out| out.each(&of.metrics.faults),
    },
    Metric {
        name: "longhaul_modified_bytes_outside_cuts_total",
        kind: Kind::Counter,
        help: "Bytes outside what was replaced that a rewrite came out with changed; it was not sent. Must stay 0",
        labels: &[],
        read: |of, out| out.one(of.metrics.strays.get()),
    },
    Metric {
        name: "longhaul_far_store_calls_total",
        kind: Kind::Counter,
        help: "Calls of the store behind memory, a file or a server, by what became of them",
        labels: &["outcome"],
        read: |of, out| out.each(&of.metrics.far_store),
    },
    Metric {
        name: "longhaul_build_info",
        kind: Kind::Gauge,
        help: "1, with the version that runs",
        labels: &["version"],
        read: |_, out| out.labelled(&[env!("CARGO_PKG_VERSION")], 1),
    },
    Metric {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        help: "When the process began to serve, in seconds since 1970",
        labels: &[],
        read: |of, out| out.one(of.started),
    },
    Metric {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        help: "Memory in use; on Linux",
        labels: &[],
        read: |_, out| out.maybe(process::resident()),
    },
    Metric {
        name: "process_open_fds",
        kind: Kind::Gauge,
        help: "Files and sockets that are open; on Linux",
        labels: &[],
        read: |_, out| out.maybe(process::descriptors()),
    },
    Metric {
        name: "process_max_fds",
        kind: Kind::Gauge,
        help: "How many may be open; on Linux",
        labels: &[],
        read: |_, out| out.maybe(process::most_descriptors()),
    },
];

#[cfg(test)]
mod tests {
    use super::super::exposition::page;
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
                Kind::Counter => {
                    let values = values(page, metric, label);
                    format!("`{label}`: {}", values.join(", "))
                }
                Kind::Gauge | Kind::Histogram => format!("`{label}`"),
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
        let source = Source {
            metrics: &metrics,
            started: 0,
        };
        let page = page(METRICS, &source);
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
            let grows = metric.kind == Kind::Counter;
            assert_eq!(name.ends_with("_total"), grows, "{name}");
            let seconds = metric.kind == Kind::Histogram;
            assert!(!seconds || name.ends_with("_seconds"), "{name}");
            let plain = |text: &str| !text.contains(['"', '\\', '\n', '|']);
            assert!(plain(metric.help), "{name}: what would have to be escaped");
        }
    }
}
