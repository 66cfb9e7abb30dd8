//! Memory in front of a durable store that replicas share: which side wins, and how long calls
//! take.

use tokio::time::{Instant, advance};

use super::*;
use crate::metrics::DurableStoreOutcome;
use crate::store::RewriteTolerance;
use crate::store::durable::StoredEntry;
use crate::store::tests::scripted::{MAX_FIELDS, ScriptedReply, ScriptedStore};
use crate::store::tiered::WRITE_TIMEOUT;
use longhaul_core::units::scope::Scope;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::Timestamped;

/// Replicas that share one durable store.
struct Fleet {
    far: ScriptedStore,
    metrics: Arc<Metrics>,
}

impl Fleet {
    fn new() -> Self {
        Self { far: ScriptedStore::new(), metrics: Arc::default() }
    }

    /// Creates another replica, with empty memory.
    fn replica(&self) -> Store {
        self.replica_with(7)
    }

    fn replica_with(&self, secret: u8) -> Store {
        self.replica_that_waits(secret, READ)
    }

    fn replica_that_waits(&self, secret: u8, wait: Duration) -> Store {
        let far = Some((DurableStore::Scripted(self.far.clone()), wait));
        Store::from_parts(
            (ROOM, WEEK),
            far,
            Secret::from_bytes([secret; 32]),
            &self.metrics,
            &Arc::default(),
        )
    }

    fn answers(&self, answers: ScriptedReply) {
        self.far.script().answers = answers;
    }

    fn entry(&self, key: RecordKey) -> StoredEntry {
        self.far.script().entries[&key].0.clone()
    }

    fn counted(&self, how: DurableStoreOutcome) -> u64 {
        let mut counts = self.metrics.durable_store.iter();
        counts.find(|(label, _)| *label == how).unwrap().1
    }
}

fn model() -> RecordKey {
    Scope::new(&[0; 32], &[]).named_key("m")
}

/// Checks a replica's records of a conversation after a refresh.
async fn check_asked(
    store: &Store,
    prefix_keys: &PrefixKeys,
    adopted: Option<(usize, &str)>,
    ready: Option<(usize, &str)>,
) {
    store.refresh(prefix_keys, model).await;
    check(store, prefix_keys, adopted, ready);
}

async fn settled(store: &Store) {
    store.tiered.as_ref().unwrap().queue.flush().await;
}

#[tokio::test]
async fn every_replica_sees_what_one_replica_stores() {
    let fleet = Fleet::new();
    let (one, other) = (fleet.replica(), fleet.replica());
    let prefix_keys = prefix_keys(&["a", "b", "c"]);
    let counted = CountedRequest {
        sample: longhaul_core::window::token_ratio::CountSample::new(Tokens::new(10), 20).unwrap(),
        average_ratio: None,
    };
    one.store_record(key(&prefix_keys, 2), record("two")).await;
    check_asked(&other, &prefix_keys, None, Some((2, "two"))).await;
    one.adopt(key(&prefix_keys, 2), record("two"));
    one.mark_seen(key(&prefix_keys, 1));
    one.record_rewrite_refusal(key(&prefix_keys, 3), "n");
    one.record_count(key(&prefix_keys, 3), "m", counted);
    settled(&one).await;
    assert_eq!(other.rewrite_tolerance(&prefix_keys), RewriteTolerance::All);
    check_asked(&other, &prefix_keys, Some((2, "two")), None).await;
    assert!(other.prior_records(&prefix_keys).seen);
    // The model that refused is not shared.
    assert_eq!(other.rewrite_tolerance(&prefix_keys), RewriteTolerance::Nothing);
    one.refresh(&prefix_keys, model).await;
    assert_eq!(one.rewrite_tolerance(&prefix_keys), RewriteTolerance::All, "it was another model");
    assert_eq!(other.last_count(&prefix_keys, "m"), Some(counted));
    assert_eq!(other.last_count(&prefix_keys, "n"), None);
}

