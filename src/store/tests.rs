//! Tests of the store: its records, their scopes and their limits.

use super::*;
use crate::learned::model_facts::ModelFacts;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::policy::record::RecordMatch;
use longhaul_core::units::scope::Scope;

mod discard;
mod kept_texts;
mod leases;
mod model_facts;
mod refused_writes;
mod removals;
pub(super) mod scripted;
mod tiers;

pub(crate) use discard::check_discard;

const ROOM: u64 = 1 << 20;
const READ: Duration = Duration::from_millis(50);
const WEEK: Duration = Duration::from_hours(7 * 24);

/// Creates a store in memory only.
fn memory(room: u64) -> Store {
    let secret = Secret::from_bytes([7; 32]);
    let accepted = Arc::new(AcceptedCallers::default());
    accepted.insert_alone(Scope::new(&[0; 32], &[]).tag());
    Store::from_parts((room, WEEK), None, secret, &Arc::default(), &accepted)
}

/// Returns the keys of a conversation whose roles alternate.
fn prefix_keys(said: &[&str]) -> PrefixKeys {
    chains_of(0, said)
}

fn chains_of(caller: u8, said: &[&str]) -> PrefixKeys {
    let messages: Vec<String> = said
        .iter()
        .zip(["user", "assistant"].iter().cycle())
        .map(|(text, role)| format!(r#"{{"role":"{role}","content":"{text}"}}"#))
        .collect();
    let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
    let scope = Scope::new(&[caller; 32], &[]);
    PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope)
}

impl Store {
    /// Updates memory with the stored entries of a conversation. Returns the known facts about the model;
    /// `None` without a durable store.
    async fn refresh(
        &self,
        prefix_keys: &PrefixKeys,
        model: impl FnOnce() -> RecordKey,
    ) -> Option<ModelFacts> {
        Some(self.tiered.as_ref()?.refresh(prefix_keys, model()).await)
    }
}

fn record(text: &str) -> CompactionRecord {
    CompactionRecord { text: Some(text.into()), ..CompactionRecord::default() }
}

fn key(prefix_keys: &PrefixKeys, messages: usize) -> RecordKey {
    prefix_keys.key_at(messages).unwrap()
}

/// Returns where a record was found, and its text.
fn said(found: Option<&RecordMatch>) -> Option<(usize, &str)> {
    found.map(|found| (found.prefix_end, found.record.text.as_deref().unwrap()))
}

#[track_caller]
fn check(
    store: &Store,
    prefix_keys: &PrefixKeys,
    adopted: Option<(usize, &str)>,
    ready: Option<(usize, &str)>,
) {
    let known = store.prior_records(prefix_keys);
    assert_eq!(said(known.adopted.as_ref()), adopted);
    assert_eq!(said(known.ready.as_ref()), ready);
}

#[test]
fn the_first_writer_wins() {
    let (store, prefix_keys) = (memory(ROOM), prefix_keys(&["a", "b"]));
    store.memory.insert_if_absent(key(&prefix_keys, 2), record("first"));
    store.memory.insert_if_absent(key(&prefix_keys, 2), record("second"));
    check(&store, &prefix_keys, None, Some((2, "first")));
    store.adopt(key(&prefix_keys, 2), record("third"));
    check(&store, &prefix_keys, Some((2, "first")), None);
}

#[test]
fn adopted_record_is_never_replaced() {
    let (store, prefix_keys) = (memory(ROOM), prefix_keys(&["a", "b"]));
    store.adopt(key(&prefix_keys, 2), record("first"));
    store.memory.insert_if_absent(key(&prefix_keys, 2), record("second"));
    check(&store, &prefix_keys, Some((2, "first")), None);
}

#[test]
fn another_models_record_is_kept_under_a_longer_prefix() {
    let store = memory(ROOM);
    let of = |model: &str| {
        let text = r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"}"#;
        let body = format!(r#"{{"model":"{model}","messages":[{text},{text},{text}]}}"#);
        PrefixKeys::new(&read(body.as_bytes()).unwrap(), Scope::new(&[0; 32], &[]))
    };
    let record = |model: &str| CompactionRecord {
        compacted_message_count: 2,
        model: model.to_owned(),
        ..record(model)
    };
    let [small, large] = ["small", "large"].map(of);
    store.memory.insert_if_absent(key(&small, 2), record("small"));
    assert!(!store.adopt(key(&large, 2), record("large")));
    // The other model's record is unchanged.
    check(&store, &small, None, Some((2, "small")));
    check(&store, &large, None, Some((2, "small")));
    assert!(store.adopt(key(&small, 2), record("small")));
    check(&store, &small, Some((2, "small")), None);
    check(&store, &large, None, Some((2, "small")));
    let behind = large.longer_than(2).unwrap();
    assert!(store.adopt(behind, record("large").renewed_at(2)));
    check(&store, &small, Some((2, "small")), None);
    check(&store, &large, Some((2, "large")), None);
}

#[test]
fn uses_the_deepest_adopted_record_and_offers_a_deeper_ready_one() {
    let (store, prefix_keys) = (memory(ROOM), prefix_keys(&["a", "b", "c", "d", "e", "f"]));
    store.adopt(key(&prefix_keys, 1), record("one"));
    store.memory.insert_if_absent(key(&prefix_keys, 2), record("two"));
    store.adopt(key(&prefix_keys, 3), record("three"));
    check(&store, &prefix_keys, Some((3, "three")), None);
    store.memory.insert_if_absent(key(&prefix_keys, 4), record("four"));
    store.memory.insert_if_absent(key(&prefix_keys, 5), record("five"));
    check(&store, &prefix_keys, Some((3, "three")), Some((5, "five")));
}

#[test]
fn fork_and_undo_find_the_records_of_their_common_prefix() {
    let store = memory(ROOM);
    let whole = prefix_keys(&["a", "b", "c", "d"]);
    store.adopt(key(&whole, 2), record("two"));
    store.adopt(key(&whole, 4), record("four"));
    check(&store, &whole, Some((4, "four")), None);
    check(&store, &prefix_keys(&["a", "b", "c", "D"]), Some((2, "two")), None);
    check(&store, &prefix_keys(&["a", "b", "c"]), Some((2, "two")), None);
    check(&store, &prefix_keys(&["A", "b", "c", "d"]), None, None);
}

#[test]
fn renews_a_record_before_it_leaves_the_lookup_range() {
    let store = memory(ROOM);
    let said = vec!["x"; 1_500];
    store.adopt(key(&prefix_keys(&said[..10]), 10), record("one"));
    let mut times = 0;
    for upto in (20..said.len()).step_by(20) {
        let prefix_keys = prefix_keys(&said[..upto]);
        check(&store, &prefix_keys, Some((10, "one")), None);
        let known = store.prior_records(&prefix_keys);
        if let Some(key) = known.renewal {
            store.adopt(key, known.adopted.unwrap().record.renewed_at(10));
            times += 1;
        }
    }
    assert_eq!(times, 5, "once in so many as half of those that are looked up");
}

#[test]
fn renewed_record_does_not_hide_one_that_covers_more() {
    let store = memory(ROOM);
    let prefix_keys = prefix_keys(&["x"; 400]);
    store.adopt(key(&prefix_keys, 10), record("one"));
    let known = store.prior_records(&prefix_keys);
    store.adopt(known.renewal.unwrap(), record("one").renewed_at(10));
    check(&store, &prefix_keys, Some((10, "one")), None);
    assert!(store.prior_records(&prefix_keys).renewal.is_none());
    store.memory.insert_if_absent(key(&prefix_keys, 350), record("two"));
    check(&store, &prefix_keys, Some((10, "one")), Some((350, "two")));
    store.adopt(key(&prefix_keys, 350), record("two"));
    check(&store, &prefix_keys, Some((350, "two")), None);
}

#[test]
fn renewed_ready_record_does_not_hide_an_adopted_one_covering_more() {
    let store = memory(ROOM);
    let prefix_keys = prefix_keys(&["x"; 400]);
    store.memory.insert_if_absent(key(&prefix_keys, 400), record("one").renewed_at(10));
    check(&store, &prefix_keys, None, Some((10, "one")));
    store.adopt(key(&prefix_keys, 350), record("two"));
    check(&store, &prefix_keys, Some((350, "two")), None);
}

#[test]
fn copies_a_record_only_if_the_number_of_system_messages_changed() {
    let store = memory(ROOM);
    let led_by = |head: usize| {
        let system = r#"{"role":"system","content":"x"},"#.repeat(head);
        let body = format!(
            r#"{{"messages":[{system}{{"role":"user","content":"a"}},{{"role":"assistant","content":"b"}},{{"role":"user","content":"c"}}]}}"#
        );
        PrefixKeys::new(&read(body.as_bytes()).unwrap(), Scope::new(&[0; 32], &[]))
    };
    let made =
        CompactionRecord { head: 1, history_from: 1, compacted_message_count: 2, ..record("one") };
    store.adopt(key(&led_by(1), 2), made);
    let found = |head| store.prior_records(&led_by(head)).adopted.unwrap();
    assert!(Arc::ptr_eq(&found(1).record, &found(1).record));
    for head in [0, 3] {
        let RecordMatch { prefix_end: at, record, .. } = found(head);
        let places = (record.head, record.history_from, at);
        assert_eq!(places, (head, head, head + 1));
        assert_eq!(record.compacted_message_count, head + 1);
    }
}

#[test]
fn records_are_invisible_to_another_caller() {
    let store = memory(ROOM);
    let mine = chains_of(1, &["a", "b"]);
    store.adopt(key(&mine, 2), record("mine"));
    store.mark_seen(key(&mine, 2));
    let theirs = store.prior_records(&chains_of(2, &["a", "b"]));
    assert!(theirs.adopted.is_none() && theirs.ready.is_none() && !theirs.seen);
}

#[test]
fn mark_on_a_prefix_makes_its_continuations_seen() {
    let store = memory(ROOM);
    store.mark_seen(key(&prefix_keys(&["a", "b"]), 2));
    assert!(store.prior_records(&prefix_keys(&["a", "b", "c"])).seen);
    assert!(!store.prior_records(&prefix_keys(&["a", "x", "c"])).seen);
}

#[test]
fn memory_is_bounded_and_keeps_the_newest_records() {
    let room = 64 * 1024;
    let store = memory(room);
    let texts: Vec<String> = (0..100).map(|at| format!("{at:04096}")).collect();
    for text in &texts {
        let prefix_keys = prefix_keys(&[text]);
        // Looked up first, as by any request, so that no later record counts for more than an
        // earlier one.
        store.prior_records(&prefix_keys);
        store.adopt(key(&prefix_keys, 1), record(text));
        assert!(store.memory.records.weight() <= room);
        check(&store, &prefix_keys, Some((1, text)), None);
    }
    check(&store, &prefix_keys(&[&texts[0]]), None, None);
    let kept = |text: &&String| store.prior_records(&prefix_keys(&[text])).adopted.is_some();
    assert!(texts.iter().filter(kept).count() > 10);
}
