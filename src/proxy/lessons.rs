//! What replies teach of models, shared with the other processes behind one store: the marks of a
//! conversation hang on it, and must stand where they stood before a restart and on every replica.

use std::sync::Arc;

use super::forms::Forms;
use crate::rewrite::chain::{Chains, RecordKey, Scope};
use crate::store::{Lore, Store};
use crate::upstream::{Asked, Windows};

/// Who in this process learns something of models, and the store by which others do.
pub(super) struct Lessons {
    pub(super) asked: Asked,
    /// Which form of a summary each model takes.
    pub(super) forms: Forms,
    pub(super) windows: Windows,
    pub(super) store: Arc<Store>,
    /// The scope of what is known of the upstream's models: no caller's.
    pub(super) scope: Scope,
}

impl Lessons {
    /// Hears what others know of a conversation and of its model.
    pub(super) async fn hear(&self, chains: &Chains, model: &str) {
        let known = self.store.refresh(chains, || self.key(model)).await;
        let Some(lore) = known else {
            return;
        };
        self.windows.take_over(model, lore.window, lore.density);
        self.forms.take_over(model, lore.refusals);
        self.asked.take_over(model, lore.asked);
    }

    /// Tells what has been learned of a model, where it is new.
    pub(super) fn tell(&self, model: &str) {
        let lore = || {
            let shown = self.windows.of(model);
            Lore {
                window: shown.learned,
                density: shown.told,
                asked: self.asked.lesson(model),
                refusals: self.forms.refusals(model),
            }
        };
        self.store.learned(|| self.key(model), lore);
    }

    fn key(&self, model: &str) -> RecordKey {
        self.scope.key_of(model)
    }
}
