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

/// A client that says this piece by piece is closed when its time for a head is over, whatever it
/// has said until then.
async fn check<'a>(said: impl Iterator<Item = &'a [u8]>) {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let mut client = proxy.connect().await;
    pause();
    for (at, piece) in said.enumerate() {
        if client.is_ended() {
            assert!(at <= BYTES, "{at}");
            resume();
            return;
        }
        client.tries_to_send(piece).await;
        sleep(DRIP).await;
    }
    panic!("it was waited for");
}

#[tokio::test]
async fn a_head_that_drips_is_not_waited_for() {
    check(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n".chunks(1)).await;
    check(b"GET / HTTP/1.1\r\nX-A: b\r\nX-A: b\r\nX-A: b\r\nX-A: b\r\n".chunks(1)).await;
}

#[tokio::test]
async fn the_first_24_bytes_that_drip_are_not_waited_for() {
    check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".chunks(1)).await;
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    check([&b""[..]; BYTES].into_iter()).await;
}
