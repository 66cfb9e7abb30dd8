//! What this process knows of models, with what others have told of them, and whether the far tier
//! has all of it.

use moka::ops::compute::Op;
use moka::sync::Cache;

use super::lore::ModelFacts;
use crate::rewrite::chain::RecordKey;
use crate::wall_clock;

/// Models of which it is remembered what was learned; a client may name any.
const MAX_MODELS: u64 = 1_024;

/// What is known of each model, by its own key.
pub(super) struct ModelFactsCache {
    models: Cache<RecordKey, CachedFacts>,
}

/// What is known of one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct CachedFacts {
    facts: ModelFacts,
    /// Whether the far tier is known to have that.
    is_synced: bool,
}

/// Whether the far tier has what is known here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SyncState {
    /// All of it.
    Synced,
    /// Less, or nobody knows.
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
    /// What is known of a model.
    pub(super) fn get(&self, model: RecordKey) -> ModelFacts {
        without_future_facts(self.models.get(&model).unwrap_or_default().facts)
    }

    /// Whether the far tier has that.
    pub(super) fn sync_state(&self, model: RecordKey) -> SyncState {
        match self.models.get(&model) {
            Some(kept) if kept.is_synced => SyncState::Synced,
            Some(_) | None => SyncState::Incomplete,
        }
    }

    /// This process has learned `lore`; says whether the far tier may lack it.
    pub(super) fn merge_learned(&self, model: RecordKey, lore: ModelFacts) -> SyncState {
        let mut there = SyncState::Synced;
        self.update(model, |kept| {
            let lore = without_future_facts(kept.facts).merge(without_future_facts(lore));
            if lore == kept.facts {
                return kept;
            }
            there = SyncState::Incomplete;
            CachedFacts {
                facts: lore,
                is_synced: false,
            }
        });
        there
    }

    /// The far tier has `lore`; says whether it lacks some of what is known with that.
    pub(super) fn merge_durable(&self, model: RecordKey, theirs: ModelFacts) -> SyncState {
        let mut there = SyncState::Synced;
        let theirs = without_future_facts(theirs);
        self.update(model, |kept| {
            let lore = without_future_facts(kept.facts).merge(theirs);
            let is_settled = lore == theirs;
            if !is_settled {
                there = SyncState::Incomplete;
            }
            CachedFacts {
                facts: lore,
                is_synced: is_settled,
            }
        });
        there
    }

    /// Many replies end at once, and nothing that one of them tells is lost.
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

/// What nobody learned by a clock that ran ahead: it would win over all that is learned since.
fn without_future_facts(lore: ModelFacts) -> ModelFacts {
    lore.without_future_facts(wall_clock::unix_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::chain::Scope;
    use crate::rewrite::placement::PlacementRefusals;

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
    fn nobody_knows_what_the_far_tier_has_until_it_has_said_so() {
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
    fn what_is_learned_is_wanting_until_the_far_tier_has_it() {
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
