//! Replies for the client: relayed byte for byte, without a retry.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul::Config;
use longhaul::config::PlacementSetting;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{ChatBehaviour, ModelOptions, RefusalReply, ValidityRules, Verdict};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::scripted::{self, Reply};
use crate::harness::{Proxy, Upstream};
use crate::journey::{Journey, bodies, digests};
use crate::recorded::{Recorded, replies};
use crate::sessions::named;

const OVERFLOW: &str = r#"{"error": {"message": "This model's maximum context length is 16384 tokens. However, your messages resulted in 60000 tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}"#;
const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;

/// Returns a request long enough for any overflow to be plausible.
fn long() -> Vec<u8> {
    bodies(&named("cli-0237").replay()).last().unwrap()
}

/// Starts a proxy before an upstream with these `replies`; the handle returns the bodies that the
/// upstream received.
async fn before(replies: Vec<Reply>) -> (Proxy, JoinHandle<Vec<Vec<u8>>>) {
    let (address, asked) = scripted::upstream(replies).await;
    let base = format!("http://{address}/v1");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    (proxy, asked)
}

/// Sends `body` through such a proxy. Returns the client's reply, and the bodies that the upstream
/// received.
async fn relay(body: &[u8], replies: Vec<Reply>) -> (super::ReceivedReply, Vec<Vec<u8>>) {
    let (proxy, asked) = before(replies).await;
    let arrived = super::ask(&format!("http://{}/v1", proxy.address), body).await;
    (arrived, asked.await.unwrap())
}

#[tokio::test]
async fn relays_every_unrelated_recorded_reply_after_one_request() {
    let mut journey = Journey::start(ModelOptions::with_window(10_000_000), digests).await;
    let body = long();
    let mut rows = 0;
    for reply in replies() {
        let Recorded { about, status, .. } = reply;
        if about["answer"] != "leave" || about["after"] == "note" {
            continue;
        }
        let relayed = reply.body.clone();
        let reply = RefusalReply::new(status, reply.content_type, reply.body);
        journey.model.change(|options| options.chat = ChatBehaviour::Replies(reply));
        let step = journey.step(body.clone()).await;
        assert_eq!(step.upstream.len(), 1, "{about}");
        assert_eq!(step.arrived.status, status, "{about}");
        assert_eq!(step.arrived.body, relayed, "{about}");
        rows += 1;
    }
    assert!(rows >= 25, "{rows}");
}

#[tokio::test]
async fn relays_the_refusal_of_an_unmodified_request() {
    let validity = ValidityRules::standard().with("system-first").unwrap();
    let options = ModelOptions { validity, ..ModelOptions::with_window(100_000) };
    let mut journey = Journey::start(options, digests).await;
    let late = json!({"model": "m", "messages": [
        {"role": "user", "content": "u"}, {"role": "system", "content": "s"}]});
    let step = journey.step(late.to_string().into_bytes()).await;
    assert_eq!(step.upstream.len(), 1);
    assert_eq!(step.arrived.status, 400);
    assert_eq!(step.arrived.action(), "");
}

/// Plays a session to a template that refuses two user messages in a row.
///
/// Once a digest was refused and the original accepted instead, three more requests follow.
async fn refused_form(placing: PlacementSetting, check: impl Fn(&crate::journey::Step)) {
    let validity = ValidityRules::standard().with("alternation").unwrap();
    let options = ModelOptions { validity, ..ModelOptions::with_window(10_000_000) };
    let mut journey = Journey::start(options, |config| {
        digests(config);
        config.summary.placement = placing;
        config.compaction.prune = false;
        config.window = Tokens::new(48_000);
    })
    .await;
    let replay = named("cli-0018").replay();
    let mut refused = None;
    let mut all = bodies(&replay);
    for body in all.by_ref() {
        let step = journey.step(body).await;
        if step.upstream.len() == 2 {
            refused = Some(step);
            break;
        }
    }
    let step = refused.expect("a digest makes two user messages in a row");
    assert_eq!(step.upstream[0].verdict, Verdict::Broken("alternation"));
    assert_eq!(step.upstream[1].verdict, Verdict::Accepted);
    assert_eq!(step.upstream[1].body, step.sent);
    assert!(step.arrived.is_answer());
    let action = step.arrived.action();
    assert!(action.ends_with("original"), "{action}");
    // Later turns do not try the refused placement again.
    for body in all.take(3) {
        let step = journey.step(body).await;
        assert_eq!(step.upstream.len(), 1);
        assert!(step.arrived.is_answer());
        check(&step);
    }
}

