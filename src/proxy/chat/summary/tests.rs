//! How long a summary is waited for, and which are made ahead.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;

use super::super::met::{NOW, meet, proxy, talk};
use super::*;
use crate::demo::{Model, ModelOptions};
use crate::metrics::SummaryOutcome as Outcome;
use crate::proxy::Proxy;

/// A clock that jumps stops this soon behind the moment that it jumps to.
const TICK: Duration = Duration::from_millis(10);

/// An upstream to which everybody connects, and which answers nobody.
async fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    (listener, base)
}

/// A proxy for it whose requests wait so long for a summary.
fn waiting(base: &str, wait: &str) -> Proxy {
    // Whatever else there is to wait for takes longer.
    proxy(base, &[("summary.wait", wait), ("upstream.connect", "1h")])
}

/// What became of summaries that are made no more.
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
        assert_eq!(ended(&proxy), [], "it is under way");
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
    assert!(idle.is_ok(), "the next one has its place");
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

/// A model that holds anything, and a proxy for it with these changes.
async fn pair(changes: &[(&str, &str)]) -> (Model, Proxy) {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await;
    let model = model.unwrap();
    let proxy = proxy(&model.url(), changes);
    (model, proxy)
}

/// Prepares summaries of a chat, one after another, as if none had come before the chat was sent.
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
