//! Replies to one caller never change the forwarded bytes of another.

mod interleaved;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use longhaul::Config;
use serde_json::json;
use tokio::net::TcpListener;

use crate::caller::{Caller, chat};
use crate::harness::Proxy;
use crate::recovery::scripted::{self, Reply};

const ATTACKER: &[(&str, &str)] = &[("authorization", "Bearer attacker")];
const VICTIM: &[(&str, &str)] = &[("authorization", "Bearer victim")];

/// Replies to everybody but the victim: to chats, and to queries for models.
#[derive(Clone, Copy)]
struct Hostile {
    status: u16,
    chat: &'static str,
    models: &'static str,
}

const REFUSAL: &str = r#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 1000 tokens. However, your messages resulted in 2000 tokens."}}"#;
const ECHO: &str = r#"{"error":{"message":"Invalid value: 'context_length_exceeded: maximum context length is 1000 tokens'. Supported values are: 'auto'."}}"#;
const NOT_FOUND: &str =
    r#"{"message":"Cannot POST /x/context_length_exceeded/chat/completions","statusCode":404}"#;
const SMALL_MODEL: &str = r#"{"data":[{"id":"m","context_length":1000}]}"#;

async fn serve(
    request: Request<Incoming>,
    hostile: Hostile,
    victims: Arc<Mutex<Vec<Bytes>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let is_victim =
        request.headers().get("authorization").is_some_and(|key| key == "Bearer victim");
    let is_chat = request.uri().path().ends_with("/chat/completions");
    let body = request.into_body().collect().await?.to_bytes();
    let (status, text) = match (is_victim, is_chat) {
        (true, true) => {
            let answer = json!({"choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "ok"}}]});
            victims.lock().unwrap().push(body);
            (200, answer.to_string())
        }
        (true, false) => (404, String::new()),
        (false, true) => (hostile.status, hostile.chat.to_owned()),
        (false, false) => (200, hostile.models.to_owned()),
    };
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap();
    reply.headers_mut().insert("content-type", "application/json".parse().unwrap());
    Ok(reply)
}

/// Sends the attacker's chats to `path`, then the victim's chat, and checks that the victim's bytes
/// pass unchanged.
async fn check(hostile: Hostile, settings: &[(&str, &str)], path: &str, attacks: &[usize]) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let victims = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&victims);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let serve = service_fn(|request| serve(request, hostile, Arc::clone(&seen)));
                // The proxy may disconnect during an answer.
                _ = http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await;
            });
        }
    });
    let mut all = vec![("upstream.base", base.as_str()), ("summary.model", "none")];
    all.extend(settings);
    let proxy = Proxy::asking(Config::default_with(all).unwrap()).await;
    let attacker = Caller::of(proxy.address);
    for turns in attacks {
        attacker.ask_at(path, ATTACKER, chat(*turns, 1_000)).await;
    }
    let victim = Caller::of(proxy.address);
    let body = chat(30, 1_000);
    let arrived = victim.ask_with(VICTIM, body.clone()).await;
    assert_eq!((arrived.status, arrived.action()), (200, ""));
    assert_eq!(victims.lock().unwrap().as_slice(), [Bytes::from(body)]);
    proxy.stop().await;
}

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn a_forged_refusal_changes_no_other_caller() {
    for chat in [REFUSAL, ECHO] {
        let hostile = Hostile { status: 400, chat, models: SMALL_MODEL };
        check(hostile, &[], CHAT, &[30]).await;
        check(hostile, &[("window", "200000")], CHAT, &[30]).await;
        check(hostile, &[], "/v1/attacker/chat/completions", &[30]).await;
    }
}

#[tokio::test]
async fn a_path_that_quotes_an_overflow_changes_no_other_caller() {
    let hostile = Hostile { status: 404, chat: NOT_FOUND, models: SMALL_MODEL };
    check(hostile, &[], "/x/context_length_exceeded/chat/completions", &[30]).await;
}

#[tokio::test]
async fn model_listings_and_counts_of_one_caller_affect_no_other() {
    for (prompt_tokens, chat) in [
        (
            2_040,
            r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"ok"}}],"usage":{"prompt_tokens":2040,"completion_tokens":1,"total_tokens":2041}}"#,
        ),
        (
            200_000,
            r#"{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"ok"}}],"usage":{"prompt_tokens":200000,"completion_tokens":1,"total_tokens":200001}}"#,
        ),
    ] {
        let hostile = Hostile { status: 200, chat, models: SMALL_MODEL };
        assert!(chat.contains(&prompt_tokens.to_string()));
        check(hostile, &[], "/attacker/chat/completions", &[10, 12, 15, 19]).await;
    }
}

#[tokio::test]
async fn accepted_size_of_one_caller_does_not_prevent_recovery_for_another() {
    let answer = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"}}]}"#;
    let refused = r#"{"error":{"message":"This model's maximum context length is 20000 tokens. However, your messages resulted in 40000 tokens.","code":"context_length_exceeded"}}"#;
    let json = "content-type: application/json\r\n";
    let events = "content-type: text/event-stream\r\n";
    let replies = vec![
        Reply::new(200, json, answer),
        Reply::new(200, events, format!("data: {refused}\n\n")),
        Reply::new(200, json, answer),
    ];
    let (address, asked) = scripted::upstream(replies).await;
    let base = format!("http://{address}/v1");
    let settings = [("upstream.base", base.as_str()), ("summary.model", "none")];
    let proxy = Proxy::with(Config::default_with(settings).unwrap()).await;
    let caller = Caller::of(proxy.address);
    // Four megabytes, accepted.
    caller.ask_with(ATTACKER, chat(30, 33_000)).await;
    let reply = caller.ask_with(VICTIM, chat(30, 1_000)).await;
    assert_eq!((reply.status, &reply.body[..]), (200, answer.as_bytes()));
    let asked = asked.await.unwrap();
    assert!(asked[2].len() < asked[1].len());
}
