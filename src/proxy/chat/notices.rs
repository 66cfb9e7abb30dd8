//! What the operator is told of a conversation, never its content.

use super::Chat;
use super::attempt::{Attempt, Basis};
use crate::rewrite::plan::Outlook;
use crate::rewrite::view::View;

/// Tells the operator that a form was refused.
pub(super) fn tell_form() {
    tracing::info!(
        "a summary was refused for its place among the messages; the next one goes elsewhere"
    );
}

/// Tells the operator that nothing would have fitted what the refusal of `first` has shown.
pub(super) fn tell_given_up(first: &Attempt, basis: &Basis) {
    tracing::warn!(
        tokens = first.report.after.get(),
        window = basis.policy.marks.window.get(),
        "Context too large. Compaction failed. Use 'longhaul compact' or the header \
         'x-longhaul-compact: now' to retry manually. Neither helps where one message, or all that \
         may not be touched, fills the window."
    );
}

impl Chat<'_> {
    /// Tells the operator, once a row of them, of a conversation that is full again right after each
    /// compaction: by the kind and size of what fills it.
    pub(super) fn tell_thrash(&self, view: &View) {
        if !view.pace().begins_thrash() {
            return;
        }
        let standing = self.came.conversation.messages().iter().skip(view.covers());
        let Some(largest) = standing.max_by_key(|message| message.tokens) else {
            return;
        };
        tracing::warn!(
            kind = largest.role.kind(),
            tokens = largest.tokens.get(),
            "a conversation fills its window again right after each compaction; half as much of \
             it is kept from here on, and all old tool results are cleared. This is its largest \
             message"
        );
    }

    /// Tells the operator, once a conversation, of one that is not pruned for want of user messages.
    pub(super) fn tell_headless(&self, outlook: &Outlook) {
        if outlook.waits_for_turns
            && let Some(key) = self.chains.oldest()
            && self.shared().store.tells_first(key)
        {
            tracing::info!(
                "a conversation has too few user messages for its old tool results to be cleared; \
                 for unattended agents set LONGHAUL_PRUNE_MIN_USER_TURNS=1"
            );
        }
    }
}
