//! Which form of a summary each model takes, learned from what it refused.

use moka::sync::Cache;

use crate::rewrite::placement::{Placement, Refusals};

/// Models remembered at once; a proxy serves few, and a client may name any.
const MODELS: u64 = 1_024;

/// What the models of the one upstream have refused.
pub(super) struct Forms {
    learned: Cache<String, Refusals>,
}

impl Default for Forms {
    fn default() -> Self {
        Self {
            learned: Cache::new(MODELS),
        }
    }
}

impl Forms {
    /// Where `model` takes what stands for history.
    pub(super) fn of(&self, model: &str) -> Placement {
        self.refusals(model).leave()
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
        assert_eq!(forms.of("m"), expect, "{refused:?}");
        assert_eq!(forms.of("other"), Placement::Separate);
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
}
