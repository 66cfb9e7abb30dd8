//! Summaries that take longer than any client waits.

use std::time::Duration;

use tokio::time;

use super::slow::Slow;
use crate::caller::{Caller, talk};
use crate::harness::Proxy;

/// Starts a proxy that stores its records in this file.
async fn proxy(upstream: &Slow, store: &str) -> (Proxy, Caller) {
    let changes = [("window", "20000"), ("summary.wait", "100ms"), ("store.at", store)];
    let proxy = Proxy::start(&upstream.base(), &changes).await;
    let caller = Caller::of(proxy.address);
    (proxy, caller)
}

#[tokio::test]
async fn shutdown_waits_for_a_late_summary_that_the_next_process_uses() {
    let mut upstream = Slow::start().await;
    let dir = tempfile::tempdir().unwrap();
    let store = format!("file:{}", dir.path().join("longhaul.db").display());
    let (proxy, caller) = proxy(&upstream, &store).await;
    // The next request adds so much at once that it exceeds the window.
    assert_eq!(caller.ask(talk(6, 2_000)).await.action(), "");
    let arrived = caller.ask(talk(12, 2_000)).await;
    assert_eq!(arrived.action(), "digest");
    let told = *upstream.told.wait_for(|told| told.0 > 0).await.unwrap();
    assert_eq!(told, (1, 0), "it is still made");

    let stopping = proxy.stop();
    tokio::pin!(stopping);
    time::pause();
    tokio::select! {
        biased;
        () = &mut stopping => panic!("what is paid for was thrown away"),
        () = time::sleep(Duration::from_secs(1)) => {}
    }
    time::resume();
    upstream.finish.send(true).unwrap();
    stopping.await;

    let (_proxy, caller) = self::proxy(&upstream, &store).await;
    for turns in 12..20 {
        if caller.ask(talk(turns, 2_000)).await.action() == "summary" {
            assert_eq!(*upstream.told.borrow(), (1, 0), "no second one is paid for");
            return;
        }
    }
    panic!("it was not used");
}
