//! Connections that are held open by saying next to nothing.
//!
//! The clock jumps to the next deadline whenever nothing else happens, so that deadlines are met
//! and not waited for.

use std::time::Duration;

use tokio::time::{pause, resume, sleep};

use crate::harness::{Proxy, Upstream};

/// Between two bytes.
const DRIP: Duration = Duration::from_secs(10);
/// `limits::HEAD_READ` in bytes of a drip, once to tell the protocol and once for the head.
const BYTES: usize = 2 * 8;

/// A client that says this byte by byte is closed when its time for a head is over, whatever it
/// has said until then.
async fn check(said: &[u8]) {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let mut client = proxy.connect().await;
    pause();
    for (at, byte) in said.iter().enumerate() {
        if client.is_ended() {
            assert!(at <= BYTES, "{at} of {}", said.escape_ascii());
            resume();
            return;
        }
        client.tries_to_send(&[*byte]).await;
        sleep(DRIP).await;
    }
    panic!("{} was waited for", said.escape_ascii());
}

#[tokio::test]
async fn a_head_that_drips_is_not_waited_for() {
    check(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n").await;
    check(b"GET / HTTP/1.1\r\nX-A: b\r\nX-A: b\r\nX-A: b\r\nX-A: b\r\n").await;
}

#[tokio::test]
async fn the_first_24_bytes_that_drip_are_not_waited_for() {
    check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
}
