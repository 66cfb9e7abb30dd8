//! A cache of facts about models, from this process and from others. The cache also notes whether
//! the durable store has all facts of a model.

use moka::ops::compute::Op;
use moka::sync::Cache;

use crate::learned::model_facts::ModelFacts;
use longhaul_core::units::scope::RecordKey;

/// Maximum models remembered; a client may name any.
const MAX_MODELS: u64 = 1_024;

/// The facts about each model, by the model's key.
pub(crate) struct ModelFactsCache {
    models: Cache<RecordKey, CachedFacts>,
}

/// The facts about one model.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct CachedFacts {
    facts: ModelFacts,
    /// Whether the durable store is known to have these facts.
    is_synced: bool,
}

/// Whether the durable store has the facts cached here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SyncState {
    /// The durable store has all of them.
    Synced,
    /// The durable store lacks some, or its content is unknown.
    Incomplete,
}

impl Default for ModelFactsCache {
    fn default() -> Self {
        Self {
            models: Cache::new(MAX_MODELS),
        }
    }
}

impl ModelFactsCache {
    /// Returns the facts about a model.
    pub(crate) fn get(&self, model: RecordKey) -> ModelFacts {
        self.models
            .get(&model)
            .unwrap_or_default()
            .facts
            .without_future_facts()
    }

    /// Returns whether the durable store has the facts about a model.
    pub(crate) fn sync_state(&self, model: RecordKey) -> SyncState {
        match self.models.get(&model) {
            Some(kept) if kept.is_synced => SyncState::Synced,
            Some(_) | None => SyncState::Incomplete,
        }
    }

    /// Merges facts that this process learned. Returns whether the durable store may lack some of
    /// them.
    pub(crate) fn merge_learned(&self, model: RecordKey, facts: ModelFacts) -> SyncState {
        let mut there = SyncState::Synced;
        self.update(model, |kept| {
            let facts = kept
                .facts
                .without_future_facts()
                .merge(facts.without_future_facts());
            if facts == kept.facts {
                return kept;
            }
            there = SyncState::Incomplete;
            CachedFacts {
                facts,
                is_synced: false,
            }
        });
        there
    }

    /// Merges facts read from the durable store. Returns whether the durable store lacks some of
    /// the result.
    pub(crate) fn merge_durable(&self, model: RecordKey, theirs: ModelFacts) -> SyncState {
        let mut there = SyncState::Synced;
        let theirs = theirs.without_future_facts();
        self.update(model, |kept| {
            let facts = kept.facts.without_future_facts().merge(theirs);
            let is_settled = facts == theirs;
            if !is_settled {
                there = SyncState::Incomplete;
            }
            CachedFacts {
                facts,
                is_synced: is_settled,
            }
        });
        there
    }

    /// Updates an entry atomically: many replies end at once, and no update may be lost.
    fn update(&self, model: RecordKey, change: impl FnOnce(CachedFacts) -> CachedFacts) {
        self.models.entry(model).and_compute_with(|entry| {
            let before = entry.map(moka::Entry::into_value);
            let after = change(before.unwrap_or_default());
            if before.unwrap_or_default() == after {
                Op::Nop
            } else {
                Op::Put(after)
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::policy::placement::PlacementRefusals;
    use longhaul_core::units::scope::Scope;

    fn refused() -> ModelFacts {
        ModelFacts {
            refusals: PlacementRefusals::Separate,
            ..ModelFacts::default()
        }
    }

    fn model() -> RecordKey {
        Scope::new(&[0; 32], &[]).named_key("m")
    }

    #[test]
    fn sync_state_is_incomplete_until_the_durable_tier_answers() {
        let taught = ModelFactsCache::default();
        assert_eq!(taught.sync_state(model()), SyncState::Incomplete);
        assert_eq!(
            taught.merge_learned(model(), ModelFacts::default()),
            SyncState::Synced,
            "nothing"
        );
        assert_eq!(taught.sync_state(model()), SyncState::Incomplete);
        assert_eq!(
            taught.merge_durable(model(), ModelFacts::default()),
            SyncState::Synced
        );
        assert_eq!(taught.sync_state(model()), SyncState::Synced);
    }

    #[test]
    fn learned_facts_are_incomplete_until_the_durable_tier_has_them() {
        let taught = ModelFactsCache::default();
        assert_eq!(
            taught.merge_durable(model(), ModelFacts::default()),
            SyncState::Synced
        );
        assert_eq!(
            taught.merge_learned(model(), refused()),
            SyncState::Incomplete
        );
        assert_eq!(
            taught.merge_learned(model(), refused()),
            SyncState::Synced,
            "known"
        );
        assert_eq!(taught.sync_state(model()), SyncState::Incomplete);
        assert_eq!(
            taught.merge_durable(model(), ModelFacts::default()),
            SyncState::Incomplete
        );
        assert_eq!(taught.merge_durable(model(), refused()), SyncState::Synced);
        assert_eq!(taught.sync_state(model()), SyncState::Synced);
        assert_eq!(taught.get(model()), refused());
    }
}
