//! Connections held open by sending next to nothing.
//!
//! The clock is paused and jumps to the next timer when the runtime is idle, so deadlines pass
//! without waiting.

use std::io::Write;
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::time::{pause, resume, sleep};

use super::CHAT;
use crate::harness::{Proxy, Upstream, Wire};

/// Time between two bytes.
const DRIP: Duration = Duration::from_secs(10);
/// `limits::HEAD_TIMEOUT` in dripped bytes, twice: once to detect the protocol and once for the head.
const BYTES: usize = 2 * 8;

/// Asserts that a client that sends `said` piece by piece is closed when its time for a head is
/// over, however much has arrived.
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
async fn slowly_sent_head_is_not_waited_for() {
    check(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n".chunks(1)).await;
    check(b"GET / HTTP/1.1\r\nX-A: b\r\nX-A: b\r\nX-A: b\r\nX-A: b\r\n".chunks(1)).await;
}

#[tokio::test]
async fn slowly_sent_http2_preface_is_not_waited_for() {
    check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".chunks(1)).await;
}

#[tokio::test]
async fn silent_connection_is_not_waited_for() {
    check([&b""[..]; BYTES].into_iter()).await;
}

/// Returns a client that was refused with 401 and has sent none of its body yet.
async fn stranger() -> (Proxy, Wire) {
    let mut tokens = NamedTempFile::new().unwrap();
    tokens.write_all(&[b'0'; 32]).unwrap();
    let tokens = ("client_tokens_file", tokens.path().to_str().unwrap());
    let proxy = Proxy::start("http://127.0.0.1:9/v1", &[tokens]).await;
    let mut client = proxy.connect().await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 1 << 30);
    client.send(&head).await;
    let reply = client.until("\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 401 "), "{reply}");
    (proxy, client)
}

#[tokio::test]
async fn slowly_sent_body_after_a_refusal_is_not_waited_for() {
    /// `limits::LINGER` in seconds.
    const LINGER: usize = 5;
    let (_proxy, mut client) = stranger().await;
    pause();
    let mut drips = 0;
    while !client.is_ended() {
        assert!(drips <= LINGER + 1, "it was waited for");
        client.tries_to_send(b"x").await;
        sleep(Duration::from_secs(1)).await;
        drips += 1;
    }
    assert!(drips >= LINGER, "after {drips} s");
}

#[tokio::test]
async fn long_body_after_a_refusal_is_cut_off() {
    /// MiB that the proxy drains after a refusal (32), plus room for unread socket buffers (16).
    const MOST: usize = 32 + 16;
    let (_proxy, mut client) = stranger().await;
    let piece = vec![b'x'; 1 << 20];
    let mut pieces = 0;
    while client.tries_to_send(&piece).await {
        pieces += 1;
        assert!(pieces < MOST, "it is read on");
    }
}