#[tokio::test]
async fn latest_rewrite_observation_counts_from_its_prefix_on() {
    let one = Fleet::new().replica();
    let [early, taken, late] =
        [&["a", "b"][..], &["a", "b", "c", "d", "e"], &["a", "b", "c", "d", "e", "f", "g"]]
            .map(prefix_keys);
    let shown = || [&early, &taken, &late].map(|prefix_keys| one.rewrite_tolerance(prefix_keys));
    one.record_rewrite_refusal(key(&early, 1), "");
    assert_eq!(shown(), [RewriteTolerance::Nothing; 3]);
    one.record_rewrite_acceptance(&taken, RewriteTolerance::ClearingOnly);
    assert_eq!(
        shown(),
        [RewriteTolerance::Nothing, RewriteTolerance::ClearingOnly, RewriteTolerance::ClearingOnly]
    );
    one.record_rewrite_acceptance(&taken, RewriteTolerance::All);
    assert_eq!(shown(), [RewriteTolerance::Nothing, RewriteTolerance::All, RewriteTolerance::All]);
    one.record_rewrite_refusal(key(&late, 6), "");
    assert_eq!(
        shown(),
        [RewriteTolerance::Nothing, RewriteTolerance::All, RewriteTolerance::Nothing]
    );
    // The latest acceptance at a prefix counts there.
    one.record_rewrite_acceptance(&late, RewriteTolerance::ClearingOnly);
    assert_eq!(
        shown(),
        [RewriteTolerance::Nothing, RewriteTolerance::All, RewriteTolerance::ClearingOnly]
    );
    one.record_rewrite_refusal(key(&late, 6), "");
    assert_eq!(
        shown(),
        [RewriteTolerance::Nothing, RewriteTolerance::All, RewriteTolerance::Nothing]
    );
}

#[tokio::test]
async fn of_two_replicas_the_first_writer_wins_on_both() {
    let fleet = Fleet::new();
    let (one, other) = (fleet.replica(), fleet.replica());
    let prefix_keys = prefix_keys(&["a", "b"]);
    one.store_record(key(&prefix_keys, 2), record("first")).await;
    other.store_record(key(&prefix_keys, 2), record("second")).await;
    check(&other, &prefix_keys, None, Some((2, "first")));
    other.adopt(key(&prefix_keys, 2), record("third"));
    settled(&other).await;
    check_asked(&one, &prefix_keys, Some((2, "first")), None).await;
}

#[tokio::test(start_paused = true)]
async fn durable_store_settles_records_kept_during_an_outage() {
    let fleet = Fleet::new();
    let (one, other) = (fleet.replica(), fleet.replica());
    let prefix_keys = prefix_keys(&["a", "b", "c", "d"]);
    fleet.answers(ScriptedReply::Fails);
    for at in [2, 4] {
        one.adopt(key(&prefix_keys, at), record("one"));
    }
    settled(&one).await;
    check(&one, &prefix_keys, Some((4, "one")), None);
    fleet.answers(ScriptedReply::AtOnce);
    other.store_record(key(&prefix_keys, 4), record("other")).await;
    // The durable store has another's record at one prefix, and no record at the other.
    check_asked(&one, &prefix_keys, Some((4, "other")), None).await;
    settled(&one).await;
    assert!(fleet.entry(key(&prefix_keys, 4)).adopted);
    check_asked(&fleet.replica(), &prefix_keys, Some((4, "other")), None).await;
    let shorter = tests::prefix_keys(&["a", "b", "c"]);
    check_asked(&one, &shorter, Some((2, "one")), None).await;
    settled(&one).await;
    check_asked(&fleet.replica(), &shorter, Some((2, "one")), None).await;
}

#[tokio::test]
async fn other_replicas_records_are_found_despite_a_renewed_record() {
    let fleet = Fleet::new();
    let (one, other) = (fleet.replica(), fleet.replica());
    let prefix_keys = prefix_keys(&["x"; 400]);
    one.adopt(key(&prefix_keys, 10), record("one"));
    let known = one.prior_records(&prefix_keys);
    one.adopt(known.renewal.unwrap(), record("one").renewed_at(10));
    settled(&one).await;
    check_asked(&other, &prefix_keys, Some((10, "one")), None).await;
    other.adopt(key(&prefix_keys, 350), record("two"));
    settled(&other).await;
    check_asked(&one, &prefix_keys, Some((350, "two")), None).await;
}

#[tokio::test]
async fn durable_store_that_lost_its_data_is_refilled() {
    let fleet = Fleet::new();
    let one = fleet.replica();
    let prefix_keys = prefix_keys(&["a", "b"]);
    one.adopt(key(&prefix_keys, 2), record("one"));
    one.record_rewrite_refusal(key(&prefix_keys, 1), "m");
    settled(&one).await;
    fleet.far.script().entries.clear();
    check_asked(&one, &prefix_keys, Some((2, "one")), None).await;
    settled(&one).await;
    let other = fleet.replica();
    check_asked(&other, &prefix_keys, Some((2, "one")), None).await;
}

#[tokio::test(start_paused = true)]
async fn reads_extend_the_expiry_and_replicas_restore_lost_entries() {
    let fleet = Fleet::new();
    fleet.far.script().ttl = Duration::from_hours(2);
    let one = fleet.replica();
    let prefix_keys = prefix_keys(&["a", "b"]);
    one.adopt(key(&prefix_keys, 2), record("one"));
    settled(&one).await;
    for _ in 0..3 {
        advance(Duration::from_hours(1)).await;
        check_asked(&fleet.replica(), &prefix_keys, Some((2, "one")), None).await;
    }
    advance(Duration::from_hours(3)).await;
    check_asked(&fleet.replica(), &prefix_keys, None, None).await;
    check_asked(&one, &prefix_keys, Some((2, "one")), None).await;
    settled(&one).await;
    check_asked(&fleet.replica(), &prefix_keys, Some((2, "one")), None).await;
}

