//! Bounds that callers share: what one caller occupies leaves room for the others.

use tokio::time::{Duration, pause, resume, sleep};

use crate::harness::{Proxy, Upstream, Wire};

const MIB: usize = 1 << 20;
/// A quarter of the budget in the first test.
const PART: usize = 64 << 10;

/// Returns the head of a chat of a caller, with a body of `length` bytes.
fn chat(key: &str, length: usize) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

/// Whether the proxy reads a chat of this caller. The chat is sent in chunks; if it is read, it goes
/// on with a length.
async fn is_read(upstream: &Upstream, proxy: &Proxy, key: &str) -> bool {
    let mut client = proxy.connect().await;
    let fields = format!("Authorization: Bearer {key}\r\nTransfer-Encoding: chunked\r\n");
    let chunk = format!("4000\r\n{{}}{}\r\n0\r\n\r\n", " ".repeat(0x4000 - 2));
    client
        .send(&format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{fields}\r\n{chunk}"
        ))
        .await;
    let mut others = Vec::new();
    loop {
        let mut server = upstream.accept().await;
        let head = server.until("\r\n\r\n").await.to_lowercase();
        if head.contains(&format!("bearer {key}")) {
            return head.contains("\r\ncontent-length: 16384\r\n");
        }
        others.push(server);
    }
}

/// Sends a chat of this caller, which the upstream accepts.
async fn accept(upstream: &Upstream, proxy: &Proxy, key: &str) {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"go"}]}"#;
    let mut client = proxy.connect().await;
    client.send(&(chat(key, body.len()) + body)).await;
    let mut server = upstream.accept().await;
    server.until(body).await;
    server
        .send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        .await;
    client.until("{}").await;
}

#[tokio::test]
async fn unfinished_bodies_of_one_caller_leave_room_for_chats_of_others() {
    let upstream = Upstream::bind().await;
    let limits = [("limits.body", "128KiB"), ("limits.buffered", "256KiB")];
    let proxy = Proxy::start(&upstream.base(""), &limits).await;
    accept(&upstream, &proxy, "modest").await;
    let mut held: Vec<Wire> = Vec::new();
    // More than the budget in total. Each body lacks its end.
    for _ in 0..5 {
        let mut client = proxy.connect().await;
        client.send(&chat("greedy", PART)).await;
        client.send_bytes(&vec![b' '; PART - 1]).await;
        held.push(client);
    }
    assert!(is_read(&upstream, &proxy, "modest").await);
}

/// Begins chats of 32 callers that no upstream has accepted, without their ends.
async fn invent_callers(proxy: &Proxy) -> Vec<Wire> {
    let mut held = Vec::new();
    for invented in 0..32 {
        let mut client = proxy.connect().await;
        client
            .send(&chat(&format!("invented-{invented}"), PART / 4))
            .await;
        client.send_bytes(&vec![b' '; PART / 4 - 1]).await;
        held.push(client);
    }
    held
}

#[tokio::test]
async fn bodies_of_invented_callers_leave_room_for_a_caller_that_was_accepted() {
    let upstream = Upstream::bind().await;
    let limits = [("limits.body", "128KiB"), ("limits.buffered", "256KiB")];
    let proxy = Proxy::start(&upstream.base(""), &limits).await;
    accept(&upstream, &proxy, "modest").await;
    let _held = invent_callers(&proxy).await;
    assert!(is_read(&upstream, &proxy, "modest").await);
}

#[tokio::test]
async fn an_opened_websocket_gives_its_caller_no_share_of_its_own() {
    let upstream = Upstream::bind().await;
    let limits = [("limits.body", "128KiB"), ("limits.buffered", "256KiB")];
    let proxy = Proxy::start(&upstream.base(""), &limits).await;
    accept(&upstream, &proxy, "modest").await;
    let switch = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut tunnel = proxy.connect().await;
    let head = "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer unknown\r\n";
    tunnel.send(&format!("{head}{switch}")).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server
        .send(&format!("HTTP/1.1 101 Switching Protocols\r\n{switch}"))
        .await;
    tunnel.until("\r\n\r\n").await;
    // OpenAI opens the connection whatever the key, and refuses the key in an event.
    server.send("invalid_api_key").await;
    tunnel.until("invalid_api_key").await;
    let _held = invent_callers(&proxy).await;
    assert!(!is_read(&upstream, &proxy, "unknown").await);
    assert!(is_read(&upstream, &proxy, "modest").await);
}

