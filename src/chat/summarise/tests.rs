//! Tests of waiting for summaries and of preparing them.

mod heads;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::chat::explicit_compaction::compact_body;
use crate::chat::plan;
use crate::chat::test_support::{NOW, chat_body, state, with_chat};
use crate::metrics::SummaryOutcome as Outcome;
use crate::proxy_state::ProxyState;
use crate::summaries::CALL_TIMEOUT;
use longhaul_mock_model::{Model, ModelOptions};

/// Tolerance by which a paused clock may overshoot a deadline.
const TICK: Duration = Duration::from_millis(10);

/// Starts an upstream that accepts connections and never answers.
async fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    (listener, base)
}

/// Builds the state for `base` whose requests wait for a summary for `wait`.
fn waiting(base: &str, wait: &str) -> Arc<ProxyState> {
    // All other timeouts are longer.
    state(base, &[("summary.wait", wait), ("upstream.connect", "1h")])
}

/// Returns the nonzero outcome counts of ended summaries.
fn ended(state: &Arc<ProxyState>) -> Vec<(Outcome, u64)> {
    let all = state.metrics.summaries.iter();
    all.filter(|(_, count)| *count > 0).collect()
}

#[track_caller]
fn check_took(took: Duration, expect: Duration) {
    assert!((expect..expect + TICK).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn request_stops_waiting_after_the_set_time_and_the_call_continues() {
    for (wait, expect) in [("300ms", Duration::from_millis(300)), ("5s", Duration::from_secs(5))] {
        let (_listener, base) = silent().await;
        let state = waiting(&base, wait);
        let began = Instant::now();
        let action = with_chat(&state, &[NOW], chat_body(12, 500), async |chat, inputs| {
            let (_, _, report) = plan::first_send(&chat, inputs).await;
            report.action_labels()
        });
        assert_eq!(action.await.as_deref(), Some("digest"));
        check_took(began.elapsed(), expect);
        assert_eq!(ended(&state), [], "the call is still running");
        let idle = timeout(2 * CALL_TIMEOUT, state.running_summaries.wait_until_idle()).await;
        assert!(idle.is_ok());
        assert_eq!(ended(&state), [(Outcome::TimedOut, 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_summary_call_times_out_after_two_minutes() {
    let (_listener, base) = silent().await;
    let state = waiting(&base, "10m");
    let began = Instant::now();
    let first = with_chat(&state, &[NOW], chat_body(12, 500), async |chat, inputs| {
        plan::first_send(&chat, inputs).await;
    });
    first.await;
    check_took(began.elapsed(), CALL_TIMEOUT);
    assert_eq!(ended(&state), [(Outcome::TimedOut, 1)]);
    let idle = timeout(TICK, state.running_summaries.wait_until_idle()).await;
    assert!(idle.is_ok(), "the next call can start");
}

#[tokio::test(start_paused = true)]
async fn explicit_compaction_waits_the_full_call_timeout() {
    let (_listener, base) = silent().await;
    let state = waiting(&base, "1s");
    let (head, ()) = http::Request::new(()).into_parts();
    let began = Instant::now();
    let compacted = compact_body(&state, head, chat_body(12, 500).into()).await;
    let (_, report) = compacted.unwrap();
    assert_eq!(report.action_labels().unwrap(), "digest");
    check_took(began.elapsed(), CALL_TIMEOUT);
}

/// Starts a model with a huge window and a proxy for it, with these changes to the settings.
async fn pair(changes: &[(&str, &str)]) -> (Model, Arc<ProxyState>) {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await;
    let model = model.unwrap();
    let state = state(&model.url(), changes);
    (model, state)
}

/// Prepares summaries of a chat one after another, as if none had existed when the chat was sent.
async fn prepare(state: &Arc<ProxyState>, text: String, covers: &[usize]) {
    let prepared = with_chat(state, &[], text, async |chat, inputs| {
        let (attempt, _, _) = plan::first_send(&chat, inputs).await;
        for covers in covers {
            start_background_summary(&chat, &attempt, *covers);
            state.running_summaries.wait_until_idle().await;
        }
    });
    prepared.await;
}

#[tokio::test]
async fn prepares_at_most_three_summaries_for_an_edited_history() {
    let (model, state) = pair(&[("summary.max_per_hour", "100")]).await;
    let text = chat_body(12, 500);
    for edit in 0..5 {
        let edited = text.replacen("line of 002 said.", &format!("edit {edit}"), 1);
        prepare(&state, edited, &[20]).await;
    }
    assert_eq!(model.seen().len(), 3);
    assert_eq!(ended(&state), [(Outcome::Made, 3)]);
}

#[tokio::test]
async fn summary_made_during_a_request_is_not_made_again() {
    let (model, state) = pair(&[]).await;
    prepare(&state, chat_body(12, 500), &[20, 18]).await;
    assert_eq!(model.seen().len(), 1);
}

#[tokio::test]
async fn local_profile_prepares_no_summary() {
    let (model, state) = pair(&[("profile", "local")]).await;
    prepare(&state, chat_body(12, 500), &[20]).await;
    assert_eq!(model.seen().len(), 0);
}
