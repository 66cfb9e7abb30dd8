//! Models of one caller that bind thinking to the bytes before it, learned from replies to edits.

use crate::learned::MODELS_PER_CALLER;
use longhaul_core::collections::two_generation_cache::LockedCache;

/// Models whose provider refused thinking after an edit, or accepted it.
#[derive(Default)]
pub(crate) struct BindingModels {
    models: LockedCache<String, EditOutcome, MODELS_PER_CALLER>,
}

/// The provider's reaction to thinking that an edit made stale.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EditOutcome {
    /// Accepted: the account does not enforce the binding. A refusal overrides this.
    Accepted,
    /// Refused.
    Refused,
}

impl BindingModels {
    /// Whether `model` is known to bind thinking.
    pub(crate) fn contains(&self, model: &str) -> bool {
        self.models.lock().get(model) == Some(EditOutcome::Refused)
    }

    /// Whether the provider has accepted stale thinking of `model`, and never refused any.
    pub(crate) fn accepts_stale(&self, model: &str) -> bool {
        self.models.lock().get(model) == Some(EditOutcome::Accepted)
    }

    /// Records that the provider accepted stale thinking of `model`.
    pub(crate) fn record_accepted(&self, model: &str) {
        let mut models = self.models.lock();
        if models.get(model).is_none() {
            models.insert(model.to_owned(), EditOutcome::Accepted);
        }
    }

    /// Records that `model` binds thinking. Returns whether this was new.
    pub(crate) fn insert(&self, model: &str) -> bool {
        let mut models = self.models.lock();
        let is_new = models.get(model) != Some(EditOutcome::Refused);
        models.insert(model.to_owned(), EditOutcome::Refused);
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_outweighs_an_acceptance_and_never_the_reverse() {
        let models = BindingModels::default();
        models.record_accepted("m");
        assert!(models.accepts_stale("m") && !models.contains("m"));
        assert!(models.insert("m"));
        models.record_accepted("m");
        assert!(!models.accepts_stale("m") && models.contains("m"));
        assert!(!models.insert("m"));
    }
}
