//! What a reply shows of the form in which a summary was sent: whether it was at fault for a refusal.

use super::super::forms::ConversationModelKey;
use super::attempt::Attempt;
use super::second::{RetryReason, RewriteRefusal};
use super::{Chat, notices};
use crate::config::PlacementSetting;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::placement::{Placement, PlacementRefusals};
use crate::rewrite::view::ForwardedView;
use crate::store::RewriteTolerance;

impl Chat<'_> {
    /// What we made of the conversation was refused, and the original taken.
    pub(super) fn record_rewrite_refusal(&self, why: RewriteRefusal, suspected: Option<Placement>) {
        let goes_elsewhere = match why {
            RewriteRefusal::Malformed => self.record_placement_refusal(suspected),
            RewriteRefusal::Unexplained => self.suspect_rewrite(suspected),
        };
        if !goes_elsewhere {
            self.stop_rewriting();
        }
    }

    /// It is not tried at every turn of the conversation again. An overflow is mended all the same.
    fn stop_rewriting(&self) {
        if let Some((_, key)) = self.prefix_keys.stable_prefix() {
            self.shared().store.record_rewrite_refusal(key, &self.model);
            tracing::info!(
                "the upstream refused a rewritten conversation and took it as it came; it goes on \
                 untouched unless it overflows"
            );
        }
    }

    /// The form of the summary that was refused is not used for this model again: without it, the same
    /// was answered. Whether there is another to try.
    fn record_placement_refusal(&self, suspected: Option<Placement>) -> bool {
        let Some(placement) = suspected else {
            return false;
        };
        let forms = &self.shared().knowledge.placements;
        if forms.record_refusal(&self.model, placement) {
            notices::log_placement_refused();
        }
        self.has_other_placement(forms.refusals(&self.model))
    }

    /// Whether a summary that was refused so may go elsewhere.
    pub(super) fn has_other_placement(&self, refusals: PlacementRefusals) -> bool {
        let auto = self.shared().config.summary.placement == PlacementSetting::Auto;
        auto && refusals == PlacementRefusals::Separate
    }

    /// Nobody knows why. Once may be chance, and teaches nothing; twice in a row is for the form. Whether
    /// there is another to try, or this one to try once more.
    fn suspect_rewrite(&self, suspected: Option<Placement>) -> bool {
        let (Some(key), Some((_, now))) = (
            self.prefix_keys.first_key(),
            self.prefix_keys.stable_prefix(),
        ) else {
            return true;
        };
        let forms = &self.shared().knowledge.placements;
        let prefixes = self.prefix_keys.newest_first().map(|(_, prefix)| prefix);
        if !forms
            .suspicions
            .record_refusal(self.conversation_model_key(key), now, prefixes)
        {
            return true;
        }
        let Some(placement) = suspected else {
            return false;
        };
        self.suspect_placement(placement);
        self.has_other_placement(forms.refusals_in_conversation(&self.model, Some(key)))
    }

    /// The original was refused as well: where nobody knows why, it is the conversation's own fault.
    pub(super) fn record_original_refused(&self, second: RetryReason) {
        let why = match second {
            RetryReason::Original { why, .. } => Some(why),
            RetryReason::Compacted { .. }
            | RetryReason::OtherPlacement
            | RetryReason::FewerBytes
            | RetryReason::SmallerOutput { .. } => None,
        };
        if let (Some(RewriteRefusal::Unexplained), Some(key)) = (why, self.prefix_keys.first_key())
        {
            self.shared()
                .knowledge
                .placements
                .suspicions
                .record_original_refused(self.conversation_model_key(key));
        }
    }

    /// `view` was answered: what was refused of this conversation before was not for what we make of it.
    pub(super) fn resolve_suspicions(&self, view: &ForwardedView) {
        let doubts = &self.shared().knowledge.placements.suspicions;
        if let Some(key) = self.prefix_keys.first_key()
            && (view.is_summarised() || view.is_pruned())
            && doubts.is_unresolved(&self.conversation_model_key(key))
        {
            doubts.resolve(self.conversation_model_key(key));
        }
    }

    /// A conversation of this one's, with its model.
    pub(super) fn conversation_model_key(&self, conversation: RecordKey) -> ConversationModelKey {
        ConversationModelKey::new(conversation, &self.model)
    }

    /// It was refused as malformed, and nothing else is sent that could tell whether for the form of
    /// its summary. The next of this conversation goes elsewhere.
    pub(super) fn suspect_attempt(&self, attempt: &Attempt) {
        if attempt.view().is_summarised() {
            self.suspect_placement(attempt.inputs.policy.placement);
        }
    }

    fn suspect_placement(&self, placement: Placement) {
        if let Some(key) = self.prefix_keys.first_key() {
            let forms = &self.shared().knowledge.placements;
            forms.suspect(&self.model, key, placement);
        }
    }

    /// It was answered: it is refused no more. Where its form was the other one to be tried, the first
    /// is the model's fault from here on.
    pub(super) fn confirm_placement(&self, attempt: &Attempt) {
        let (store, view) = (&self.shared().store, attempt.view());
        if view.is_summarised() {
            store.record_rewrite_acceptance(&self.prefix_keys, RewriteTolerance::All);
        } else if view.is_pruned() {
            store.record_rewrite_acceptance(&self.prefix_keys, RewriteTolerance::ClearingOnly);
        }
        let (forms, placement) = (
            &self.shared().knowledge.placements,
            attempt.inputs.policy.placement,
        );
        if view.is_summarised()
            && let Some(key) = self.prefix_keys.first_key()
            && forms.record_accepted(&self.model, key, placement)
        {
            notices::log_placement_refused();
        }
    }
}
