//! Tests of the figures and the table.

use super::*;
use crate::eval::outcomes::ArmOutcome;
use crate::evaluation::agent_step::StepCall;

fn reads(path: &str) -> StepOutcome {
    StepOutcome::Step(AgentStep {
        kind: StepKind::Calls,
        calls: vec![StepCall { tool: "read_file".to_owned(), main_argument: path.to_owned() }],
        files: [path.to_owned()].into(),
        text: String::new(),
    })
}

fn says(kind: StepKind) -> StepOutcome {
    StepOutcome::Step(AgentStep {
        kind,
        calls: Vec::new(),
        files: std::collections::BTreeSet::new(),
        text: "x".to_owned(),
    })
}

fn sample(original: StepOutcome, control: StepOutcome, forwarded: StepOutcome) -> Sample {
    Sample {
        session: "s".to_owned(),
        request: 1,
        asked: Vec::new(),
        original,
        control,
        arms: vec![ArmOutcome { step: forwarded, changes: 1, shown_changes: Vec::new() }],
    }
}

fn report(samples: Vec<Sample>) -> EvalReport {
    EvalReport {
        model: "m".to_owned(),
        upstream: "http://u/v1".to_owned(),
        sessions: 1,
        choice: Choice { requests: 9, changed: 5, too_large: 2, ..Choice::default() },
        failed_summaries: 0,
        spent: Usd::from_nanos(1_230_000_000),
        is_stopped_by_cost: false,
        arms: vec![ArmReport::new("profile auto", 0, &samples)],
        samples,
    }
}

#[test]
fn agreement_is_counted_over_requests_with_all_three_answers() {
    let question = || says(StepKind::Question);
    let failed = || StepOutcome::Failed { reason: "x".to_owned() };
    let report = report(vec![
        sample(reads("a"), reads("a"), reads("a")),
        sample(reads("a"), reads("a"), question()),
        sample(reads("a"), reads("b"), reads("a")),
        sample(question(), reads("a"), question()),
        sample(reads("a"), failed(), reads("a")),
        sample(StepOutcome::DoesNotFit, StepOutcome::DoesNotFit, reads("a")),
        sample(reads("a"), reads("a"), StepOutcome::DoesNotFit),
        sample(reads("a"), reads("a"), StepOutcome::Unchanged),
        sample(reads("a"), says(StepKind::CutOff), reads("a")),
        sample(reads("a"), StepOutcome::NotSent, reads("a")),
    ]);
    let arm = &report.arms[0];
    let step = arm.same_step.unwrap();
    assert_eq!(step.pairs, 4);
    assert!((step.treatment.share - 0.75).abs() < 1e-12);
    assert!((step.control.share - 0.5).abs() < 1e-12);
    assert_eq!(arm.questions, KindCounts { original: 1, control: 0, forwarded: 2 });
    let expect = Unpaired {
        only_forwarded_fits: 1,
        does_not_fit: 1,
        unchanged: 1,
        cut_off: 1,
        failed: 1,
        not_made: 1,
    };
    assert_eq!(arm.unpaired, expect);
    assert_eq!(expect.notes().len(), 6);
    let two =
        |failed: u32, not_made: u32| Unpaired { failed, not_made, ..Unpaired::default() }.notes();
    assert!(two(2, 0)[0].starts_with("2 requests: the upstream failed"));
    assert_eq!(two(0, 1), ["1 request: not asked, because of --max-cost"]);
}

#[test]
fn table_shows_each_arm_beside_its_control_and_says_if_there_are_too_few() {
    let same = || sample(reads("a"), reads("a"), reads("a"));
    let few = report(vec![same(), same()]);
    let page = few.table(None);
    assert!(page.contains("m at http://u/v1\n"), "{page}");
    assert!(page.contains("cost so far $1.23"), "{page}");
    assert!(page.contains("2 of the changed requests do not fit"), "{page}");
    let row = page.lines().find(|line| line.starts_with("profile auto  "));
    let row: Vec<&str> = row.unwrap().split_whitespace().collect();
    let cells = ["profile", "auto", "2", "100%", "100%", "+0"];
    assert_eq!(row[..6], cells, "{page}");
    assert!(page.contains("too few requests to say anything: 2 pairs"), "{page}");
    let many = report((0..60).map(|_| same()).collect());
    let told = &many.arms[0].conclusion;
    assert!(told.starts_with("a loss of 10 points or more is excluded"), "{told}");
    let lost =
        report((0..60).map(|_| sample(reads("a"), reads("a"), says(StepKind::Question))).collect());
    let told = &lost.arms[0].conclusion;
    assert!(told.contains("more often than asking twice does: −100 points"), "{told}");
}

#[test]
fn no_answers_give_no_figures_and_say_so() {
    let report = report(Vec::new());
    assert!(report.table(None).contains("nothing can be said"));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["requests"], &json["too_large"]), (&9.into(), &2.into()));
    assert!(json["arms"][0]["same_step"].is_null());
}
