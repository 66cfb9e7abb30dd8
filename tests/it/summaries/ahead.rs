//! Summaries made ahead of need, and agents that outrun them.

use super::slow::Slow;
use crate::caller::{Caller, talk};
use crate::harness::Proxy;

/// Turns of 1,000 tokens each that pass the soft mark of a window of 34,000.
const SOFT: usize = 26;
/// Turns that exceed this window.
const FULL: usize = 40;

/// Starts a summary ahead of need; the conversation will exceed the window before it is ready.
async fn overtaken(wait: &str) -> (Slow, Proxy, Caller) {
    let mut upstream = Slow::start().await;
    let changes = [("window", "34000"), ("summary.wait", wait)];
    let proxy = Proxy::start(&upstream.base(), &changes).await;
    let caller = Caller::of(proxy.address);
    for turns in [SOFT / 2, SOFT] {
        let arrived = caller.ask(talk(turns, 1_000)).await;
        assert_eq!((arrived.status, arrived.action()), (200, ""));
    }
    upstream.told(1, 0).await;
    (upstream, proxy, caller)
}

#[tokio::test]
async fn waits_for_a_pending_summary_without_requesting_another() {
    let (upstream, _proxy, caller) = overtaken("100ms").await;
    let arrived = caller.ask(talk(FULL, 1_000)).await;
    assert_eq!((arrived.status, arrived.action()), (200, "digest"));
    assert_eq!(*upstream.told.borrow(), (1, 0), "no second was asked for");
}

#[tokio::test]
async fn waiting_request_uses_the_summary_made_ahead() {
    let (upstream, _proxy, caller) = overtaken("1h").await;
    let finish = async {
        // By then, the request is either in flight or finds the finished summary.
        tokio::task::yield_now().await;
        upstream.finish.send(true).unwrap();
    };
    let (arrived, ()) = tokio::join!(caller.ask(talk(FULL, 1_000)), finish);
    assert_eq!((arrived.status, arrived.action()), (200, "summary"));
    assert_eq!(*upstream.told.borrow(), (1, 0), "no second was asked for");
}

/// A manual compaction must replace as much as possible, and the pending summary covers less.
#[tokio::test]
async fn manual_compaction_waits_for_a_summary_of_the_whole_history() {
    let (mut upstream, _proxy, caller) = overtaken("1h").await;
    let now = [("x-longhaul-compact", "now")];
    let both_are_asked_for = async {
        upstream.told(2, 0).await;
        upstream.finish.send(true).unwrap();
    };
    let asked = caller.ask_with(&now, talk(SOFT + 3, 1_000));
    let (arrived, ()) = tokio::join!(asked, both_are_asked_for);
    assert_eq!((arrived.status, arrived.action()), (200, "summary"));
}
