//! Unreadable entries at a server: treated as absent, and overwritten by new ones.

use longhaul_mock_model::ModelOptions;

use super::fleet::Fleet;
use crate::journey::{bodies, harmless};
use crate::redis_server::RedisServer;

/// Number of requests, and so of stored records, before every entry is damaged.
const DAMAGED: usize = 70;

/// Plays the demo's session. At [`DAMAGED`] all processes restart and the script `damage` runs for
/// the key of each stored entry.
async fn check(damage: &str) {
    let replay = longhaul_mock_model::session().unwrap();
    let server = RedisServer::start();
    let options = ModelOptions::default();
    let mut fleet = Fleet::start(2, options, &server.url(), &[]).await;
    let mut steps = Vec::new();
    for (at, body) in bodies(&replay).enumerate() {
        if at == DAMAGED {
            let script = format!(
                "local n = 0 for _, key in ipairs(redis.call('KEYS', 'longhaul:*')) do {damage} \
                 n = n + 1 end return n"
            );
            let damaged: usize = server.asked(&["EVAL", &script, "0"]).parse().unwrap();
            assert!(damaged > DAMAGED, "{damaged}");
            fleet.restart_all();
        }
        steps.push(fleet.step(at % 2, body).await);
        fleet.settled(&server).await;
    }
    harmless(damage, &steps);
    for replica in &fleet.replicas {
        let log = replica.said();
        // The model's window is smaller than the table states, which is reported once.
        let mut others = log.lines().filter(|line| !line.contains("smaller window"));
        assert!(
            others.all(|line| !line.contains("WARN") && !line.contains("ERROR")),
            "{damage}: {log}"
        );
    }
    // Records in use are stored again, for later processes.
    let calls = fleet.summaries();
    fleet.restart_all();
    let last = bodies(&replay).last().unwrap();
    let again = fleet.step(0, last).await;
    assert_eq!(again.forwarded().body, steps.last().unwrap().forwarded().body);
    assert_eq!(fleet.summaries(), calls);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn damaged_entries_count_as_absent_and_are_overwritten() {
    // Garbage as the whole entry, a truncated entry, an entry with another format version.
    for change in [
        "'garbage'",
        "string.sub(redis.call('HGET', key, field), 1, 40)",
        "'lh\\0\\255' .. string.sub(redis.call('HGET', key, field), 5)",
    ] {
        let damage = format!(
            "for _, field in ipairs(redis.call('HKEYS', key)) do \
             redis.call('HSET', key, field, {change}) end"
        );
        check(&damage).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn entries_of_the_wrong_type_count_as_absent_and_are_overwritten() {
    check("redis.call('SET', key, 'text')").await;
}
