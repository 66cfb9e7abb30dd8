//! Facts about a model that processes with one durable store learn apart and at once.

use super::*;
use crate::store::durable::{NoteName, StoredEntry};
use crate::store::tests::scripted::{ScriptedReply, ScriptedStore};
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::{LearnedWindow, Timestamped};
use longhaul_core::window::token_ratio::TokenRatio;

fn replica(far: &ScriptedStore) -> Store {
    let tier = Some((DurableStore::Scripted(far.clone()), READ));
    Store::from_parts(
        (ROOM, WEEK),
        tier,
        Secret::from_bytes([7; 32]),
        &Arc::default(),
        &Arc::default(),
    )
}

fn model() -> RecordKey {
    Scope::new(&[0; 32], &[]).named_key("m")
}

fn window(at: u64, tokens: Option<u32>) -> ModelFacts {
    let holds = tokens.map(|tokens| LearnedWindow::at_most(Tokens::new(tokens)));
    ModelFacts { window: Some(Timestamped::superseding(None, at, holds)), ..ModelFacts::default() }
}

fn token_ratio(at: u64) -> ModelFacts {
    let token_ratio = TokenRatio::from_counts(Tokens::new(3), Tokens::new(2));
    ModelFacts {
        token_ratio: Some(Timestamped::superseding(None, at, token_ratio)),
        ..ModelFacts::default()
    }
}

async fn learns(store: &Store, facts: ModelFacts) {
    store.tiered.as_ref().unwrap().publish_model_facts(model(), facts);
    store.tiered.as_ref().unwrap().queue.flush().await;
}

/// Returns the facts that a process has after a refresh.
async fn asked(store: &Store) -> ModelFacts {
    let known = store.refresh(&prefix_keys(&["a"]), model).await.unwrap();
    store.tiered.as_ref().unwrap().queue.flush().await;
    known
}

#[tokio::test]
async fn learned_facts_are_shared_and_known_ones_not_rewritten() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    learns(&one, ModelFacts::default()).await;
    assert_eq!(far.script().writes, 0, "nothing was learned");
    let facts = window(1, Some(8_000));
    learns(&one, facts).await;
    assert_eq!(far.script().writes, 1);
    assert_eq!(asked(&other).await, facts);
    learns(&other, facts).await;
    assert_eq!((asked(&one).await, asked(&other).await), (facts, facts));
    assert_eq!(far.script().writes, 1);
}

#[tokio::test]
async fn process_that_missed_a_window_does_not_erase_it() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    learns(&one, window(1, Some(8_000))).await;
    far.script().answers = ScriptedReply::Fails;
    assert_eq!(asked(&other).await, ModelFacts::default());
    far.script().answers = ScriptedReply::AtOnce;
    learns(&other, token_ratio(2)).await;
    let both = window(1, Some(8_000)).merge(token_ratio(2));
    for store in [&one, &other, &replica(&far)] {
        assert_eq!(asked(store).await, both);
    }
}

#[tokio::test]
async fn facts_that_failed_to_publish_are_published_at_the_next_refresh() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    learns(&one, window(1, Some(8_000))).await;
    far.script().answers = ScriptedReply::Fails;
    learns(&other, token_ratio(2)).await;
    far.script().answers = ScriptedReply::AtOnce;
    let both = window(1, Some(8_000)).merge(token_ratio(2));
    assert_eq!(asked(&other).await, both);
    assert_eq!(asked(&replica(&far)).await, both);
}

#[tokio::test]
async fn facts_lost_by_the_durable_store_are_restored() {
    let far = ScriptedStore::new();
    let one = replica(&far);
    learns(&one, window(1, Some(8_000))).await;
    far.script().entries.clear();
    asked(&one).await;
    assert_eq!(asked(&replica(&far)).await, window(1, Some(8_000)));
}

#[tokio::test]
async fn a_window_found_wrong_by_one_is_forgotten_by_all() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    learns(&one, window(1, Some(8_000))).await;
    learns(&other, window(2, None)).await;
    learns(&one, window(1, Some(8_000))).await;
    assert_eq!(asked(&one).await, window(2, None));
}

#[tokio::test]
async fn facts_from_a_fast_clock_yield_to_newly_learned_ones() {
    let far = ScriptedStore::new();
    let one = replica(&far);
    let now = crate::wall_clock::unix_millis();
    let ahead = window(now + 1_000_000_000_000, Some(8_000));
    let sealed = one.sealer.seal(model(), &ahead).unwrap();
    let entry =
        StoredEntry { notes: vec![(NoteName(*b"\0learned"), sealed)], ..StoredEntry::default() };
    far.script().entries.insert(model(), (entry, tokio::time::Instant::now()));
    assert_eq!(asked(&one).await, ModelFacts::default());
    learns(&one, window(now, Some(9_000))).await;
    for store in [&one, &replica(&far)] {
        assert_eq!(asked(store).await, window(now, Some(9_000)));
    }
}

#[tokio::test(start_paused = true)]
async fn unshared_store_is_read_until_it_answers_and_not_again() {
    let far = ScriptedStore::new();
    far.script().is_shared = false;
    learns(&replica(&far), window(1, Some(8_000))).await;
    let restarted = replica(&far);
    far.script().answers = ScriptedReply::Late(READ * 2);
    assert_eq!(asked(&restarted).await, ModelFacts::default());
    far.script().answers = ScriptedReply::AtOnce;
    learns(&restarted, token_ratio(2)).await;
    let both = window(1, Some(8_000)).merge(token_ratio(2));
    assert_eq!(asked(&restarted).await, both);
    let reads = || far.script().reads.iter().flatten().filter(|key| **key == model()).count();
    let before = reads();
    assert_eq!(asked(&restarted).await, both);
    assert_eq!(reads(), before);
    assert_eq!(asked(&replica(&far)).await, both);
}
