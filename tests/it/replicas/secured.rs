//! Servers with passwords or TLS, and a cluster.

use longhaul_mock_model::ModelOptions;

use super::fleet::{Fleet, NOW};
use crate::caller::talk;
use crate::redis_server::{Certified, Cluster, RedisServer};

/// Compacts a conversation on request through one replica, then checks whether another replica at
/// the same store uses the record (`shares`).
async fn check(store: &str, settings: &[(&str, &str)], shares: bool) -> Fleet {
    let options = ModelOptions::with_window(10_000_000);
    let fleet = Fleet::start(2, options, store, settings).await;
    let body = talk(24, 2_000);
    let arrived = fleet.caller(0).ask_with(&[NOW], body.clone()).await;
    assert_eq!((arrived.status, arrived.action()), (200, "summary"));
    let arrived = fleet.caller(1).ask(body).await;
    let expect = if shares { "summary" } else { "" };
    let log = fleet.replicas[1].said();
    assert_eq!((arrived.status, arrived.action()), (200, expect), "{log}");
    assert_eq!(fleet.summaries(), 1);
    fleet
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn replicas_share_a_server_with_tls_and_a_password() {
    let server = Certified::start(&["--requirepass", "hunter2"]);
    let trusted = [("LONGHAUL_STORE_CA_FILE", &*server.ca_file())];
    check(&server.url_with(":hunter2@"), &trusted, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn wrong_password_is_logged_without_its_text_and_affects_no_client() {
    let server = RedisServer::with(&["--requirepass", "right"]);
    let store = format!("{}?pass=hunter2", server.url());
    let fleet = check(&store, &[], false).await;
    for (at, replica) in fleet.replicas.iter().enumerate() {
        for _ in 0..3 {
            assert_eq!(fleet.caller(at).ask(talk(1, 10)).await.status, 200);
        }
        let log = replica.said();
        let why = "the server refuses the user name or the password";
        assert!(log.contains("WARN") && log.contains(why), "{log}");
        assert!(!log.contains("hunter2"), "{log}");
    }
}

/// Checks a server that answers and stores nothing: no client notices, and the log gives the reason
/// in a single warning.
async fn check_unwritten(server: &RedisServer, user: &str, why: &str) {
    let store = format!("{}{user}", server.url());
    let fleet = Fleet::start(1, ModelOptions::with_window(10_000_000), &store, &[]).await;
    let caller = fleet.caller(0);
    let told = "takes no writes";
    // A few requests suffice; the bound only turns a hang into a failure.
    for turns in 1..200 {
        assert_eq!(caller.ask(talk(turns, 10)).await.status, 200);
        if fleet.replicas[0].said().contains(told) {
            break;
        }
    }
    for turns in 200..205 {
        assert_eq!(caller.ask(talk(turns, 10)).await.status, 200);
    }
    let log = fleet.replicas[0].said();
    assert!(log.contains(why), "{log}");
    assert_eq!(log.matches("WARN").count(), 1, "{log}");
    assert_eq!(log.matches(told).count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn warns_of_a_server_that_accepts_no_writes() {
    let server = RedisServer::start();
    let may = "+eval +hgetall +hlen +pexpire +ping +type".split(' ');
    let user = ["ACL", "SETUSER", "reader", "on", ">secret", "~*"];
    let user: Vec<&str> = user.into_iter().chain(may).collect();
    assert_eq!(server.asked(&user), "OK");
    let why = "does not permit its user a command";
    check_unwritten(&server, "?user=reader&pass=secret", why).await;
    // The port of the discard service has no listener, so this replica never gets a primary's data.
    let copy = RedisServer::with(&["--replicaof", "127.0.0.1 9"]);
    check_unwritten(&copy, "", "is a read-only copy").await;
    let full = RedisServer::with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    check_unwritten(&full, "", "memory is full").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn replicas_share_a_cluster() {
    let cluster = Cluster::start();
    check(&cluster.url(), &[], true).await;
}
