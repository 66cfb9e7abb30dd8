//! Passage of data and its timing: heads, bodies, streams, tunnels and the ends of connections.

use std::time::Duration;

use tokio::time::{Instant, pause};

use crate::harness::{Proxy, Upstream, Wire};

/// Maximum time for which a reply is held.
const HELD_FOR: Duration = Duration::from_secs(10);

async fn pair(base_path: &str) -> (Upstream, Proxy, Wire) {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(base_path), &[]).await;
    let client = proxy.connect().await;
    (upstream, proxy, client)
}

const MODELS: &str = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
const CHATS: &str = "/v1/chat/completions";
const FILES: &str = "/v1/files";

/// Builds a request to `path` with a content length of `length`, up to `body`.
fn post(path: &str, length: usize, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Sends a request. Returns the upstream's end once all of it has arrived.
async fn asked(upstream: &Upstream, client: &mut Wire, says: &str) -> Wire {
    client.send(says).await;
    let mut server = upstream.accept().await;
    let head_end = says.find("\r\n\r\n").unwrap();
    server.until(&says[head_end..]).await;
    server
}

#[tokio::test]
async fn chat_headers_keep_their_spelling_and_order() {
    let (upstream, proxy, mut client) = pair("/api/v1").await;
    client
        .send(
            "POST /v1/chat/completions?a=%20 HTTP/1.1\r\nX-One: 1\r\nHOST: me\r\n\
             aUTHORIZATION: Bearer x\r\nX-Longhaul-Mode: on\r\nContent-LENGTH: 2\r\nX-two: 2\r\n\r\n{}",
        )
        .await;
    let mut server = upstream.accept().await;
    let got = server.until("{}").await;
    let host = upstream.address();
    assert_eq!(
        got,
        format!(
            "POST /api/v1/chat/completions?a=%20 HTTP/1.1\r\nX-One: 1\r\nHOST: {host}\r\n\
             aUTHORIZATION: Bearer x\r\nContent-LENGTH: 2\r\nX-two: 2\r\n\r\n{{}}"
        )
    );
    let reply = "HTTP/1.1 418 Short And Stout\r\nX-Odd: 1\r\nContent-Length: 2\r\n\r\nhi";
    server.send(reply).await;
    assert_eq!(client.until("hi").await, reply);
    proxy.stop().await;
}

#[tokio::test]
async fn events_reach_the_client_one_by_one() {
    let (upstream, _proxy, mut client) = pair("").await;
    let mut server = asked(&upstream, &mut client, &post(CHATS, 1, "x")).await;
    server
        .send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
        .await;
    client.until("Transfer-Encoding: chunked\r\n\r\n").await;
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        server.send(&format!("9\r\n{event}\r\n")).await;
        assert_eq!(client.until("\n\n\r\n").await, format!("9\r\n{event}\r\n"));
    }
    server.send("0\r\n\r\n").await;
    client.until("0\r\n\r\n").await;
}

#[tokio::test]
async fn streams_a_non_chat_body_without_buffering() {
    let (upstream, _proxy, mut client) = pair("").await;
    let mut server = asked(&upstream, &mut client, &post(FILES, 6, "one")).await;
    client.send("two").await;
    server.until("two").await;
}

#[tokio::test]
async fn streams_a_chat_that_exceeds_the_body_limit() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[("limits.body", "8")]).await;
    let mut client = proxy.connect().await;
    client
        .send(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
             6\r\nabcdef\r\n",
        )
        .await;
    client.send("6\r\nghijkl\r\n").await;
    let mut server = upstream.accept().await;
    server.until("ghijkl\r\n").await;
    client.send("3\r\nmno\r\n0\r\n\r\n").await;
    server.until("0\r\n\r\n").await;
}

#[tokio::test]
async fn client_disconnect_before_the_reply_ends_the_upstream_request() {
    let (upstream, _proxy, mut client) = pair("").await;
    let mut server = asked(&upstream, &mut client, &post(CHATS, 1, "x")).await;
    drop(client);
    assert_eq!(server.rest().await, "");
}

#[tokio::test]
async fn client_disconnect_during_the_reply_ends_the_upstream_reply() {
    let (upstream, _proxy, mut client) = pair("").await;
    let mut server = asked(&upstream, &mut client, MODELS).await;
    server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n").await;
    client.until("1\r\na\r\n").await;
    drop(client);
    assert_eq!(server.rest().await, "");
}

