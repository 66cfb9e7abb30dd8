//! Effects of discarding a record, equal in all durable stores.

use bytes::Bytes;

use super::*;
use crate::config::Config;
use crate::store::durable::{Change, EntryWrite, StoredEntry, WriteResult};
use crate::store::tests::scripted::ScriptedStore;

/// Checks that the adoption mark goes with its record, and that the rest of the entry stays.
pub(crate) async fn check_discard(far: &DurableStore) {
    let key = Scope::new(&[3; 32], &[]).named_key("discarded");
    let text = |text: &'static str| Bytes::from_static(text.as_bytes());
    let write = async |changes: &[Change]| {
        let changes = changes.to_vec();
        let winners = far.write(&[EntryWrite { key, changes }]).await.unwrap();
        winners.into_iter().next().unwrap()
    };
    let stands = async || far.read(&[key]).await.unwrap().pop().unwrap().unwrap();
    let marked = StoredEntry { seen: true, refused: true, ..StoredEntry::default() };
    let first = [Change::Record(text("first")), Change::Adopted, Change::Seen, Change::Refused];
    write(&first).await;
    write(&[Change::Discard(text("another"))]).await;
    let whole = StoredEntry { record: Some(text("first")), adopted: true, ..marked.clone() };
    assert_eq!(stands().await, whole, "another record is stored");
    write(&[Change::Discard(text("first"))]).await;
    assert_eq!(stands().await, marked);
    let second = write(&[Change::Record(text("second"))]).await;
    let expect = WriteResult { record: Some(text("second")), adopted: false };
    assert_eq!(second, expect);
    let replaced =
        [Change::Discard(text("second")), Change::Record(text("third")), Change::Adopted];
    assert!(write(&replaced).await.adopted, "the third record keeps its own mark");
}

#[tokio::test]
async fn discarding_a_file_record_removes_its_adoption_mark() {
    let place = tempfile::tempdir().unwrap();
    let config = Config::default_with([]).unwrap().store;
    let (file, _) = file::FileStore::open(
        &place.path().join("k.db"),
        (config.max_bytes, config.ttl),
        Intent::Use,
    )
    .unwrap();
    check_discard(&DurableStore::File(file)).await;
}

#[tokio::test]
async fn discarding_a_scripted_record_removes_its_adoption_mark() {
    check_discard(&DurableStore::Scripted(ScriptedStore::new())).await;
}