/// Sends a byte of the body at a time until the request reaches the upstream. Returns the upstream's end.
async fn reaches_upstream_while_dripping(upstream: &Upstream, client: &mut Wire) -> Wire {
    pause();
    let drip = async {
        loop {
            client.send(" ").await;
            sleep(Duration::from_secs(20)).await;
        }
    };
    let mut server = tokio::select! {
        () = drip => unreachable!("endless"),
        server = upstream.accept() => server,
    };
    resume();
    server.until("\r\n\r\n").await;
    server
}

#[tokio::test]
async fn slowly_sent_long_body_is_streamed_on_before_its_end() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[]).await;
    let mut client = proxy.connect().await;
    client.send(&chat("dripping", 4 * MIB)).await;
    client.send_bytes(&vec![b' '; MIB]).await;
    reaches_upstream_while_dripping(&upstream, &mut client).await;
}

#[tokio::test]
async fn dripping_body_returns_its_part_of_the_budget_once_it_is_written() {
    let upstream = Upstream::bind().await;
    let limits = [("limits.body", "128KiB"), ("limits.buffered", "256KiB")];
    let proxy = Proxy::start(&upstream.base(""), &limits).await;
    let mut client = proxy.connect().await;
    let buffered = 120 << 10;
    client.send(&chat("dripping", buffered + 100)).await;
    client.send_bytes(&vec![b' '; buffered]).await;
    let mut server = reaches_upstream_while_dripping(&upstream, &mut client).await;
    server.exactly(buffered).await;
    // Half of what the body leaves would be less than a chat of this caller.
    assert!(is_read(&upstream, &proxy, "dripping").await);
}

#[tokio::test]
async fn requests_beyond_a_callers_share_get_503_while_others_are_served() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[("limits.requests", "4")]).await;
    for key in ["greedy", "modest"] {
        accept(&upstream, &proxy, key).await;
    }
    let ask = |key: &str| {
        format!("GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n")
    };
    let mut under_way = Vec::new();
    for _ in 0..2 {
        let mut client = proxy.connect().await;
        client.send(&ask("greedy")).await;
        let mut server = upstream.accept().await;
        server.until("\r\n\r\n").await;
        under_way.push((client, server));
    }
    let mut third = proxy.connect().await;
    third.send(&ask("greedy")).await;
    let refused = third.until("}}").await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(
        refused.contains("x-longhaul-fault: too_many_requests\r\n"),
        "{refused}"
    );
    assert!(
        refused.to_lowercase().contains("\r\nretry-after: 1\r\n"),
        "{refused}"
    );
    let error = refused.split_once("\r\n\r\n").unwrap().1;
    let error: serde_json::Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["error"]["code"], "too_many_requests");
    let mut other = proxy.connect().await;
    other.send(&ask("modest")).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server
        .send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        .await;
    assert!(other.until("ok").await.starts_with("HTTP/1.1 200 "));
    // A place is free again once its request has ended.
    drop(under_way);
    upstream_serves(&upstream, &proxy, &ask("greedy")).await;
}

#[tokio::test]
async fn the_head_of_a_request_counts_towards_the_budget_until_its_end() {
    let upstream = Upstream::bind().await;
    let limits = [("limits.body", "64KiB"), ("limits.buffered", "128KiB")];
    let proxy = Proxy::start(&upstream.base(""), &limits).await;
    let pad = "x".repeat(40 << 10);
    let ask = format!(
        "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\nX-Pad: {pad}\r\n\r\n"
    );
    let mut first = proxy.connect().await;
    first.send(&ask).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    let mut second = proxy.connect().await;
    second.send(&ask).await;
    let refused = second.until("}}").await;
    assert!(
        refused.contains("x-longhaul-fault: too_many_requests\r\n"),
        "{refused}"
    );
    drop((first, server));
    upstream_serves(&upstream, &proxy, &ask).await;
}

/// Repeats `ask` until the upstream receives it: ended requests give their places back soon.
async fn upstream_serves(upstream: &Upstream, proxy: &Proxy, ask: &str) {
    loop {
        let mut client = proxy.connect().await;
        client.send(ask).await;
        tokio::select! {
            mut server = upstream.accept() => {
                server.until("\r\n\r\n").await;
                return;
            }
            _ = client.until("}}") => {}
        }
    }
}
