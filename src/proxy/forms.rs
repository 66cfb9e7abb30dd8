//! Which form of a summary each model takes, learned from what it refused.

mod doubts;

use moka::sync::Cache;

use crate::lock::Mutex;
use crate::rewrite::chain::RecordKey;
use crate::rewrite::generations::Generations;
use crate::rewrite::placement::{Placement, Refusals};
use doubts::Doubts;

/// Models remembered at once; a proxy serves few, and a client may name any.
const MODELS: u64 = 1_024;
/// Conversations in which a form is suspected, remembered at the least, and twice as many at the most.
const SUSPECTS: usize = 512;

/// A conversation with one model: what another makes of it says nothing.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(in crate::proxy) struct InModel {
    conversation: RecordKey,
    model: String,
}

impl InModel {
    pub(in crate::proxy) fn new(conversation: RecordKey, model: &str) -> Self {
        Self {
            conversation,
            model: model.to_owned(),
        }
    }
}

/// What the models of the one upstream have refused.
pub(super) struct Forms {
    learned: Cache<String, Refusals>,
    /// What was refused in one conversation with nothing to compare it with: the fault may be the
    /// client's own, which is no other caller's concern.
    suspected: Mutex<Generations<InModel, Refusals>>,
    /// What was refused and may have nothing to do with its form.
    pub(super) doubts: Doubts,
}

impl Default for Forms {
    fn default() -> Self {
        Self {
            learned: Cache::new(MODELS),
            suspected: Mutex::new(Generations::new(SUSPECTS)),
            doubts: Doubts::default(),
        }
    }
}

impl Forms {
    /// Where `model` takes what stands for history in that conversation.
    pub(super) fn of(&self, model: &str, conversation: Option<RecordKey>) -> Placement {
        self.refusals_in(model, conversation).leave()
    }

    /// Where it has refused it, or is suspected to in that conversation.
    pub(super) fn refusals_in(&self, model: &str, conversation: Option<RecordKey>) -> Refusals {
        let suspect = conversation.map(|key| InModel::new(key, model));
        let suspects = suspect.and_then(|suspect| self.suspected.lock().get(&suspect));
        suspects.unwrap_or_else(|| self.refusals(model))
    }

    /// Where it has refused it.
    pub(super) fn refusals(&self, model: &str) -> Refusals {
        self.learned.get(model).unwrap_or_default()
    }

    /// It refused a message list with a summary in this form, and without it none. Says whether the
    /// next one goes elsewhere for it.
    pub(super) fn refused(&self, model: &str, placement: Placement) -> bool {
        let before = self.refusals(model);
        let learned = before.with(placement);
        self.learned.insert(model.to_owned(), learned);
        before != learned
    }

    /// It refused a message list with a summary in this form in that conversation, and nothing tells
    /// whether for the form: in this conversation alone the next one goes elsewhere.
    pub(super) fn suspect(&self, model: &str, conversation: RecordKey, placement: Placement) {
        let suspect = InModel::new(conversation, model);
        let mut suspected = self.suspected.lock();
        let before = suspected.get(&suspect);
        let before = before.unwrap_or_else(|| self.refusals(model));
        suspected.insert(suspect, before.with(placement));
    }

    /// It answered that conversation with a summary in this form: what was suspected of the other is
    /// so. Says whether that is news of the model.
    pub(super) fn answered(
        &self,
        model: &str,
        conversation: RecordKey,
        placement: Placement,
    ) -> bool {
        let suspects = self
            .suspected
            .lock()
            .get(&InModel::new(conversation, model));
        suspects == Some(Refusals::Separate)
            && placement == Placement::Merged
            && self.refused(model, Placement::Separate)
    }

    /// Another process has seen it refuse these.
    pub(super) fn take_over(&self, model: &str, refusals: Refusals) {
        let before = self.refusals(model);
        let learned = before.join(refusals);
        if before != learned {
            self.learned.insert(model.to_owned(), learned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(refused: &[Placement], expect: Placement) {
        let forms = Forms::default();
        for placement in refused {
            _ = forms.refused("m", *placement);
        }
        assert_eq!(forms.of("m", None), expect, "{refused:?}");
        assert_eq!(forms.of("other", None), Placement::Separate);
    }

    #[test]
    fn what_another_has_not_seen_refused_stays_refused_here() {
        let forms = Forms::default();
        _ = forms.refused("m", Placement::Separate);
        forms.take_over("m", Refusals::Nowhere);
        assert_eq!(forms.refusals("m"), Refusals::Separate);
        forms.take_over("m", Refusals::Both);
        forms.take_over("m", Refusals::Separate);
        assert_eq!(forms.refusals("m"), Refusals::Both);
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
        let forms = Forms::default();
        let (own, other) = (conversation(1), conversation(2));
        forms.suspect("m", own, Separate);
        assert_eq!(forms.of("m", Some(own)), Merged);
        assert_eq!(forms.of("m", Some(other)), Separate);
        assert!(!forms.answered("m", other, Separate));
        assert_eq!(forms.of("m", Some(other)), Separate);
        assert!(forms.answered("m", own, Merged));
        assert_eq!(forms.of("m", Some(other)), Merged);
        assert!(!forms.answered("m", own, Merged), "it is no news");
    }

    #[test]
    fn what_one_model_is_suspected_of_says_nothing_of_another_in_the_same_conversation() {
        use Placement::{Merged, Separate};
        let forms = Forms::default();
        let own = conversation(1);
        forms.suspect("strict", own, Separate);
        assert_eq!(forms.of("strict", Some(own)), Merged);
        assert_eq!(forms.of("lenient", Some(own)), Separate);
        assert!(!forms.answered("lenient", own, Merged));
        assert_eq!(forms.refusals("lenient"), Refusals::Nowhere);
        assert!(forms.answered("strict", own, Merged));
    }

    #[test]
    fn a_conversation_that_is_refused_in_both_forms_says_nothing_of_the_model() {
        use Placement::{Merged, Separate};
        let forms = Forms::default();
        let own = conversation(1);
        forms.suspect("m", own, Separate);
        forms.suspect("m", own, Merged);
        assert_eq!(forms.of("m", Some(own)), Separate);
        assert!(!forms.answered("m", own, Separate));
        assert_eq!(forms.refusals("m"), Refusals::Nowhere);
    }
}
