//! Servers with passwords, with TLS, and several that are one.

use longhaul::demo::ModelOptions;

use super::fleet::{Fleet, NOW};
use crate::caller::talk;
use crate::redis_server::{Certified, Cluster, RedisServer, is_missing};

/// Two replicas at `store` share a summary, or each makes its own.
async fn check(store: &str, settings: &[(&str, &str)], summaries: usize) -> Fleet {
    let options = ModelOptions::of_window(10_000_000);
    let fleet = Fleet::start(2, options, store, settings).await;
    for replica in [0, 1] {
        let arrived = fleet.caller(replica).ask_with(&[NOW], talk(24, 2_000)).await;
        assert_eq!((arrived.status, arrived.action()), (200, "summary"));
    }
    assert_eq!(fleet.summaries(), summaries, "{}", fleet.replicas[0].said());
    fleet
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_a_server_with_tls_and_a_password() {
    if is_missing() {
        return;
    }
    let server = Certified::start(&["--requirepass", "hunter2"]);
    let trusted = [("LONGHAUL_STORE_CA_FILE", &*server.ca_file())];
    check(&server.url_with(":hunter2@"), &trusted, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_refused_is_told_of_without_it_and_costs_no_client_anything() {
    if is_missing() {
        return;
    }
    let server = RedisServer::with(&["--requirepass", "right"]);
    let store = format!("{}?pass=hunter2", server.url());
    let fleet = check(&store, &[], 2).await;
    for replica in fleet.replicas {
        let log = replica.ended();
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
    check(&cluster.url(), &[], 1).await;
}