#[tokio::test]
async fn upstream_reset_ends_the_reply_without_a_last_chunk() {
    let (upstream, _proxy, mut client) = pair("").await;
    let mut server = asked(&upstream, &mut client, MODELS).await;
    server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n").await;
    client.until("1\r\na\r\n").await;
    server.reset();
    assert_eq!(client.rest().await, "", "no last chunk: the end is not clean");
}

#[tokio::test]
async fn websocket_upgrade_becomes_a_tunnel_that_ends_with_the_upstream() {
    let (upstream, _proxy, mut client) = pair("/v1").await;
    client
        .send("GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await;
    let mut server = upstream.accept().await;
    let head = server.until("\r\n\r\n").await;
    assert!(head.ends_with("Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "{head}");
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    server.send(switch).await;
    assert_eq!(client.until("\r\n\r\n").await, switch);
    client.send("ping").await;
    server.until("ping").await;
    server.send("pong").await;
    client.until("pong").await;
    drop(server);
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn strips_upgrades_to_protocols_other_than_websocket() {
    let (upstream, _proxy, mut client) = pair("/v1").await;
    client
        .send(
            "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n\
             Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        )
        .await;
    let mut server = upstream.accept().await;
    let head = server.until("\r\n\r\n").await.to_lowercase();
    for field in ["upgrade", "http2-settings"] {
        assert!(!head.contains(field), "{head}");
    }
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    client.until("ok").await;
}

#[tokio::test]
async fn idle_tunnel_does_not_delay_shutdown() {
    /// Default of `limits.drain`.
    const DRAIN: Duration = Duration::from_secs(30);
    let (upstream, proxy, mut client) = pair("/v1").await;
    client
        .send("GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server
        .send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        )
        .await;
    client.until("\r\n\r\n").await;
    client.send("ping").await;
    server.until("ping").await;
    // The paused clock jumps to the next deadline.
    pause();
    let began = Instant::now();
    proxy.stop().await;
    assert!(began.elapsed() < DRAIN, "{:?}", began.elapsed());
}

#[tokio::test]
async fn shutdown_waits_for_a_request_in_flight() {
    let (upstream, proxy, mut client) = pair("").await;
    let mut server = asked(&upstream, &mut client, MODELS).await;
    let stopped = tokio::spawn(proxy.stop());
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    client.until("ok").await;
    stopped.await.unwrap();
}

#[tokio::test]
async fn http_1_0_client_gets_a_chunked_reply_unchunked() {
    let (upstream, _proxy, mut client) = pair("").await;
    client.send("GET /v1/models HTTP/1.0\r\n\r\n").await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n").await;
    let reply = client.rest().await;
    assert!(reply.starts_with("HTTP/1.0 200 OK\r\n"), "{reply}");
    assert!(reply.ends_with("\r\n\r\nhi"), "{reply}");
}

#[tokio::test]
async fn relays_an_early_reply_of_an_upstream_that_closes() {
    let (upstream, _proxy, mut client) = pair("").await;
    let mut server = asked(&upstream, &mut client, &post(FILES, 9, "one")).await;
    let reply = "HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    server.send(reply).await;
    assert!(client.until("no").await.starts_with("HTTP/1.1 413 Too Much\r\n"));
}

#[tokio::test]
async fn relays_an_upstream_refusal_sent_before_a_large_chat_is_read() {
    let (upstream, _proxy, mut client) = pair("").await;
    let body = "x".repeat(8 << 20);
    let head = format!("Host: x\r\nContent-Length: {}", body.len());
    client.send(&format!("POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{body}")).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server.send("HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").await;
    let reply = client.until("no").await;
    assert!(reply.starts_with("HTTP/1.1 413 Too Much\r\n"), "{reply}");
}

#[tokio::test]
async fn streams_a_chat_in_an_unknown_coding_without_buffering() {
    let (upstream, _proxy, mut client) = pair("").await;
    client
        .send(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Encoding: compress\r\n\
             Content-Length: 6\r\n\r\none",
        )
        .await;
    let mut server = upstream.accept().await;
    server.until("one").await;
}

#[tokio::test]
async fn streams_chats_without_buffering_if_the_mode_is_off() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[("mode", "off")]).await;
    let mut client = proxy.connect().await;
    asked(&upstream, &mut client, &post(CHATS, 6, "one")).await;
}

#[tokio::test]
async fn connection_beyond_the_limit_waits_until_another_has_no_request() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[("limits.connections", "1")]).await;
    let mut first = proxy.connect().await;
    let mut server = asked(&upstream, &mut first, MODELS).await;
    let mut second = proxy.connect().await;
    second.send("GET /__longhaul__ HTTP/1.1\r\nHost: x\r\n\r\n").await;
    server.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\no").await;
    first.until("\r\n\r\no").await;
    assert!(second.is_silent(), "served although the first is in use");
    server.send("ne").await;
    first.until("ne").await;
    second.until("\r\n\r\n").await;
    assert_eq!(first.rest().await, "");
}

#[tokio::test]
async fn a_drain_ends_at_its_deadline() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[("limits.drain", "10ms")]).await;
    let mut client = proxy.connect().await;
    let mut server = asked(&upstream, &mut client, MODELS).await;
    proxy.stop().await;
    assert_eq!(client.rest().await, "");
    assert_eq!(server.rest().await, "");
}

