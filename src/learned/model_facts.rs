//! Learned facts about a model that decide the forwarded bytes: equal on every replica,
//! and kept over a restart.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::callers::fair_cache::FairCache;
use crate::callers::{AcceptedCallers, FORGET_AFTER};
use crate::learned::learned_models::CountedOutput;
use crate::wall_clock;
use longhaul_core::policy::placement::PlacementRefusals;
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::{LearnedWindow, Timestamped};
use longhaul_core::window::token_ratio::TokenRatio;

/// Facts about one model of one upstream. A fact that was never learned is `None`, which overrides
/// nothing when merged.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelFacts {
    /// The window learned from a refusal or from the end of a reply; the inner `None` once disproved.
    pub(crate) window: Option<Timestamped<Option<LearnedWindow>>>,
    pub(crate) token_ratio: Option<Timestamped<TokenRatio>>,
    /// The window that the upstream reports; the inner `None` if it reports none.
    pub(crate) reported_window: Option<Timestamped<Option<Tokens>>>,
    /// The placements in which the model has refused a summary.
    pub(crate) refusals: PlacementRefusals,
    /// The largest accepted request. A stored window counts only together with it.
    #[serde(default)]
    pub(crate) accepted: Option<Timestamped<Tokens>>,
    /// The largest request that the account may send, for an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_limit: Option<Timestamped<Tokens>>,
    /// The newest refusal of an output, for a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counted_output: Option<Timestamped<CountedOutput>>,
    /// Whether the model binds thinking to the bytes before it. Never reverts to false.
    #[serde(default)]
    pub(crate) binds_thinking: bool,
}

impl ModelFacts {
    /// Drops facts that a fast clock stamped, which would override all newer ones.
    pub(crate) fn without_future_facts(self) -> Self {
        let now = wall_clock::unix_millis();
        Self {
            window: self.window.filter(|fact| !fact.is_ahead_of(now)),
            token_ratio: self.token_ratio.filter(|fact| !fact.is_ahead_of(now)),
            reported_window: self.reported_window.filter(|fact| !fact.is_ahead_of(now)),
            accepted: self.accepted.filter(|fact| !fact.is_ahead_of(now)),
            request_limit: self.request_limit.filter(|fact| !fact.is_ahead_of(now)),
            counted_output: self.counted_output.filter(|fact| !fact.is_ahead_of(now)),
            ..self
        }
    }

    /// Merges the facts of another process: the later value of each, and all refusals. Order and
    /// repetition make no difference.
    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            window: self.window.max(other.window),
            token_ratio: self.token_ratio.max(other.token_ratio),
            reported_window: self.reported_window.max(other.reported_window),
            refusals: self.refusals.max(other.refusals),
            accepted: self.accepted.max(other.accepted),
            request_limit: self.request_limit.max(other.request_limit),
            counted_output: self.counted_output.max(other.counted_output),
            binds_thinking: self.binds_thinking || other.binds_thinking,
        }
    }
}

/// Maximum models remembered, of all callers; a client may name any.
const MAX_MODELS: u64 = 8_192;

pub(crate) struct ModelFactsCache(FairCache<RecordKey, CachedFacts>);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct CachedFacts {
    facts: ModelFacts,
    /// Whether the durable store is known to have these facts.
    sync: SyncState,
}

/// Whether the durable store has the facts cached here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum SyncState {
    /// The durable store has all of them.
    Synced,
    /// The durable store lacks some, or its content is unknown.
    #[default]
    Incomplete,
}

impl ModelFactsCache {
    pub(crate) fn new(accepted: &Arc<AcceptedCallers>) -> Self {
        Self(FairCache::of_entries(MAX_MODELS, FORGET_AFTER, accepted))
    }

    pub(crate) fn get(&self, model: RecordKey) -> ModelFacts {
        let kept = self.0.get(&model).unwrap_or_default();
        kept.facts.without_future_facts()
    }

    /// Returns whether the durable store has the facts about a model.
    pub(crate) fn sync_state(&self, model: RecordKey) -> SyncState {
        self.0.get(&model).unwrap_or_default().sync
    }

    /// Returns the facts about a model that are incomplete, and notes that they no longer are.
    pub(crate) fn take_news(&self, model: RecordKey) -> Option<ModelFacts> {
        let kept = self.0.get(&model).filter(|kept| kept.sync == SyncState::Incomplete)?;
        self.update(model, |kept| CachedFacts { sync: SyncState::Synced, ..kept });
        Some(kept.facts.without_future_facts())
    }

    /// Merges the facts that a file `kept` under the bytes of their keys, and writes all.
    pub(crate) fn exchange(
        &self,
        kept: Vec<(Vec<u8>, ModelFacts)>,
        write: &dyn Fn(Vec<(Vec<u8>, ModelFacts)>) -> io::Result<()>,
    ) -> io::Result<()> {
        for (key, facts) in kept {
            _ = RecordKey::from_bytes(&key).map(|model| self.merge_learned(model, facts));
        }
        let all = self.0.entries().into_iter();
        let all: BTreeMap<_, _> = all.map(|(key, kept)| (key.to_bytes(), kept.facts)).collect();
        write(all.into_iter().map(|(key, facts)| (key.to_vec(), facts)).collect())
    }

    /// Merges facts that this process learned. Returns whether the durable store may lack some of
    /// them.
    pub(crate) fn merge_learned(&self, model: RecordKey, facts: ModelFacts) -> SyncState {
        let mut sync = SyncState::Synced;
        let learned = facts.without_future_facts();
        self.update(model, |kept| {
            let facts = kept.facts.without_future_facts().merge(learned);
            if facts == kept.facts {
                return kept;
            }
            sync = SyncState::Incomplete;
            CachedFacts { facts, sync }
        });
        sync
    }

