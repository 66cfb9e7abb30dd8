//! What was done to a chat, for the log line and the reply's header.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::metrics::{Action, Label as _, Metrics};
use crate::rewrite::bypass::Bypass;
use crate::rewrite::compact::RecoveryStep;
use crate::rewrite::conversation::Conversation;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::ForwardedView;

const ACTION: HeaderName = HeaderName::from_static("x-longhaul-action");
const BEFORE: HeaderName = HeaderName::from_static("x-longhaul-tokens-before");
const AFTER: HeaderName = HeaderName::from_static("x-longhaul-tokens-after");

/// The acts from the one that tells most of a request to the one that tells least.
const PRECEDENCE: [Action; 10] = [
    Action::Shadow,
    Action::GaveUp,
    Action::Original,
    Action::SmallerOutput,
    Action::FewerBytes,
    Action::Retry,
    Action::Clip,
    Action::Summary,
    Action::Digest,
    Action::Prune,
];

/// What was done to one chat.
#[derive(Clone, Debug, Default)]
pub(super) struct ChatReport {
    outcome: ReportedOutcome,
    /// The plain estimate of the request as it came.
    pub(super) before: Tokens,
    /// And as it went on last.
    pub(super) after: Tokens,
    /// Tool results that stand cleared in it.
    pub(super) pruned: usize,
    /// What clearing them saves.
    pub(super) reclaimed: Tokens,
}

/// Whether anything was done, so that no chat has both acts and a reason for none.
#[derive(Clone, Debug, Default)]
enum ReportedOutcome {
    /// This was done, in that order; at least one thing.
    Acted(Vec<Action>),
    /// Nothing was done, for that reason.
    Bypassed(Bypass),
    /// It is no chat, or none that was read.
    #[default]
    Unread,
}

impl ChatReport {
    /// What `view` does to a conversation, where `stands` is what a summary in it counts as.
    pub(super) fn for_view(
        conversation: &Conversation<'_>,
        view: &ForwardedView,
        stands: Action,
    ) -> Self {
        let mut report = Self::untouched(conversation, Bypass::Nothing);
        report.update_sizes(conversation, view);
        if view.is_summarised() {
            report.add(stands);
        }
        report
    }

    /// Nothing is done to a conversation that was read.
    pub(super) fn untouched(conversation: &Conversation<'_>, why: Bypass) -> Self {
        Self {
            before: conversation.tokens(),
            after: conversation.tokens(),
            ..Self::bypassed(why)
        }
    }

    /// A chat that went on as it came.
    pub(super) fn bypassed(why: Bypass) -> Self {
        Self {
            outcome: ReportedOutcome::Bypassed(why),
            ..Self::default()
        }
    }

    /// Another thing was done.
    pub(super) fn add(&mut self, act: Action) {
        match &mut self.outcome {
            ReportedOutcome::Acted(acts) if acts.contains(&act) => {}
            ReportedOutcome::Acted(acts) => acts.push(act),
            ReportedOutcome::Bypassed(_) | ReportedOutcome::Unread => {
                self.outcome = ReportedOutcome::Acted(vec![act])
            }
        }
    }

    /// A second request was sent with `view`, made on `rung`.
    pub(super) fn add_retry(
        &mut self,
        conversation: &Conversation<'_>,
        view: &ForwardedView,
        rung: RecoveryStep,
    ) {
        self.add(Action::Retry);
        self.update_sizes(conversation, view);
        match rung {
            RecoveryStep::Cleared => {}
            RecoveryStep::Clipped => {
                self.add(Action::Clip);
                if view.is_summarised() && !self.actions().contains(&Action::Summary) {
                    self.add(Action::Digest);
                }
            }
            RecoveryStep::Digest => self.add(Action::Digest),
            RecoveryStep::Summary => self.add(Action::Summary),
        }
    }

    /// The request went on as it came after all: nothing of what was done first stands in it.
    pub(super) fn revert_to_original(&mut self) {
        self.add(Action::Original);
        self.after = self.before;
        (self.pruned, self.reclaimed) = (0, Tokens::ZERO);
    }

    /// Takes the numbers of what went on last.
    pub(super) fn update_sizes(&mut self, conversation: &Conversation<'_>, view: &ForwardedView) {
        self.after = view.tokens(conversation);
        (self.pruned, self.reclaimed) = view.pruned_totals();
        if view.is_pruned() {
            self.add(Action::Prune);
        }
        if view.drops_images(conversation) {
            self.add(Action::FewerBytes);
        }
    }

    /// The acts, joined; none if nothing was done.
    pub(super) fn action_labels(&self) -> Option<String> {
        let labels: Vec<&str> = self.actions().iter().map(|act| act.label()).collect();
        (!labels.is_empty()).then(|| labels.join(", "))
    }

    /// What was done, in the order in which it was.
    pub(super) fn actions(&self) -> &[Action] {
        match &self.outcome {
            ReportedOutcome::Acted(acts) => acts,
            ReportedOutcome::Bypassed(_) | ReportedOutcome::Unread => &[],
        }
    }

    /// Why nothing was done; none if something was.
    pub(super) fn bypass(&self) -> Option<Bypass> {
        match self.outcome {
            ReportedOutcome::Bypassed(why) => Some(why),
            ReportedOutcome::Acted(_) | ReportedOutcome::Unread => None,
        }
    }

    /// The act that tells most; none if nothing was done.
    pub(super) fn main_action(&self) -> Option<Action> {
        PRECEDENCE
            .into_iter()
            .find(|act| self.actions().contains(act))
    }

    /// Counts what was done, once the request is over.
    pub(super) fn record_metrics(&self, metrics: &Metrics) {
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

    /// Says in the fields of a reply what was done, if anything was. What only would have been done is
    /// for the log.
    pub(super) fn write_headers(&self, headers: &mut HeaderMap) {
        if self.actions().contains(&Action::Shadow) {
            return;
        }
        let Some(action) = self.action_labels() else {
            return;
        };
        if let Ok(action) = HeaderValue::try_from(action) {
            headers.insert(ACTION, action);
            headers.insert(BEFORE, HeaderValue::from(self.before.get()));
            headers.insert(AFTER, HeaderValue::from(self.after.get()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_act_has_its_place_among_those_that_tell_most() {
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
    fn where_the_original_went_nothing_is_said_to_be_cleared() {
        let mut report = ChatReport {
            before: Tokens::new(9),
            after: Tokens::new(4),
            pruned: 2,
            reclaimed: Tokens::new(5),
            ..ChatReport::bypassed(Bypass::Nothing)
        };
        report.add(Action::Prune);
        report.revert_to_original();
        assert_eq!(report.action_labels().as_deref(), Some("prune, original"));
        assert_eq!(report.after, report.before);
        assert_eq!((report.pruned, report.reclaimed), (0, Tokens::ZERO));
    }

    #[test]
    fn a_chat_of_which_something_was_made_has_no_reason_for_having_passed() {
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
