//! How long a summary is waited for.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;

use super::super::met::{NOW, meet, proxy, talk};
use super::*;
use crate::metrics::Summary as Outcome;
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
            let (first, _) = chat.first(basis).await;
            first.report.action()
        });
        assert_eq!(action.await.as_deref(), Some("digest"));
        check_took(began.elapsed(), expect);
        assert_eq!(ended(&proxy), [], "it is under way");
        let idle = timeout(2 * CALL, proxy.0.desk.idle()).await;
        assert!(idle.is_ok());
        assert_eq!(ended(&proxy), [(Outcome::TimedOut, 1)]);
    }
}
