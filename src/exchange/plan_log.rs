//! Reasons of a plan in the log: its numbers at `debug`, every message at `trace`.

use crate::account::verdict;
use crate::account::{RequestId, StoredAccount};
use crate::exchange::request_log::ChatFacts;

/// Logs the plan of a chat. Without an admin listener, no account exists, and only the window and its
/// marks are known.
pub(super) fn log_plan(id: RequestId, facts: &ChatFacts, account: Option<&StoredAccount>) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let why = account.map(|it| it.context.cause.sentence(&it.numbers));
    tracing::debug!(
        request_id = %id,
        model = &*facts.model,
        conversation = facts.conversation.map(tracing::field::display),
        window = facts.window.tokens.get(),
        window_source = facts.window.source.label(),
        soft = facts.soft.get(),
        hard = facts.hard.get(),
        tokens_before = account.map(|it| it.numbers.before.get()),
        tokens_after = account.map(|it| it.numbers.after.get()),
        changed = account.map(|it| it.numbers.changes().count()),
        why,
        "planned"
    );
    if !tracing::enabled!(tracing::Level::TRACE) {
        return;
    }
    for row in account
        .into_iter()
        .flat_map(|it| it.numbers.rows.iter().map(move |row| (it, row)))
    {
        let (account, row) = row;
        tracing::trace!(
            request_id = %id,
            from = row.from,
            through = row.to.saturating_sub(1),
            tokens = row.before.get(),
            becomes = row.after.get(),
            verdict = verdict::label(row.decision),
            reason = verdict::explain(&account.numbers, row.decision),
            "message"
        );
    }
}
