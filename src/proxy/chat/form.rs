//! What a reply shows of the form in which a summary was sent: whether it was at fault for a refusal.

use super::super::forms::InModel;
use super::attempt::Attempt;
use super::second::{Refusal, Second};
use super::{Chat, notices};
use crate::config::Placing;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::placement::{Placement, Refusals};
use crate::rewrite::view::View;
use crate::store::Takes;

impl Chat<'_> {
    /// What we made of the conversation was refused, and the original taken.
    pub(super) fn blame(&self, why: Refusal, suspected: Option<Placement>) {
        let goes_elsewhere = match why {
            Refusal::Malformed => self.quarantine_form(suspected),
            Refusal::Unexplained => self.doubt_what_was_made(suspected),
        };
        if !goes_elsewhere {
            self.refuse_rewrite();
        }
    }

    /// It is not tried at every turn of the conversation again. An overflow is mended all the same.
    fn refuse_rewrite(&self) {
        if let Some((_, key)) = self.chains.lasting() {
            self.shared().store.refuse_rewrite(key, &self.model);
            tracing::info!(
                "the upstream refused a rewritten conversation and took it as it came; it goes on \
                 untouched unless it overflows"
            );
        }
    }

    /// The form of the summary that was refused is not used for this model again: without it, the same
    /// was answered. Whether there is another to try.
    fn quarantine_form(&self, suspected: Option<Placement>) -> bool {
        let Some(placement) = suspected else {
            return false;
        };
        let forms = &self.shared().lessons.forms;
        if forms.refused(&self.model, placement) {
            notices::tell_form();
        }
        self.has_another_form(forms.refusals(&self.model))
    }

    /// Whether a summary that was refused so may go elsewhere.
    pub(super) fn has_another_form(&self, refusals: Refusals) -> bool {
        let auto = self.shared().config.summary.placement == Placing::Auto;
        auto && refusals == Refusals::Separate
    }

    /// Nobody knows why. Once may be chance, and teaches nothing; twice in a row is for the form. Whether
    /// there is another to try, or this one to try once more.
    fn doubt_what_was_made(&self, suspected: Option<Placement>) -> bool {
        let (Some(key), Some((_, now))) = (self.chains.oldest(), self.chains.lasting()) else {
            return true;
        };
        let forms = &self.shared().lessons.forms;
        let prefixes = self.chains.newest_first().map(|(_, prefix)| prefix);
        if !forms.doubts.again(self.with_its_model(key), now, prefixes) {
            return true;
        }
        let Some(placement) = suspected else {
            return false;
        };
        self.suspect(placement);
        self.has_another_form(forms.refusals_in(&self.model, Some(key)))
    }

    /// The original was refused as well: where nobody knows why, it is the conversation's own fault.
    pub(super) fn excuse(&self, second: Second) {
        let why = match second {
            Second::Original { why, .. } => Some(why),
            Second::Compacted { .. }
            | Second::Elsewhere
            | Second::FewerBytes
            | Second::SmallerOutput { .. } => None,
        };
        if let (Some(Refusal::Unexplained), Some(key)) = (why, self.chains.oldest()) {
            self.shared()
                .lessons
                .forms
                .doubts
                .excuse(self.with_its_model(key));
        }
    }

    /// `view` was answered: what was refused of this conversation before was not for what we make of it.
    pub(super) fn settle_doubts(&self, view: &View) {
        let doubts = &self.shared().lessons.forms.doubts;
        if let Some(key) = self.chains.oldest()
            && (view.is_summarised() || view.is_pruned())
            && doubts.is_open(&self.with_its_model(key))
        {
            doubts.settle(self.with_its_model(key));
        }
    }

    /// A conversation of this one's, with its model.
    pub(super) fn with_its_model(&self, conversation: RecordKey) -> InModel {
        InModel::new(conversation, &self.model)
    }

    /// It was refused as malformed, and nothing else is sent that could tell whether for the form of
    /// its summary. The next of this conversation goes elsewhere.
    pub(super) fn suspect_form(&self, attempt: &Attempt) {
        if attempt.view().is_summarised() {
            self.suspect(attempt.basis.policy.placement);
        }
    }

    fn suspect(&self, placement: Placement) {
        if let Some(key) = self.chains.oldest() {
            let forms = &self.shared().lessons.forms;
            forms.suspect(&self.model, key, placement);
        }
    }

    /// It was answered: it is refused no more. Where its form was the other one to be tried, the first
    /// is the model's fault from here on.
    pub(super) fn trust_form(&self, attempt: &Attempt) {
        let (store, view) = (&self.shared().store, attempt.view());
        if view.is_summarised() {
            store.take_rewrite(&self.chains, Takes::All);
        } else if view.is_pruned() {
            store.take_rewrite(&self.chains, Takes::Cleared);
        }
        let (forms, placement) = (&self.shared().lessons.forms, attempt.basis.policy.placement);
        if view.is_summarised()
            && let Some(key) = self.chains.oldest()
            && forms.answered(&self.model, key, placement)
        {
            notices::tell_form();
        }
    }
}
