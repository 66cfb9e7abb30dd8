//! Signals that appear only at the end of a reply: that reply is relayed unchanged, and the model's
//! next request is made to fit before it is sent.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul::Config;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::ModelOptions;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::caller::{Caller, talk};
use crate::harness::{Proxy, Upstream, Wire};
use crate::journey::{Journey, digests};
use crate::received_reply::ReceivedReply;
use crate::recovery::scripted::{self, Reply};
use crate::sessions::sessions;

const JSON: &str = "content-type: application/json\r\n";
const EVENTS: &str = "content-type: text/event-stream\r\n";
const GZIP: &str = "content-type: text/event-stream\r\ncontent-encoding: gzip\r\n";
const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;
const DONE: &str = "data: [DONE]\n\n";
const CONTENT: &str = r#"{"choices":[{"index":0,"delta":{"content":"Hello"}}]}"#;
const REFUSED: &str = r#"{"error":{"message":"This model's maximum context length is 20000 tokens. However, your messages resulted in 40000 tokens.","code":"context_length_exceeded"}}"#;

/// A proxy in front of an upstream that gives fixed replies.
struct Stage {
    caller: Caller,
    asked: JoinHandle<Vec<Vec<u8>>>,
    _proxy: Proxy,
}

impl Stage {
    async fn with(replies: Vec<Reply>, change: impl FnOnce(&mut Config)) -> Self {
        let (address, asked) = scripted::upstream(replies).await;
        let proxy = proxy(&format!("http://{address}/v1"), change).await;
        Self { caller: Caller::of(proxy.address), asked, _proxy: proxy }
    }

    async fn start(replies: Vec<Reply>) -> Self {
        Self::with(replies, |_| ()).await
    }

    /// Sends a chat and checks that the reply equals the upstream's bytes.
    async fn ask(&self, body: Vec<u8>, sent: &[u8]) -> ReceivedReply {
        let arrived = self.caller.ask(body).await;
        assert_eq!((arrived.status, &arrived.body[..]), (200, sent));
        arrived
    }

    /// Returns the requests that the upstream received, once it has received all.
    async fn asked(self) -> Vec<Vec<u8>> {
        self.asked.await.unwrap()
    }
}

async fn proxy(base: &str, change: impl FnOnce(&mut Config)) -> Proxy {
    let mut config = Config::default_with([("upstream.base", base)]).unwrap();
    digests(&mut config);
    change(&mut config);
    Proxy::with(config).await
}

fn stream(events: &[&str]) -> Vec<u8> {
    let data = events.iter().map(|event| format!("data: {event}\n\n"));
    (data.collect::<String>() + DONE).into_bytes()
}

