//! A failing remote store: every request is served as with a memory store alone, with the same
//! bytes to the upstream.

use bytes::Bytes;
use longhaul_mock_model::{Model, ModelOptions};

use super::endpoint::{Conduct, Endpoint, NOBODY};
use crate::caller::{Caller, talk};
use crate::harness::Nobody;
use crate::program::Program;

/// Requests compaction at any size.
const NOW: (&str, &str) = ("x-longhaul-compact", "now");

/// Plays a conversation that is compacted and goes on; returns the forwarded bodies and the log.
async fn played(store: &str) -> (Vec<Bytes>, String) {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let environment = [
        ("LONGHAUL_STORE", store),
        ("LONGHAUL_STORE_SCOPE_SECRET", "a secret of thirty-two characters"),
        ("LONGHAUL_SUMMARY_MODEL", "none"),
    ];
    let program = Program::told(&model.url(), &environment);
    let caller = Caller::of(program.address());
    let arrived = caller.ask_with(&[NOW], talk(24, 2_000)).await;
    assert_eq!((arrived.status, arrived.action()), (200, "digest"));
    for turns in 25..28 {
        let arrived = caller.ask(talk(turns, 2_000)).await;
        assert_eq!((arrived.status, arrived.action()), (200, "digest"));
    }
    let forwarded = model.seen().into_iter().map(|seen| seen.body).collect();
    (forwarded, program.ended())
}

/// Asserts that `store` differs from a memory store only by a log line at start-up and one at the
/// first use.
async fn check(store: &str) {
    let (expect, _) = played("memory").await;
    let (forwarded, log) = played(store).await;
    assert!(forwarded == expect, "other bytes were forwarded");
    let told = log.matches("the store does not answer").count();
    assert!((1..=2).contains(&told), "{log}");
    assert!(!log.contains("ERROR") && !log.contains("panic"), "{log}");
}

/// Returns what a gateway gets back for a chat of several windows.
async fn compressed(store: &str) -> Bytes {
    let environment = [
        ("LONGHAUL_STORE", store),
        ("LONGHAUL_STORE_SCOPE_SECRET", "a secret of thirty-two characters"),
        ("LONGHAUL_COMPRESS_ENABLED", "true"),
        ("LONGHAUL_WINDOW", "6000"),
    ];
    let program = Program::told(&Nobody::bind().base("/v1"), &environment);
    let caller = Caller::of(program.address());
    let reply = caller.ask_at("/v1/compress", &[], talk(24, 2_000)).await;
    assert_eq!(reply.status, 200);
    reply.body
}

async fn check_conduct(conduct: Conduct) {
    let endpoint = Endpoint::start(conduct).await;
    check(&format!("redis://{}", endpoint.address)).await;
    endpoint.met().await;
}

#[tokio::test]
async fn store_that_refuses_connections_affects_no_request() {
    let nobody = Nobody::bind();
    check(&nobody.base("").replace("http://", "redis://")).await;
}

#[tokio::test]
async fn store_that_resets_connections_affects_no_request() {
    check_conduct(Conduct::Resets).await;
}

#[tokio::test]
async fn store_that_stalls_affects_no_request() {
    check_conduct(Conduct::Stalls).await;
}

#[tokio::test]
async fn a_gateway_gets_the_same_messages_if_the_store_stalls() {
    let endpoint = Endpoint::start(Conduct::Stalls).await;
    let stalled = compressed(&format!("redis://{}", endpoint.address)).await;
    let expect = compressed("memory").await;
    assert!(stalled == expect, "other messages came back");
    let reply: serde_json::Value = serde_json::from_slice(&expect).unwrap();
    assert!(reply["tokens_saved"].as_u64().unwrap() > 1_000, "{}", reply["tokens_saved"]);
    endpoint.met().await;
}

#[tokio::test]
async fn store_that_half_closes_affects_no_request() {
    check_conduct(Conduct::HalfCloses).await;
}

#[tokio::test]
async fn store_that_sends_garbage_affects_no_request() {
    check_conduct(Conduct::Garbage(b"HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    check_conduct(Conduct::Garbage(b"*-7\r\n$99999999999999999999\r\n\0\xff")).await;
}

#[tokio::test]
async fn store_that_drips_its_reply_affects_no_request() {
    check_conduct(Conduct::Drips(b"$999999\r\na")).await;
}

#[tokio::test]
async fn store_with_an_untrusted_certificate_affects_no_request() {
    let endpoint = Endpoint::start(Conduct::Uncertified).await;
    check(&format!("rediss://localhost:{}", endpoint.address.port())).await;
    endpoint.met().await;
}

#[tokio::test]
async fn store_without_an_address_affects_no_request() {
    check(&format!("redis://{NOBODY}")).await;
}
