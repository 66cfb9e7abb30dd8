//! Bad input from either side harms no other request. It passes unchanged or is answered in the
//! API's own format, and the proxy serves the next request normally.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul_mock_model::{Model, ModelOptions};
use memchr::memmem;

use crate::caller::{Caller, chat};
use crate::harness::{Proxy, Upstream, Wire};
use crate::program::Program;

const CHAT: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
/// A reply that closes its connection.
const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
const USER: &str = r#"{"role":"user","content":"hi"}"#;

/// A proxy in front of a test's own upstream.
struct Pair {
    upstream: Upstream,
    proxy: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let upstream = Upstream::bind().await;
        let changes = [("summary.model", "none"), ("upstream.connect", "2s")];
        let proxy = Proxy::start(&upstream.base(""), &changes).await;
        Self { upstream, proxy }
    }

    /// Sends a chat to the upstream. Returns the client's and the upstream's end.
    async fn sent(&self, body: &str) -> (Wire, Wire) {
        let mut client = self.proxy.connect().await;
        client.send(&chat_of(body)).await;
        let mut server = self.upstream.accept().await;
        let head = server.until("\r\n\r\n").await;
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(server.exactly(body.len()).await == body.as_bytes(), "the bytes have changed");
        (client, server)
    }

    /// Checks that the client receives the upstream's refusal of a chat, and that the proxy does
    /// not retry.
    async fn refuses(&self, body: &str, refusal: &str) {
        let (mut client, mut server) = self.sent(body).await;
        server.send(&refused(refusal)).await;
        tokio::select! {
            answer = client.rest() => assert!(answer.ends_with(refusal), "{answer}"),
            _ = self.upstream.accept() => panic!("the upstream is asked again"),
        }
    }

    /// Checks that the proxy still serves a good request.
    async fn still_serves(&self) {
        let body = format!(r#"{{"model":"m","messages":[{USER}]}}"#);
        let (mut client, mut server) = self.sent(&body).await;
        server.send(OK).await;
        assert!(client.rest().await.ends_with("\r\n\r\nok"));
    }
}

