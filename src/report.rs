//! Report of the actions on a chat, for the log line and the reply headers.

use std::fmt::Display;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::metrics::{Action, Label as _, Metrics};
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::recovery::RecoveryStep;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::units::tokens::Tokens;

const ACTION: HeaderName = HeaderName::from_static("x-longhaul-action");
const CONVERSATION: HeaderName = HeaderName::from_static("x-longhaul-conversation");
/// Header with the identifier of a request, by which the log, the traces and the dashboard name it.
pub(crate) const REQUEST: HeaderName = HeaderName::from_static("x-longhaul-request");
const BEFORE: HeaderName = HeaderName::from_static("x-longhaul-tokens-before");
const AFTER: HeaderName = HeaderName::from_static("x-longhaul-tokens-after");

#[derive(Clone, Debug, Default)]
pub(crate) struct ChatReport {
    /// Actions in the order taken.
    actions: Vec<Action>,
    /// Reason for taking no action; meaningless after an action. `None` also if nothing was read.
    bypass: Option<Bypass>,
    /// Plain estimate of the original request.
    pub(crate) before: Tokens,
    /// Plain estimate of the last forwarded request.
    pub(crate) after: Tokens,
    /// Number of cleared tool results in the forwarded request.
    pub(crate) pruned: usize,
    /// Tokens saved by clearing them.
    pub(crate) reclaimed: Tokens,
    /// Whether the request only counts tokens, so that nothing is saved.
    is_count: bool,
}

impl ChatReport {
    /// Reports the effect of `view`. `stands` is the action that a summary in the view counts as.
    pub(crate) fn for_view(
        conversation: &Conversation<'_>,
        view: &ForwardedView,
        stands: Action,
    ) -> Self {
        let mut report = Self::untouched(conversation, Bypass::Nothing);
        report.update_sizes(conversation, view);
        if view.is_condensed() {
            report.add(stands);
        }
        report
    }

    /// Reports a parsed conversation that is not changed.
    pub(crate) fn untouched(conversation: &Conversation<'_>, why: Bypass) -> Self {
        Self { before: conversation.tokens(), after: conversation.tokens(), ..Self::bypassed(why) }
    }

    /// Reports a chat that is forwarded unchanged.
    pub(crate) fn bypassed(why: Bypass) -> Self {
        Self { bypass: Some(why), ..Self::default() }
    }

    /// Marks the report as one of a request that only counts tokens.
    #[must_use]
    pub(crate) fn of_count(self) -> Self {
        Self { is_count: true, ..self }
    }

    /// Adds an action, unless it is listed already.
    pub(crate) fn add(&mut self, act: Action) {
        if !self.actions.contains(&act) {
            self.actions.push(act);
        }
    }

    /// Records that the recovery step `step` made `view`.
    pub(crate) fn add_recovery(
        &mut self,
        conversation: &Conversation<'_>,
        view: &ForwardedView,
        step: RecoveryStep,
    ) {
        self.update_sizes(conversation, view);
        match step {
            RecoveryStep::Cleared | RecoveryStep::Images => {}
            RecoveryStep::Clipped => {
                self.add(Action::Clip);
                if view.is_condensed() && !self.actions().contains(&Action::Summary) {
                    self.add(Action::Digest);
                }
            }
            RecoveryStep::Digest => self.add(Action::Digest),
            RecoveryStep::Summary => self.add(Action::Summary),
        }
    }

    /// Takes the sizes from the last forwarded view.
    pub(crate) fn update_sizes(&mut self, conversation: &Conversation<'_>, view: &ForwardedView) {
        self.after = view.tokens(conversation);
        (self.pruned, self.reclaimed) = view.pruned_totals();
        if view.is_pruned() {
            self.add(Action::Prune);
        }
        if view.drops_images(conversation) {
            self.add(Action::FewerBytes);
        }
        if view.thinking_removals(conversation) > 0 {
            self.add(Action::WithoutThinking);
        }
    }

    /// Returns the joined action labels, or `None` if there was no action.
    pub(crate) fn action_labels(&self) -> Option<String> {
        let labels: Vec<&str> = self.actions().iter().map(|act| act.label()).collect();
        (!labels.is_empty()).then(|| labels.join(", "))
    }

    /// Returns the actions in the order taken.
    pub(crate) fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// Returns the reason for taking no action, or `None` if one was taken.
    pub(crate) fn bypass(&self) -> Option<Bypass> {
        self.bypass.filter(|_| self.actions.is_empty())
    }

    /// Returns the most significant action, or `None` if there was none.
    pub(crate) fn main_action(&self) -> Option<Action> {
        let mut all = Action::ALL.iter().copied();
        all.find(|act| self.actions().contains(act))
    }

    /// Counts the report in the metrics, once the request has ended.
    pub(crate) fn record_metrics(&self, metrics: &Metrics) {
        if self.is_count {
            return;
        }
        for act in self.actions() {
            metrics.actions.add(*act);
        }
        if let Some(why) = self.bypass() {
            metrics.bypasses.add(why);
        }
        if self.actions().contains(&Action::Shadow) {
            metrics.chats.add_shadow(self.before, self.after);
        } else {
            metrics.chats.add(self.before, self.after);
        }
    }

    /// Adds the reply headers that report the actions, if any. Shadow actions are only logged.
    /// `id` and `conversation` find the request in the log and on the dashboard.
    pub(crate) fn write_headers(
        &self,
        headers: &mut HeaderMap,
        id: impl Display,
        conversation: Option<impl Display>,
    ) {
        if self.actions.is_empty() || self.actions.contains(&Action::Shadow) {
            return;
        }
        for (name, value) in [
            (ACTION, self.action_labels()),
            (BEFORE, Some(self.before.get().to_string())),
            (AFTER, Some(self.after.get().to_string())),
            (REQUEST, Some(id.to_string())),
            (CONVERSATION, conversation.map(|id| id.to_string())),
        ] {
            if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
                headers.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_a_rank_as_main_action() {
        for act in Action::ALL {
            let mut report = ChatReport::default();
            report.add(*act);
            assert_eq!(report.main_action(), Some(*act));
        }
        let mut report = ChatReport::default();
        assert_eq!(report.main_action(), None);
        report.add(Action::Prune);
        report.add(Action::Retry);
        assert_eq!(report.main_action(), Some(Action::Retry));
    }

    #[test]
    fn chat_with_an_action_has_no_bypass_reason() {
        let mut report = ChatReport::bypassed(Bypass::Nothing);
        assert_eq!(report.bypass(), Some(Bypass::Nothing));
        assert_eq!(report.action_labels(), None);
        report.add(Action::Retry);
        report.add(Action::Prune);
        report.add(Action::Retry);
        assert_eq!(report.action_labels().as_deref(), Some("retry, prune"));
        assert_eq!(report.bypass(), None);
    }
}
