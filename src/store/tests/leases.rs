//! Replicas make one summary for a key.

use tokio::time::Instant;

use super::*;
use crate::store::lease::LEASE_TTL;
use crate::store::tests::scripted::{ScriptedReply, ScriptedStore};

fn replica(far: &ScriptedStore) -> Store {
    let far = Some((DurableStore::Scripted(far.clone()), READ));
    Store::from_parts(
        (ROOM, WEEK),
        far,
        Secret::from_bytes([7; 32]),
        &Arc::default(),
        &Arc::default(),
    )
}

/// Whether this process gets the lease; otherwise another has made the summary.
async fn is_ours(store: &Store, key: RecordKey) -> bool {
    matches!(store.acquire_summary_lease(key).await, LeaseOutcome::Acquired(_))
}

#[tokio::test(start_paused = true)]
async fn process_that_finds_the_lease_taken_waits_for_the_record() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    let prefix_keys = prefix_keys(&["a", "b"]);
    let key = key(&prefix_keys, 2);
    let LeaseOutcome::Acquired(turn) = one.acquire_summary_lease(key).await else {
        panic!("the lease was free");
    };
    let write = async {
        // Longer than a lease lasts, so it must be renewed.
        turn.renew_during(tokio::time::sleep(LEASE_TTL * 3)).await;
        one.store_record(key, record("one")).await;
        drop(turn);
    };
    let ((), ours) = tokio::join!(write, is_ours(&other, key));
    assert!(!ours);
    check(&other, &prefix_keys, None, Some((2, "one")));
}

#[tokio::test(start_paused = true)]
async fn dead_lease_holder_delays_others_by_one_lease() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    let key = key(&prefix_keys(&["a"]), 1);
    // Killed: the holder neither renews nor releases its lease.
    std::mem::forget(one.acquire_summary_lease(key).await);
    let began = Instant::now();
    assert!(is_ours(&other, key).await);
    let took = began.elapsed();
    assert!(took >= LEASE_TTL && took <= LEASE_TTL + Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn lease_released_without_a_record_is_free_at_once() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    let key = key(&prefix_keys(&["a"]), 1);
    drop(one.acquire_summary_lease(key).await);
    one.tiered.as_ref().unwrap().queue.flush().await;
    let began = Instant::now();
    assert!(is_ours(&other, key).await);
    assert!(began.elapsed() < Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn record_stored_in_the_meantime_is_not_made_again() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    let prefix_keys = prefix_keys(&["a", "b"]);
    one.store_record(key(&prefix_keys, 2), record("one")).await;
    assert!(!is_ours(&other, key(&prefix_keys, 2)).await);
    check(&other, &prefix_keys, None, Some((2, "one")));
}

#[tokio::test(start_paused = true)]
async fn each_process_proceeds_alone_without_the_durable_store() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    let key = key(&prefix_keys(&["a"]), 1);
    for answers in [ScriptedReply::Fails, ScriptedReply::Never] {
        far.script().answers = answers;
        let began = Instant::now();
        let (first, second) =
            (one.acquire_summary_lease(key).await, other.acquire_summary_lease(key).await);
        let both =
            matches!((first, second), (LeaseOutcome::Acquired(_), LeaseOutcome::Acquired(_)));
        assert!(both && began.elapsed() <= READ * 2, "{answers:?}");
    }
    assert!(is_ours(&memory(ROOM), key).await);
}

#[tokio::test(start_paused = true)]
async fn lease_held_forever_is_not_waited_for_forever() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    let key = key(&prefix_keys(&["a"]), 1);
    let LeaseOutcome::Acquired(turn) = one.acquire_summary_lease(key).await else {
        panic!("the lease was free");
    };
    tokio::select! {
        () = turn.renew_during(std::future::pending()) => unreachable!(),
        ours = is_ours(&other, key) => assert!(!ours),
    }
}
