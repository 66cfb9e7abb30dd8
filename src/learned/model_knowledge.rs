//! Knowledge of models learned from replies. A conversation's thresholds depend on it, so the store
//! shares it with other processes: it must be equal after a restart and on every replica.

use crate::learned::model_facts::ModelFacts;
use crate::learned::reported_windows::ReportedWindows;
use crate::learned::summary_placements::SummaryPlacements;
use crate::learned::windows::LearnedWindows;
use longhaul_core::units::scope::{RecordKey, Scope};

/// Caches of learned facts about the models of one upstream.
pub(crate) struct ModelKnowledge {
    pub(crate) reported_windows: ReportedWindows,
    /// Summary placements that each model accepts.
    pub(crate) placements: SummaryPlacements,
    pub(crate) windows: LearnedWindows,
    /// Scope of the upstream's models, independent of callers.
    scope: Scope,
}

impl ModelKnowledge {
    /// Creates empty caches for the upstream with this scope.
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            reported_windows: ReportedWindows::default(),
            placements: SummaryPlacements::default(),
            windows: LearnedWindows::default(),
            scope,
        }
    }

    /// Returns the key under which the store keeps the facts about a model.
    pub(crate) fn key(&self, model: &str) -> RecordKey {
        self.scope.named_key(model)
    }

    /// Returns the facts about a model, to publish to other processes.
    pub(crate) fn facts(&self, model: &str) -> ModelFacts {
        let shown = self.windows.observations(model);
        ModelFacts {
            window: shown.learned,
            density: shown.published_ratio,
            asked: self.reported_windows.timestamped_window(model),
            refusals: self.placements.refusals(model),
        }
    }

    /// Merges facts that another process has learned about a model.
    pub(crate) fn merge_remote(&self, model: &str, facts: ModelFacts) {
        self.windows
            .merge_remote(model, facts.window, facts.density);
        self.placements.merge_remote(model, facts.refusals);
        self.reported_windows.merge_remote(model, facts.asked);
    }
}
