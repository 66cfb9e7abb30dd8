//! A build without tracing whose environment requests it: the program logs that and works.

use std::process::Command;

use longhaul_mock_model::{Model, ModelOptions};

use crate::caller::{Caller, chat};
use crate::program::Program;

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9/hunter2");
const WHY: &str = "this build was made without the feature otlp";

fn check(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg("check").env_clear();
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn check_reports_missing_trace_support_if_traces_are_requested() {
    let said = check(&[ENDPOINT]);
    assert!(said.contains(WHY) && !said.contains("hunter2"), "{said}");
    assert!(!check(&[]).contains("traces"));
    assert!(!check(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]).contains("traces"));
}

#[tokio::test]
async fn serve_logs_missing_trace_support_once_and_serves() {
    let model = Model::start(ModelOptions::with_window(200_000)).await.unwrap();
    let program = Program::told(&model.url(), &[ENDPOINT]);
    let caller = Caller::of(program.address());
    for _ in 0..2 {
        assert_eq!(caller.ask(chat(1, 10)).await.status, 200);
    }
    let said = program.ended();
    assert_eq!(said.matches(WHY).count(), 1, "{said}");
}
