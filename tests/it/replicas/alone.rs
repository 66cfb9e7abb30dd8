//! An unavailable store: no client notices, and the store is used again once it is back.

use longhaul_mock_model::ModelOptions;

use super::fleet::{Fleet, forwarded, same};
use crate::caller::{chat, talk};
use crate::journey::{bodies, harmless};
use crate::redis_server::{Data, RedisServer};
use crate::time_limit::bounded;

/// Indices of the requests before which the server goes away and comes back.
const AWAY: usize = 40;
const BACK: usize = 75;

/// Digests instead of summaries, and the default wait for the server.
const SETTINGS: [(&str, &str); 2] =
    [("LONGHAUL_SUMMARY_MODEL", "none"), ("LONGHAUL_STORE_WAIT", "50ms")];

/// The server's failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Trouble {
    /// The server is killed and restarted.
    Dies(Data),
    /// The server accepts connections and never replies.
    Hangs,
    /// The server works throughout.
    None,
}

/// Plays the demo's session through `replicas` replicas in turn while the server fails.
async fn check(
    replicas: usize,
    trouble: Trouble,
    expect: Option<&[Vec<bytes::Bytes>]>,
) -> Vec<Vec<bytes::Bytes>> {
    let name = format!("{replicas}, {trouble:?}");
    let replay = longhaul_mock_model::session().unwrap();
    let mut server = RedisServer::start();
    let options = ModelOptions::default();
    let mut fleet = Fleet::start(replicas, options, &server.url(), &SETTINGS).await;
    let mut steps = Vec::new();
    for (at, body) in bodies(&replay).enumerate() {
        match (at, trouble) {
            (AWAY, Trouble::Dies(_)) => server.kill(),
            (AWAY, Trouble::Hangs) => server.freeze(),
            (BACK, Trouble::Dies(data)) => server.start_again(data),
            (BACK, Trouble::Hangs) => server.thaw(),
            _ => {}
        }
        if at == BACK && trouble != Trouble::None {
            used_again(&fleet).await;
        }
        steps.push(fleet.step(at % replicas, body).await);
    }
    harmless(&name, &steps);
    if let Some(expect) = expect {
        same(&name, &steps, expect);
    }
    for replica in &fleet.replicas {
        let log = replica.said();
        let told = log.matches("the store does not answer").count();
        // A busy machine can exceed the wait even if the server works, so `Trouble::None` may log
        // the message, too.
        assert!(told > 0 || trouble == Trouble::None, "{name}: {log}");
        assert!(told <= 2, "{name} is told once: {log}");
        assert!(!log.contains("ERROR"), "{name}: {log}");
    }
    forwarded(&steps)
}

/// Waits until every replica uses the server again.
async fn used_again(fleet: &Fleet) {
    for replica in 0..fleet.replicas.len() {
        let caller = fleet.caller(replica);
        bounded(async {
            while !fleet.replicas[replica].said().contains("the store answers again") {
                let arrived = caller.ask(chat(1, 10)).await;
                assert_eq!(arrived.status, 200);
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn single_process_forwards_the_same_bytes_if_its_server_fails() {
    let expect = check(1, Trouble::None, None).await;
    for trouble in [Trouble::Dies(Data::Kept), Trouble::Dies(Data::Lost), Trouble::Hangs] {
        check(1, trouble, Some(&expect)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn replicas_continue_without_their_server_and_no_client_notices() {
    for trouble in [Trouble::Dies(Data::Kept), Trouble::Dies(Data::Lost), Trouble::Hangs] {
        check(3, trouble, None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_without_the_server_is_logged_and_affects_no_client() {
    // The port of the discard service, which has no listener here.
    let fleet = Fleet::start(1, ModelOptions::default(), "redis://127.0.0.1:9", &SETTINGS).await;
    let log = fleet.replicas[0].said();
    assert!(log.contains("the server cannot be reached"), "{log}");
    assert!(log.contains("it is used as soon as it does"), "{log}");
    let arrived = fleet.caller(0).ask(talk(1, 10)).await;
    assert_eq!(arrived.status, 200);
}
