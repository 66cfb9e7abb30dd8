//! Reports to the operator about summaries that are not made.

use longhaul_mock_model::{Model, ModelOptions, SummaryBehaviour};

use crate::admin::get;
use crate::caller::{Caller, talk};
use crate::program::{Admin, Program};

/// Compacts a request explicitly.
const NOW: (&str, &str) = ("x-longhaul-compact", "now");

#[tokio::test]
async fn logs_the_status_model_and_host_of_a_refused_summary() {
    let options = ModelOptions {
        summary: SummaryBehaviour::Throttled,
        ..ModelOptions::with_window(10_000_000)
    };
    let model = Model::start(options).await.unwrap();
    let setting = [("LONGHAUL_SUMMARY_MODEL", "small")];
    let program = Program::told(&model.url(), &setting);
    let caller = Caller::of(program.address());
    let arrived = caller.ask_with(&[NOW], talk(12, 2_000)).await;
    assert_eq!(arrived.action(), "digest");
    let log = program.ended();
    let told = r#"why="refused by the upstream" status=429 writer="small" host="127.0.0.1""#;
    assert!(log.contains(told), "{log}");
}

#[tokio::test]
async fn logs_a_reached_summary_limit_once_and_counts_withheld_summaries() {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let setting = [("LONGHAUL_SUMMARY_MAX_PER_HOUR", "1")];
    let program = Program::with_admin(&model.url(), &setting, Admin::Free);
    let caller = Caller::of(program.address());
    let counted = async |count: usize| {
        let metrics = get(program.admin(), "/metrics").await;
        let line =
            format!("longhaul_summaries_withheld_total{{reason=\"conversation\"}} {count}\n");
        assert!(metrics.contains(&line), "{metrics}");
    };
    for (turns, action, withheld) in [(12, "summary", 0), (24, "digest", 1)] {
        let arrived = caller.ask_with(&[NOW], talk(turns, 2_000)).await;
        assert_eq!(arrived.action(), action, "{turns}");
        counted(withheld).await;
    }
    let log = program.ended();
    let told = r#"of="conversation" summaries=1"#;
    assert_eq!(log.matches(told).count(), 1, "{log}");
}