#[tokio::test]
async fn entry_full_of_notes_still_accepts_other_changes() {
    let fleet = Fleet::new();
    let (one, other) = (fleet.replica(), fleet.replica());
    let prefix_keys = prefix_keys(&["a", "b"]);
    let counted = |tokens| CountedRequest {
        sample: longhaul_core::window::token_ratio::CountSample::new(Tokens::new(tokens), 20)
            .unwrap(),
        average_ratio: None,
    };
    let models: Vec<String> = (0..=MAX_FIELDS).map(|at| format!("model {at}")).collect();
    for model in &models {
        one.record_count(key(&prefix_keys, 2), model, counted(10));
        settled(&one).await;
    }
    one.record_count(key(&prefix_keys, 2), &models[0], counted(11));
    one.adopt(key(&prefix_keys, 2), record("one"));
    settled(&one).await;
    check_asked(&other, &prefix_keys, Some((2, "one")), None).await;
    let last = |model: &String| other.last_count(&prefix_keys, model);
    assert_eq!(last(&models[0]), Some(counted(11)), "in place of the first");
    assert_eq!(last(&models[MAX_FIELDS]), None, "one too many");
}

#[tokio::test]
async fn refresh_reads_only_entries_that_may_have_changed() {
    let fleet = Fleet::new();
    let (one, other) = (fleet.replica(), fleet.replica());
    let prefix_keys = prefix_keys(&["a", "b", "c", "d", "e"]);
    let read = || fleet.far.script().reads.drain(..).collect::<Vec<_>>();
    let keys = |from: usize| -> Vec<RecordKey> {
        let prefixes = (from..=5).rev().map(|at| key(&prefix_keys, at));
        prefixes.chain(prefix_keys.kept_keys()).collect()
    };
    one.refresh(&prefix_keys, model).await;
    assert_eq!(read(), [keys(1), vec![model()]]);
    one.adopt(key(&prefix_keys, 3), record("three"));
    one.store_record(key(&prefix_keys, 4), record("four")).await;
    settled(&one).await;
    one.refresh(&prefix_keys, model).await;
    assert_eq!(read(), [keys(3), vec![model()]]);
    // A record that another replica has adopted since is found, because no newer prefix is skipped.
    other.adopt(key(&prefix_keys, 4), record("other's"));
    settled(&other).await;
    check_asked(&one, &prefix_keys, Some((4, "four")), None).await;
}

#[tokio::test(start_paused = true)]
async fn hanging_store_costs_50_ms_per_read_and_nothing_after_three() {
    let fleet = Fleet::new();
    let one = fleet.replica();
    let prefix_keys = prefix_keys(&["a", "b"]);
    one.memory.adopt(key(&prefix_keys, 2), record("near"));
    for answers in [ScriptedReply::Never, ScriptedReply::Late(READ + Duration::from_millis(1))] {
        fleet.answers(answers);
        for took in [READ, READ, READ, Duration::ZERO, Duration::ZERO] {
            let began = Instant::now();
            check_asked(&one, &prefix_keys, Some((2, "near")), None).await;
            assert_eq!(began.elapsed(), took, "{answers:?}");
        }
        let asked = fleet.far.script().reads.len();
        one.adopt(key(&prefix_keys, 1), record("dropped"));
        settled(&one).await;
        assert_eq!(fleet.far.script().reads.len(), asked);
        // The store recovers, and is used again after the pause.
        fleet.answers(ScriptedReply::AtOnce);
        advance(Duration::from_secs(1)).await;
        one.refresh(&prefix_keys, model).await;
        assert!(fleet.far.script().reads.len() > asked);
        settled(&one).await;
        assert!(fleet.entry(key(&prefix_keys, 2)).record.is_some());
    }
    assert_eq!(fleet.counted(DurableStoreOutcome::Late), 6);
}

