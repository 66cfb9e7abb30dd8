//! Texts that stay in a conversation, wished for at processes with one durable store.

use super::*;
use crate::store::tests::scripted::ScriptedStore;

fn replica(far: &ScriptedStore) -> Store {
    let tier = Some((DurableStore::Scripted(far.clone()), READ));
    let secret = Secret::from_bytes([7; 32]);
    Store::from_parts((ROOM, WEEK), tier, secret, &Arc::default(), &Arc::default())
}

/// Returns the texts that a store finds, after a refresh.
async fn kept(store: &Store, keys: &PrefixKeys) -> Vec<String> {
    let model = || Scope::new(&[0; 32], &[]).named_key("m");
    store.refresh(keys, model).await;
    let kept = store.kept_texts(&keys.kept_keys());
    let texts = kept.texts().iter();
    texts.map(|kept| kept.text.clone()).collect()
}

#[tokio::test]
async fn wishes_reach_other_processes_and_later_ones_and_no_other_caller() {
    let far = ScriptedStore::new();
    let (one, other) = (replica(&far), replica(&far));
    let body = br#"{"messages":[{"role":"user","content":"a"}]}"#;
    let conversation = read(body).unwrap();
    let keys = |caller: u8| PrefixKeys::new(&conversation, Scope::new(&[caller; 32], &[]));
    let own = keys(1);
    let change = async |store: &Store, change: fn(&mut KeptTexts)| {
        assert!(store.change_kept_texts(&own.kept_keys(), change));
        store.flush().await;
    };
    change(&one, |list| list.keep("never push", false).unwrap()).await;
    assert_eq!(kept(&other, &own).await, ["never push"]);
    change(&other, |list| list.keep("port 8443", true).unwrap()).await;
    change(&other, |list| assert!(list.take_back("never push", false))).await;
    for store in [&one, &replica(&far)] {
        assert_eq!(kept(store, &own).await, ["port 8443"]);
    }
    assert!(kept(&one, &keys(2)).await.is_empty());
    let nothing = |_: &mut KeptTexts| {};
    assert!(!one.change_kept_texts(&own.kept_keys(), nothing));
}
