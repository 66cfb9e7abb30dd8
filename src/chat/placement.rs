//! Learns from replies which summary placement a model refuses.

use crate::chat::attempt::Attempt;
use crate::chat::retry::{RetryReason, RewriteRefusal};
use crate::chat::{Chat, notices};
use crate::config::PlacementSetting;
use crate::learned::summary_placements::ConversationModelKey;
use crate::store::RewriteTolerance;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::placement::{Placement, PlacementRefusals};
use longhaul_core::units::scope::RecordKey;

impl Chat<'_> {
    /// Records that the rewrite was refused and the original was accepted.
    pub(super) fn record_rewrite_refusal(&self, why: RewriteRefusal, suspected: Option<Placement>) {
        let goes_elsewhere = match why {
            RewriteRefusal::Malformed => self.record_placement_refusal(suspected),
            RewriteRefusal::Unexplained => self.suspect_rewrite(suspected),
        };
        if !goes_elsewhere {
            self.stop_rewriting();
        }
    }

    /// Stops rewriting this conversation for its model. Overflow recovery still applies.
    fn stop_rewriting(&self) {
        if let Some((_, key)) = self.prefix_keys.stable_prefix() {
            self.shared().store.record_rewrite_refusal(key, &self.model);
            tracing::info!(
                "the upstream refused a rewritten conversation and accepted the original; the \
                 conversation is no longer rewritten unless it overflows"
            );
        }
    }

    /// Stops using the `suspected` placement for this model: the same conversation was accepted
    /// without a summary. Returns whether another placement is left to try.
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

    /// Whether a refused summary may be sent in another placement.
    pub(super) fn has_other_placement(&self, refusals: PlacementRefusals) -> bool {
        let auto = self.shared().config.summary.placement == PlacementSetting::Auto;
        auto && refusals == PlacementRefusals::Separate
    }

    /// Records a refusal of the rewrite for an unknown reason. The first may be chance and is only
    /// counted; the second in a row is attributed to the placement. Returns whether a rewrite may
    /// still be tried: in another placement, or once more in this one.
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

    /// Records that the original was refused too. After an unexplained refusal, the conversation
    /// itself is at fault.
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

    /// Records that `view` was accepted: earlier refusals in this conversation were not caused by
    /// rewriting.
    pub(super) fn resolve_suspicions(&self, view: &ForwardedView) {
        let doubts = &self.shared().knowledge.placements.suspicions;
        if let Some(key) = self.prefix_keys.first_key()
            && (view.is_summarised() || view.is_pruned())
            && doubts.is_unresolved(&self.conversation_model_key(key))
        {
            doubts.resolve(self.conversation_model_key(key));
        }
    }

    /// Pairs a conversation key with this chat's model.
    pub(super) fn conversation_model_key(&self, conversation: RecordKey) -> ConversationModelKey {
        ConversationModelKey::new(conversation, &self.model)
    }

    /// Suspects the placement of a summary after a malformed-request refusal, when no further
    /// request can confirm the cause. The next request of this conversation uses the other
    /// placement.
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

    /// Records that the attempt was accepted, so its rewrite counts as tolerated. If its placement
    /// was the alternative, the model refuses the first placement from here on.
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
