//! The export of spans, which must not delay any request.

use std::process::Command;

use http::StatusCode;

use super::collector::Collector;
use super::{ENDPOINT, NEVER, end, model, start};
use crate::caller::{Caller, chat};
use crate::harness::{Nobody, Upstream};
use crate::program::Program;
use crate::tls;

#[tokio::test]
async fn exports_remaining_spans_on_shutdown() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[NEVER]);
    Caller::of(program.address()).ask(chat(1, 10)).await;
    assert_eq!(collector.posted().len(), 0);
    let said = end(program).await;
    assert_eq!(collector.spans().len(), 2, "{said}");
}

#[tokio::test]
async fn refusing_collector_is_logged_once_and_affects_no_request() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    collector.answer(StatusCode::FORBIDDEN);
    let program = start(&model.url(), &collector, &[]);
    let caller = Caller::of(program.address());
    for times in 1..=3 {
        assert_eq!(caller.ask(chat(1, 10)).await.status, 200);
        collector.is_asked(times).await;
    }
    collector.answer(StatusCode::OK);
    // Exports still in flight may be refused or accepted; this request's export is accepted.
    caller.ask(chat(1, 10)).await;
    collector.requests(4).await;
    let said = end(program).await;
    assert_eq!(said.matches("takes no spans").count(), 1, "{said}");
    assert_eq!(said.matches("takes spans again").count(), 1, "{said}");
}

#[tokio::test]
async fn unreachable_collector_does_not_block_shutdown() {
    let model = model(200_000).await;
    let nobody = Nobody::bind();
    let gone = nobody.base("");
    let program = Program::told(&model.url(), &[(ENDPOINT, &gone), NEVER]);
    assert_eq!(Caller::of(program.address()).ask(chat(1, 10)).await.status, 200);
    let said = end(program).await;
    assert_eq!(said.matches("takes no spans").count(), 1, "{said}");
}

#[tokio::test]
async fn hanging_collector_does_not_block_shutdown() {
    let (model, hangs) = (model(200_000).await, Upstream::bind().await);
    let program = Program::told(&model.url(), &[(ENDPOINT, &hangs.base("")), NEVER]);
    assert_eq!(Caller::of(program.address()).ask(chat(1, 10)).await.status, 200);
    let said = end(program).await;
    assert!(said.contains("did not reach the collector"), "{said}");
}

#[tokio::test]
async fn trusts_a_collector_by_its_configured_certificate_file() {
    let model = model(200_000).await;
    let dir = tempfile::tempdir().unwrap();
    let ca_file = dir.path().join("ca.pem");
    let file = ca_file.to_str().unwrap();
    for (trusted, spans) in [
        (("OTEL_EXPORTER_OTLP_CERTIFICATE", file), true),
        (("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"), false),
    ] {
        let (port, served) = tls::upstream(&ca_file, "localhost").await;
        let endpoint = format!("https://localhost:{port}");
        let program = Program::told(&model.url(), &[(ENDPOINT, &*endpoint), NEVER, trusted]);
        Caller::of(program.address()).ask(chat(1, 10)).await;
        let said = end(program).await;
        let head = served.await.unwrap();
        assert_eq!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), spans, "{head}{said}");
        assert_eq!(said.contains("takes no spans"), !spans, "{said}");
    }
}

#[test]
fn check_shows_the_trace_endpoint_without_secrets() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg("check").env_clear();
    command.env(ENDPOINT, "http://user:word@127.0.0.1:9/path");
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let line = said.lines().find(|line| line.contains("traces"));
    assert_eq!(line, Some("# traces go to http://127.0.0.1:9"));
}

#[tokio::test]
async fn exports_no_traces_if_they_are_switched_off() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ] {
        let program = start(&model.url(), &collector, &[off]);
        Caller::of(program.address()).ask(chat(1, 10)).await;
        let said = end(program).await;
        assert_eq!(said.contains("there are no traces"), off.1 == "grpc", "{said}");
    }
    assert_eq!(collector.posted().len(), 0);
}
