//! A failing dedicated summariser: requests wait no longer than configured, and a rule-based digest
//! replaces the summary.

use longhaul_mock_model::{Model, ModelOptions, RequestKind};

use super::endpoint::{Conduct, Endpoint, NOBODY};
use crate::caller::{Caller, talk};
use crate::harness::Nobody;
use crate::program::Program;

/// Requests compaction at any size.
const NOW: (&str, &str) = ("x-longhaul-compact", "now");

/// Longer than any of these tests: an immediate failure must not be waited for.
const LONG: &str = "5m";
const SHORT: &str = "300ms";

/// Asserts that the client gets the model's reply to a digest, and that the log gives `why` as the
/// reason for the missing summary.
async fn check(upstream: &str, wait: &str, why: Option<&str>) {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let environment = [
        ("LONGHAUL_SUMMARY_UPSTREAM", upstream),
        ("LONGHAUL_SUMMARY_MODEL", "small"),
        ("LONGHAUL_SUMMARY_WAIT", wait),
        ("LONGHAUL_LOG_LEVEL", "debug"),
    ];
    let program = Program::told(&model.url(), &environment);
    let caller = Caller::of(program.address());
    let arrived = caller.ask_with(&[NOW], talk(24, 2_000)).await;
    assert_eq!((arrived.status, arrived.action()), (200, "digest"));
    // The digest stays in use, and the failed summary is not requested again.
    let arrived = caller.ask(talk(25, 2_000)).await;
    assert_eq!((arrived.status, arrived.action()), (200, "digest"));
    let seen = model.seen();
    assert_eq!(seen.len(), 2, "each was sent once");
    assert!(seen.iter().all(|seen| seen.kind == RequestKind::Chat));
    let log = program.ended();
    if let Some(why) = why {
        assert!(log.contains(why), "{log}");
    }
    assert!(!log.contains("ERROR"), "{log}");
}

async fn check_conduct(conduct: Conduct, wait: &str, why: Option<&str>) {
    let endpoint = Endpoint::start(conduct).await;
    check(&format!("http://{}/v1", endpoint.address), wait, why).await;
    endpoint.met().await;
}

const UNREACHABLE: Option<&str> = Some("why=\"no call reached the upstream\"");

#[tokio::test]
async fn digest_replaces_the_summary_if_the_summariser_refuses_connections() {
    let nobody = Nobody::bind();
    check(&nobody.base("/v1"), LONG, UNREACHABLE).await;
}

#[tokio::test]
async fn digest_replaces_the_summary_if_the_summariser_resets() {
    check_conduct(Conduct::Resets, LONG, UNREACHABLE).await;
}

#[tokio::test]
async fn waits_for_a_stalled_summariser_no_longer_than_configured() {
    check_conduct(Conduct::Stalls, SHORT, None).await;
}

#[tokio::test]
async fn digest_replaces_the_summary_if_the_summariser_half_closes() {
    check_conduct(Conduct::HalfCloses, LONG, UNREACHABLE).await;
}

#[tokio::test]
async fn digest_replaces_the_summary_if_the_summariser_sends_garbage() {
    let mail = Conduct::Garbage(b"220 mail.example.com ESMTP\r\n\r\n");
    check_conduct(mail, LONG, UNREACHABLE).await;
    let html = "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n<html>Welcome to the hotel</ht";
    check_conduct(Conduct::Garbage(html.as_bytes()), LONG, Some("no summary")).await;
}

#[tokio::test]
async fn waits_for_a_dripping_summariser_no_longer_than_configured() {
    for begun in [
        "HTTP/1.1 200 OK\r\nX-Slow: a",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{\"choices\": ",
    ] {
        check_conduct(Conduct::Drips(begun.as_bytes()), SHORT, None).await;
    }
}

#[tokio::test]
async fn digest_replaces_the_summary_if_the_certificate_is_untrusted() {
    let endpoint = Endpoint::start(Conduct::Uncertified).await;
    let upstream = format!("https://localhost:{}/v1", endpoint.address.port());
    check(&upstream, LONG, UNREACHABLE).await;
    endpoint.met().await;
}

#[tokio::test]
async fn digest_replaces_the_summary_if_the_summariser_has_no_address() {
    check(&format!("http://{NOBODY}/v1"), LONG, UNREACHABLE).await;
}
