//! Removals of bound thinking that processes with one durable store make apart and at once.

use super::*;
use crate::store::tests::scripted::ScriptedStore;
use longhaul_core::policy::thinking_removal::EditChain;

fn replica(far: &ScriptedStore) -> Store {
    let tier = Some((DurableStore::Scripted(far.clone()), READ));
    let secret = Secret::from_bytes([7; 32]);
    Store::from_parts((ROOM, WEEK), tier, secret, &Arc::default(), &Arc::default())
}

fn removal(from: usize, until: usize) -> ThinkingRemoval {
    let edits = EditChain { count: 1, hash: from as u64 };
    ThinkingRemoval::new(std::iter::once(from..until).collect(), edits, 0)
}

/// Keys of a conversation of `caller` with `model`.
fn keys_of(caller: u8, model: &str, said: &str) -> PrefixKeys {
    let text = r#"{"role":"user","content":"a"},{"role":"assistant","content":"b"}"#;
    let body = format!(
        r#"{{"model":"{model}","messages":[{text},{{"role":"user","content":"{said}"}}]}}"#
    );
    let scope = Scope::new(&[caller; 32], &[]);
    PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope)
}

/// Returns the ranges that a store finds, after a refresh.
async fn ranges(store: &Store, keys: &PrefixKeys) -> Vec<std::ops::Range<usize>> {
    let model = || Scope::new(&[0; 32], &[]).named_key("m");
    store.refresh(keys, model).await;
    store.prior_removals(keys, false).ranges
}

async fn stores(store: &Store, keys: &PrefixKeys, removal: ThinkingRemoval) {
    store.record_removal(key(keys, 2), keys.model(), removal);
    store.flush().await;
}

#[tokio::test]
async fn removals_of_several_processes_merge_and_persist() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    let keys = keys_of(0, "m", "c");
    stores(&one, &keys, removal(1, 3)).await;
    stores(&other, &keys, removal(5, 9)).await;
    stores(&other, &keys, removal(5, 9)).await;
    for store in [&one, &other, &replica(&far)] {
        assert_eq!(ranges(store, &keys).await, [1..3, 5..9]);
    }
    let fork = keys_of(0, "m", "another question");
    assert_eq!(ranges(&other, &fork).await, [1..3, 5..9]);
}

#[tokio::test]
async fn removals_are_separate_per_caller_and_model() {
    let far = ScriptedStore::new();
    let one = replica(&far);
    stores(&one, &keys_of(0, "m", "c"), removal(1, 3)).await;
    for keys in [keys_of(1, "m", "c"), keys_of(0, "n", "c")] {
        for store in [&one, &replica(&far)] {
            assert!(ranges(store, &keys).await.is_empty());
            assert!(store.prior_removals(&keys, false).is_empty());
        }
    }
}

#[test]
fn memory_keeps_removals_without_a_durable_store() {
    let (store, keys) = (memory(ROOM), keys_of(0, "m", "c"));
    store.record_removal(key(&keys, 2), "m", removal(1, 3));
    assert_eq!(store.prior_removals(&keys, false).newest_edits.len(), 1);
}
