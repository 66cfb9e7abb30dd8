//! What replies teach of models, shared with the other processes behind one store: the marks of a
//! conversation hang on it, and must stand where they stood before a restart and on every replica.

use std::sync::Arc;

use super::forms::SummaryPlacements;
use crate::rewrite::chain::{PrefixKeys, RecordKey, Scope};
use crate::store::{ModelFacts, Store};
use crate::upstream::{LearnedWindows, ReportedWindows};

/// Who in this process learns something of models, and the store by which others do.
pub(super) struct ModelKnowledge {
    pub(super) reported_windows: ReportedWindows,
    /// Which form of a summary each model takes.
    pub(super) placements: SummaryPlacements,
    pub(super) windows: LearnedWindows,
    pub(super) store: Arc<Store>,
    /// The scope of what is known of the upstream's models: no caller's.
    pub(super) scope: Scope,
}

impl ModelKnowledge {
    /// Hears what others know of a conversation and of its model.
    pub(super) async fn refresh(&self, chains: &PrefixKeys, model: &str) {
        let known = self.store.refresh(chains, || self.model_key(model)).await;
        let Some(lore) = known else {
            return;
        };
        self.windows.merge_remote(model, lore.window, lore.density);
        self.placements.merge_remote(model, lore.refusals);
        self.reported_windows.merge_remote(model, lore.asked);
    }

    /// Tells what has been learned of a model, where it is new.
    pub(super) fn publish(&self, model: &str) {
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
