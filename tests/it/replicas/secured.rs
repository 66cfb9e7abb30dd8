//! Servers with passwords, with TLS, and several that are one.

use longhaul::demo::ModelOptions;

use super::fleet::{Fleet, NOW};
use crate::caller::talk;
use crate::redis_server::{Certified, Cluster, RedisServer, is_missing};

/// One replica compacts a conversation by hand. Whether another, at the same store, goes on from that.
async fn check(store: &str, settings: &[(&str, &str)], shares: bool) -> Fleet {
    let options = ModelOptions::of_window(10_000_000);
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
async fn replicas_share_a_server_with_tls_and_a_password() {
    if is_missing() {
        return;
    }
    let server = Certified::start(&["--requirepass", "hunter2"]);
    let trusted = [("LONGHAUL_STORE_CA_FILE", &*server.ca_file())];
    check(&server.url_with(":hunter2@"), &trusted, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_refused_is_told_of_without_it_and_costs_no_client_anything() {
    if is_missing() {
        return;
    }
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_a_cluster() {
    if is_missing() {
        return;
    }
    let cluster = Cluster::start();
    check(&cluster.url(), &[], true).await;
}
