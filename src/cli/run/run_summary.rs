//! A short summary of the proxy's work while a command ran.

use std::fmt::Write as _;

use crate::cli::agents::Agent;
use crate::cli::quota::lines;
use crate::error::Fault;
use crate::metrics::{Action, Label as _, Metrics, StatusClass};
use longhaul_console::thousands::with_thousands;
use longhaul_core::dialect::Dialect;

/// Returns the summary. `base` is the base URL that the command was given, `agent` the agent that the
/// command is known to be.
pub(super) fn run_summary(metrics: &Metrics, base: &str, agent: Option<&Agent>) -> String {
    let all = &metrics.chats;
    let (chats, before, after) = (all.count.get(), all.before.get(), all.after.get());
    let named = |(fault, count): (Fault, u64)| format!("{count} {}", fault.label());
    let faults: Vec<String> = failures(metrics).map(named).collect();
    if chats == 0 {
        return no_chat_note(metrics, base, agent, &faults);
    }
    let did = |act| metrics.actions.get(act);
    let mut text =
        format!("longhaul: {}, about {} tokens", counted(chats, "chat"), with_thousands(before));
    if after < before {
        let percent = (before - after) * 100 / before.max(1);
        _ = write!(text, ", {} forwarded ({percent}% less)", with_thousands(after));
    } else {
        text.push_str(", all forwarded unchanged");
    }
    let counts = [
        (did(Action::Prune), "with old results cleared"),
        (did(Action::Summary), "with a summary for old history"),
        (did(Action::Digest), "with a digest for old history"),
        (did(Action::Retry), "refused at first and retried"),
        (did(Action::GaveUp), "too large even after compaction"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        _ = write!(text, "; {count} {what}");
    }
    let refused = upstream_errors(metrics);
    if refused > 0 {
        _ = write!(text, "; {refused} answered with an error by the upstream");
    }
    if !faults.is_empty() {
        _ = write!(text, "; failed: {}", faults.join(", "));
    }
    text.push('\n');
    let quota = lines(&metrics.quotas.all());
    for line in quota.lines() {
        _ = writeln!(text, "longhaul: {line}");
    }
    text
}

/// Explains why no chat came through the proxy.
fn no_chat_note(metrics: &Metrics, base: &str, agent: Option<&Agent>, faults: &[String]) -> String {
    let failed: u64 = failures(metrics).map(|(_, count)| count).sum();
    let all: u64 = metrics.requests.iter().map(|(_, count)| count).sum();
    let upgrades = metrics.faults.get(Fault::WebSocketRefused);
    if failed > 0 && failed + upgrades >= all {
        return format!(
            "longhaul: no chat was answered: {} failed, {}; `longhaul doctor` tests the upstream\n",
            counted(failed, "request"),
            faults.join(", ")
        );
    }
    if all == 0
        && let Some(Agent { name, .. }) = agent
    {
        return format!(
            "longhaul: no chat came through: {name} may read its endpoint from a file, or leave the work \
             to a server that runs already; `longhaul connect {name} --write` points both to a running longhaul\n"
        );
    }
    if all > 0 {
        return format!(
            "longhaul: {} came through, and no chat among them: longhaul reads only \
             requests to these paths: {}\n",
            counted(all, "request"),
            Dialect::ALL.map(|it| it.facts().distinct_path).join(", ")
        );
    }
    format!(
        "longhaul: no chat came through; the command should take its endpoint from \
         OPENAI_BASE_URL ({base}), and may need a setting of its own\n"
    )
}

fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Returns the faults that occurred and are failures. Codex requests a WebSocket before it goes on
/// over HTTP, and an unknown original is an answer.
fn failures(metrics: &Metrics) -> impl Iterator<Item = (Fault, u64)> {
    let is_failure =
        |fault: Fault| fault != Fault::WebSocketRefused && !fault.label().starts_with("recall_");
    let faults = metrics.faults.iter();
    faults.filter(move |(fault, count)| *count > 0 && is_failure(*fault))
}

/// Returns the number of requests whose answer by the upstream was an error, without paths that do
/// not exist there.
fn upstream_errors(metrics: &Metrics) -> u64 {
    let is_error = |class| matches!(class, StatusClass::ClientError | StatusClass::ServerError);
    let errors = metrics.responses.iter();
    let errors = errors.filter(|(_, class, _)| is_error(*class));
    let errors: u64 = errors.map(|(_, _, count)| count).sum();
    let faults: u64 = metrics.faults.iter().map(|(_, count)| count).sum();
    errors.saturating_sub(faults + metrics.missing_paths.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Ending;
    use longhaul_core::units::tokens::Tokens;

    #[test]
    fn run_summary_states_the_savings_and_actions() {
        let metrics = Metrics::default();
        metrics.chats.add(Tokens::new(1_000_000), Tokens::new(300_000));
        metrics.chats.add(Tokens::new(234_567), Tokens::new(234_567));
        for act in [Action::Prune, Action::Digest, Action::Summary, Action::Retry] {
            metrics.actions.add(act);
        }
        assert_eq!(
            run_summary(&metrics, "", None),
            "longhaul: 2 chats, about 1,234,567 tokens, 534,567 forwarded (56% less); 1 with old \
             results cleared; 1 with a summary for old history; 1 with a digest for old history; 1 refused at first and retried\n"
        );
    }

    #[test]
    fn run_summary_says_what_failed() {
        let metrics = Metrics::default();
        for _ in 0..14 {
            metrics.requests.add(Ending::Complete);
            metrics.responses.add(None, StatusClass::ServerError);
            metrics.faults.add(Fault::UpstreamUnreachable);
        }
        assert_eq!(
            run_summary(&metrics, "", None),
            "longhaul: no chat was answered: 14 requests failed, 14 upstream_unreachable; \
             `longhaul doctor` tests the upstream\n"
        );
        metrics.chats.add(Tokens::new(4), Tokens::new(4));
        metrics.responses.add(None, StatusClass::ClientError);
        assert_eq!(
            run_summary(&metrics, "", None),
            "longhaul: 1 chat, about 4 tokens, all forwarded unchanged; 1 answered with an error by \
             the upstream; failed: 14 upstream_unreachable\n"
        );
    }

    #[test]
    fn refused_websockets_and_unknown_originals_are_no_failures() {
        let metrics = Metrics::default();
        for fault in [Fault::WebSocketRefused, Fault::RecallUnknown] {
            metrics.requests.add(Ending::Complete);
            metrics.faults.add(fault);
        }
        let summary = run_summary(&metrics, "", None);
        assert!(summary.contains("2 requests came through"), "{summary}");
        metrics.chats.add(Tokens::new(4), Tokens::new(4));
        let summary = run_summary(&metrics, "", None);
        assert!(!summary.contains("failed"), "{summary}");
    }

    #[test]
    fn run_summary_states_if_nothing_changed_or_no_chat_came() {
        let metrics = Metrics::default();
        let nothing = run_summary(&metrics, "http://127.0.0.1:9/v1", None);
        assert!(nothing.contains("no chat came through"), "{nothing}");
        assert!(nothing.contains("http://127.0.0.1:9/v1"), "{nothing}");
        let pi = run_summary(&metrics, "", Agent::named("pi"));
        assert!(pi.contains("longhaul connect pi"), "{pi}");
        metrics.chats.add(Tokens::new(999), Tokens::new(999));
        assert_eq!(
            run_summary(&metrics, "", None),
            "longhaul: 1 chat, about 999 tokens, all forwarded unchanged\n"
        );
    }
}