/// Builds the last event of a stream, or a body with that content.
fn end(finish: &str, input: u32, output: u32) -> String {
    let message = json!({"role": "assistant", "content": ""});
    json!({
        "choices": [{"index": 0, "delta": message, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": input, "completion_tokens": output},
    })
    .to_string()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn tokens(body: &[u8]) -> u32 {
    read(body).unwrap().tokens().get()
}

/// About 40,000 tokens by the plain estimate, without tool results.
fn first() -> Vec<u8> {
    talk(20, 2_000)
}

/// Another conversation, of about 48,000 tokens.
fn next() -> Vec<u8> {
    talk(12, 4_000)
}

/// Checks that the first reply is relayed unchanged, and that the next request is sent once, with
/// at most `window` tokens.
async fn check(name: &str, head: &'static str, reply: &[u8], window: u32) {
    let replies = vec![Reply::new(200, head, reply), Reply::new(200, JSON, ANSWER)];
    let stage = Stage::start(replies).await;
    stage.ask(first(), reply).await;
    let arrived = stage.ask(next(), ANSWER.as_bytes()).await;
    assert_eq!(arrived.action(), "digest", "{name}");
    let asked = stage.asked().await;
    assert_eq!(asked[0], first(), "{name}");
    let sent = tokens(&asked[1]);
    assert!(sent <= window, "{name}: {sent} for a window of {window}");
}

#[tokio::test]
async fn overflow_stated_after_content_shrinks_the_next_request() {
    // The first request is estimated at 40,000 tokens; 20,000 is about half of it.
    let reply = stream(&[CONTENT, REFUSED]);
    check("a stream", EVENTS, &reply, 20_500).await;
    check("a compressed stream", GZIP, &gzip(&reply), 20_500).await;
    let long = [vec![CONTENT; 1_000], vec![REFUSED]].concat();
    check("a long stream", EVENTS, &stream(&long), 20_500).await;
    // More than longhaul ever inflates of a held reply.
    let content = |at| CONTENT.replace("Hello", &format!("Hello {at}"));
    let mut longer: Vec<String> = (0..30_000).map(content).collect();
    longer.push(REFUSED.into());
    let longer: Vec<&str> = longer.iter().map(String::as_str).collect();
    let longer = gzip(&stream(&longer));
    check("a long compressed stream", GZIP, &longer, 20_500).await;
}

/// The words are in no table, and the window is set too large for the stream to be held.
#[tokio::test]
async fn refusal_in_a_stream_that_is_not_held_shrinks_the_next_request() {
    let size = tokens(&first());
    let text = format!("Request 7f8a exceeds the maximum number of tokens: {size} > 20480");
    let reply = stream(&[&json!({"error": {"message": text, "code": 400}}).to_string()]);
    let replies = vec![Reply::new(200, EVENTS, &*reply), Reply::new(200, JSON, ANSWER)];
    let stage = Stage::with(replies, |config| {
        config.window = Tokens::new(262_144);
        config.window_place = Some("a test".into());
    })
    .await;
    stage.ask(first(), &reply).await;
    stage.ask(next(), ANSWER.as_bytes()).await;
    let asked = stage.asked().await;
    assert!(tokens(&asked[1]) <= 20_480, "{}", tokens(&asked[1]));
}

#[tokio::test]
async fn count_that_stands_while_requests_grow_shrinks_the_next_request() {
    let answer = end("stop", 36_000, 20).replace(r#""content":"""#, r#""content":"Hello""#);
    let replies = [&*answer, &answer, ANSWER];
    let replies = replies.map(|body| Reply::new(200, JSON, body));
    let stage = Stage::start(replies.into()).await;
    stage.ask(first(), answer.as_bytes()).await;
    stage.ask(talk(21, 2_000), answer.as_bytes()).await;
    stage.ask(next(), ANSWER.as_bytes()).await;
    let sent = tokens(&stage.asked().await[2]);
    assert!(sent <= 36_000, "{sent}");
}

#[tokio::test]
async fn empty_stream_that_comes_again_leads_to_a_smaller_request() {
    let empty = stream(&[r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#]);
    let replies = vec![
        Reply::new(200, JSON, ANSWER),
        Reply::new(200, EVENTS, &*empty),
        Reply::new(200, EVENTS, &*empty),
        Reply::new(200, JSON, ANSWER),
    ];
    let stage = Stage::start(replies).await;
    stage.ask(first(), ANSWER.as_bytes()).await;
    stage.ask(talk(21, 2_000), &empty).await;
    stage.ask(talk(22, 2_000), ANSWER.as_bytes()).await;
    let asked = stage.asked().await;
    assert!(tokens(&asked[3]) < tokens(&asked[2]), "{}", tokens(&asked[3]));
}

#[tokio::test]
async fn full_window_finish_reason_shrinks_the_next_request() {
    for reason in ["context_length", "model_length"] {
        let end = end(reason, 40_000, 1_000);
        check(reason, EVENTS, &stream(&[CONTENT, &end]), 42_000).await;
    }
    let end = end("model_context_window_exceeded", 40_000, 1_000);
    check("a stream", EVENTS, &stream(&[CONTENT, &end]), 42_000).await;
    let body = end.replace(r#""content":"""#, r#""content":"Hello""#);
    check("a body", JSON, body.as_bytes(), 42_000).await;
}

#[tokio::test]
async fn length_stop_without_output_shrinks_the_next_request() {
    for written in [0, 1] {
        let end = end("length", 32_768, written);
        check("a stream", EVENTS, &stream(&[&end]), 32_768).await;
        check("a body", JSON, end.as_bytes(), 32_768).await;
    }
}

#[tokio::test]
async fn overflow_before_a_broken_reply_shrinks_the_next_request() {
    let upstream = Upstream::bind().await;
    let proxy = proxy(&upstream.base("/v1"), |_| ()).await;
    let caller = Caller::of(proxy.address);
    let (mut client, mut server) = asks(&proxy, &upstream).await;
    let events = format!("data: {CONTENT}\n\ndata: {REFUSED}\n\n");
    server.send("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
    server.send(&events).await;
    drop(server);
    let arrived = client.rest().await;
    assert!(arrived.ends_with(&events), "{arrived}");
    let (_, asked) = tokio::join!(caller.ask(next()), answers(&upstream));
    assert!(tokens(&asked) <= 20_500);
}

/// The Python SDK closes its connection at `[DONE]`.
#[tokio::test]
async fn full_window_is_learned_if_the_client_leaves_at_the_last_event() {
    let upstream = Upstream::bind().await;
    let proxy = proxy(&upstream.base("/v1"), |_| ()).await;
    let caller = Caller::of(proxy.address);
    let (mut client, mut server) = asks(&proxy, &upstream).await;
    let end = end("model_context_window_exceeded", 40_000, 1_000);
    let events = String::from_utf8(stream(&[CONTENT, &end])).unwrap();
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("{head}{:x}\r\n{events}\r\n", events.len());
    server.send(&chunk).await;
    client.until(DONE).await;
    drop(client);
    server.drain().await;
    let (_, asked) = tokio::join!(caller.ask(next()), answers(&upstream));
    assert!(tokens(&asked) <= 42_000);
}

/// Sends a first request. Returns both ends once the upstream has read it.
async fn asks(proxy: &Proxy, upstream: &Upstream) -> (Wire, Wire) {
    let mut client = proxy.connect().await;
    let body = first();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let asks = async {
        client.send(&head).await;
        client.send_bytes(&body).await;
    };
    let reads = async {
        let mut server = upstream.accept().await;
        server.until("\r\n\r\n").await;
        server.exactly(body.len()).await;
        server
    };
    let ((), server) = tokio::join!(asks, reads);
    (client, server)
}

/// Answers the next request and returns its body.
async fn answers(upstream: &Upstream) -> Vec<u8> {
    let mut server = upstream.accept().await;
    let head = server.until("\r\n\r\n").await.to_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let length = length.lines().next().unwrap().parse().unwrap();
    let asked = server.exactly(length).await;
    let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{ANSWER}", ANSWER.len());
    server.send(&reply).await;
    asked
}

#[tokio::test]
async fn silently_truncated_prompt_is_learned_from_a_stagnant_count() {
    let replies = [16_000, 15_900].map(|input| end("stop", input, 9).replace("\"\"", "\"on\""));
    let mut script: Vec<Reply> =
        replies.iter().map(|reply| Reply::new(200, JSON, reply.as_str())).collect();
    script.push(Reply::new(200, JSON, ANSWER));
    let stage = Stage::start(script).await;
    stage.ask(first(), replies[0].as_bytes()).await;
    let arrived = stage.ask(next(), replies[1].as_bytes()).await;
    assert_eq!(arrived.action(), "", "a suspicion alone");
    stage.ask(next(), ANSWER.as_bytes()).await;
    let asked = stage.asked().await;
    assert_eq!((&asked[0], &asked[1]), (&first(), &next()));
    assert!(tokens(&asked[2]) <= 16_384);
}

#[tokio::test]
async fn stagnant_count_of_a_repeated_request_changes_nothing() {
    let reply = end("stop", 16_000, 9).replace("\"\"", "\"on\"");
    let replies = (0..4).map(|_| Reply::new(200, JSON, reply.as_str()));
    let stage = Stage::start(replies.collect()).await;
    for _ in 0..4 {
        stage.ask(first(), reply.as_bytes()).await;
    }
    assert_eq!(stage.asked().await, vec![first(); 4]);
}

#[tokio::test]
async fn repeated_silent_reply_counts_as_an_overflow() {
    let silent = || Reply::new(200, EVENTS, DONE);
    let replies = vec![silent(), silent(), Reply::new(200, JSON, ANSWER)];
    let stage = Stage::start(replies).await;
    stage.ask(first(), DONE.as_bytes()).await;
    let arrived = stage.ask(first(), ANSWER.as_bytes()).await;
    assert_eq!(arrived.action(), "retry, digest");
    let asked = stage.asked().await;
    assert_eq!((&asked[0], &asked[1]), (&first(), &first()));
    assert!(tokens(&asked[2]) < tokens(&first()));
}

#[tokio::test]
async fn silent_replies_affect_only_their_own_conversation() {
    let silent = || Reply::new(200, EVENTS, DONE);
    let answer = || Reply::new(200, JSON, ANSWER);
    let stage = Stage::start(vec![silent(), silent(), answer(), answer()]).await;
    stage.ask(first(), DONE.as_bytes()).await;
    stage.ask(first(), ANSWER.as_bytes()).await;
    stage.ask(next(), ANSWER.as_bytes()).await;
    assert_eq!(stage.asked().await[3], next());
}

#[tokio::test]
async fn relays_repeated_silent_refusals_far_from_a_known_window() {
    // So far from the window, a stream is not held back, but an error is examined.
    let replies = (0..3).map(|_| Reply::new(400, JSON, ""));
    let stage = Stage::with(replies.collect(), |config| {
        config.window = Tokens::new(200_000);
        config.window_place = Some("a test".into());
    })
    .await;
    for _ in 0..3 {
        assert_eq!(stage.caller.ask(first()).await.status, 400);
    }
    assert_eq!(stage.asked().await, vec![first(); 3]);
}

#[tokio::test]
async fn silent_reply_to_a_smaller_retry_rules_out_an_overflow() {
    let replies = (0..5).map(|_| Reply::new(200, EVENTS, DONE));
    let stage = Stage::start(replies.collect()).await;
    for _ in 0..4 {
        stage.ask(first(), DONE.as_bytes()).await;
    }
    let asked = stage.asked().await;
    assert!(tokens(&asked[2]) < tokens(&first()), "the one retry");
    for untouched in [0, 1, 3, 4] {
        assert_eq!(asked[untouched], first(), "request {untouched}");
    }
}

#[tokio::test]
async fn learns_nothing_from_replies_if_recovery_is_disabled() {
    let reply = stream(&[CONTENT, REFUSED]);
    let replies = vec![Reply::new(200, EVENTS, reply.as_slice()), Reply::new(200, JSON, ANSWER)];
    let stage = Stage::with(replies, |config| config.compaction.recover = false).await;
    stage.ask(first(), &reply).await;
    stage.ask(next(), ANSWER.as_bytes()).await;
    assert_eq!(stage.asked().await, [first(), next()]);
}

/// Returns the texts of a session's assistant and tool messages.
fn texts(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .filter(|message| message["role"] == "assistant" || message["role"] == "tool")
        .filter_map(|message| message["content"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn learns_nothing_from_any_recorded_model_text() {
    let mut streams = Vec::new();
    for session in sessions() {
        let texts = texts(&session.body);
        let mut events: Vec<String> = texts
            .iter()
            .map(|text| json!({"choices": [{"delta": {"content": text}}]}).to_string())
            .collect();
        events.push(end("stop", 40_000, 9));
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        streams.push((EVENTS, stream(&events)));
        let message = json!({"role": "assistant", "content": texts.concat()});
        let body = json!({"choices": [{"message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 40_000, "completion_tokens": 9}});
        streams.push((JSON, body.to_string().into_bytes()));
    }
    assert_eq!(streams.len(), 2 * 78);
    let mut replies: Vec<Reply> =
        streams.iter().map(|(head, reply)| Reply::new(200, head, reply.as_slice())).collect();
    replies.push(Reply::new(200, JSON, ANSWER));
    let stage = Stage::start(replies).await;
    for (_, reply) in &streams {
        stage.ask(first(), reply).await;
    }
    stage.ask(next(), ANSWER.as_bytes()).await;
    let asked = stage.asked().await;
    assert_eq!(asked.last(), Some(&next()), "nothing was learned");
}

#[tokio::test]
async fn learned_limit_prevents_overflow_in_every_conversation_of_the_model() {
    let mut journey = Journey::start(ModelOptions::with_window(32_768), digests).await;
    let refused = journey.step(first()).await;
    assert_eq!(refused.upstream.len(), 2);
    for body in [next(), talk(30, 2_000), first()] {
        let step = journey.step(body).await;
        assert!(step.arrived.is_answer());
        assert_eq!(step.upstream.len(), 1, "one send");
    }
}
