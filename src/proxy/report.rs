//! What was done to a chat, for the log line and the reply's header.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::metrics::{Act, Label as _, Metrics};
use crate::rewrite::bypass::Bypass;
use crate::rewrite::compact::Rung;
use crate::rewrite::conversation::Conversation;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;

const ACTION: HeaderName = HeaderName::from_static("x-longhaul-action");
const BEFORE: HeaderName = HeaderName::from_static("x-longhaul-tokens-before");
const AFTER: HeaderName = HeaderName::from_static("x-longhaul-tokens-after");

/// The acts from the one that tells most of a request to the one that tells least.
const PRECEDENCE: [Act; 10] = [
    Act::Shadow,
    Act::GaveUp,
    Act::Original,
    Act::SmallerOutput,
    Act::FewerBytes,
    Act::Retry,
    Act::Clip,
    Act::Summary,
    Act::Digest,
    Act::Prune,
];

/// What was done to one chat.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    outcome: Outcome,
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
enum Outcome {
    /// This was done, in that order; at least one thing.
    Acted(Vec<Act>),
    /// Nothing was done, for that reason.
    Passed(Bypass),
    /// It is no chat, or none that was read.
    #[default]
    Unread,
}

impl Report {
    /// What `view` does to a conversation, where `stands` is what a summary in it counts as.
    pub(super) fn of(conversation: &Conversation<'_>, view: &View, stands: Act) -> Self {
        let mut report = Self::untouched(conversation, Bypass::Nothing);
        report.see(conversation, view);
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
            outcome: Outcome::Passed(why),
            ..Self::default()
        }
    }

    /// Another thing was done.
    pub(super) fn add(&mut self, act: Act) {
        match &mut self.outcome {
            Outcome::Acted(acts) if acts.contains(&act) => {}
            Outcome::Acted(acts) => acts.push(act),
            Outcome::Passed(_) | Outcome::Unread => self.outcome = Outcome::Acted(vec![act]),
        }
    }

    /// A second request was sent with `view`, made on `rung`.
    pub(super) fn retried(&mut self, conversation: &Conversation<'_>, view: &View, rung: Rung) {
        self.add(Act::Retry);
        self.see(conversation, view);
        match rung {
            Rung::Cleared => {}
            Rung::Clipped => {
                self.add(Act::Clip);
                if view.is_summarised() && !self.acts().contains(&Act::Summary) {
                    self.add(Act::Digest);
                }
            }
            Rung::Digest => self.add(Act::Digest),
            Rung::Summary => self.add(Act::Summary),
        }
    }

    /// The request went on as it came after all: nothing of what was done first stands in it.
    pub(super) fn undone(&mut self) {
        self.add(Act::Original);
        self.after = self.before;
        (self.pruned, self.reclaimed) = (0, Tokens::ZERO);
    }

    /// Takes the numbers of what went on last.
    pub(super) fn see(&mut self, conversation: &Conversation<'_>, view: &View) {
        self.after = view.tokens(conversation);
        (self.pruned, self.reclaimed) = view.pruned();
        if view.is_pruned() {
            self.add(Act::Prune);
        }
        if view.drops_images(conversation) {
            self.add(Act::FewerBytes);
        }
    }

    /// The acts, joined; none if nothing was done.
    pub(super) fn action(&self) -> Option<String> {
        let labels: Vec<&str> = self.acts().iter().map(|act| act.label()).collect();
        (!labels.is_empty()).then(|| labels.join(", "))
    }

    /// What was done, in the order in which it was.
    pub(super) fn acts(&self) -> &[Act] {
        match &self.outcome {
            Outcome::Acted(acts) => acts,
            Outcome::Passed(_) | Outcome::Unread => &[],
        }
    }

    /// Why nothing was done; none if something was.
    pub(super) fn bypass(&self) -> Option<Bypass> {
        match self.outcome {
            Outcome::Passed(why) => Some(why),
            Outcome::Acted(_) | Outcome::Unread => None,
        }
    }

    /// The act that tells most; none if nothing was done.
    pub(super) fn principal(&self) -> Option<Act> {
        PRECEDENCE.into_iter().find(|act| self.acts().contains(act))
    }

    /// Counts what was done, once the request is over.
    pub(super) fn count(&self, metrics: &Metrics) {
        for act in self.acts() {
            metrics.acts.add(*act);
        }
        if let Some(why) = self.bypass() {
            metrics.bypasses.add(why);
        }
        if self.acts().contains(&Act::Shadow) {
            metrics.chats.add_shadow(self.before, self.after);
        } else {
            metrics.chats.add(self.before, self.after);
        }
    }

    /// Says in the fields of a reply what was done, if anything was. What only would have been done is
    /// for the log.
    pub(super) fn put_into(&self, headers: &mut HeaderMap) {
        if self.acts().contains(&Act::Shadow) {
            return;
        }
        let Some(action) = self.action() else { return };
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
        for act in Act::ALL {
            let mut report = Report::default();
            report.add(*act);
            assert_eq!(report.principal(), Some(*act));
        }
        let mut report = Report::default();
        assert_eq!(report.principal(), None);
        report.add(Act::Prune);
        report.add(Act::Retry);
        assert_eq!(report.principal(), Some(Act::Retry));
    }

    #[test]
    fn where_the_original_went_nothing_is_said_to_be_cleared() {
        let mut report = Report {
            before: Tokens::new(9),
            after: Tokens::new(4),
            pruned: 2,
            reclaimed: Tokens::new(5),
            ..Report::bypassed(Bypass::Nothing)
        };
        report.add(Act::Prune);
        report.undone();
        assert_eq!(report.action().as_deref(), Some("prune, original"));
        assert_eq!(report.after, report.before);
        assert_eq!((report.pruned, report.reclaimed), (0, Tokens::ZERO));
    }

    #[test]
    fn a_chat_of_which_something_was_made_has_no_reason_for_having_passed() {
        let mut report = Report::bypassed(Bypass::Nothing);
        assert_eq!(report.bypass(), Some(Bypass::Nothing));
        assert_eq!(report.action(), None);
        report.add(Act::Retry);
        report.add(Act::Prune);
        report.add(Act::Retry);
        assert_eq!(report.action().as_deref(), Some("retry, prune"));
        assert_eq!(report.bypass(), None);
    }
}
