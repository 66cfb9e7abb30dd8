//! Knowledge of models learned from replies, shared with other processes through one store. A
//! conversation's thresholds depend on it, so they must be equal after a restart and on every
//! replica.

use std::sync::Arc;

use crate::learned::summary_placements::SummaryPlacements;
use crate::store::{ModelFacts, Store};
use crate::upstream::{LearnedWindows, ReportedWindows};
use longhaul_core::prefix::keys::{PrefixKeys, RecordKey, Scope};

/// Caches of learned facts about models, and the store that shares them.
pub(crate) struct ModelKnowledge {
    pub(crate) reported_windows: ReportedWindows,
    /// Summary placements that each model accepts.
    pub(crate) placements: SummaryPlacements,
    pub(crate) windows: LearnedWindows,
    pub(crate) store: Arc<Store>,
    /// Scope of the upstream's models, independent of callers.
    pub(crate) scope: Scope,
}

impl ModelKnowledge {
    /// Merges stored facts about a conversation and its model into the local caches.
    pub(crate) async fn refresh(&self, chains: &PrefixKeys, model: &str) {
        let known = self.store.refresh(chains, || self.model_key(model)).await;
        let Some(lore) = known else {
            return;
        };
        self.windows.merge_remote(model, lore.window, lore.density);
        self.placements.merge_remote(model, lore.refusals);
        self.reported_windows.merge_remote(model, lore.asked);
    }

    /// Publishes learned facts about a model, if they are new.
    pub(crate) fn publish(&self, model: &str) {
        let lore = || {
            let shown = self.windows.observations(model);
            ModelFacts {
                window: shown.learned,
                density: shown.published_ratio,
                asked: self.reported_windows.timestamped_window(model),
                refusals: self.placements.refusals(model),
            }
        };
        self.store
            .publish_model_facts(|| self.model_key(model), lore);
    }

    fn model_key(&self, model: &str) -> RecordKey {
        self.scope.named_key(model)
    }
}
