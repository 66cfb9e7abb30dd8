//! What an operator hears of summaries that are not made.

use longhaul::demo::{Model, ModelOptions, SummaryConduct};

use crate::caller::{Caller, talk};
use crate::program::Program;

/// Compacts a request by hand.
const NOW: (&str, &str) = ("x-longhaul-compact", "now");

#[tokio::test]
async fn who_refused_a_summary_and_how_is_told() {
    let options = ModelOptions {
        summary: SummaryConduct::Throttled,
        ..ModelOptions::of_window(10_000_000)
    };
    let model = Model::start(options).await.unwrap();
    let setting = [("LONGHAUL_SUMMARY_MODEL", "small")];
    let program = Program::told(&model.url(), &setting);
    let caller = Caller::of(program.address());
    let arrived = caller.ask_with(&[NOW], talk(12, 2_000)).await;
    assert_eq!(arrived.action(), "digest");
    let log = program.ended();
    let told = r#"why="refused" status=429 model="small" host="127.0.0.1""#;
    assert!(log.contains(told), "{log}");
}
