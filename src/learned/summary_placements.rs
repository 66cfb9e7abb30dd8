//! Summary placements that each model accepts, learned from refusals.

use crate::learned::{CONVERSATIONS_PER_CALLER, MODELS_PER_CALLER};
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::policy::placement::{Placement, PlacementRefusals};
use longhaul_core::units::scope::RecordKey;

/// A conversation and its model. Facts about one model do not apply to another.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct ConversationModelKey {
    conversation: RecordKey,
    model: String,
}

impl ConversationModelKey {
    pub(crate) fn new(conversation: RecordKey, model: &str) -> Self {
        Self { conversation, model: model.to_owned() }
    }
}

#[derive(Default)]
pub(crate) struct SummaryPlacements {
    learned: LockedCache<String, PlacementRefusals, MODELS_PER_CALLER>,
    /// Refusals in one conversation that no other request confirms. The client itself may be at
    /// fault, so they affect no other caller.
    suspected: LockedCache<ConversationModelKey, PlacementRefusals, CONVERSATIONS_PER_CALLER>,
    /// Refused rewrites whose cause may not be the placement.
    pub(crate) suspicions: RefusalSuspicions,
}

impl SummaryPlacements {
    pub(crate) fn placement_for(&self, model: &str, conversation: Option<RecordKey>) -> Placement {
        self.refusals_in_conversation(model, conversation).placement()
    }

    /// Returns the placements that `model` refused or is suspected to refuse in `conversation`.
    pub(crate) fn refusals_in_conversation(
        &self,
        model: &str,
        conversation: Option<RecordKey>,
    ) -> PlacementRefusals {
        let suspect = conversation.map(|key| ConversationModelKey::new(key, model));
        let suspects = suspect.and_then(|suspect| self.suspected.lock().get(&suspect));
        suspects.unwrap_or_else(|| self.refusals(model))
    }

    pub(crate) fn refusals(&self, model: &str) -> PlacementRefusals {
        self.learned.lock().get(model).unwrap_or_default()
    }

    /// Records that `model` refused a summary in `placement` and accepted the conversation without
    /// one. Returns whether this was new.
    pub(crate) fn record_refusal(&self, model: &str, placement: Placement) -> bool {
        let before = self.refusals(model);
        let learned = before.with_refusal(placement);
        self.learned.lock().insert(model.to_owned(), learned);
        before != learned
    }

    /// Records an unconfirmed refusal of a summary in `placement`. Only this conversation uses the
    /// other placement next.
    pub(crate) fn suspect(&self, model: &str, conversation: RecordKey, placement: Placement) {
        let suspect = ConversationModelKey::new(conversation, model);
        let mut suspected = self.suspected.lock();
        let before = suspected.get(&suspect);
        let before = before.unwrap_or_else(|| self.refusals(model));
        suspected.insert(suspect, before.with_refusal(placement));
    }

    /// Records an accepted summary in `placement`, which confirms a suspicion against the other
    /// placement. Returns whether this was new for the model.
    pub(crate) fn record_accepted(
        &self,
        model: &str,
        conversation: RecordKey,
        placement: Placement,
    ) -> bool {
        let suspect = ConversationModelKey::new(conversation, model);
        let suspects = self.suspected.lock().get(&suspect);
        suspects == Some(PlacementRefusals::Separate)
            && placement == Placement::Merged
            && self.record_refusal(model, Placement::Separate)
    }

    pub(crate) fn merge_remote(&self, model: &str, refusals: PlacementRefusals) {
        let before = self.refusals(model);
        let learned = before.max(refusals);
        if before != learned {
            self.learned.lock().insert(model.to_owned(), learned);
        }
    }
}

#[derive(Default)]
pub(crate) struct RefusalSuspicions(
    LockedCache<ConversationModelKey, SuspicionState, CONVERSATIONS_PER_CALLER>,
);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SuspicionState {
    /// The original was refused too, so the conversation itself is at fault.
    OriginalRefused,
    /// A rewrite was refused once, possibly by chance, when the conversation ended at this prefix.
    RefusedOnce(RecordKey),
    /// No refusal is unresolved: a rewrite was accepted since, or a second refusal was attributed
    /// to the placement.
    Resolved,
}

impl RefusalSuspicions {
    /// Records a refused rewrite whose original was accepted. `now` is the current prefix, and
    /// `prefixes` are all prefixes of the conversation.
    ///
    /// Returns whether this is the second refusal in a row, which rules out chance. A refusal in
    /// another branch of the conversation does not count.
    pub(crate) fn record_refusal(
        &self,
        conversation: ConversationModelKey,
        now: RecordKey,
        mut prefixes: impl Iterator<Item = RecordKey>,
    ) -> bool {
        let mut kept = self.0.lock();
        let again = matches!(
            kept.get(&conversation),
            Some(SuspicionState::RefusedOnce(then)) if prefixes.any(|prefix| prefix == then)
        );
        let doubt = if again { SuspicionState::Resolved } else { SuspicionState::RefusedOnce(now) };
        kept.insert(conversation, doubt);
        again
    }

    pub(crate) fn record_original_refused(&self, conversation: ConversationModelKey) {
        self.0.lock().insert(conversation, SuspicionState::OriginalRefused);
    }

    /// Whether the conversation itself caused its refusals.
    pub(crate) fn was_original_refused(&self, conversation: &ConversationModelKey) -> bool {
        self.0.lock().get(conversation) == Some(SuspicionState::OriginalRefused)
    }

