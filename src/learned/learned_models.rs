//! Facts about models learned from replies, apart for each caller. A conversation's thresholds
//! depend on these facts, so they must be equal after a restart and on every replica. The store
//! shares them with other processes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::callers::fair_cache::{FairCache, ONE_FOR_EACH};
use crate::callers::owners::Owners;
use crate::callers::{AcceptedCallers, FORGET_AFTER};
use crate::learned::MODELS_PER_CALLER;
use crate::learned::model_facts::ModelFacts;
use crate::learned::reported_windows::{QueriesInFlight, ReportedWindows};
use crate::learned::summary_placements::SummaryPlacements;
use crate::learned::windows::{LearnedWindows, REFUSAL_TTL_MS, is_within};
use crate::wall_clock;
use longhaul_core::collections::two_generation_cache::LockedCache;
use longhaul_core::overflow::Suspicion;
use longhaul_core::units::scope::{RecordKey, Scope};
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::Timestamped;
use longhaul_core::window::token_ratio::CountSample;

/// Callers whose learned facts are kept in memory. Other callers never evict the facts of a caller
/// whose request was accepted.
const MAX_CALLERS: u64 = ONE_FOR_EACH;

/// Maximum length of a model's name whose key is remembered, in bytes. A client may send a name of any length.
const MAX_KEYED_NAME_BYTES: usize = 128;

/// Learned facts about the models of one upstream.
///
/// Each caller has its own: no reply to one caller changes a forwarded byte of another. The answers
/// to longhaul's own key are common to all.
pub(crate) struct LearnedByCaller {
    /// A reload may add or remove longhaul's own key, so the cache key names whose key queries carry.
    by_caller: FairCache<(Scope, QueryKey), Arc<LearnedModels>>,
    /// Windows that the upstream reports to longhaul's own key.
    reported_to_own_key: Arc<ReportedWindows>,
    accepted: Arc<AcceptedCallers>,
    pub(crate) queries: QueriesInFlight,
}

/// Facts about models learned for one caller.
pub(crate) struct LearnedModels {
    pub(crate) reported_windows: Arc<ReportedWindows>,
    pub(crate) placements: SummaryPlacements,
    pub(crate) windows: LearnedWindows,
    pub(crate) refuted: RefutedSuspicions,
    /// Models that bind thinking to the bytes before it.
    pub(crate) binding_models: BindingModels,
    /// Refusals of models whose server counts the requested output.
    pub(crate) counted_outputs: CountedOutputs,
    /// The largest output that each model writes, as its refusals state.
    pub(crate) output_caps: OutputCaps,
    keys: LockedCache<String, RecordKey, MODELS_PER_CALLER>,
    pub(crate) scope: Scope,
    /// The key that queried `reported_windows`. Only those of the caller's own key are published.
    query_key: QueryKey,
    /// Nothing of a caller that is not among them is published to the store.
    accepted: Arc<AcceptedCallers>,
}

/// The key that a caller's window queries are sent with.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum QueryKey {
    /// The caller's own credentials.
    Caller,
    /// A key that longhaul holds.
    Longhaul,
}

impl LearnedByCaller {
    pub(crate) fn new(accepted: &Arc<AcceptedCallers>) -> Self {
        Self {
            by_caller: FairCache::of_entries(MAX_CALLERS, FORGET_AFTER, accepted),
            reported_to_own_key: Arc::new(ReportedWindows::shared()),
            accepted: Arc::clone(accepted),
            queries: QueriesInFlight::default(),
        }
    }

    /// Returns the learned facts of the caller with this scope; none for a new caller.
    pub(crate) fn of_caller(&self, scope: Scope, key: QueryKey) -> Arc<LearnedModels> {
        self.by_caller.get_or_insert_with((scope, key), || {
            Arc::new(LearnedModels {
                reported_windows: match key {
                    QueryKey::Caller => Arc::default(),
                    QueryKey::Longhaul => Arc::clone(&self.reported_to_own_key),
                },
                placements: SummaryPlacements::default(),
                windows: LearnedWindows::default(),
                refuted: RefutedSuspicions::default(),
                binding_models: BindingModels::default(),
                counted_outputs: CountedOutputs::default(),
                output_caps: OutputCaps::default(),
                keys: LockedCache::default(),
                scope,
                query_key: key,
                accepted: Arc::clone(&self.accepted),
            })
        })
    }

