//! What the operator is told of a conversation, never its content.

use super::Chat;
use super::attempt::{Attempt, PlanInputs};
use crate::rewrite::plan::RequestPlan;
use crate::rewrite::view::ForwardedView;

/// Tells the operator that a form was refused.
pub(super) fn log_placement_refused() {
    tracing::info!(
        "a summary was refused for its place among the messages; the next one goes elsewhere"
    );
}

/// Tells the operator that nothing would have fitted what the refusal of `first` has shown.
pub(super) fn log_gave_up(first: &Attempt, basis: &PlanInputs) {
    tracing::warn!(
        tokens = first.report.after.get(),
        window = basis.policy.thresholds.window.get(),
        "Context too large. Compaction failed. Use 'longhaul compact' or the header \
         'x-longhaul-compact: now' to retry manually. Neither helps where one message, or all that \
         may not be touched, fills the window."
    );
}

impl Chat<'_> {
    /// Tells the operator, once a row of them, of a conversation that is full again right after each
    /// compaction: by the kind and size of what fills it.
    pub(super) fn log_thrash(&self, view: &ForwardedView) {
        if !view.thrash().starts_thrashing() {
            return;
        }
        let standing = self
            .request
            .conversation
            .messages()
            .iter()
            .skip(view.summarised_until());
        let Some(largest) = standing.max_by_key(|message| message.tokens) else {
            return;
        };
        tracing::warn!(
            kind = largest.role.label(),
            tokens = largest.tokens.get(),
            "a conversation fills its window again right after each compaction; half as much of \
             it is kept from here on, and all old tool results are cleared. This is its largest \
             message"
        );
    }

    /// Tells the operator, once a conversation, of one that is not pruned for want of user messages.
    pub(super) fn log_too_few_user_messages(&self, outlook: &RequestPlan) {
        if outlook.blocked_by_turns
            && let Some(key) = self.prefix_keys.first_key()
            && self.shared().store.mark_notified(key)
        {
            tracing::info!(
                "a conversation has too few user messages for its old tool results to be cleared; \
                 for unattended agents set LONGHAUL_PRUNE_MIN_USER_TURNS=1"
            );
        }
    }
}
