//! One summary for a key across replicas.

use tokio::time::Instant;

use super::*;
use crate::store::lease::LEASE;
use crate::store::scripted::{Answers, Scripted};

fn replica(far: &Scripted) -> Store {
    let far = Some((Far::Scripted(far.clone()), READ));
    Store::with(ROOM, WEEK, far, Secret::of([7; 32]), &Arc::default())
}

/// Whether it is our turn, or somebody else has done it.
async fn is_ours(store: &Store, key: RecordKey) -> bool {
    matches!(store.turn(key).await, Turn::Ours(_))
}

#[tokio::test(start_paused = true)]
async fn who_finds_the_lease_taken_waits_for_the_record() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    let chains = chains(&["a", "b"]);
    let key = key(&chains, 2);
    let Turn::Ours(turn) = one.turn(key).await else {
        panic!("nobody had it");
    };
    let write = async {
        // Longer than a lease lasts: it is renewed.
        turn.during(tokio::time::sleep(LEASE * 3)).await;
        one.keep(key, record("one")).await;
        drop(turn);
    };
    let ((), ours) = tokio::join!(write, is_ours(&other, key));
    assert!(!ours);
    check(&other, &chains, None, Some((2, "one")));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_dies_costs_one_lease() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    let key = key(&chains(&["a"]), 1);
    // Killed: it neither renews nor gives back.
    std::mem::forget(one.turn(key).await);
    let began = Instant::now();
    assert!(is_ours(&other, key).await);
    let took = began.elapsed();
    assert!(
        took >= LEASE && took <= LEASE + Duration::from_secs(1),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_ends_without_a_record_is_the_next_ones() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    let key = key(&chains(&["a"]), 1);
    drop(one.turn(key).await);
    one.tier.as_ref().unwrap().queue.flush().await;
    let began = Instant::now();
    assert!(is_ours(&other, key).await);
    assert!(began.elapsed() < Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_came_in_between_is_not_made_again() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    let chains = chains(&["a", "b"]);
    one.keep(key(&chains, 2), record("one")).await;
    assert!(!is_ours(&other, key(&chains, 2)).await);
    check(&other, &chains, None, Some((2, "one")));
}

#[tokio::test(start_paused = true)]
async fn without_the_far_tier_each_process_goes_on_alone() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    let key = key(&chains(&["a"]), 1);
    for answers in [Answers::Fails, Answers::Never] {
        far.script().answers = answers;
        let began = Instant::now();
        let (first, second) = (one.turn(key).await, other.turn(key).await);
        let both = matches!((first, second), (Turn::Ours(_), Turn::Ours(_)));
        assert!(both && began.elapsed() <= READ * 2, "{answers:?}");
    }
    assert!(is_ours(&memory(ROOM), key).await);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_held_for_ever_is_not_waited_for_for_ever() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    let key = key(&chains(&["a"]), 1);
    let Turn::Ours(turn) = one.turn(key).await else {
        panic!("nobody had it");
    };
    tokio::select! {
        () = turn.during(std::future::pending()) => unreachable!(),
        ours = is_ours(&other, key) => assert!(!ours),
    }
}