    /// Records that the upstream has accepted a chat of the caller with these facts, which counts against
    /// `owners`. From now on, other owners cannot evict the facts.
    pub(crate) fn record_answer(&self, learned: &Arc<LearnedModels>, owners: &Owners) {
        let scope = learned.scope;
        if !self.accepted.contains(scope.tag()) {
            self.accepted.insert(scope.tag(), owners);
            let key = (scope, learned.query_key);
            self.by_caller.insert(key, Arc::clone(learned));
        }
    }
}

/// A window that a refusal or the end of a reply revealed to one caller.
#[derive(Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct HeldWindow {
    pub(crate) model: String,
    /// Window in estimated tokens.
    pub(crate) tokens: u32,
    /// End in seconds since 1970; `None` if only a larger request ends the window.
    pub(crate) until: Option<u64>,
}

impl LearnedByCaller {
    /// Returns the learned windows of all callers, without the callers.
    pub(crate) fn held_windows(&self) -> Vec<HeldWindow> {
        let callers = self.by_caller.entries();
        let windows = callers.iter().flat_map(|(_, learned)| {
            let models = learned.windows.models().into_iter();
            models.filter_map(|model| learned.held_window(model))
        });
        windows.collect()
    }

    /// Drops the learned limits of `model` for all callers, and calls `publish` for each. Returns the windows
    /// dropped.
    pub(crate) fn forget(&self, model: &str, publish: impl Fn(&LearnedModels)) -> Vec<HeldWindow> {
        let forget = |learned: Arc<LearnedModels>| {
            let held = learned.held_window(model.to_owned());
            learned.windows.forget(model);
            publish(&learned);
            held
        };
        let callers = self.by_caller.entries().into_iter();
        callers.filter_map(|(_, learned)| forget(learned)).collect()
    }
}

impl LearnedModels {
    fn held_window(&self, model: String) -> Option<HeldWindow> {
        let learned = self.windows.sizes(&model).learned?;
        let window = learned.value?;
        let ends = window.truncates_to.is_none();
        Some(HeldWindow {
            model,
            tokens: window.window.get(),
            until: ends.then_some((learned.at + REFUSAL_TTL_MS) / 1_000),
        })
    }

    /// Returns the key under which the store keeps the facts about a model.
    pub(crate) fn key(&self, model: &str) -> RecordKey {
        if model.len() > MAX_KEYED_NAME_BYTES {
            return self.scope.named_key(model);
        }
        let known = self.keys.lock().get(model);
        known.unwrap_or_else(|| {
            let key = self.scope.named_key(model);
            self.keys.lock().insert(model.to_owned(), key);
            key
        })
    }

    /// Returns the expectation that the provider compacts conversations with a model. A failure refutes it.
    pub(crate) fn compaction_of(&self, model: &str) -> Suspicion {
        Suspicion::Compacts(self.key(model))
    }

    /// Returns the facts about a model, to publish to other processes. `None` if the upstream has
    /// accepted no chat of the caller.
    pub(crate) fn facts(&self, model: &str) -> Option<ModelFacts> {
        if !self.accepted.contains(self.scope.tag()) {
            return None;
        }
        let sizes = self.windows.sizes(model);
        let is_own = self.query_key == QueryKey::Caller;
        let reported = || self.reported_windows.timestamped_window(model);
        Some(ModelFacts {
            window: sizes.learned,
            token_ratio: sizes.published_ratio,
            reported_window: is_own.then(reported).flatten(),
            refusals: self.placements.refusals(model),
            accepted: sizes.published_accepted,
            request_limit: sizes.request_limit,
            counted_output: self.counted_outputs.newest(model),
            binds_thinking: self.binding_models.contains(model),
        })
    }

    /// Merges facts that another process has learned about a model.
    pub(crate) fn merge_remote(&self, model: &str, facts: ModelFacts) {
        self.windows.merge_remote(model, &facts);
        self.placements.merge_remote(model, facts.refusals);
        self.counted_outputs.merge_remote(model, facts.counted_output);
        if facts.binds_thinking {
            self.binding_models.insert(model);
        }
        if self.query_key == QueryKey::Caller {
            self.reported_windows.merge_remote(model, facts.reported_window);
        }
    }
}

/// Whether each model's provider refused thinking that an edit made stale, or accepted it: then the account does
/// not enforce the binding. A refusal overrides an acceptance.
#[derive(Default)]
pub(crate) struct BindingModels(LockedCache<String, bool, MODELS_PER_CALLER>);

impl BindingModels {
    pub(crate) fn contains(&self, model: &str) -> bool {
        self.0.lock().get(model) == Some(true)
    }

