//! Tests of originals in memory and in a durable store.

use super::*;
use crate::store::Secret;
use longhaul_core::planning::originals::OriginalUnit;

fn id(number: u8) -> RecallId {
    let mut bytes = [7; RecallId::BYTES];
    bytes[31] = number;
    RecallId::from_bytes(bytes)
}

/// Originals of three units, a result in the second and a segment of the first two.
fn originals() -> Originals {
    let unit = |number: u8| OriginalUnit {
        id: id(number),
        title: format!("step {number}"),
        text: format!("text of step {number}"),
    };
    Originals {
        outline: id(100),
        units: (0..3).map(unit).collect(),
        results: vec![(id(10), 1, 8..14)],
        segments: vec![(id(20), 0..2)],
    }
}

fn config() -> StoreConfig {
    let changes = [("recall", "url"), ("store.recall_max_bytes", "1MiB")];
    crate::config::Config::default_with(changes).unwrap().store
}

fn in_memory() -> Arc<OriginalStore> {
    let sealer = Arc::new(RecordSealer::new(&Secret::from_bytes([1; 32])));
    Arc::new(OriginalStore::new(&config(), None, sealer, &Arc::default()))
}

async fn content(store: &OriginalStore, number: u8) -> Option<OriginalContent> {
    let found = store.read(&[id(number)]).await.unwrap();
    found[0].as_ref().map(|original| original.content.clone())
}

#[tokio::test]
async fn a_result_and_a_segment_refer_to_units_that_are_kept_once() {
    let store = in_memory();
    assert!(store.keep(originals()).await);
    assert_eq!(content(&store, 10).await, Some(OriginalContent::Slice(id(1), 8, 14)));
    assert_eq!(content(&store, 20).await, Some(OriginalContent::Units(vec![id(0), id(1)])));
    let text = OriginalContent::Text("text of step 1".into());
    assert_eq!(content(&store, 1).await, Some(text));
    let Some(OriginalContent::Outline(units)) = content(&store, 100).await else {
        panic!("no outline");
    };
    assert_eq!(units.len(), 3);
    assert!(store.knows_all([id(0), id(10), id(20)]) && !store.knows_all([id(0), id(99)]));
    assert_eq!(content(&store, 99).await, None);
}

#[tokio::test]
async fn bodies_that_wait_have_a_bound_and_one_is_always_taken() {
    let store = in_memory();
    let large = store.permit(MAX_WAITING_BYTES + 1).unwrap();
    assert!(store.permit(1).is_none());
    drop(large);
    let small = store.permit(1).unwrap();
    assert!(store.permit(MAX_WAITING_BYTES).is_none());
    drop(small);
    store.settled().await;
}
