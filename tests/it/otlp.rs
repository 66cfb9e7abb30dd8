//! Traces as a collector receives them: their content, data they must not contain, and export
//! without delaying requests.

mod collector;
mod conventions;
mod ends;
mod export;
mod parents;
mod protobuf;

use std::process::Command;

use longhaul_mock_model::{Model, ModelOptions};

use crate::program::Program;
use collector::Collector;
use protobuf::{Said, Span};

const SMALL: u64 = 32_768;
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// An export interval of 20 ms, for tests that wait for an export.
const SOON: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "20");
/// An export interval of a day, for tests that wait for the export at shutdown.
const NEVER: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "86400000");

/// Starts a program that exports its spans to `collector` almost at once.
fn start(upstream: &str, collector: &Collector, more: &[(&str, &str)]) -> Program {
    let endpoint = collector.endpoint();
    let mut environment = vec![(ENDPOINT, endpoint.as_str()), SOON];
    environment.extend(more);
    Program::told(upstream, &environment)
}

async fn model(window: u64) -> Model {
    Model::start(ModelOptions::with_window(window)).await.unwrap()
}

/// Stops the program with SIGTERM and waits for a successful exit; returns its log.
async fn end(mut program: Program) -> String {
    let id = program.process().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status();
    assert!(told.unwrap().success());
    let waiting = tokio::task::spawn_blocking(move || (program.exit(), program.said()));
    let (ended, said) = waiting.await.unwrap();
    assert!(ended.success(), "{ended}: {said}");
    said
}

/// Returns the server span of the only request.
fn server(spans: &[Span]) -> &Span {
    let mut servers = spans.iter().filter(|span| span.is_of_server());
    let one = servers.next().unwrap();
    assert!(servers.next().is_none(), "{spans:?}");
    one
}

/// Returns the client spans, in the order in which they ended.
fn clients(spans: &[Span]) -> Vec<&Span> {
    spans.iter().filter(|span| span.is_of_client()).collect()
}

fn check(span: &Span, expect: &[(&str, Said)]) {
    for (key, value) in expect {
        assert_eq!(span.says(key), Some(value), "{key} of {span:?}");
    }
}