    /// Whether the provider has accepted stale thinking of `model`, and never refused any.
    pub(crate) fn accepts_stale(&self, model: &str) -> bool {
        self.0.lock().get(model) == Some(false)
    }

    pub(crate) fn record_accepted(&self, model: &str) {
        let mut models = self.0.lock();
        if models.get(model).is_none() {
            models.insert(model.to_owned(), false);
        }
    }

    /// Records that `model` binds thinking. Returns whether this was new.
    pub(crate) fn insert(&self, model: &str) -> bool {
        let mut models = self.0.lock();
        let is_new = models.get(model) != Some(true);
        models.insert(model.to_owned(), true);
        is_new
    }
}

#[cfg(test)]
mod binding_models_tests {
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

/// Suspicions of one caller for each cache generation. An upstream refuses in few wordings.
const SUSPICIONS_PER_CALLER: usize = 64;

/// Time for which a suspicion is not raised again, in milliseconds: an hour.
const REFUTED_FOR_MS: u64 = 60 * 60 * 1_000;

#[derive(Default)]
pub(crate) struct RefutedSuspicions {
    /// Time of the refutation in milliseconds since 1970.
    refuted_at: LockedCache<Suspicion, u64, SUSPICIONS_PER_CALLER>,
}

impl RefutedSuspicions {
    /// Records that a smaller request did not satisfy the refusal.
    pub(crate) fn record_refuted(&self, suspicion: Suspicion) {
        let now = wall_clock::unix_millis();
        self.refuted_at.lock().insert(suspicion, now);
    }

    /// Whether a suspicion was refuted within the last hour.
    pub(crate) fn is_refuted(&self, suspicion: Suspicion) -> bool {
        let at = self.refuted_at.lock().get(&suspicion);
        // A clock that was set back must not extend the hour.
        at.is_some_and(|at| wall_clock::unix_millis().abs_diff(at) < REFUTED_FOR_MS)
    }
}

#[cfg(test)]
mod refuted_suspicions_tests {
    use super::*;

    #[test]
    fn a_refuted_suspicion_is_not_raised_for_an_hour() {
        let suspicions = RefutedSuspicions::default();
        let refuted = Suspicion::Words(1);
        suspicions.record_refuted(refuted);
        assert!(suspicions.is_refuted(refuted));
        assert!(!suspicions.is_refuted(Suspicion::Words(2)));
        assert!(!suspicions.is_refuted(Suspicion::ByteLimit));
        let now = wall_clock::unix_millis();
        for (at, expect) in [
            (now - REFUTED_FOR_MS, false),
            (now + REFUTED_FOR_MS + 1_000, false),
            (now - REFUTED_FOR_MS / 2, true),
        ] {
            suspicions.refuted_at.lock().insert(refuted, at);
            assert_eq!(suspicions.is_refuted(refuted), expect, "{at}");
        }
    }
}

/// Numbers of a request that was refused for its output.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountedOutput {
    /// The window, in the upstream's tokens.
    pub(crate) limit: Tokens,
    /// Size of the prompt; `None` if the upstream did not count all of it.
    pub(crate) sample: Option<CountSample>,
}

/// The newest refusal of an output by each model of one caller.
pub(crate) type CountedOutputs = NewestRefusals<CountedOutput>;

/// Caps on the output of one caller's models, as refusals state them. Nothing of them is published.
pub(crate) type OutputCaps = NewestRefusals<Tokens>;

/// Statement of the newest refusal of each model of one caller, kept for a day.
pub(crate) struct NewestRefusals<T>(LockedCache<String, Timestamped<T>, MODELS_PER_CALLER>);

impl<T: Copy> Default for NewestRefusals<T> {
    fn default() -> Self {
        Self(LockedCache::default())
    }
}

impl<T: Copy + Ord> NewestRefusals<T> {
    /// Returns the newest refusal of `model`, to publish to other processes; `None` if the model refused no
    /// output within the last day.
    pub(crate) fn newest(&self, model: &str) -> Option<Timestamped<T>> {
        self.0.lock().get(model).filter(is_current)
    }

    pub(crate) fn record(&self, model: &str, refusal: T) {
        let mut refusals = self.0.lock();
        let before = refusals.get(model).filter(is_current);
        let refusal = Timestamped::superseding(before, wall_clock::unix_millis(), refusal);
        refusals.insert(model.to_owned(), refusal);
    }

