//! Learns from replies which summary placement a model refuses.

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::notices;
use crate::chat::refusal::{Retry, RewriteRefusal};
use crate::config::PlacementSetting;
use crate::learned::summary_placements::ConversationModelKey;
use crate::store::RewriteTolerance;
use longhaul_core::overflow::Suspicion;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::placement::{Placement, PlacementRefusals};

/// Records that the rewrite was refused and the original was accepted.
pub(in crate::chat) fn record_rewrite_refusal(
    chat: &Chat<'_>,
    why: RewriteRefusal,
    suspected: Option<Placement>,
) {
    let goes_elsewhere = match why {
        RewriteRefusal::CacheMarks => {
            return chat.learned.refuted.record_refuted(Suspicion::CacheMarks);
        }
        RewriteRefusal::Malformed => record_placement_refusal(chat, suspected),
        RewriteRefusal::Unexplained => suspect_rewrite(chat, suspected),
    };
    // Overflow recovery still applies.
    if !goes_elsewhere && let Some((_, key)) = chat.prefix_keys.stable_prefix() {
        chat.state().store.record_rewrite_refusal(key, &chat.model);
        tracing::info!(
            "the upstream refused a rewritten conversation and accepted the original; the \
             conversation is no longer rewritten unless it overflows"
        );
    }
}

/// Stops using the `suspected` placement for this model: the same conversation was accepted
/// without a summary. Returns whether another placement is left to try.
fn record_placement_refusal(chat: &Chat<'_>, suspected: Option<Placement>) -> bool {
    let Some(placement) = suspected else {
        return false;
    };
    let forms = &chat.learned.placements;
    if forms.record_refusal(&chat.model, placement) {
        notices::log_placement_refused(chat);
    }
    has_other_placement(chat, forms.refusals(&chat.model))
}

/// Whether a refused summary may be sent in another placement.
pub(in crate::chat) fn has_other_placement(chat: &Chat<'_>, refusals: PlacementRefusals) -> bool {
    let auto = chat.state().config.summary.placement == PlacementSetting::Auto;
    auto && refusals == PlacementRefusals::Separate
}

/// Records a refusal of the rewrite for an unknown reason. The first may be chance and is only
/// counted; the second in a row is attributed to the placement. Returns whether a rewrite may
/// still be tried: in another placement, or once more in this one.
fn suspect_rewrite(chat: &Chat<'_>, suspected: Option<Placement>) -> bool {
    let (Some(key), Some((_, now))) =
        (chat.prefix_keys.first_key(), chat.prefix_keys.stable_prefix())
    else {
        return true;
    };
    let forms = &chat.learned.placements;
    let prefixes = chat.prefix_keys.newest_first().map(|(_, prefix)| prefix);
    if !forms.suspicions.record_refusal(ConversationModelKey::new(key, &chat.model), now, prefixes)
    {
        return true;
    }
    let Some(placement) = suspected else {
        return false;
    };
    suspect_placement(chat, placement);
    has_other_placement(chat, forms.refusals_in_conversation(&chat.model, Some(key)))
}

/// Records that the original was refused too. After an unexplained refusal, the conversation
/// itself is at fault.
pub(in crate::chat) fn record_original_refused(chat: &Chat<'_>, retry: Retry) {
    if let Retry::Original { why: RewriteRefusal::Unexplained, .. } = retry
        && let Some(key) = chat.prefix_keys.first_key()
    {
        let suspicions = &chat.learned.placements.suspicions;
        suspicions.record_original_refused(ConversationModelKey::new(key, &chat.model));
    }
}

/// Records that `view` was accepted: earlier refusals in this conversation were not caused by
/// rewriting.
pub(in crate::chat) fn resolve_suspicions(chat: &Chat<'_>, view: &ForwardedView) {
    let suspicions = &chat.learned.placements.suspicions;
    if let Some(key) = chat.prefix_keys.first_key()
        && (view.is_condensed() || view.is_pruned())
    {
        suspicions.resolve(ConversationModelKey::new(key, &chat.model));
    }
}

/// Suspects the placement of a summary after a malformed-request refusal, when no further
/// request can confirm the cause. The next request of this conversation uses the other
/// placement.
pub(in crate::chat) fn suspect_attempt(chat: &Chat<'_>, attempt: &Attempt) {
    if attempt.view().is_condensed() {
        suspect_placement(chat, attempt.inputs.policy.settings.placement);
    }
}

fn suspect_placement(chat: &Chat<'_>, placement: Placement) {
    if let Some(key) = chat.prefix_keys.first_key() {
        let forms = &chat.learned.placements;
        forms.suspect(&chat.model, key, placement);
    }
}

/// Records that the attempt was accepted, so its rewrite counts as tolerated. If its placement
/// was the alternative, the model refuses the first placement from here on.
pub(in crate::chat) fn confirm_placement(chat: &Chat<'_>, attempt: &Attempt) {
    let (store, view) = (&chat.state().store, attempt.view());
    if view.is_condensed() {
        store.record_rewrite_acceptance(&chat.prefix_keys, RewriteTolerance::All);
    } else if view.is_pruned() {
        store.record_rewrite_acceptance(&chat.prefix_keys, RewriteTolerance::ClearingOnly);
    }
    let (forms, placement) = (&chat.learned.placements, attempt.inputs.policy.settings.placement);
    if view.is_condensed()
        && let Some(key) = chat.prefix_keys.first_key()
        && forms.record_accepted(&chat.model, key, placement)
    {
        notices::log_placement_refused(chat);
    }
}