#[tokio::test]
async fn sends_the_original_after_a_refused_rewrite() {
    refused_form(PlacementSetting::Separate, |step| {
        assert_eq!(step.forwarded().body, step.sent);
    })
    .await;
}

#[tokio::test]
async fn uses_another_placement_after_a_refused_rewrite_if_set_to_auto() {
    refused_form(PlacementSetting::Auto, |step| {
        assert!(step.forwarded().body.len() < step.sent.len());
    })
    .await;
}

#[tokio::test]
async fn relays_an_overflow_if_recovery_is_disabled() {
    let body = long();
    let mut journey = Journey::start(ModelOptions::with_window(16_384), |config| {
        digests(config);
        config.compaction.recover = false;
    })
    .await;
    let step = journey.step(body.clone()).await;
    let direct = super::directly(ModelOptions::with_window(16_384), &body).await;
    assert_eq!(step.upstream.len(), 1);
    assert_eq!((step.arrived.status, &step.arrived.body), (direct.status, &direct.body));
}

#[tokio::test]
async fn relays_the_first_refusal_if_the_retry_cannot_be_sent() {
    let replies = vec![Reply::new(400, "content-type: application/json\r\n", OVERFLOW)];
    let (arrived, asked) = relay(&long(), replies).await;
    assert_eq!(asked.len(), 1);
    assert_eq!((arrived.status, &arrived.body[..]), (400, OVERFLOW.as_bytes()));
}

#[tokio::test]
async fn retries_after_a_compressed_refusal() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(OVERFLOW.as_bytes()).unwrap();
    let headers = "content-type: application/json\r\ncontent-encoding: gzip\r\n";
    let replies = vec![
        Reply::new(400, headers, gzip.finish().unwrap()),
        Reply::new(200, "content-type: application/json\r\n", ANSWER),
    ];
    let body = long();
    let (arrived, asked) = relay(&body, replies).await;
    assert_eq!((arrived.status, &arrived.body[..]), (200, ANSWER.as_bytes()));
    assert_eq!(asked[0], body);
    assert!(asked[1].len() * 2 < body.len());
}

/// The second reply goes to the client, even if it is a refusal.
#[tokio::test]
async fn sends_no_third_request_after_a_second_refusal() {
    let second = OVERFLOW.replace("60000", "17000");
    let replies = [OVERFLOW, &second].map(|body| Reply::new(400, "", body));
    let (arrived, asked) = relay(&long(), replies.into()).await;
    assert_eq!(asked.len(), 2);
    assert_eq!((arrived.status, &arrived.body[..]), (400, second.as_bytes()));
}

/// A gateway that honours the key would replay the refusal that it stored under the key.
#[tokio::test]
async fn retry_omits_the_idempotency_key() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("/v1");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    let mut client = proxy.connect().await;
    let body = long();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nX-One: 1\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(&head).await;
    client.send_bytes(&body).await;
    let mut heads = Vec::new();
    for (status, reply) in [(400, OVERFLOW), (200, ANSWER)] {
        let mut server = upstream.accept().await;
        let head = server.until("\r\n\r\n").await;
        let length = head.split_once("Content-Length: ").unwrap().1;
        server.exactly(length.lines().next().unwrap().parse().unwrap()).await;
        heads.push(head);
        let length = reply.len();
        let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {length}");
        server.send(&format!("{head}\r\n\r\n{reply}")).await;
    }
    client.until(ANSWER).await;
    assert!(heads[0].contains("\r\nIdempotency-Key: k\r\nX-One: 1\r\n"));
    assert!(!heads[1].contains("Idempotency-Key"));
    assert!(heads[1].contains("\r\nX-One: 1\r\n"));
}