fn chat_of(body: &str) -> String {
    format!("{CHAT}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Builds an upstream's refusal with this body.
fn refused(body: &str) -> String {
    let head = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

// ---- what a client sends

/// Each body is forwarded byte for byte, and the upstream's reply is returned unchanged.
#[tokio::test]
async fn malformed_chat_and_its_refusal_pass_unchanged() {
    let pair = Pair::start().await;
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        format!(r#"{{"messages":[{USER}],"x":{open}1{close}}}"#)
    };
    let bodies = [
        "{".to_owned(),
        "null".to_owned(),
        "\u{feff}{}".to_owned(),
        format!(r#"{{"messages":[{USER}],}}"#),
        format!(r#"{{"messages":[{USER}]}} x"#),
        r#"{"messages":"hi"}"#.to_owned(),
        r#"{"messages":[17,null,[]]}"#.to_owned(),
        r#"{"messages":[{"role":7,"content":{"a":1}}]}"#.to_owned(),
        r#"{"model":[],"messages":[{"role":"tool","tool_call_id":{},"content":1e999}]}"#.to_owned(),
        format!(r#"{{"messages":[{USER}],"messages":[]}}"#),
        r#"{"messages":[{"role":"user","content":"a","content":"b"}]}"#.to_owned(),
        format!("{{\"messages\":[{USER}],\"x\":\"\0\0\"}}"),
        "\0".repeat(1_000),
        r#"{"messages":[{"role":"user","content":"\u0000\ud800"}]}"#.to_owned(),
        deep("[", "]"),
        deep(r#"{"a":"#, "}"),
        "[".repeat(100_000),
    ];
    for body in bodies {
        pair.refuses(&body, r#"{"error":{"message":"no"}}"#).await;
    }
    pair.still_serves().await;
}

/// An agent sends a negative output limit if it subtracts its prompt from a window smaller than the
/// model's.
#[tokio::test]
async fn refusal_of_a_negative_output_limit_is_relayed() {
    let pair = Pair::start().await;
    let turn = format!(
        r#"{{"role":"assistant","content":"{}"}},{{"role":"user","content":"go on"}}"#,
        "word ".repeat(2_000)
    );
    let body = format!(
        r#"{{"model":"m","max_tokens":-7232,"messages":[{USER},{}]}}"#,
        [turn.as_str(); 16].join(",")
    );
    let refusal = r#"{"error":{"message":"max_tokens must be at least 1, got -7232. (parameter=max_tokens, value=-7232)","code":400}}"#;
    pair.refuses(&body, refusal).await;
    pair.still_serves().await;
}

/// Peak memory of a process, in bytes.
fn resident(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

const LARGE: usize = 100 << 20;

/// Allowed memory, in bodies: the body itself, and room for the process and data in transit.
const COPIES: usize = 2;

#[tokio::test]
async fn hundred_megabyte_body_passes_with_few_copies_in_memory() {
    let upstream = Upstream::bind().await;
    let program = Program::start(&upstream.base(""), &[]);
    let mut client = Wire::to(program.address()).await;
    let (front, back) = (r#"{"messages":[{"role":"user","content":""#, r#""}]}"#);
    let length = front.len() + LARGE + back.len();
    let send = async {
        client.send(&format!("{CHAT}Content-Length: {length}\r\n\r\n{front}")).await;
        let piece = "x".repeat(1 << 20);
        for _ in 0..LARGE >> 20 {
            client.send(&piece).await;
        }
        client.send(back).await;
    };
    let take = async {
        let mut server = upstream.accept().await;
        server.until(front).await;
        assert!(server.skips(b'x', LARGE).await, "the bytes have changed");
        server.until(back).await;
        server
    };
    let ((), mut server) = tokio::join!(send, take);
    server.send(OK).await;
    assert!(client.rest().await.ends_with("ok"));
    let resident = resident(program.process());
    assert!(resident < COPIES * LARGE, "{} MiB", resident >> 20);
}

#[tokio::test]
async fn slowly_sent_chat_is_waited_for() {
    let pair = Pair::start().await;
    let body = format!(r#"{{"messages":[{USER}]}}"#);
    let mut client = pair.proxy.connect().await;
    for byte in chat_of(&body).chars() {
        client.send(&byte.to_string()).await;
        tokio::task::yield_now().await;
    }
    let mut server = pair.upstream.accept().await;
    server.until(&body).await;
    drop((client, server));
    pair.still_serves().await;
}

#[tokio::test]
async fn chat_aborted_within_its_body_is_not_forwarded() {
    let pair = Pair::start().await;
    for body in
        ["Content-Length: 100\r\n\r\n{\"mess", "Transfer-Encoding: chunked\r\n\r\n6\r\n{\"mess\r\n"]
    {
        let mut client = pair.proxy.connect().await;
        client.send(&format!("{CHAT}{body}")).await;
        client.reset();
    }
    // The first request that reaches the upstream is the good one.
    pair.still_serves().await;
}

#[tokio::test]
async fn misframed_body_is_refused_with_an_api_error() {
    let pair = Pair::start().await;
    let mut client = pair.proxy.connect().await;
    client.send(&format!("{CHAT}Transfer-Encoding: chunked\r\n\r\nzz\r\n")).await;
    let reply = client.rest().await;
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
    assert!(reply.contains("x-should-retry: false\r\n"), "{reply}");
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["error"]["code"], "request_body_broken");
    pair.still_serves().await;
}

// ---- what an upstream sends

/// An upstream's way to end its connection.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    Reset,
}

/// Returns the bytes that the client receives for this reply to a chat.
async fn relayed(pair: &Pair, reply: &[u8], end: End) -> Vec<u8> {
    let body = format!(r#"{{"model":"m","stream":true,"messages":[{USER}]}}"#);
    let (mut client, mut server) = pair.sent(&body).await;
    server.send_bytes(reply).await;
    match end {
        End::Close => drop(server),
        End::Reset => server.reset(),
    }
    client.rest_bytes().await
}

fn body_of(reply: &[u8]) -> &[u8] {
    let at = memmem::find(reply, b"\r\n\r\n");
    at.map_or(b"", |at| &reply[at + 4..])
}

#[tokio::test]
async fn replies_that_are_no_completions_pass_unchanged() {
    let pair = Pair::start().await;
    let html = "<html><body>Welcome to the hotel</body></html>";
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    for (kind, body) in [
        ("text/html", html),
        ("application/json", html),
        ("text/event-stream", html),
        ("text/event-stream", "{\"id\":1}"),
        ("application/json", event),
        ("application/json", "{\"choices\":"),
        ("text/event-stream", "data: {\"choices\":[{\"delta\":{\"con"),
        ("text/event-stream", "\0\0\0"),
        ("text/event-stream", ""),
        ("nonsense", "\n\n\n"),
    ] {
        for status in ["200 OK", "400 Bad Request", "500 Oops"] {
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}\r\n");
            let reply = format!("{head}Content-Length: {length}\r\n\r\n{body}");
            let got = relayed(&pair, reply.as_bytes(), End::Close).await;
            assert!(got.starts_with(format!("HTTP/1.1 {status}").as_bytes()));
            assert_eq!(body_of(&got), body.as_bytes(), "{status} {kind}");
        }
    }
    pair.still_serves().await;
}

#[tokio::test]
async fn reply_shorter_than_its_length_breaks_off_for_the_client() {
    let pair = Pair::start().await;
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    for (status, kind) in [("200 OK", "text/event-stream"), ("400 No", "application/json")] {
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}\r\n");
        let reply = format!("{head}Content-Length: 9999\r\n\r\n{event}");
        for end in [End::Close, End::Reset] {
            let got = relayed(&pair, reply.as_bytes(), end).await;
            assert!(body_of(&got).len() < 9_999, "{end:?}");
            let got = String::from_utf8(got).unwrap();
            assert!(got.contains("Content-Length: 9999\r\n"), "{end:?}: {got}");
        }
    }
    pair.still_serves().await;
}

#[tokio::test]
async fn upstream_failure_before_its_head_is_a_502_api_error() {
    let pair = Pair::start().await;
    for (reply, end, code) in [
        ("", End::Close, "upstream_broke"),
        ("", End::Reset, "upstream_broke"),
        ("HTTP/1.1 200 OK\r\nContent-", End::Close, "upstream_broke"),
        ("SSH-2.0-OpenSSH_9.9\r\n\r\n", End::Close, "upstream_malformed"),
        ("HTTP/1.1 2x0 OK\r\n\r\n", End::Close, "upstream_malformed"),
        ("HTTP/1.1 200 OK\r\nContent-Length: a\r\n\r\n", End::Close, "upstream_malformed"),
    ] {
        let got = String::from_utf8(relayed(&pair, reply.as_bytes(), end).await).unwrap();
        assert!(got.starts_with("HTTP/1.1 502 "), "{reply:?}: {got}");
        let body: serde_json::Value = serde_json::from_slice(body_of(got.as_bytes())).unwrap();
        assert_eq!(body["error"]["code"], code, "{reply:?}");
    }
    pair.still_serves().await;
}

#[tokio::test]
async fn leaving_client_ends_the_request_to_a_hanging_upstream() {
    let pair = Pair::start().await;
    let body = format!(r#"{{"messages":[{USER}]}}"#);
    for head in
        ["", "HTTP/1.1 400 No\r\nContent-Length: 10\r\n\r\n{", "HTTP/1.1 200 OK\r\n\r\n: \n"]
    {
        let (client, mut server) = pair.sent(&body).await;
        server.send(head).await;
        drop(client);
        assert_eq!(server.rest().await, "", "{head:?}");
    }
    pair.still_serves().await;
}

#[tokio::test]
async fn endlessly_inflating_reply_passes_unchanged() {
    let pair = Pair::start().await;
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![b' '; 32 << 20]).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 64 << 10, "small enough to be looked at");
    for status in ["200 OK", "400 Bad Request"] {
        let length = bomb.len();
        let head =
            format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\n");
        let head = format!("{head}Content-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n");
        let got = relayed(&pair, &[head.as_bytes(), &bomb].concat(), End::Close).await;
        assert!(body_of(&got) == bomb, "{status}");
    }
    pair.still_serves().await;
}

// ---- with a history that is rewritten

#[tokio::test]
async fn odd_fields_in_the_request_do_not_prevent_overflow_recovery() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let proxy = Proxy::start(&model.url(), &[("summary.model", "none")]).await;
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let body = String::from_utf8(chat(20, 2_000)).unwrap();
    let body = body.replacen('{', &format!(r#"{{"odd":{deep},"nul":"\u0000","#), 1);
    let arrived = Caller::of(proxy.address).ask(body).await;
    assert_eq!((arrived.status, arrived.action()), (200, "retry, prune"));
    let seen = model.seen();
    let sent = str::from_utf8(&seen[1].body).unwrap();
    assert!(sent.contains(&deep) && sent.contains(r#""nul":"\u0000""#));
}
