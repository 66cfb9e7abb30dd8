//! Tests of records that depend on the leading messages.

use super::*;

/// Requests of two callers under one key: the same words after other leading messages.
#[test]
fn a_head_dependent_record_is_found_only_behind_its_own_head() {
    let scope = Scope::new(&[7; 32], &[]);
    let keys = |head: &str| {
        let body = body("suauaua").replacen('[', &format!("[{head},"), 1);
        let conversation = read(body.as_bytes()).unwrap();
        PrefixKeys::new(&conversation, scope).with_head(&conversation, scope)
    };
    let alice = keys(r#"{"role":"system","content":"You serve ALICE. 10:18"}"#);
    let later = keys(r#"{"role":"system","content":"You serve ALICE. 10:19"}"#);
    let bob = keys(r#"{"role":"system","content":"You serve BOB. 10:18"}"#);
    for (dependence, shared) in
        [(HeadDependence::Independent, true), (HeadDependence::Dependent, false)]
    {
        let record = CompactionRecord {
            text: Some("-".into()),
            head: 2,
            compacted_message_count: 4,
            head_dependence: dependence,
            ..named("one")
        };
        let stored = record.key(&alice, alice.key_at(4).unwrap()).unwrap();
        let found = |keys: &PrefixKeys, adopted| {
            let record = Arc::new(record.clone());
            let look = |key| (key == stored).then(|| (adopted, Arc::clone(&record)));
            let known = PriorRecords::look_up(keys, look, |_| false);
            known.newest().map(|found| found.record.clone())
        };
        for adopted in [false, true] {
            assert!(found(&alice, adopted).is_some() && found(&later, adopted).is_some());
            assert_eq!(found(&bob, adopted).is_some(), shared);
            // Without such records, the keys of the leading messages are not looked up.
            let body = body("suauaua");
            let plain = PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope);
            assert_eq!(found(&plain, adopted).is_some(), shared);
            assert_eq!(record.key(&plain, plain.key_at(3).unwrap()).is_some(), shared);
        }
    }
}

#[test]
fn a_head_dependent_record_precedes_a_shared_one_at_the_same_prefix() {
    let scope = Scope::new(&[7; 32], &[]);
    let body = body("uauaua");
    let conversation = read(body.as_bytes()).unwrap();
    let keys = PrefixKeys::new(&conversation, scope).with_head(&conversation, scope);
    let [own, shared] = [HeadDependence::Dependent, HeadDependence::Independent]
        .map(|dependence| keys.record_key(keys.key_at(3).unwrap(), dependence).unwrap());
    let look = |key| {
        let name = if key == own { "own" } else { "shared" };
        ([own, shared].contains(&key)).then(|| (true, Arc::new(named(name))))
    };
    let known = PriorRecords::look_up(&keys, look, |_| false);
    assert_eq!(known.adopted.unwrap().record.summary.as_deref(), Some("own"));
}