/// More than the sockets on the way can buffer.
const MUCH: usize = 24 << 20;

#[tokio::test]
async fn local_reply_reaches_a_client_that_is_still_sending() {
    let (_upstream, _proxy, mut client) = pair("").await;
    let head = format!("POST /__longhaul__ HTTP/1.1\r\nHost: x\r\nContent-Length: {MUCH}\r\n\r\n");
    client.send(&head).await;
    // Most clients do not read an answer before they have sent everything.
    assert!(client.tries_to_send(&vec![b'x'; MUCH]).await);
    let answer = client.until("}}").await;
    assert!(answer.contains("x-longhaul-fault: "), "{answer}");
    // The connection remains usable.
    client.send("GET /__longhaul__ HTTP/1.1\r\nHost: x\r\n\r\n").await;
    client.until("}}").await;
}

#[tokio::test]
async fn client_still_sending_after_an_early_reply_is_not_reset() {
    let (upstream, _proxy, mut client) = pair("").await;
    let head = format!("POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: {MUCH}\r\n\r\n");
    client.send(&head).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server.send("HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").await;
    let reply = client.until("no").await;
    assert!(reply.starts_with("HTTP/1.1 413 Too Much\r\n"), "{reply}");
    drop(server);
    assert!(client.tries_to_send(&vec![b'x'; MUCH]).await);
}

#[tokio::test]
async fn sends_no_100_continue_if_the_reply_is_already_known() {
    let (_upstream, _proxy, mut client) = pair("").await;
    client
        .send(
            "POST /__longhaul__ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\
             Content-Length: 9\r\n\r\n",
        )
        .await;
    let answer = client.rest().await;
    assert!(answer.contains("x-longhaul-fault: "), "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");
}

#[tokio::test]
async fn declared_but_unsent_bytes_do_not_use_up_the_shared_buffer() {
    let upstream = Upstream::bind().await;
    let limits = [("limits.body", "1MiB"), ("limits.buffered", "1MiB")];
    let proxy = Proxy::start(&upstream.base(""), &limits).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let mut client = proxy.connect().await;
        client
            .send(
                "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\
                 Content-Length: 1048576\r\n\r\n",
            )
            .await;
        client.until("100 Continue\r\n\r\n").await;
        client.send("{").await;
        waiting.push(client);
    }
    let mut client = proxy.connect().await;
    client
        .send(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
             2\r\n{}\r\n0\r\n\r\n",
        )
        .await;
    let mut server = upstream.accept().await;
    let head = server.until("\r\n\r\n").await.to_lowercase();
    assert!(head.contains("\r\ncontent-length: 2\r\n"), "it is read");
}

#[tokio::test]
async fn does_not_hold_the_reply_start_if_the_window_is_configured() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[("window", "200000")]).await;
    let mut client = proxy.connect().await;
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let length = body.len();
    client
        .send(&format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await;
    let mut server = upstream.accept().await;
    server.until(body).await;
    // The paused clock jumps to the end of a hold, if there is one.
    pause();
    let began = Instant::now();
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    server
        .send(&format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n{role}"
        ))
        .await;
    client.until(role).await;
    assert!(began.elapsed() < HELD_FOR);
}
