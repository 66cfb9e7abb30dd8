//! Tests of waiting for summaries and of preparing them.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::chat::test_support::{NOW, meet, proxy, talk};
use crate::metrics::SummaryOutcome as Outcome;
use crate::proxy::Proxy;
use longhaul_mock_model::{Model, ModelOptions};

/// Tolerance by which a paused clock may overshoot a deadline.
const TICK: Duration = Duration::from_millis(10);

/// Starts an upstream that accepts connections and never answers.
async fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    (listener, base)
}

/// Builds a proxy for `base` whose requests wait for a summary for `wait`.
fn waiting(base: &str, wait: &str) -> Proxy {
    // All other timeouts are longer.
    proxy(base, &[("summary.wait", wait), ("upstream.connect", "1h")])
}

/// Returns the nonzero outcome counts of ended summaries.
fn ended(proxy: &Proxy) -> Vec<(Outcome, u64)> {
    let all = proxy.0.metrics.summaries.iter();
    all.filter(|(_, count)| *count > 0).collect()
}

#[track_caller]
fn check_took(took: Duration, expect: Duration) {
    assert!((expect..expect + TICK).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_summary_as_long_as_was_said_and_the_call_goes_on_behind_it() {
    for (wait, expect) in [
        ("300ms", Duration::from_millis(300)),
        ("5s", Duration::from_secs(5)),
    ] {
        let (_listener, base) = silent().await;
        let proxy = waiting(&base, wait);
        let began = Instant::now();
        let action = meet(&proxy, &[NOW], talk(12, 500), async |chat, basis| {
            let (first, _) = chat.plan_first_send(basis).await;
            first.report.action_labels()
        });
        assert_eq!(action.await.as_deref(), Some("digest"));
        check_took(began.elapsed(), expect);
        assert_eq!(ended(&proxy), [], "the call is still running");
        let idle = timeout(2 * CALL_TIMEOUT, proxy.0.summary_jobs.wait_until_idle()).await;
        assert!(idle.is_ok());
        assert_eq!(ended(&proxy), [(Outcome::TimedOut, 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_for_a_summary_that_hangs_is_given_up_after_two_minutes() {
    let (_listener, base) = silent().await;
    let proxy = waiting(&base, "10m");
    let began = Instant::now();
    let first = meet(&proxy, &[NOW], talk(12, 500), async |chat, basis| {
        chat.plan_first_send(basis).await;
    });
    first.await;
    check_took(began.elapsed(), CALL_TIMEOUT);
    assert_eq!(ended(&proxy), [(Outcome::TimedOut, 1)]);
    let idle = timeout(TICK, proxy.0.summary_jobs.wait_until_idle()).await;
    assert!(idle.is_ok(), "the next call can start");
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_compaction_alone_waits_for_as_long_as_a_call_may_take() {
    let (_listener, base) = silent().await;
    let proxy = waiting(&base, "1s");
    let (head, ()) = http::Request::new(()).into_parts();
    let began = Instant::now();
    let compacted = proxy.compact_body(head, talk(12, 500).into()).await;
    let done = compacted.ok().and_then(|compacted| compacted.outcome);
    assert_eq!(done.unwrap().action, "digest");
    check_took(began.elapsed(), CALL_TIMEOUT);
}

/// Starts a model with a huge window and a proxy for it, with these changes to the settings.
async fn pair(changes: &[(&str, &str)]) -> (Model, Proxy) {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await;
    let model = model.unwrap();
    let proxy = proxy(&model.url(), changes);
    (model, proxy)
}

/// Prepares summaries of a chat one after another, as if none had existed when the chat was sent.
async fn prepare(proxy: &Proxy, text: String, covers: &[usize]) {
    let prepared = meet(proxy, &[], text, async |chat, basis| {
        let (attempt, _) = chat.plan_first_send(basis).await;
        for covers in covers {
            chat.prepare_summary(&attempt, *covers);
            proxy.0.summary_jobs.wait_until_idle().await;
        }
    });
    prepared.await;
}

#[tokio::test]
async fn a_history_that_is_rewritten_each_time_has_three_summaries_made_ahead_and_no_fourth() {
    let (model, proxy) = pair(&[("summary.max_per_hour", "100")]).await;
    let text = talk(12, 500);
    for edit in 0..5 {
        let edited = text.replacen("line of 002 said.", &format!("edit {edit}"), 1);
        prepare(&proxy, edited, &[20]).await;
    }
    assert_eq!(model.seen().len(), 3);
    assert_eq!(ended(&proxy), [(Outcome::Made, 3)]);
}

#[tokio::test]
async fn a_summary_that_was_made_while_a_request_was_on_its_way_is_not_made_again() {
    let (model, proxy) = pair(&[]).await;
    prepare(&proxy, talk(12, 500), &[20, 18]).await;
    assert_eq!(model.seen().len(), 1);
}

#[tokio::test]
async fn on_ones_own_machine_no_summary_is_made_ahead() {
    let (model, proxy) = pair(&[("profile", "local")]).await;
    prepare(&proxy, talk(12, 500), &[20]).await;
    assert_eq!(model.seen().len(), 0);
}
