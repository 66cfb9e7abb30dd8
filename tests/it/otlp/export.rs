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
async fn what_is_left_is_sent_at_the_end() {
    let (model, collector) = (model(200_000).await, Collector::start().await);
    let program = start(&model.url(), &collector, &[NEVER]);
    Caller::of(program.address()).ask(chat(1, 10)).await;
    assert_eq!(collector.posted().len(), 0);
    let said = end(program).await;
    assert_eq!(collector.spans().len(), 2, "{said}");
}

#[tokio::test]
async fn a_collector_that_takes_nothing_is_told_of_once_and_costs_nobody_anything() {
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
async fn a_collector_that_is_not_there_holds_no_end_up() {
    let model = model(200_000).await;
    let nobody = Nobody::bind();
    let gone = nobody.base("");
    let program = Program::told(&model.url(), &[(ENDPOINT, &gone), NEVER]);
    assert_eq!(
        Caller::of(program.address()).ask(chat(1, 10)).await.status,
        200
    );
    let said = end(program).await;
    assert_eq!(said.matches("takes no spans").count(), 1, "{said}");
}

#[tokio::test]
async fn a_collector_that_hangs_holds_no_end_up() {
    let (model, hangs) = (model(200_000).await, Upstream::bind().await);
    let program = Program::told(&model.url(), &[(ENDPOINT, &hangs.base("")), NEVER]);
    assert_eq!(
        Caller::of(program.address()).ask(chat(1, 10)).await.status,
        200
    );
    let said = end(program).await;
    assert!(said.contains("did not reach the collector"), "{said}");
}

#[tokio::test]
async fn a_collector_with_a_certificate_of_its_own_is_trusted_by_its_file() {
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
        assert_eq!(
            head.starts_with("POST /v1/traces HTTP/1.1\r\n"),
            spans,
            "{head}{said}"
        );
        assert_eq!(said.contains("takes no spans"), !spans, "{said}");
    }
}

#[test]
fn check_says_where_traces_go_without_what_may_be_a_secret() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg("check").env_clear();
    command.env(ENDPOINT, "http://user:word@127.0.0.1:9/path");
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let line = said.lines().find(|line| line.contains("traces"));
    assert_eq!(line, Some("# traces go to http://127.0.0.1:9"));
}

#[tokio::test]
async fn who_switches_traces_off_has_none() {
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
        assert_eq!(
            said.contains("there are no traces"),
            off.1 == "grpc",
            "{said}"
        );
    }
    assert_eq!(collector.posted().len(), 0);
}
