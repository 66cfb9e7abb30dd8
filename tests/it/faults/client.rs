//! A failing client: its own requests end with it, and all others continue.

use std::time::Duration;

use tokio::time;

use crate::harness::{Proxy, Upstream, Wire};

const CHAT: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n";
const EMBEDDINGS: &str = "POST /v1/embeddings HTTP/1.1\r\nHost: x\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

async fn pair() -> (Upstream, Proxy) {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    (upstream, proxy)
}

/// Asserts that the next request is served, and that it is the next one the upstream receives.
async fn still_serves(upstream: &Upstream, proxy: &Proxy) {
    let mut client = proxy.connect().await;
    client.send(&format!("{CHAT}Connection: close\r\nContent-Length: 2\r\n\r\n{{}}")).await;
    let mut server = loop {
        let mut server = upstream.accept().await;
        let request = server.head_or_end().await;
        // The port of a test that ended may be this one's: a late connection to that test sends nothing.
        if !request.is_empty() {
            if !request.ends_with("{}") {
                server.until("{}").await;
            }
            break server;
        }
    };
    server.send(OK).await;
    let reply = client.rest().await;
    assert!(reply.ends_with("\r\n\r\nok"), "{reply:?}");
}

#[tokio::test]
async fn client_reset_ends_its_upstream_request() {
    let (upstream, proxy) = pair().await;
    // In the head, or in a body that is read whole: the upstream receives nothing.
    for said in ["POST /v1/ch", &format!("{CHAT}Content-Length: 9\r\n\r\n{{\"mes")] {
        let mut client = proxy.connect().await;
        client.send(said).await;
        client.reset();
    }
    // In a streamed body: the upstream's connection breaks off.
    let mut client = proxy.connect().await;
    client.send(&format!("{EMBEDDINGS}Content-Length: 9\r\n\r\none")).await;
    let mut server = upstream.accept().await;
    server.until("one").await;
    client.reset();
    assert_eq!(server.rest().await, "");
    // Before the reply and within it.
    for reply in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst"] {
        let mut client = proxy.connect().await;
        client.send(&format!("{CHAT}Content-Length: 2\r\n\r\n{{}}")).await;
        let mut server = upstream.accept().await;
        server.until("{}").await;
        server.send(reply).await;
        if !reply.is_empty() {
            client.until("first").await;
        }
        client.reset();
        assert_eq!(server.rest().await, "");
    }
    still_serves(&upstream, &proxy).await;
}

#[tokio::test]
async fn client_reset_ends_an_upload_to_a_stalled_upstream() {
    // More than socket buffers hold.
    const BYTES: usize = 16 << 20;
    let (upstream, proxy) = pair().await;
    let mut client = proxy.connect().await;
    let head = format!("{CHAT}Content-Length: {BYTES}\r\n\r\n");
    client.send(&head).await;
    client.send_bytes(&vec![b'x'; BYTES]).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    client.reset();
    assert!(server.rest_bytes().await.len() < BYTES);
    still_serves(&upstream, &proxy).await;
}

/// Longer than every deadline. The paused clock jumps to the next timer when the runtime is idle.
const LONG: Duration = Duration::from_hours(1);

#[tokio::test]
async fn closes_a_client_that_stalls_in_its_request_head() {
    let (upstream, proxy) = pair().await;
    for said in ["", "P", "PRI * HTTP/2.0\r\n", "POST /v1/models HTTP/1.1\r\nHo"] {
        let mut client = proxy.connect().await;
        client.send(said).await;
        time::pause();
        let ended = time::timeout(LONG, client.rest()).await;
        assert_eq!(ended.as_deref(), Ok(""), "{said:?}");
        time::resume();
    }
    still_serves(&upstream, &proxy).await;
}

#[tokio::test]
async fn stalled_chat_body_is_streamed_on_to_the_upstream() {
    let (upstream, proxy) = pair().await;
    let mut client = proxy.connect().await;
    client.send(&format!("{CHAT}Content-Length: 8\r\n\r\nhalf")).await;
    time::pause();
    let mut server = upstream.accept().await;
    server.until("half").await;
    time::resume();
    client.send("rest").await;
    server.until("rest").await;
    server.send(OK).await;
    client.until("ok").await;
    still_serves(&upstream, &proxy).await;
}

#[tokio::test]
async fn half_closed_client_counts_as_disconnected() {
    let (upstream, proxy) = pair().await;
    let mut client = proxy.connect().await;
    client.send(&format!("{CHAT}Content-Length: 2\r\n\r\n{{}}")).await;
    let mut server = upstream.accept().await;
    server.until("{}").await;
    client.stop_sending().await;
    assert_eq!(server.rest().await, "", "the upstream's request ends");
    assert_eq!(client.rest().await, "");
    still_serves(&upstream, &proxy).await;
}

/// Returns the reply to a client that sends `said` and waits.
async fn answered(proxy: &Proxy, said: &[u8]) -> String {
    let mut client: Wire = proxy.connect().await;
    client.send_bytes(said).await;
    client.rest().await
}

#[tokio::test]
async fn rejects_and_closes_a_client_that_does_not_speak_http() {
    let (upstream, proxy) = pair().await;
    for said in [
        b"EHLO example.com\r\n\r\n".as_slice(),
        b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\0\0\0\0\xff\xfe\r\n\r\n",
        b"GET /v1/models HTTP/9.9\r\n\r\n",
    ] {
        let reply = answered(&proxy, said).await;
        let said = said.escape_ascii();
        assert!(reply.starts_with("HTTP/1.1 400 "), "{said}: {reply}");
    }
    still_serves(&upstream, &proxy).await;
}

#[tokio::test]
async fn rejects_and_closes_a_client_that_speaks_tls() {
    let (upstream, proxy) = pair().await;
    // The first bytes of a ClientHello: a handshake record of TLS 1.0 (RFC 8446, 5.1).
    let reply = answered(&proxy, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03").await;
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
    still_serves(&upstream, &proxy).await;
}
