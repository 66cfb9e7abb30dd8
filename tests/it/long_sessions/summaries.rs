//! Long sessions with a model that writes summaries, well or badly.

use std::time::Duration;

use longhaul::Config;
use longhaul_mock_model::{
    ModelOptions, ReplyCompletion, RequestKind, SeenRequest, SummaryBehaviour, TokenDensity,
};
use tokio::task::JoinSet;

use super::{Case, Turns, case};
use crate::journey::{Journey, bodies, digests, harmless};
use crate::recovery::ask;
use crate::sessions::named;
use crate::time_limit::bounded;

/// Uses the conversation's own model.
fn own_model(_: &mut Config) {}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_three_windows_complete_with_summaries() {
    let cases: [Case; 3] = [
        case("cli-0018", Turns::Many, 30_000, TokenDensity::STANDARD),
        case("cli-0018", Turns::One, 32_768, TokenDensity::DENSE),
        case("oh-my-posh-0277", Turns::Many, 32_768, TokenDensity::DENSE),
    ];
    let mut checks = JoinSet::new();
    for case in cases {
        checks.spawn(async move { case.check(own_model).await });
    }
    let mut with_summary = 0;
    while let Some(done) = checks.join_next().await {
        let told = |step: &crate::journey::Step| step.arrived.action().contains("summary");
        with_summary += usize::from(done.unwrap().iter().any(told));
    }
    // Where clearing makes enough room, no summary is used.
    assert!(with_summary > 0, "no summary was used");
}

/// Checks that a summariser that fails this way costs the client nothing.
async fn check(conduct: SummaryBehaviour) {
    let options = ModelOptions { summary: conduct, ..ModelOptions::with_window(32_768) };
    let mut journey = Journey::start(options, |config| {
        config.summary.wait_limit = Duration::from_millis(200);
    })
    .await;
    // The first request overflows, and so waits for a summary.
    let replay = named("cli-0018").replay();
    let steps = journey.play(bodies(&replay).skip(95).take(15)).await;
    harmless(&format!("{conduct:?}"), &steps);
    let asked = |seen: &SeenRequest| seen.kind == RequestKind::Summary;
    assert!(journey.model.seen().iter().any(asked), "{conduct:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summariser_failures_of_any_kind_do_not_reach_the_client() {
    let mut checks = JoinSet::new();
    for conduct in [
        SummaryBehaviour::Empty,
        SummaryBehaviour::Fails,
        SummaryBehaviour::Hangs,
        SummaryBehaviour::None,
        SummaryBehaviour::Refuses,
        SummaryBehaviour::Throttled,
        SummaryBehaviour::ToolCall,
        SummaryBehaviour::Truncated,
    ] {
        checks.spawn(check(conduct));
    }
    while let Some(done) = checks.join_next().await {
        done.unwrap();
    }
}

fn summaries(seen: &[SeenRequest]) -> usize {
    seen.iter().filter(|seen| seen.kind == RequestKind::Summary).count()
}

/// A request that overflows, so that it waits for its summary.
fn too_long() -> Vec<u8> {
    bodies(&named("cli-0018").replay()).nth(105).unwrap()
}

#[tokio::test]
async fn client_disconnect_cancels_the_summary_it_waits_for() {
    let options =
        ModelOptions { summary: SummaryBehaviour::Hangs, ..ModelOptions::with_window(32_768) };
    let journey = Journey::start(options, own_model).await;
    let asked = |seen: &[SeenRequest]| summaries(seen) == 1;
    let (url, body) = (journey.url(), too_long());
    tokio::select! {
        _ = ask(&url, &body) => panic!("it had no answer to give"),
        seen = bounded(journey.model.wait_for(asked)) => {
            assert_eq!(seen.last().unwrap().ended, ReplyCompletion::Pending);
        }
    }
    let left =
        |seen: &[SeenRequest]| seen.iter().all(|seen| seen.ended != ReplyCompletion::Pending);
    let seen = bounded(journey.model.wait_for(left)).await;
    assert_eq!(seen.last().unwrap().ended, ReplyCompletion::Abandoned);
    journey.model.change(|options| options.summary = SummaryBehaviour::Faithful);
    let arrived = ask(&url, &body).await;
    assert!(arrived.is_answer());
    let action = arrived.action();
    assert!(!action.contains("summary"), "nothing half-made was kept: {action}");
}

#[tokio::test]
async fn identical_concurrent_requests_share_one_summary() {
    let journey = Journey::start(ModelOptions::with_window(32_768), own_model).await;
    let (url, body) = (journey.url(), too_long());
    let (one, other) = tokio::join!(ask(&url, &body), ask(&url, &body));
    assert!(one.is_answer() && other.is_answer());
    assert_eq!(summaries(&journey.model.seen()), 1);
}

#[tokio::test]
async fn requests_no_summary_without_a_summary_model() {
    let mut journey = Journey::start(ModelOptions::with_window(16_384), digests).await;
    let steps = journey.play(bodies(&named("cli-0237").replay())).await;
    harmless("digests", &steps);
    assert_eq!(summaries(&journey.model.seen()), 0);
}
