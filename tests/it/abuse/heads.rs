//! Heads with folded lines, too many fields or no end.

use super::{CHAT, OK, ORDINARY, Pair, request};

#[tokio::test]
async fn a_folded_field_is_refused_and_closed() {
    let pair = Pair::start().await;
    for fields in [
        "X-One: a\r\n b\r\n",
        "X-One: a\r\n\tb\r\n",
        "X-One: a\r\n Content-Length: 4\r\n",
        "X-One:\r\n  \r\n",
        " X-One: a\r\n",
    ] {
        for path in [ORDINARY, CHAT] {
            pair.refuses(request("POST", path, fields, ""), 400).await;
        }
    }
    pair.still_serves().await;
}

/// `limits::HEADERS`.
const FIELDS: usize = 256;

fn fields(count: usize) -> String {
    let all: Vec<String> = (0..count).map(|at| format!("X-{at}: {at}\r\n")).collect();
    all.concat()
}

#[tokio::test]
async fn a_flood_of_fields_is_refused_and_closed() {
    let pair = Pair::start().await;
    for count in [FIELDS, 10_000] {
        // `Host` counts as a field, too.
        pair.refuses(request("GET", "/v1/models", &fields(count), ""), 431).await;
    }
    // The maximum number of fields passes.
    let most = format!("{}Connection: close\r\n", fields(FIELDS - 2));
    let mut client = pair.connect().await;
    client.send(&request("GET", "/v1/models", &most, "")).await;
    let mut server = pair.upstream.accept().await;
    let head = server.until("\r\n\r\n").await;
    assert!(head.contains(&format!("X-{}: ", FIELDS - 3)), "{head}");
    server.send(OK).await;
    assert!(client.rest().await.ends_with("ok"));
    pair.still_serves().await;
}

/// `limits::CLIENT_HEAD_BYTES`.
const HEAD_BYTES: usize = 128 << 10;
/// Limit on the growth of the process over a few such heads, in bytes.
const ROOM: usize = 24 << 20;

#[tokio::test]
async fn oversized_head_is_refused_and_buffered_only_up_to_its_limit() {
    let pair = Pair::start().await;
    let before = pair.peak();
    let huge = "x".repeat(32 << 20);
    for head in [
        format!("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Huge: {huge}"),
        format!("GET /v1/models HTTP/1.1\r\nHost: x\r\n{huge}"),
        format!("GET /v1/{huge}"),
    ] {
        let reply = pair.heard(head).await;
        let refused = ["", "HTTP/1.1 400 ", "HTTP/1.1 414 ", "HTTP/1.1 431 "];
        // The unread bytes cause a reset, which may destroy the reply in transit.
        let met = refused.iter().any(|line| reply.starts_with(line));
        assert!(met && !reply.contains(" 200 "), "{reply}");
    }
    let head = format!("X-Huge: {}\r\n", "x".repeat(2 * HEAD_BYTES));
    pair.refuses(request("GET", "/v1/models", &head, ""), 431).await;
    let grown = pair.peak() - before;
    assert!(grown < ROOM, "{} KiB", grown >> 10);
    pair.still_serves().await;
}

#[tokio::test]
async fn overlong_target_is_refused_and_closed() {
    let pair = Pair::start().await;
    let long = "x".repeat(65_535);
    pair.refuses(request("GET", &format!("/v1/{long}"), "", ""), 414).await;
    pair.still_serves().await;
}

#[tokio::test]
async fn upstream_head_with_folding_or_excessive_headers_is_malformed() {
    let pair = Pair::start().await;
    let huge = format!("X-Huge: {}\r\n", "x".repeat(1 << 20));
    for fields in ["X-One: a\r\n b\r\n", &fields(10_000), &huge] {
        let mut client = pair.connect().await;
        let ask = request("GET", "/v1/models", "Connection: close\r\n", "");
        client.send(&ask).await;
        let mut server = pair.upstream.accept().await;
        server.until("\r\n\r\n").await;
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
        server.tries_to_send(head.as_bytes()).await;
        let reply = client.rest().await;
        assert!(reply.starts_with("HTTP/1.1 502 "), "{reply}");
        assert!(reply.contains("\"upstream_malformed\""), "{reply}");
    }
    pair.still_serves().await;
}