    /// Records that a rewrite was accepted. A conversation without refusals stays unknown.
    pub(crate) fn resolve(&self, conversation: ConversationModelKey) {
        let mut kept = self.0.lock();
        let doubt = kept.get(&conversation);
        if doubt.is_some_and(|doubt| doubt != SuspicionState::Resolved) {
            kept.insert(conversation, SuspicionState::Resolved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(refused: &[Placement], expect: Placement) {
        let placements = SummaryPlacements::default();
        for placement in refused {
            _ = placements.record_refusal("m", *placement);
        }
        assert_eq!(placements.placement_for("m", None), expect, "{refused:?}");
        assert_eq!(placements.placement_for("other", None), Placement::Separate);
    }

    #[test]
    fn merging_remote_refusals_never_clears_a_local_one() {
        let placements = SummaryPlacements::default();
        _ = placements.record_refusal("m", Placement::Separate);
        placements.merge_remote("m", PlacementRefusals::Nowhere);
        assert_eq!(placements.refusals("m"), PlacementRefusals::Separate);
        placements.merge_remote("m", PlacementRefusals::Both);
        placements.merge_remote("m", PlacementRefusals::Separate);
        assert_eq!(placements.refusals("m"), PlacementRefusals::Both);
    }

    #[test]
    fn refused_placement_switches_to_the_other_without_alternating() {
        use Placement::{Merged, Separate};
        check(&[], Separate);
        check(&[Separate], Merged);
        check(&[Separate, Separate], Merged);
        check(&[Separate, Merged], Separate);
        check(&[Separate, Merged, Separate], Separate);
    }

    pub(super) fn conversation(scope: u8) -> RecordKey {
        RecordKey::from_bytes(&[scope; RecordKey::BYTES]).unwrap()
    }

    #[test]
    fn suspected_refusal_counts_for_the_model_once_the_other_form_is_accepted() {
        use Placement::{Merged, Separate};
        let placements = SummaryPlacements::default();
        let (own, other) = (conversation(1), conversation(2));
        placements.suspect("m", own, Separate);
        assert_eq!(placements.placement_for("m", Some(own)), Merged);
        assert_eq!(placements.placement_for("m", Some(other)), Separate);
        assert!(!placements.record_accepted("m", other, Separate));
        assert_eq!(placements.placement_for("m", Some(other)), Separate);
        assert!(placements.record_accepted("m", own, Merged));
        assert_eq!(placements.placement_for("m", Some(other)), Merged);
        assert!(!placements.record_accepted("m", own, Merged), "already known");
    }

    #[test]
    fn suspicion_of_one_model_does_not_affect_another() {
        use Placement::{Merged, Separate};
        let placements = SummaryPlacements::default();
        let own = conversation(1);
        placements.suspect("strict", own, Separate);
        assert_eq!(placements.placement_for("strict", Some(own)), Merged);
        assert_eq!(placements.placement_for("lenient", Some(own)), Separate);
        assert!(!placements.record_accepted("lenient", own, Merged));
        assert_eq!(placements.refusals("lenient"), PlacementRefusals::Nowhere);
        assert!(placements.record_accepted("strict", own, Merged));
    }

    #[test]
    fn refusal_of_both_placements_says_nothing_about_the_model() {
        use Placement::{Merged, Separate};
        let placements = SummaryPlacements::default();
        let own = conversation(1);
        placements.suspect("m", own, Separate);
        placements.suspect("m", own, Merged);
        assert_eq!(placements.placement_for("m", Some(own)), Separate);
        assert!(!placements.record_accepted("m", own, Separate));
        assert_eq!(placements.refusals("m"), PlacementRefusals::Nowhere);
    }
}

#[cfg(test)]
mod suspicions_tests {
    use super::*;
    use crate::learned::summary_placements::tests::conversation as key;

    fn one() -> ConversationModelKey {
        ConversationModelKey::new(key(1), "m")
    }

    /// Records a refusal of conversation 1 at the last of `prefixes`.
    fn again(doubts: &RefusalSuspicions, prefixes: &[u8]) -> bool {
        let now = key(*prefixes.last().unwrap());
        doubts.record_refusal(one(), now, prefixes.iter().copied().map(key))
    }

    #[test]
    fn suspects_a_placement_only_at_the_second_refusal_in_a_row() {
        let doubts = RefusalSuspicions::default();
        assert!(!again(&doubts, &[1, 2]));
        doubts.resolve(one());
        assert!(!again(&doubts, &[1, 2, 3]));
        assert!(again(&doubts, &[1, 2, 3, 4]));
        assert!(!again(&doubts, &[1, 2, 3, 4]), "another placement starts without refusals");
    }

    #[test]
    fn conversations_with_a_common_start_have_separate_suspicions() {
        let doubts = RefusalSuspicions::default();
        assert!(!again(&doubts, &[1, 2]));
        assert!(!again(&doubts, &[1, 3]));
        assert!(again(&doubts, &[1, 3]), "the same request repeated");
    }

    #[test]
    fn refused_original_stays_unresolved_until_a_rewrite_is_accepted() {
        let (doubts, one) = (RefusalSuspicions::default(), one());
        let is_unresolved = |doubts: &RefusalSuspicions| {
            let doubt = doubts.0.lock().get(&one);
            doubt.is_some_and(|doubt| doubt != SuspicionState::Resolved)
        };
        assert!(!doubts.was_original_refused(&one) && !is_unresolved(&doubts));
        doubts.record_original_refused(one.clone());
        let other = ConversationModelKey::new(key(1), "other");
        assert!(!doubts.was_original_refused(&other), "the original was refused by another model");
        assert!(doubts.was_original_refused(&one) && is_unresolved(&doubts));
        doubts.resolve(one.clone());
        assert!(!doubts.was_original_refused(&one) && !is_unresolved(&doubts));
    }
}
