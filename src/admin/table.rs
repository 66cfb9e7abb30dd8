//! Defines every metric once.
//!
//! To add a metric, add:
//!
//! - a field to [`Metrics`], with its labels in `src/metrics/labels.rs`, and the call that counts;
//! - its row here, and the same row in `docs/reference/metrics.md`;
//! - a panel in `config/grafana/longhaul.json`, and an entry in `CHANGELOG.md`.
//!
//! Tests compare the table, the page and the panels.
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
    /// Type: `counter`, `gauge` or `histogram`.
    pub(super) kind: &'static str,
    /// Description in one sentence.
    pub(super) help: &'static str,
    /// Names of the labels.
    pub(super) labels: &'static [&'static str],
    /// Writes the current values.
    pub(super) write: fn(&MetricsSource<'_>, &mut SampleWriter<'_>),
}

/// Declares the metrics, in the order of the page: type, name, labels, writer and help of each.
macro_rules! metrics {
    ($($kind:ident $name:ident [$($label:ident),*] $write:expr, $help:literal;)+) => {
        /// All metrics.
        pub(super) const METRICS: &[Metric] = &[$(Metric {
            name: stringify!($name),
            kind: stringify!($kind),
            help: $help,
            labels: &[$(stringify!($label)),*],
            write: $write,
        }),+];
    };
}