/// The first compaction of dense text removes too little; the second refusal's count corrects the
/// next request.
#[tokio::test]
async fn count_in_the_second_refusal_shrinks_the_next_request() {
    let second = OVERFLOW.replace("60000", "32768");
    let replies = vec![
        Reply::new(400, "", OVERFLOW),
        Reply::new(400, "", second),
        Reply::new(200, "content-type: application/json\r\n", ANSWER),
    ];
    let (proxy, asked) = before(replies).await;
    let url = format!("http://{}/v1", proxy.address);
    assert_eq!(super::ask(&url, &long()).await.status, 400);
    assert_eq!(super::ask(&url, &long()).await.status, 200);
    let asked = asked.await.unwrap();
    assert_eq!(asked.len(), 3);
    assert!(asked[2].len() * 3 < asked[1].len() * 2);
}

#[tokio::test]
async fn reply_that_broke_off_does_not_prove_that_its_request_fits() {
    let stream = "content-type: text/event-stream\r\n";
    let replies = vec![
        Reply::broken_stream(),
        Reply::new(200, stream, format!("data: {OVERFLOW}\n\n")),
        Reply::new(200, "content-type: application/json\r\n", ANSWER),
    ];
    let (proxy, asked) = before(replies).await;
    let body = long();
    let mut client = TcpStream::connect(proxy.address).await.unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
    let mut broken = Vec::new();
    client.read_to_end(&mut broken).await.unwrap();
    assert!(broken.starts_with(b"HTTP/1.1 200"));
    let url = format!("http://{}/v1", proxy.address);
    let arrived = super::ask(&url, &body).await;
    assert!(arrived.action().starts_with("retry"), "{}", arrived.action());
    let asked = asked.await.unwrap();
    assert_eq!(asked.len(), 3);
    assert!(asked[2].len() < asked[1].len());
}

/// An error in a 200 is not an answer, so longhaul still recovers from a later overflow, even in a
/// stream.
#[tokio::test]
async fn error_in_a_200_does_not_prove_that_its_request_fits() {
    let stream = "content-type: text/event-stream\r\n";
    let json = "content-type: application/json\r\n";
    let page = "<html><body>Please sign in</body></html>";
    let throttled = r#"{"error":{"code":429,"message":"Rate limit exceeded"}}"#;
    let event = format!(": PROCESSING\n\ndata: {throttled}\n\ndata: [DONE]\n\n");
    for (headers, error) in
        [("content-type: text/html\r\n", page), (json, throttled), (stream, &event)]
    {
        let replies = vec![
            Reply::new(200, headers, error),
            Reply::new(200, stream, format!("data: {OVERFLOW}\n\n")),
            Reply::new(200, json, ANSWER),
        ];
        let (proxy, asked) = before(replies).await;
        let url = format!("http://{}/v1", proxy.address);
        let first = super::ask(&url, &long()).await;
        assert_eq!(first.body, error.as_bytes());
        let second = super::ask(&url, &long()).await;
        assert!(second.action().starts_with("retry"), "{error}");
        let asked = asked.await.unwrap();
        assert_eq!(asked.len(), 3);
        assert!(asked[2].len() < asked[1].len());
    }
}

#[tokio::test]
async fn unproven_overflow_does_not_shorten_requests_accepted_before() {
    let json = "content-type: application/json\r\n";
    let replies = vec![
        Reply::new(200, json, ANSWER),
        Reply::new(400, json, OVERFLOW),
        Reply::new(200, json, ANSWER),
    ];
    let (proxy, asked) = before(replies).await;
    let url = format!("http://{}/v1", proxy.address);
    let mut short: serde_json::Value = serde_json::from_slice(&long()).unwrap();
    short["messages"] = json!([{"role": "user", "content": "what does this error mean?"}]);
    let short = short.to_string().into_bytes();
    for (body, status) in [(&long(), 200), (&short, 400), (&long(), 200)] {
        assert_eq!(super::ask(&url, body).await.status, status);
    }
    assert_eq!(asked.await.unwrap(), [long(), short, long()]);
}
