//! What this process knows of models, with what others have told of them, and whether the far tier
//! has all of it.

use moka::ops::compute::Op;
use moka::sync::Cache;

use super::lore::Lore;
use crate::rewrite::chain::RecordKey;
use crate::wall_clock;

/// Models of which it is remembered what was learned; a client may name any.
const MODELS: u64 = 1_024;

/// What is known of each model, by its own key.
pub(super) struct Taught {
    models: Cache<RecordKey, Kept>,
}

/// What is known of one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Kept {
    lore: Lore,
    /// Whether the far tier is known to have that.
    is_settled: bool,
}

/// Whether the far tier has what is known here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum There {
    /// All of it.
    Settled,
    /// Less, or nobody knows.
    Wanting,
}

impl Default for Taught {
    fn default() -> Self {
        Self {
            models: Cache::new(MODELS),
        }
    }
}

impl Taught {
    /// What is known of a model.
    pub(super) fn of(&self, model: RecordKey) -> Lore {
        believed(self.models.get(&model).unwrap_or_default().lore)
    }

    /// Whether the far tier has that.
    pub(super) fn there(&self, model: RecordKey) -> There {
        match self.models.get(&model) {
            Some(kept) if kept.is_settled => There::Settled,
            Some(_) | None => There::Wanting,
        }
    }

    /// This process has learned `lore`; says whether the far tier may lack it.
    pub(super) fn learn(&self, model: RecordKey, lore: Lore) -> There {
        let mut there = There::Settled;
        self.change(model, |kept| {
            let lore = believed(kept.lore).merge(believed(lore));
            if lore == kept.lore {
                return kept;
            }
            there = There::Wanting;
            Kept {
                lore,
                is_settled: false,
            }
        });
        there
    }

    /// The far tier has `lore`; says whether it lacks some of what is known with that.
    pub(super) fn hear(&self, model: RecordKey, theirs: Lore) -> There {
        let mut there = There::Settled;
        let theirs = believed(theirs);
        self.change(model, |kept| {
            let lore = believed(kept.lore).merge(theirs);
            let is_settled = lore == theirs;
            if !is_settled {
                there = There::Wanting;
            }
            Kept { lore, is_settled }
        });
        there
    }

    /// Many replies end at once, and nothing that one of them tells is lost.
    fn change(&self, model: RecordKey, change: impl FnOnce(Kept) -> Kept) {
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
fn believed(lore: Lore) -> Lore {
    lore.without_ahead(wall_clock::millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::chain::Scope;
    use crate::rewrite::placement::Refusals;

    fn refused() -> Lore {
        Lore {
            refusals: Refusals::Separate,
            ..Lore::default()
        }
    }

    fn model() -> RecordKey {
        Scope::new(&[0; 32], &[]).key_of("m")
    }

    #[test]
    fn nobody_knows_what_the_far_tier_has_until_it_has_said_so() {
        let taught = Taught::default();
        assert_eq!(taught.there(model()), There::Wanting);
        assert_eq!(
            taught.learn(model(), Lore::default()),
            There::Settled,
            "nothing"
        );
        assert_eq!(taught.there(model()), There::Wanting);
        assert_eq!(taught.hear(model(), Lore::default()), There::Settled);
        assert_eq!(taught.there(model()), There::Settled);
    }

    #[test]
    fn what_is_learned_is_wanting_until_the_far_tier_has_it() {
        let taught = Taught::default();
        assert_eq!(taught.hear(model(), Lore::default()), There::Settled);
        assert_eq!(taught.learn(model(), refused()), There::Wanting);
        assert_eq!(taught.learn(model(), refused()), There::Settled, "known");
        assert_eq!(taught.there(model()), There::Wanting);
        assert_eq!(taught.hear(model(), Lore::default()), There::Wanting);
        assert_eq!(taught.hear(model(), refused()), There::Settled);
        assert_eq!(taught.there(model()), There::Settled);
        assert_eq!(taught.of(model()), refused());
    }
}