    /// Merges facts read from the durable store. Returns whether the durable store lacks some of
    /// the result.
    pub(crate) fn merge_durable(&self, model: RecordKey, theirs: ModelFacts) -> SyncState {
        let mut sync = SyncState::Synced;
        let theirs = theirs.without_future_facts();
        self.update(model, |kept| {
            let facts = kept.facts.without_future_facts().merge(theirs);
            if facts != theirs {
                sync = SyncState::Incomplete;
            }
            CachedFacts { facts, sync }
        });
        sync
    }

    /// Updates an entry atomically: many replies end at once, and no update may be lost.
    fn update(&self, model: RecordKey, change: impl FnOnce(CachedFacts) -> CachedFacts) {
        self.0.update(model, |before| {
            let before = before.unwrap_or_default();
            let after = change(before);
            (before != after).then_some(after)
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few times and few values, so that many have the same time.
    fn lesson<T>(what: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Timestamped<T>>>
    where
        T: std::fmt::Debug + 'static,
    {
        let lesson =
            (0_u64..3, what).prop_map(|(at, what)| Timestamped::superseding(None, at, what));
        prop::option::of(lesson)
    }

    fn tokens() -> impl Strategy<Value = Tokens> {
        (0_u32..3).prop_map(Tokens::new)
    }

    fn holds() -> impl Strategy<Value = LearnedWindow> {
        let parts = (tokens(), prop::option::of(0_u32..2), prop::option::of(tokens()));
        parts.prop_map(|(window, truncates_to, stated)| LearnedWindow {
            window,
            truncates_to,
            stated,
        })
    }

    fn facts() -> impl Strategy<Value = ModelFacts> {
        let token_ratio = (1_u32..4)
            .prop_map(|counted| TokenRatio::from_counts(Tokens::new(counted), Tokens::new(2)));
        let refusals = prop::sample::select(vec![
            PlacementRefusals::Both,
            PlacementRefusals::Nowhere,
            PlacementRefusals::Separate,
        ]);
        let parts = (
            lesson(prop::option::of(holds())),
            lesson(token_ratio),
            lesson(prop::option::of(tokens())),
            refusals,
            lesson(tokens()),
            lesson(tokens()),
            lesson(tokens().prop_map(|limit| CountedOutput { limit, sample: None })),
            any::<bool>(),
        );
        parts.prop_map(
            |(
                window,
                token_ratio,
                reported_window,
                refusals,
                accepted,
                request_limit,
                counted_output,
                binds_thinking,
            )| {
                ModelFacts {
                    window,
                    token_ratio,
                    reported_window,
                    refusals,
                    accepted,
                    request_limit,
                    counted_output,
                    binds_thinking,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn merging_facts_is_commutative_associative_and_idempotent(
            one in facts(),
            two in facts(),
            three in facts(),
        ) {
            prop_assert_eq!(one.merge(two), two.merge(one));
            prop_assert_eq!(one.merge(two).merge(three), one.merge(two.merge(three)));
            prop_assert_eq!(one.merge(two).merge(two), one.merge(two));
            prop_assert_eq!(one.merge(one), one);
        }

        #[test]
        fn merging_default_facts_changes_nothing(one in facts()) {
            prop_assert_eq!(one.merge(ModelFacts::default()), one);
        }
    }

    #[test]
    fn disproved_window_survives_merging_with_the_learned_one() {
        let holds = LearnedWindow::at_most(Tokens::new(8_000));
        let learned = Timestamped::superseding(None, 5, Some(holds));
        let wrong = Timestamped::superseding(Some(learned), 5, None);
        let [learned, wrong] = [learned, wrong]
            .map(|window| ModelFacts { window: Some(window), ..ModelFacts::default() });
        assert_eq!(learned.merge(wrong), wrong);
    }
}

#[cfg(test)]
mod model_facts_cache_tests {
    use super::*;
    use longhaul_core::policy::placement::PlacementRefusals;
    use longhaul_core::units::scope::Scope;

    fn refused() -> ModelFacts {
        ModelFacts { refusals: PlacementRefusals::Separate, ..ModelFacts::default() }
    }

    fn model() -> RecordKey {
        Scope::new(&[0; 32], &[]).named_key("m")
    }

    #[test]
    fn sync_state_is_incomplete_until_the_durable_tier_answers() {
        let taught = ModelFactsCache::new(&Arc::default());
        assert_eq!(taught.sync_state(model()), SyncState::Incomplete);
        assert_eq!(
            taught.merge_learned(model(), ModelFacts::default()),
            SyncState::Synced,
            "nothing"
        );
        assert_eq!(taught.sync_state(model()), SyncState::Incomplete);
        assert_eq!(taught.merge_durable(model(), ModelFacts::default()), SyncState::Synced);
        assert_eq!(taught.sync_state(model()), SyncState::Synced);
    }

    #[test]
    fn learned_facts_are_incomplete_until_the_durable_tier_has_them() {
        let taught = ModelFactsCache::new(&Arc::default());
        assert_eq!(taught.merge_durable(model(), ModelFacts::default()), SyncState::Synced);
        assert_eq!(taught.merge_learned(model(), refused()), SyncState::Incomplete);
        assert_eq!(taught.merge_learned(model(), refused()), SyncState::Synced, "known");
        assert_eq!(taught.sync_state(model()), SyncState::Incomplete);
        assert_eq!(taught.merge_durable(model(), ModelFacts::default()), SyncState::Incomplete);
        assert_eq!(taught.merge_durable(model(), refused()), SyncState::Synced);
        assert_eq!(taught.sync_state(model()), SyncState::Synced);
        assert_eq!(taught.get(model()), refused());
    }
}
