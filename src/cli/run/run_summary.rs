//! A short summary of the proxy's work while a command ran.

use std::fmt::Write as _;

use crate::cli::agents::Agent;
use crate::display::thousands::with_thousands;
use crate::metrics::{Action, Metrics};

/// Returns the summary. `base` is the base URL that the command was given, `agent` the agent that the
/// command is known to be.
pub(super) fn run_summary(metrics: &Metrics, base: &str, agent: Option<Agent>) -> String {
    let all = &metrics.chats;
    let (chats, before, after) = (all.count.get(), all.before.get(), all.after.get());
    if chats == 0 {
        if let Some(agent) = agent.filter(|agent| agent.needs_file()) {
            let (name, file) = (agent.name(), agent.file());
            return format!(
                "longhaul: no chat came through: {name} reads its endpoint from {file}; \
                 `longhaul connect {name}` prints the lines for a running longhaul\n"
            );
        }
        let others: u64 = metrics.requests.iter().map(|(_, count)| count).sum();
        if others > 0 {
            return format!(
                "longhaul: {others} requests came through, and no chat among them: longhaul passes \
                 on unread what goes to other paths than /chat/completions, /responses and \
                 /v1/messages\n"
            );
        }
        return format!(
            "longhaul: no chat came through; the command should take its endpoint from \
             OPENAI_BASE_URL ({base}), and may need a setting of its own\n"
        );
    }
    let did = |act| metrics.actions.get(act);
    let noun = if chats == 1 { "chat" } else { "chats" };
    let mut text = format!(
        "longhaul: {chats} {noun}, about {} tokens",
        with_thousands(before)
    );
    if after < before {
        let percent = (before - after) * 100 / before.max(1);
        _ = write!(
            text,
            ", {} forwarded ({percent}% less)",
            with_thousands(after)
        );
    } else {
        text.push_str(", all forwarded unchanged");
    }
    let counts = [
        (did(Action::Prune), "with old results cleared"),
        (
            did(Action::Digest) + did(Action::Summary),
            "with old history condensed",
        ),
        (did(Action::Retry), "refused at first and retried"),
        (did(Action::GaveUp), "too large even after compaction"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        _ = write!(text, "; {count} {what}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::units::tokens::Tokens;

    #[test]
    fn run_summary_states_the_savings_and_actions() {
        let metrics = Metrics::default();
        metrics
            .chats
            .add(Tokens::new(1_000_000), Tokens::new(300_000));
        metrics
            .chats
            .add(Tokens::new(234_567), Tokens::new(234_567));
        for act in [
            Action::Prune,
            Action::Digest,
            Action::Summary,
            Action::Retry,
        ] {
            metrics.actions.add(act);
        }
        assert_eq!(
            run_summary(&metrics, "", None),
            "longhaul: 2 chats, about 1,234,567 tokens, 534,567 forwarded (56% less); 1 with old \
             results cleared; 2 with old history condensed; 1 refused at first and retried\n"
        );
    }

    #[test]
    fn run_summary_states_if_nothing_changed_or_no_chat_came() {
        let metrics = Metrics::default();
        let nothing = run_summary(&metrics, "http://127.0.0.1:9/v1", None);
        assert!(nothing.contains("no chat came through"), "{nothing}");
        assert!(nothing.contains("http://127.0.0.1:9/v1"), "{nothing}");
        let pi = run_summary(&metrics, "", Some(Agent::Pi));
        assert!(pi.contains("longhaul connect pi"), "{pi}");
        metrics.chats.add(Tokens::new(999), Tokens::new(999));
        assert_eq!(
            run_summary(&metrics, "", None),
            "longhaul: 1 chat, about 999 tokens, all forwarded unchanged\n"
        );
    }
}