    /// Merges a refusal that another process received, if any. The later one prevails.
    pub(crate) fn merge_remote(&self, model: &str, remote: Option<Timestamped<T>>) {
        let Some(remote) = remote.filter(is_current) else {
            return;
        };
        let mut refusals = self.0.lock();
        if refusals.get(model).filter(is_current) < Some(remote) {
            refusals.insert(model.to_owned(), remote);
        }
    }
}

/// Whether a refusal is as new as one that a window was learned from. A gateway may send later requests to
/// another server.
fn is_current<T>(refusal: &Timestamped<T>) -> bool {
    is_within(refusal, REFUSAL_TTL_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::windows::accepted_sizes::RequestSize;
    use longhaul_core::units::tokens::Tokens;

    fn scope(name: &str) -> Scope {
        Scope::new(&[0; 32], &[name.as_bytes()])
    }

    fn owner(name: &str) -> Owners {
        Owners::of_tags(&[scope(name).tag()])
    }

    #[test]
    fn publishes_only_the_facts_of_callers_that_were_answered() {
        let learned = LearnedByCaller::new(&Arc::default());
        let caller = learned.of_caller(scope("a"), QueryKey::Caller);
        let size = RequestSize { tokens: Tokens::new(100), tools: Tokens::ZERO };
        caller.windows.record_accepted("m", size);
        assert_eq!(caller.facts("m"), None);
        learned.record_answer(&caller, &owner("a"));
        let again = learned.of_caller(scope("a"), QueryKey::Caller);
        let accepted = again.facts("m").unwrap().accepted.unwrap();
        assert_eq!(accepted.value, Tokens::new(100));
        let other = learned.of_caller(scope("b"), QueryKey::Caller);
        let sizes = other.windows.sizes("m");
        assert_eq!(sizes.largest_accepted, Tokens::ZERO);
    }

    #[test]
    fn other_callers_evict_no_knowledge_of_one_that_was_answered_once() {
        let learned = LearnedByCaller::new(&Arc::default());
        let of = |name: &str| learned.of_caller(scope(name), QueryKey::Caller);
        let once = of("once");
        learned.record_answer(&once, &owner("once"));
        for invented in 0..3 * MAX_CALLERS {
            of(&format!("invented {invented}"));
        }
        for answered in 0..2 * MAX_CALLERS {
            let name = format!("answered {answered}");
            learned.record_answer(&of(&name), &owner(&name));
        }
        assert!(Arc::ptr_eq(&once, &of("once")));
    }

    #[test]
    fn only_windows_reported_to_longhauls_own_key_are_shared() {
        let learned = LearnedByCaller::new(&Arc::default());
        let of = |name, key| learned.of_caller(scope(name), key).reported_windows.clone();
        let [a, b] = ["a", "b"].map(|name| of(name, QueryKey::Longhaul));
        assert!(Arc::ptr_eq(&a, &b));
        let [c, d] = ["c", "d"].map(|name| of(name, QueryKey::Caller));
        assert!(!Arc::ptr_eq(&c, &d) && !Arc::ptr_eq(&a, &c));
        // A caller that was first seen under longhaul's key, which a reload then removed.
        assert!(!Arc::ptr_eq(&a, &of("a", QueryKey::Caller)));
    }
}

#[cfg(test)]
mod counted_outputs_tests {
    use super::*;

    fn refusal(limit: u32) -> CountedOutput {
        CountedOutput { limit: Tokens::new(limit), sample: None }
    }

    fn stamped(at: u64, limit: u32) -> Timestamped<CountedOutput> {
        Timestamped::superseding(None, at, refusal(limit))
    }

    #[test]
    fn the_later_refusal_of_two_processes_prevails_until_it_expires() {
        let outputs = CountedOutputs::default();
        let newest = || outputs.newest("m").map(|refusal| refusal.value.limit.get());
        let now = wall_clock::unix_millis();
        outputs.merge_remote("m", Some(stamped(now - REFUSAL_TTL_MS - 1, 1)));
        outputs.merge_remote("m", Some(stamped(now + 2 * REFUSAL_TTL_MS, 2)));
        assert_eq!(newest(), None, "expired, and stamped by a fast clock");
        outputs.merge_remote("m", Some(stamped(now - 10, 3)));
        outputs.merge_remote("m", Some(stamped(now - 20, 4)));
        assert_eq!(newest(), Some(3));
        outputs.record("m", refusal(5));
        outputs.merge_remote("m", Some(stamped(now - 10, 3)));
        outputs.merge_remote("m", None);
        assert_eq!(newest(), Some(5));
        assert_eq!(outputs.newest("other"), None);
    }
}
