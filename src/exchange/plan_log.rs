//! Reasons of a plan in the log: its numbers at `debug`, every message at `trace`.

use crate::exchange::request_log::ChatFacts;
use crate::explanation::verdict;
use crate::explanation::{RequestId, StoredExplanation};
use longhaul_console::word::Word;

/// Logs the plan of a chat. Without an admin listener there is no explanation, and only the window
/// and its thresholds are logged.
pub(super) fn log_plan(id: RequestId, facts: &ChatFacts, explanation: Option<&StoredExplanation>) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let why = explanation.map(|it| it.cause.sentence(&it.numbers));
    tracing::debug!(
        request_id = %id,
        model = &*facts.model,
        conversation = facts.conversation.map(tracing::field::display),
        window = facts.window.tokens.get(),
        window_source = facts.window.source.label(),
        soft = facts.soft.get(),
        hard = facts.hard.get(),
        tokens_before = explanation.map(|it| it.numbers.totals.before.get()),
        tokens_after = explanation.map(|it| it.numbers.totals.after.get()),
        changed = explanation.map(|it| it.numbers.changes().count()),
        why,
        "planned"
    );
    if !tracing::enabled!(tracing::Level::TRACE) {
        return;
    }
    for row in explanation
        .into_iter()
        .flat_map(|it| it.numbers.rows.iter().map(move |row| (it, row)))
    {
        let (explanation, row) = row;
        tracing::trace!(
            request_id = %id,
            from = row.number,
            through = row.through.unwrap_or(row.number),
            tokens = row.tokens.get(),
            becomes = row.becomes.get(),
            verdict = %Word(row.decision),
            reason = verdict::explain(&explanation.numbers, row.decision),
            "message"
        );
    }
}
