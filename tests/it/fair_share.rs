//! Bounds that callers share: what one caller occupies leaves room for the others.

use tokio::time::{Duration, advance, pause, resume, sleep};

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
        .send(&format!("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{fields}\r\n{chunk}"))
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
    server.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}").await;
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
        client.send(&chat(&format!("invented-{invented}"), PART / 4)).await;
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
    server.send(&format!("HTTP/1.1 101 Switching Protocols\r\n{switch}")).await;
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
    assert!(refused.contains("x-longhaul-fault: too_many_requests\r\n"), "{refused}");
    assert!(refused.to_lowercase().contains("\r\nretry-after: 1\r\n"), "{refused}");
    let error = refused.split_once("\r\n\r\n").unwrap().1;
    let error: serde_json::Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["error"]["code"], "too_many_requests");
    let mut other = proxy.connect().await;
    other.send(&ask("modest")).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    server.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").await;
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
    second.tries_to_send(ask.as_bytes()).await;
    assert_eq!(second.rest().await, "", "closed before its head was whole");
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
            _ = client.rest() => {}
        }
    }
}

/// Ways to make up an identity next to a valid credential: a target and fields for a number.
type Variation = fn(usize) -> (String, String);

const VALID: &str = "Authorization: Bearer valid\r\n";

const VARIATIONS: [Variation; 11] = [
    |number| (String::new(), format!("{VALID}X-A-Token: {number}\r\n")),
    |number| (String::new(), format!("{VALID}X-Api-Key: {number}\r\n")),
    |number| (String::new(), format!("{VALID}Api-Key: {number}\r\n")),
    |number| (String::new(), format!("{VALID}X-Goog-Api-Key: {number}\r\n")),
    |number| (String::new(), format!("{VALID}OpenAI-Organization: {number}\r\n")),
    |number| (String::new(), format!("{VALID}X-User-Id: {number}\r\n")),
    |number| (format!("?key={number}"), VALID.into()),
    |number| (format!("?token={number}"), VALID.into()),
    |number| (String::new(), format!("Authorization: Bearer{}valid\r\n", " ".repeat(number + 1))),
    |number| {
        let scheme = "bearer".chars().enumerate().map(|(at, letter)| {
            if number >> at & 1 == 0 { letter } else { letter.to_ascii_uppercase() }
        });
        (String::new(), format!("Authorization: {} valid\r\n", scheme.collect::<String>()))
    },
    |number| (String::new(), format!("Authorization: Bearer valid, {number}\r\n")),
];

/// Sends a request with these fields that the upstream does not answer. Returns both ends, or `None` if
/// longhaul refuses the request.
async fn begin(
    upstream: &Upstream,
    proxy: &Proxy,
    method: &str,
    (query, fields): (String, String),
) -> Option<(Wire, Wire)> {
    let mut client = proxy.connect().await;
    let ask = format!(
        "{method} /v1/embeddings{query} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: 2\r\n\r\n{{}}"
    );
    client.send(&ask).await;
    tokio::select! {
        mut server = upstream.accept() => {
            server.until("{}").await;
            Some((client, server))
        }
        _ = client.until("}}") => None,
    }
}

#[tokio::test]
async fn identities_made_up_next_to_one_credential_have_one_share() {
    for (way, vary) in VARIATIONS.into_iter().enumerate() {
        let upstream = Upstream::bind().await;
        let proxy = Proxy::start(&upstream.base(""), &[("limits.requests", "16")]).await;
        accept(&upstream, &proxy, "modest").await;
        for number in 0..12 {
            let (mut client, mut server) =
                begin(&upstream, &proxy, "POST", vary(number)).await.unwrap();
            let reply = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
            server.send(reply).await;
            client.until("{}").await;
        }
        let mut held = Vec::new();
        for number in 0..24 {
            held.extend(begin(&upstream, &proxy, "POST", vary(number % 12)).await);
        }
        assert_eq!(held.len(), 8, "way {way}: half");
        let fields = (String::new(), "Authorization: Bearer modest\r\n".to_owned());
        let served = begin(&upstream, &proxy, "POST", fields).await;
        assert!(served.is_some(), "way {way}");
    }
}

/// Begins a request of this caller whose body never comes. Returns the client's end and the upstream's.
async fn begin_standing(upstream: &Upstream, proxy: &Proxy, key: &str) -> (Wire, Wire) {
    let mut client = proxy.connect().await;
    let fields = format!("Authorization: Bearer {key}\r\nContent-Length: 2\r\n\r\n");
    let ask = format!("POST /v1/embeddings HTTP/1.1\r\nHost: x\r\n{fields}");
    client.send(&ask).await;
    let mut server = upstream.accept().await;
    server.until("\r\n\r\n").await;
    (client, server)
}

#[tokio::test]
async fn a_standing_body_gives_way_only_once_no_slot_is_left() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base(""), &[("limits.requests", "4")]).await;
    for key in ["large", "small", "modest"] {
        accept(&upstream, &proxy, key).await;
    }
    let mut standing = Vec::new();
    for key in ["large", "large"] {
        standing.push(begin_standing(&upstream, &proxy, key).await);
    }
    pause();
    advance(Duration::from_hours(1)).await;
    resume();
    let mut small = begin_standing(&upstream, &proxy, "small").await;
    let modest = "Authorization: Bearer modest\r\n".to_owned();
    let served = begin(&upstream, &proxy, "POST", (String::new(), modest)).await;
    assert!(served.is_some());
    let mut ended = 0;
    for (client, _) in &mut standing {
        if !client.is_silent() {
            let reply = client.rest().await;
            assert!(reply.contains("/1.1 408 "), "{reply}");
            assert!(reply.contains(r#""slow_body""#), "{reply}");
            ended += 1;
        }
    }
    assert_eq!(ended, 1);
    assert!(small.0.is_silent());
    small.0.send("{}").await;
    small.1.until("{}").await;
}
