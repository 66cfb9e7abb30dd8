//! Tests of the store against a real server.

mod failover;
mod hostile;
mod permitted;

use std::time::Duration;

use tokio::task::JoinSet;

use super::*;
use crate::config::{Config, StoreLocation};
use crate::store::durable::{Change, DurableStore, NoteName};
use crate::store::tests::check_discard;
use longhaul_core::units::scope::Scope;

#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../../../tests/it/redis_server.rs"]
mod redis_server;

use redis_server::{Certified, Cluster, Data, RedisServer};

/// Bounds a hang and nothing else.
const PATIENCE: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_hours(1);

fn tier(url: &str, changes: &[(&'static str, &str)]) -> RedisStore {
    let secret = "0123456789abcdef0123456789abcdef";
    let mut all = vec![
        ("upstream.base", "http://127.0.0.1:9/v1"),
        ("store.at", url),
        ("store.scope_secret", secret),
    ];
    all.extend(changes);
    let config = Config::default_with(all).unwrap();
    let StoreLocation::Redis(url) = &config.store.location else {
        panic!("{url} is no server");
    };
    RedisStore::new(url, &config.store, Kept::Records).unwrap()
}

/// Returns a key of a scope.
fn key(scope: u8, name: &str) -> RecordKey {
    Scope::new(&[scope; 32], &[]).named_key(name)
}

fn write(key: RecordKey, changes: impl Into<Vec<Change>>) -> EntryWrite {
    let changes = changes.into();
    EntryWrite { key, changes }
}

fn record(text: &'static str) -> Change {
    Change::Record(text.into())
}

async fn wrote(tier: &RedisStore, key: RecordKey, changes: impl Into<Vec<Change>>) -> WriteResult {
    let winners = tier.write(&[write(key, changes)]).await.unwrap();
    winners.into_iter().next().unwrap()
}

async fn read(tier: &RedisStore, key: RecordKey) -> Option<StoredEntry> {
    let entries = tier.read(&[key]).await.unwrap();
    entries.into_iter().next().unwrap()
}

/// Reads until there is an answer.
async fn answered(tier: &RedisStore, key: RecordKey) -> Option<StoredEntry> {
    let asking = async {
        loop {
            match tier.read(&[key]).await {
                Ok(entries) => return entries.into_iter().next().unwrap(),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap()
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn first_record_wins_and_later_writers_receive_it() {
    let server = RedisServer::start();
    let (one, other) = (tier(&server.url(), &[]), tier(&server.url(), &[]));
    let key = key(1, "a");
    assert_eq!(read(&one, key).await, None);
    let first = wrote(&one, key, [record("first"), Change::Seen]).await;
    assert_eq!(first.record.as_deref(), Some(&b"first"[..]));
    let later = wrote(&other, key, [record("second")]).await;
    assert_eq!(later, first);
    let adopted = wrote(&other, key, [record("third"), Change::Adopted]).await;
    assert_eq!(adopted.record, first.record);
    assert!(adopted.adopted);
    let entry = read(&one, key).await.unwrap();
    assert_eq!(entry.record, first.record);
    assert!(entry.adopted && entry.seen && !entry.refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn one_of_many_concurrent_writers_wins_and_all_receive_its_record() {
    let server = RedisServer::start();
    let mut writers = JoinSet::new();
    for at in 0..50 {
        let url = server.url();
        writers.spawn(async move {
            let change = Change::Record(format!("record {at}").into());
            wrote(&tier(&url, &[]), key(1, "a"), [change]).await.record
        });
    }
    let told = writers.join_all().await;
    assert_eq!(told.len(), 50);
    assert!(told.iter().all(|one| one.is_some() && *one == told[0]));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn keeps_marks_and_the_last_note_of_each_name() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let (key, other) = (key(1, "a"), key(2, "a"));
    let name = NoteName([7; 8]);
    let writes = [
        write(key, [Change::Note(name, "old".into()), Change::Refused]),
        write(other, [Change::Seen]),
        write(key, [Change::Note(name, "new".into())]),
    ];
    let winners = tier.write(&writes).await.unwrap();
    assert_eq!(winners, vec![WriteResult::default(); 3]);
    let entry = read(&tier, key).await.unwrap();
    assert_eq!(entry.notes, [(name, "new".into())]);
    assert!(entry.refused && !entry.seen);
    assert!(read(&tier, other).await.unwrap().seen);
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn limits_the_notes_and_record_size_of_an_entry() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let key = key(1, "a");
    let note = |at: u8| Change::Note(NoteName([at; 8]), "x".into());
    wrote(&tier, key, (0..200).map(note).collect::<Vec<_>>()).await;
    assert!(read(&tier, key).await.unwrap().notes.len() <= 64);
    let huge = Change::Record(vec![0; 9 << 20].into());
    assert_eq!(wrote(&tier, key, [huge]).await, WriteResult::default());
    assert_eq!(read(&tier, key).await.unwrap().record, None);
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn unreadable_record_is_replaced_once() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let key = key(1, "a");
    wrote(&tier, key, [record("garbage"), Change::Adopted]).await;
    let replace = [Change::Discard("garbage".into()), record("good")];
    let winner = wrote(&tier, key, replace).await;
    assert_eq!(winner.record.as_deref(), Some(&b"good"[..]));
    assert!(!winner.adopted, "the mark was the other record's");
    let replace = [Change::Discard("garbage".into()), record("better")];
    let winner = wrote(&tier, key, replace).await;
    assert_eq!(winner.record.as_deref(), Some(&b"good"[..]));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn discarding_a_redis_record_removes_its_adoption_mark() {
    let server = RedisServer::start();
    check_discard(&DurableStore::Redis(Box::new(tier(&server.url(), &[])))).await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn malformed_entry_reads_as_absent_and_is_overwritten() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let (broken, whole) = (key(1, "a"), key(1, "b"));
    server.asked(&["SET", &entry::redis_key(broken), "text"]);
    wrote(&tier, whole, [Change::Seen]).await;
    let entries = tier.read(&[broken, whole]).await.unwrap();
    assert_eq!(entries[0], None);
    assert!(entries[1].as_ref().is_some_and(|entry| entry.seen));
    wrote(&tier, broken, [record("good")]).await;
    let entry = read(&tier, broken).await.unwrap();
    assert_eq!(entry.record.as_deref(), Some(&b"good"[..]));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn reading_an_entry_renews_its_expiry_and_listing_does_not() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[("store.ttl", "1h")]);
    let key = key(1, "a");
    let name = entry::redis_key(key);
    let left = || server.asked(&["TTL", &name]).parse::<i64>().unwrap();
    wrote(&tier, key, [Change::Seen]).await;
    assert!((3_500..=3_600).contains(&left()));
    server.asked(&["EXPIRE", &name, "100"]);
    read(&tier, key).await;
    assert!((3_500..=3_600).contains(&left()));
    // A listing does not count as use.
    server.asked(&["EXPIRE", &name, "100"]);
    let mut idle = None;
    tier.for_each_entry(None, &mut |listed| idle = listed.idle).await.unwrap();
    assert!(left() <= 100);
    assert!(idle.unwrap() + Duration::from_secs(100) >= TTL);
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn lease_belongs_to_one_holder_until_it_ends() {
    let server = RedisServer::start();
    let (one, other) = (tier(&server.url(), &[]), tier(&server.url(), &[]));
    let (mine, theirs) = (LeaseToken(1), LeaseToken(2));
    let key = key(1, "a");
    assert_eq!(one.lease(LeaseAction::Acquire, key, mine, TTL).await, Ok(true));
    assert_eq!(other.lease(LeaseAction::Acquire, key, theirs, TTL).await, Ok(false));
    // The first answer may have been lost.
    assert_eq!(one.lease(LeaseAction::Acquire, key, mine, TTL).await, Ok(true));
    assert_eq!(other.lease(LeaseAction::Renew, key, theirs, TTL).await, Ok(false));
    assert_eq!(other.lease(LeaseAction::Release, key, theirs, Duration::ZERO).await, Ok(false));
    let brief = Duration::from_millis(20);
    assert_eq!(one.lease(LeaseAction::Renew, key, mine, brief).await, Ok(true));
    let taking =
        async { while other.lease(LeaseAction::Acquire, key, theirs, TTL).await == Ok(false) {} };
    tokio::time::timeout(PATIENCE, taking).await.unwrap();
    assert_eq!(one.lease(LeaseAction::Renew, key, mine, TTL).await, Ok(false));
    assert_eq!(other.lease(LeaseAction::Release, key, theirs, Duration::ZERO).await, Ok(true));
    assert_eq!(one.lease(LeaseAction::Acquire, key, mine, TTL).await, Ok(true));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn entries_are_listed_and_purged_by_scope_and_nothing_else_is() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let writes: Vec<EntryWrite> = (0..600_u16)
        .map(|at| write(key(u8::from(at % 2 == 1), &at.to_string()), [Change::Seen]))
        .collect();
    tier.write(&writes).await.unwrap();
    server.asked(&["SET", "longhaul:3:{of}:another", "x"]);
    server.asked(&["SET", "mine", "x"]);
    tier.lease(LeaseAction::Acquire, key(0, "0"), LeaseToken(1), TTL).await.unwrap();
    let listed = async |scope| {
        let mut keys = std::collections::HashSet::new();
        let mut take = |listed: ListedEntry| {
            keys.insert(listed.key);
        };
        tier.for_each_entry(scope, &mut take).await.unwrap();
        keys.len()
    };
    let scope = key(0, "0").scope();
    assert_eq!(listed(None).await, 600);
    assert_eq!(listed(Some(scope)).await, 300);
    assert_eq!(tier.purge(Some(scope)).await, Ok(300));
    assert_eq!(listed(Some(scope)).await, 0);
    assert_eq!(tier.purge(None).await, Ok(300));
    assert_eq!(server.asked(&["DBSIZE"]), "3");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn keeps_working_after_a_server_restart() {
    let mut server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let key = key(1, "a");
    wrote(&tier, key, [record("kept")]).await;
    server.kill();
    server.start_again(Data::Kept);
    let entry = read(&tier, key).await.unwrap();
    assert_eq!(entry.record.as_deref(), Some(&b"kept"[..]));
    server.kill();
    server.start_again(Data::Lost);
    assert_eq!(read(&tier, key).await, None);
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn uses_a_server_again_after_an_outage() {
    let mut server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let key = key(1, "a");
    wrote(&tier, key, [record("kept")]).await;
    server.kill();
    let why = tier.read(&[key]).await.unwrap_err().0;
    assert_eq!(why, "the server cannot be reached");
    server.start_again(Data::Kept);
    let entry = answered(&tier, key).await.unwrap();
    assert_eq!(entry.record.as_deref(), Some(&b"kept"[..]));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn uses_a_hung_server_again_once_it_resumes() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let key = key(1, "a");
    wrote(&tier, key, [record("kept")]).await;
    server.freeze();
    // A caller that gives up has the connection checked.
    tokio::select! {
        biased;
        _ = read(&tier, key) => panic!("it hangs"),
        () = std::future::ready(()) => {}
    }
    // The connection is found to be dead, and from then on no caller waits for it.
    let failing = async { while tier.read(&[key]).await.is_ok() {} };
    tokio::time::timeout(PATIENCE, failing).await.unwrap();
    server.thaw();
    let entry = answered(&tier, key).await.unwrap();
    assert_eq!(entry.record.as_deref(), Some(&b"kept"[..]));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn reports_a_refused_password_and_works_with_the_right_one() {
    let server = RedisServer::with(&["--requirepass", "secret"]);
    let url = server.url();
    let why = async |url: &str| tier(url, &[]).read(&[key(1, "a")]).await.map_err(|no| no.0);
    let refused = Err("the server refuses the user name or the password");
    assert_eq!(why(&format!("{url}?pass=wrong")).await, refused);
    assert_eq!(why(&url).await, refused);
    assert_eq!(why(&format!("{url}?pass=secret")).await, Ok(vec![None]));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_server_with_tls_is_used_if_its_authority_is_trusted() {
    let server = Certified::start(&[]);
    let url = server.url();
    let trusting = tier(&url, &[("store.ca_file", &server.ca_file())]);
    assert_eq!(read(&trusting, key(1, "a")).await, None);
    let why = tier(&url, &[]).read(&[key(1, "a")]).await.unwrap_err().0;
    assert_eq!(why, "the server's certificate is not trusted");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn finds_cluster_entries_on_whichever_node_holds_them() {
    let cluster = Cluster::start();
    let tier = tier(&cluster.url(), &[]);
    let keys: Vec<RecordKey> = (0..30).map(|scope| key(scope, "a")).collect();
    let writes: Vec<EntryWrite> =
        keys.iter().map(|key| write(*key, [record("kept"), Change::Adopted])).collect();
    let winners = tier.write(&writes).await.unwrap();
    assert!(winners.iter().all(|winner| winner.adopted));
    for node in &cluster.nodes {
        assert_ne!(node.asked(&["DBSIZE"]), "0", "each has some");
    }
    for at in &keys {
        assert!(read(&tier, *at).await.unwrap().adopted);
    }
    let many: Vec<RecordKey> = (0..512).map(|at| key(3, &at.to_string())).collect();
    assert_eq!(tier.read(&many).await.unwrap().len(), 512);
    let lease = tier.lease(LeaseAction::Acquire, keys[0], LeaseToken(1), TTL).await;
    assert_eq!(lease, Ok(true));
    let mut listed = 0;
    tier.for_each_entry(None, &mut |_| listed += 1).await.unwrap();
    assert_eq!(listed, 30);
    assert_eq!(tier.purge(Some(keys[4].scope())).await, Ok(1));
    assert_eq!(tier.purge(None).await, Ok(29));
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn oversized_entry_reads_as_absent_and_is_replaced() {
    let server = RedisServer::start();
    let tier = tier(&server.url(), &[]);
    let (large, wide) = (key(0, "large"), key(0, "wide"));
    let name = entry::redis_key(large);
    server.asked(&[
        "EVAL",
        "redis.call('HSET', KEYS[1], 'record', string.rep('x', 20000000))",
        "1",
        &name,
    ]);
    let name = entry::redis_key(wide);
    let fill = "for i = 1, 100000 do redis.call('HSET', KEYS[1], 'note:' .. i, 'x') end";
    server.asked(&["EVAL", fill, "1", &name]);
    for key in [large, wide] {
        assert_eq!(read(&tier, key).await, None);
        let winner = wrote(&tier, key, [record("mine")]).await;
        assert_eq!(winner.record.as_deref(), Some(&b"mine"[..]));
        let stored = read(&tier, key).await.unwrap();
        assert_eq!(stored.record.as_deref(), Some(&b"mine"[..]));
    }
}
