//! What processes behind one far tier learn of a model, apart and at once.

use super::*;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::count::Density;
use crate::rewrite::window::lesson::{Holds, Lesson};
use crate::store::far::{Entry, NoteName};
use crate::store::scripted::{Answers, Scripted};

fn replica(far: &Scripted) -> Store {
    let tier = Some((Far::Scripted(far.clone()), READ));
    Store::with(ROOM, WEEK, tier, Secret::of([7; 32]), &Arc::default())
}

fn model() -> RecordKey {
    Scope::new(&[0; 32], &[]).key_of("m")
}

fn window(at: u64, tokens: Option<u32>) -> Lore {
    let holds = tokens.map(|tokens| Holds::at_most(Tokens::new(tokens)));
    Lore {
        window: Some(Lesson::over(None, at, holds)),
        ..Lore::default()
    }
}

fn density(at: u64) -> Lore {
    let density = Density::of(Tokens::new(3), Tokens::new(2));
    Lore {
        density: Some(Lesson::over(None, at, density)),
        ..Lore::default()
    }
}

async fn learns(store: &Store, lore: Lore) {
    store.learned(model, || lore);
    store.tier.as_ref().unwrap().queue.flush().await;
}

/// What a process knows once it has asked.
async fn asked(store: &Store) -> Lore {
    let known = store.refresh(&chains(&["a"]), model).await.unwrap();
    store.tier.as_ref().unwrap().queue.flush().await;
    known
}

#[tokio::test]
async fn what_one_learns_every_other_hears_and_what_is_known_is_not_written_again() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    learns(&one, Lore::default()).await;
    assert_eq!(far.script().writes, 0, "nothing was learned");
    let lore = window(1, Some(8_000));
    learns(&one, lore).await;
    assert_eq!(far.script().writes, 1);
    assert_eq!(asked(&other).await, lore);
    learns(&other, lore).await;
    assert_eq!((asked(&one).await, asked(&other).await), (lore, lore));
    assert_eq!(far.script().writes, 1);
}

#[tokio::test]
async fn who_could_not_hear_of_a_window_does_not_erase_it() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    learns(&one, window(1, Some(8_000))).await;
    far.script().answers = Answers::Fails;
    assert_eq!(asked(&other).await, Lore::default());
    far.script().answers = Answers::AtOnce;
    learns(&other, density(2)).await;
    let both = window(1, Some(8_000)).merge(density(2));
    for store in [&one, &other, &replica(&far)] {
        assert_eq!(asked(store).await, both);
    }
}

#[tokio::test]
async fn what_could_not_be_told_is_told_when_the_model_is_asked_for_next() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    learns(&one, window(1, Some(8_000))).await;
    far.script().answers = Answers::Fails;
    learns(&other, density(2)).await;
    far.script().answers = Answers::AtOnce;
    let both = window(1, Some(8_000)).merge(density(2));
    assert_eq!(asked(&other).await, both);
    assert_eq!(asked(&replica(&far)).await, both);
}

#[tokio::test]
async fn what_a_tier_has_lost_it_gets_back() {
    let far = Scripted::new();
    let one = replica(&far);
    learns(&one, window(1, Some(8_000))).await;
    far.script().entries.clear();
    asked(&one).await;
    assert_eq!(asked(&replica(&far)).await, window(1, Some(8_000)));
}

#[tokio::test]
async fn a_window_found_wrong_by_one_is_forgotten_by_all() {
    let far = Scripted::new();
    let (one, other) = (replica(&far), replica(&far));
    learns(&one, window(1, Some(8_000))).await;
    learns(&other, window(2, None)).await;
    learns(&one, window(1, Some(8_000))).await;
    assert_eq!(asked(&one).await, window(2, None));
}

#[tokio::test]
async fn what_was_learned_under_a_clock_that_ran_ahead_gives_way_to_what_is_learned_now() {
    let far = Scripted::new();
    let one = replica(&far);
    let now = crate::wall_clock::millis();
    let ahead = window(now + 1_000_000_000_000, Some(8_000));
    let sealed = one.seal.close(model(), &ahead).unwrap();
    let entry = Entry {
        notes: vec![(NoteName(*b"\0learned"), sealed)],
        ..Entry::default()
    };
    far.script()
        .entries
        .insert(model(), (entry, tokio::time::Instant::now()));
    assert_eq!(asked(&one).await, Lore::default());
    learns(&one, window(now, Some(9_000))).await;
    for store in [&one, &replica(&far)] {
        assert_eq!(asked(store).await, window(now, Some(9_000)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tier_of_one_process_is_read_until_it_has_answered_and_then_no_more() {
    let far = Scripted::new();
    far.script().is_shared = false;
    learns(&replica(&far), window(1, Some(8_000))).await;
    let restarted = replica(&far);
    far.script().answers = Answers::Late(READ * 2);
    assert_eq!(asked(&restarted).await, Lore::default());
    far.script().answers = Answers::AtOnce;
    learns(&restarted, density(2)).await;
    let both = window(1, Some(8_000)).merge(density(2));
    assert_eq!(asked(&restarted).await, both);
    let reads = || {
        far.script()
            .reads
            .iter()
            .flatten()
            .filter(|key| **key == model())
            .count()
    };
    let before = reads();
    assert_eq!(asked(&restarted).await, both);
    assert_eq!(reads(), before);
    assert_eq!(asked(&replica(&far)).await, both);
}
