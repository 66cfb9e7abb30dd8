//! Models of one caller that bind thinking to the bytes before it, learned from refusals.

use crate::learned::model_knowledge::MODELS_PER_CALLER;
use longhaul_core::collections::two_generation_cache::TwoGenerationCache;
use parking_lot::Mutex;

/// Models that refused thinking behind an edit.
pub(crate) struct BindingModels {
    models: Mutex<TwoGenerationCache<String, ()>>,
}

impl Default for BindingModels {
    fn default() -> Self {
        Self {
            models: Mutex::new(TwoGenerationCache::new(MODELS_PER_CALLER)),
        }
    }
}

impl BindingModels {
    /// Whether `model` is known to bind thinking.
    pub(crate) fn contains(&self, model: &str) -> bool {
        self.models.lock().get(model).is_some()
    }

    /// Records that `model` binds thinking. Returns whether this was new.
    pub(crate) fn insert(&self, model: &str) -> bool {
        let mut models = self.models.lock();
        let is_new = models.get(model).is_none();
        models.insert(model.to_owned(), ());
        is_new
    }
}
