//! Which form of a summary each model takes, learned from what it refused.

mod doubts;

use moka::sync::Cache;

use crate::lock::Mutex;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::generations::TwoGenerationCache;
use crate::rewrite::placement::{Placement, PlacementRefusals};
use doubts::RefusalSuspicions;

/// Models remembered at once; a proxy serves few, and a client may name any.
const MODELS: u64 = 1_024;
/// Conversations in which a form is suspected, remembered at the least, and twice as many at the most.
const SUSPECTS: usize = 512;

/// A conversation with one model: what another makes of it says nothing.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::proxy) struct ConversationModelKey {
    conversation: RecordKey,
    model: String,
}

impl ConversationModelKey {
    pub(in crate::proxy) fn new(conversation: RecordKey, model: &str) -> Self {
        Self {
            conversation,
            model: model.to_owned(),
        }
    }
}

/// What the models of the one upstream have refused.
pub(super) struct SummaryPlacements {
    learned: Cache<String, PlacementRefusals>,
    /// What was refused in one conversation with nothing to compare it with: the fault may be the
    /// client's own, which is no other caller's concern.
    suspected: Mutex<TwoGenerationCache<ConversationModelKey, PlacementRefusals>>,
    /// What was refused and may have nothing to do with its form.
    pub(super) suspicions: RefusalSuspicions,
}

impl Default for SummaryPlacements {
    fn default() -> Self {
        Self {
            learned: Cache::new(MODELS),
            suspected: Mutex::new(TwoGenerationCache::new(SUSPECTS)),
            suspicions: RefusalSuspicions::default(),
        }
    }
}

impl SummaryPlacements {
    /// Where `model` takes what stands for history in that conversation.
    pub(super) fn placement_for(&self, model: &str, conversation: Option<RecordKey>) -> Placement {
        self.refusals_in_conversation(model, conversation)
            .placement()
    }

    /// Where it has refused it, or is suspected to in that conversation.
    pub(super) fn refusals_in_conversation(
        &self,
        model: &str,
        conversation: Option<RecordKey>,
    ) -> PlacementRefusals {
        let suspect = conversation.map(|key| ConversationModelKey::new(key, model));
        let suspects = suspect.and_then(|suspect| self.suspected.lock().get(&suspect));
        suspects.unwrap_or_else(|| self.refusals(model))
    }

    /// Where it has refused it.
    pub(super) fn refusals(&self, model: &str) -> PlacementRefusals {
        self.learned.get(model).unwrap_or_default()
    }

    /// It refused a message list with a summary in this form, and without it none. Says whether the
    /// next one goes elsewhere for it.
    pub(super) fn record_refusal(&self, model: &str, placement: Placement) -> bool {
        let before = self.refusals(model);
        let learned = before.with_refusal(placement);
        self.learned.insert(model.to_owned(), learned);
        before != learned
    }

    /// It refused a message list with a summary in this form in that conversation, and nothing tells
    /// whether for the form: in this conversation alone the next one goes elsewhere.
    pub(super) fn suspect(&self, model: &str, conversation: RecordKey, placement: Placement) {
        let suspect = ConversationModelKey::new(conversation, model);
        let mut suspected = self.suspected.lock();
        let before = suspected.get(&suspect);
        let before = before.unwrap_or_else(|| self.refusals(model));
        suspected.insert(suspect, before.with_refusal(placement));
    }

    /// It answered that conversation with a summary in this form: what was suspected of the other is
    /// so. Says whether that is news of the model.
    pub(super) fn record_accepted(
        &self,
        model: &str,
        conversation: RecordKey,
        placement: Placement,
    ) -> bool {
        let suspects = self
            .suspected
            .lock()
            .get(&ConversationModelKey::new(conversation, model));
        suspects == Some(PlacementRefusals::Separate)
            && placement == Placement::Merged
            && self.record_refusal(model, Placement::Separate)
    }

    /// Another process has seen it refuse these.
    pub(super) fn merge_remote(&self, model: &str, refusals: PlacementRefusals) {
        let before = self.refusals(model);
        let learned = before.merged_with(refusals);
        if before != learned {
            self.learned.insert(model.to_owned(), learned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(refused: &[Placement], expect: Placement) {
        let forms = SummaryPlacements::default();
        for placement in refused {
            _ = forms.record_refusal("m", *placement);
        }
        assert_eq!(forms.placement_for("m", None), expect, "{refused:?}");
        assert_eq!(forms.placement_for("other", None), Placement::Separate);
    }

    #[test]
    fn what_another_has_not_seen_refused_stays_refused_here() {
        let forms = SummaryPlacements::default();
        _ = forms.record_refusal("m", Placement::Separate);
        forms.merge_remote("m", PlacementRefusals::Nowhere);
        assert_eq!(forms.refusals("m"), PlacementRefusals::Separate);
        forms.merge_remote("m", PlacementRefusals::Both);
        forms.merge_remote("m", PlacementRefusals::Separate);
        assert_eq!(forms.refusals("m"), PlacementRefusals::Both);
    }

    #[test]
    fn a_model_that_refuses_one_form_gets_the_other_and_is_not_asked_in_turns() {
        use Placement::{Merged, Separate};
        check(&[], Separate);
        check(&[Separate], Merged);
        check(&[Separate, Separate], Merged);
        check(&[Separate, Merged], Separate);
        check(&[Separate, Merged, Separate], Separate);
    }

    /// The key of some conversation.
    pub(super) fn conversation(scope: u8) -> RecordKey {
        RecordKey::from_bytes(&[scope; RecordKey::BYTES]).unwrap()
    }

    #[test]
    fn what_one_conversation_met_is_the_models_once_the_other_form_was_answered() {
        use Placement::{Merged, Separate};
        let forms = SummaryPlacements::default();
        let (own, other) = (conversation(1), conversation(2));
        forms.suspect("m", own, Separate);
        assert_eq!(forms.placement_for("m", Some(own)), Merged);
        assert_eq!(forms.placement_for("m", Some(other)), Separate);
        assert!(!forms.record_accepted("m", other, Separate));
        assert_eq!(forms.placement_for("m", Some(other)), Separate);
        assert!(forms.record_accepted("m", own, Merged));
        assert_eq!(forms.placement_for("m", Some(other)), Merged);
        assert!(!forms.record_accepted("m", own, Merged), "it is no news");
    }

    #[test]
    fn what_one_model_is_suspected_of_says_nothing_of_another_in_the_same_conversation() {
        use Placement::{Merged, Separate};
        let forms = SummaryPlacements::default();
        let own = conversation(1);
        forms.suspect("strict", own, Separate);
        assert_eq!(forms.placement_for("strict", Some(own)), Merged);
        assert_eq!(forms.placement_for("lenient", Some(own)), Separate);
        assert!(!forms.record_accepted("lenient", own, Merged));
        assert_eq!(forms.refusals("lenient"), PlacementRefusals::Nowhere);
        assert!(forms.record_accepted("strict", own, Merged));
    }

    #[test]
    fn a_conversation_that_is_refused_in_both_forms_says_nothing_of_the_model() {
        use Placement::{Merged, Separate};
        let forms = SummaryPlacements::default();
        let own = conversation(1);
        forms.suspect("m", own, Separate);
        forms.suspect("m", own, Merged);
        assert_eq!(forms.placement_for("m", Some(own)), Separate);
        assert!(!forms.record_accepted("m", own, Separate));
        assert_eq!(forms.refusals("m"), PlacementRefusals::Nowhere);
    }
}