#[tokio::test(start_paused = true)]
async fn flush_stops_waiting_for_an_unavailable_store_after_two_turns() {
    let fleet = Fleet::new();
    let one = fleet.replica();
    fleet.answers(ScriptedReply::Never);
    let facts = ModelFacts {
        window: Some(Timestamped::superseding(None, 1, None)),
        ..ModelFacts::default()
    };
    for turn in 0..100 {
        let prefix_keys = prefix_keys(&["a", &format!("{turn}")]);
        one.refresh(&prefix_keys, model).await;
        // The call that probes the store may be the queue's, for which other jobs wait.
        one.tiered.as_ref().unwrap().publish_model_facts(model(), facts);
        one.adopt(key(&prefix_keys, 2), record("one"));
        let began = Instant::now();
        one.flush().await;
        let took = if turn < 2 { READ } else { Duration::ZERO };
        assert_eq!(began.elapsed(), took, "{turn}");
        advance(READ).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_has_as_long_as_a_request_waits() {
    for (wait, kept) in [(READ, false), (WRITE_TIMEOUT * 4, true)] {
        let fleet = Fleet::new();
        let one = fleet.replica_that_waits(7, wait);
        let prefix_keys = prefix_keys(&["a"]);
        fleet.answers(ScriptedReply::Late(WRITE_TIMEOUT * 2));
        one.mark_seen(key(&prefix_keys, 1));
        one.close().await;
        assert_eq!(fleet.counted(DurableStoreOutcome::Answered) > 0, kept);
    }
}

#[tokio::test(start_paused = true)]
async fn queued_writes_are_bounded_while_the_store_hangs() {
    let fleet = Fleet::new();
    let one = fleet.replica();
    let prefix_keys = prefix_keys(&["a"]);
    fleet.answers(ScriptedReply::Never);
    for _ in 0..5_000 {
        one.mark_seen(key(&prefix_keys, 1));
    }
    assert!(fleet.counted(DurableStoreOutcome::Dropped) >= 5_000 - 2 * 1_024);
    let began = Instant::now();
    one.close().await;
    assert!(began.elapsed() <= WRITE_TIMEOUT);
}

#[tokio::test]
async fn queued_writes_finish_before_close_returns() {
    let fleet = Fleet::new();
    let one = fleet.replica();
    let prefix_keys = prefix_keys(&["a", "b"]);
    one.store_record(key(&prefix_keys, 2), record("two")).await;
    one.adopt(key(&prefix_keys, 2), record("two"));
    one.close().await;
    assert!(fleet.entry(key(&prefix_keys, 2)).adopted);
}

#[tokio::test]
async fn unreadable_record_is_a_miss_and_is_discarded() {
    let fleet = Fleet::new();
    let one = fleet.replica();
    let prefix_keys = prefix_keys(&["a", "b"]);
    // A record sealed with another secret is as unreadable as a damaged one.
    fleet.replica_with(8).store_record(key(&prefix_keys, 2), record("foreign")).await;
    check_asked(&one, &prefix_keys, None, None).await;
    settled(&one).await;
    assert_eq!(fleet.entry(key(&prefix_keys, 2)).record, None);
    assert_eq!(fleet.counted(DurableStoreOutcome::Unreadable), 1);
    one.store_record(key(&prefix_keys, 2), record("own")).await;
    check_asked(&fleet.replica(), &prefix_keys, None, Some((2, "own"))).await;
}

#[tokio::test]
async fn own_record_replaces_an_unreadable_one() {
    let fleet = Fleet::new();
    let one = fleet.replica();
    let prefix_keys = prefix_keys(&["a", "b"]);
    let foreign = fleet.replica_with(8);
    foreign.store_record(key(&prefix_keys, 2), record("foreign")).await;
    one.memory.adopt(key(&prefix_keys, 2), record("own"));
    check_asked(&one, &prefix_keys, Some((2, "own")), None).await;
    settled(&one).await;
    check_asked(&fleet.replica(), &prefix_keys, Some((2, "own")), None).await;
}

#[tokio::test]
async fn durable_records_are_invisible_to_another_caller() {
    let fleet = Fleet::new();
    let mine = chains_of(1, &["a", "b"]);
    let one = fleet.replica();
    one.adopt(key(&mine, 2), record("mine"));
    settled(&one).await;
    check_asked(&fleet.replica(), &chains_of(2, &["a", "b"]), None, None).await;
    check_asked(&fleet.replica(), &mine, Some((2, "mine")), None).await;
}

#[tokio::test]
async fn memory_store_without_a_durable_tier_starts_no_task() {
    let store = memory(ROOM);
    let prefix_keys = prefix_keys(&["a", "b"]);
    store.store_record(key(&prefix_keys, 2), record("two")).await;
    store.adopt(key(&prefix_keys, 1), record("one"));
    store.mark_seen(key(&prefix_keys, 1));
    store.flush().await;
    store.close().await;
    assert_eq!(store.refresh(&prefix_keys, model).await, None);
    check(&store, &prefix_keys, Some((1, "one")), Some((2, "two")));
    let tasks = tokio::runtime::Handle::current().metrics();
    assert_eq!(tasks.num_alive_tasks(), 0);
}
