//! What goes with a record that is taken away, the same wherever it lay.

use bytes::Bytes;

use super::*;
use crate::config::Config;
use crate::store::far::{Change, EntryWrite, StoredEntry, Winner};
use crate::store::scripted::ScriptedStore;

/// The mark of use goes with the record that it was of; what else is known of the prefix stays.
pub(in crate::store) async fn check_discard(far: &DurableStore) {
    let key = Scope::new(&[3; 32], &[]).named_key("discarded");
    let text = |text: &'static str| Bytes::from_static(text.as_bytes());
    let write = async |changes: &[Change]| {
        let changes = changes.to_vec();
        let winners = far.write(&[EntryWrite { key, changes }]).await.unwrap();
        winners.into_iter().next().unwrap()
    };
    let stands = async || far.read(&[key]).await.unwrap().pop().unwrap().unwrap();
    let marked = StoredEntry {
        seen: true,
        refused: true,
        ..StoredEntry::default()
    };
    let first = [
        Change::Record(text("first")),
        Change::Adopted,
        Change::Seen,
        Change::Refused,
    ];
    write(&first).await;
    write(&[Change::Discard(text("another"))]).await;
    let whole = StoredEntry {
        record: Some(text("first")),
        adopted: true,
        ..marked.clone()
    };
    assert_eq!(stands().await, whole, "it is not the one that is there");
    write(&[Change::Discard(text("first"))]).await;
    assert_eq!(stands().await, marked);
    let second = write(&[Change::Record(text("second"))]).await;
    let expect = Winner {
        record: Some(text("second")),
        adopted: false,
    };
    assert_eq!(second, expect);
    let replaced = [
        Change::Discard(text("second")),
        Change::Record(text("third")),
        Change::Adopted,
    ];
    assert!(write(&replaced).await.adopted, "its own mark stands");
}

#[tokio::test]
async fn a_record_of_a_file_takes_its_mark_along() {
    let place = tempfile::tempdir().unwrap();
    let config = Config::default_with([]).unwrap().store;
    let (file, _) =
        file::FileStore::open(&place.path().join("k.db"), &config, Intent::Use).unwrap();
    check_discard(&DurableStore::File(file)).await;
}

#[tokio::test]
async fn a_record_of_the_scripted_tier_takes_its_mark_along() {
    check_discard(&DurableStore::Scripted(ScriptedStore::new())).await;
}