metrics! {
    counter longhaul_requests_total [action, status] |of, out| out.matrix(&of.metrics.responses),
        "Requests by their principal action and by the class of the response's status";
    counter longhaul_requests_ended_total [ending] |of, out| out.counters(&of.metrics.requests),
        "Requests by how they ended";
    gauge longhaul_inflight_requests [] |of, out| out.value(of.metrics.in_flight.get()),
        "Requests in progress";
    histogram longhaul_request_seconds [] |of, out| out.histogram(&of.metrics.duration.snapshot()),
        "Time from the head of a request to the end of its response";
    histogram longhaul_overhead_seconds [] |of, out| out.histogram(&of.metrics.overhead.0.snapshot()),
        "Time added by longhaul, from the head of a request to the head of its response, without waits for the client's body, the upstream and a summary";
    histogram longhaul_held_seconds [] |of, out| out.histogram(&of.metrics.held.snapshot()),
        "Time from the head of a reply to its verdict; replies relayed unjudged are not counted";
    counter longhaul_acts_total [act] |of, out| out.counters(&of.metrics.actions),
        "Actions applied to chats that were forwarded; one chat may have several";
    counter longhaul_chats_total [] |of, out| out.value(of.metrics.chats.count.get()),
        "Chats that were read and forwarded";
    counter longhaul_tokens_before_total [] |of, out| out.value(of.metrics.chats.before.get()),
        "Tokens of the chats that were read, as received, by the plain estimate";
    counter longhaul_tokens_after_total [] |of, out| out.value(of.metrics.chats.after.get()),
        "Tokens of the chats that were read, as last sent, by the plain estimate";
    counter longhaul_tokens_saved_total [] |of, out| out.value(of.metrics.chats.saved.get()),
        "Tokens removed from the chats that were read, by the plain estimate: as received, less as last sent";
    counter longhaul_shadow_saved_tokens_total []
        |of, out| out.value(of.metrics.chats.shadow_saved.get()),
        "Tokens that mode on would have saved in chats forwarded in mode shadow";
    counter longhaul_prompt_tokens_total []
        |of, out| out.value(of.metrics.provider_tokens.prompt.get()),
        "Prompt tokens as reported by providers, including cached ones, for replies that longhaul inspected";
    counter longhaul_cached_tokens_total []
        |of, out| out.value(of.metrics.provider_tokens.cached.get()),
        "Prompt tokens read from the provider's cache, if reported, for replies that longhaul inspected";
    counter longhaul_completion_tokens_total []
        |of, out| out.value(of.metrics.provider_tokens.output.get()),
        "Output tokens as reported by providers";
    counter longhaul_rereads_after_clear_total [] |of, out| out.value(of.metrics.rereads.get()),
        "Tool calls that repeat an earlier call, with the same arguments, whose result had been cleared or summarised";
    counter longhaul_imitated_clips_total [] |of, out| out.value(of.metrics.imitated_clips.get()),
        "New tool calls whose arguments repeat the note of a clipped call, so that contents are missing; each has a log line at the level WARN";
    counter longhaul_windows_lowered_total [] |of, out| out.value(of.metrics.windows_lowered.get()),
        "Windows learned from replies that are smaller than the window in force; each has a log line at the level WARN";
    counter longhaul_cost_usd_total [by] |of, out| out.dollar_counters(&of.metrics.costs.chats),
        "Cost of answered chats in US dollars: the total charge if the provider reports one, else input and output at the prices of a price table, else the input at the list prices of the embedded table";
    counter longhaul_cost_unknown_requests_total [reason]
        |of, out| out.counters(&of.metrics.costs.chats_unknown),
        "Chats whose cost is unknown, including those that the client left unanswered; not included in any dollar total";
    counter longhaul_saved_usd_total [] |of, out| out.dollars(of.metrics.costs.saved.get()),
        "Cost that the removed tokens would have had, in US dollars at list prices; the costs of rewrites and summaries are not deducted";
    counter longhaul_saved_unknown_tokens_total []
        |of, out| out.value(of.metrics.costs.saved_unknown.get()),
        "Removed tokens whose price is unknown, by the plain estimate";
    counter longhaul_rewrite_cost_usd_total []
        |of, out| out.dollars(of.metrics.costs.rewrites.get()),
        "Extra cost in US dollars of tokens that the provider had cached before a rewrite: their full price less their cached price";
    counter longhaul_summary_cost_usd_total [by]
        |of, out| out.dollar_counters(&of.metrics.costs.summaries),
        "Cost of summary calls in US dollars, including those whose answer was unusable";
    counter longhaul_summary_cost_unknown_calls_total [reason]
        |of, out| out.counters(&of.metrics.costs.summaries_unknown),
        "Summary calls whose cost is unknown; not included in any dollar total";
    counter longhaul_compactions_total [trigger] |of, out| out.counters(&of.metrics.compactions),
        "Compaction records that came into use, by trigger; from then on a record applies to every request of its conversation";
    counter longhaul_summary_requests_total [outcome] |of, out| out.counters(&of.metrics.summaries),
        "Summary jobs by outcome; one job may take several calls";
    counter longhaul_summaries_withheld_total [reason] |of, out| out.counters(&of.metrics.withheld),
        "Summaries that were wanted but not requested, by reason: repeated failures, an hourly limit of the conversation, the caller or the process, an upstream that throttles, unused summaries";
    histogram longhaul_summary_seconds []
        |of, out| out.histogram(&of.metrics.summary_duration.snapshot()),
        "Duration of summary jobs, successful or not";
    histogram longhaul_summary_wait_seconds []
        |of, out| out.histogram(&of.metrics.summary_wait.snapshot()),
        "Time that requests waited for a summary; only requests that waited are counted";
    counter longhaul_retries_total [kind, outcome] |of, out| out.matrix(&of.metrics.retries),
        "Retries after a refusal, by kind and outcome";
    counter longhaul_bypasses_total [reason] |of, out| out.counters(&of.metrics.bypasses),
        "Chats forwarded unchanged, by reason; nothing: there was nothing to change";
    counter longhaul_unread_total [reason] |of, out| out.counters(&of.metrics.unread),
        "Chats whose body was streamed through unread, by reason";
    counter longhaul_faults_total [reason] |of, out| out.counters(&of.metrics.faults),
        "Error responses generated by longhaul in place of an upstream reply, by reason";
    counter longhaul_modified_bytes_outside_cuts_total []
        |of, out| out.value(of.metrics.corrupted_bytes.get()),
        "Bytes outside the replacements that a rewrite changed by mistake; such a rewrite is not sent. Must stay 0";
    counter longhaul_far_store_calls_total [outcome]
        |of, out| out.counters(&of.metrics.durable_store),
        "Calls of the durable store, a file or a server, by outcome";
    counter longhaul_idle_releases_total [] |of, out| out.value(of.metrics.idle_releases.get()),
        "Times that longhaul, without requests for minutes, returned memory to the system";
    gauge longhaul_build_info [version] |_, out| out.labelled(&[env!("CARGO_PKG_VERSION")], 1),
        "Always 1; the label is the running version";
    gauge process_start_time_seconds [] |of, out| out.value(of.started),
        "Start of service, in seconds since 1970";
    gauge process_resident_memory_bytes [] |_, out| out.optional(process::resident_bytes()),
        "Resident memory; Linux only";
    gauge process_open_fds [] |_, out| out.optional(process::open_descriptors()),
        "Open files and sockets; Linux only";
    gauge process_max_fds [] |_, out| out.optional(process::max_descriptors()),
        "Maximum number of open files and sockets; Linux only";
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
        let documented: Vec<&str> = DOCS
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
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
            assert!(plain(metric.help), "{name}: help needs escaping");
        }
    }
}
