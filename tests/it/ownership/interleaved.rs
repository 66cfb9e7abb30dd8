//! Two callers take turns at random. One is hostile and chooses the replies to its own requests;
//! the honest one's forwarded bytes equal those of a run without the hostile one: in memory, over
//! restarts with a file, and on two replicas with one server.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use longhaul::Config;
use proptest::prelude::*;
use serde_json::json;
use tokio::net::TcpListener;

use crate::caller::{Caller, chat};
use crate::harness::Proxy;
use crate::redis_server::RedisServer;
use crate::script;

const HONEST: &[(&str, &str)] = &[("authorization", "Bearer honest")];
const CHAT: &str = "/v1/chat/completions";
/// Window of the honest caller's model, in tokens of four bytes.
const WINDOW: usize = 32_768;

/// A request of the hostile caller, with the reply that its upstream gives.
#[derive(Clone, Debug)]
struct Attack {
    /// Fields that identify the hostile caller; the honest caller's key among them, at times.
    credentials: &'static [(&'static str, &'static str)],
    path: &'static str,
    status: u16,
    content_type: &'static str,
    reply: String,
    turns: usize,
}

/// Ways to be another caller: another key in the usual field, and the honest caller's key with
/// another gateway credential, account or path.
const OTHERS: [(&[(&str, &str)], &str); 8] = [
    (&[("authorization", "Bearer hostile")], CHAT),
    (&[], CHAT),
    (&[("x-portkey-api-key", "h"), ("authorization", "Bearer honest")], CHAT),
    (&[("helicone-auth", "h"), ("authorization", "Bearer honest")], CHAT),
    (&[("x-user-id", "h"), ("authorization", "Bearer honest")], CHAT),
    (HONEST, "/hostile/chat/completions"),
    (HONEST, "/v1/hostile/chat/completions"),
    (HONEST, "/v1/chat/completions?key=hostile"),
];

fn reply() -> impl Strategy<Value = (u16, &'static str, String)> {
    let limit = 500..60_000_usize;
    let refusal = (limit.clone(), limit, 0..6_usize).prop_map(|(limit, used, kind)| {
        let said = format!(
            "This model's maximum context length is {limit} tokens. However, your messages \
             resulted in {used} tokens."
        );
        let error = json!({"error": {"code": "context_length_exceeded", "message": said}});
        let (status, content_type) = [
            (400, "application/json"),
            (413, "application/json"),
            (404, "application/json"),
            (500, "application/json"),
            (200, "application/json"),
            (200, "text/event-stream"),
        ][kind];
        let text = if content_type == "text/event-stream" {
            format!("data: {error}\n\n")
        } else {
            error.to_string()
        };
        (status, content_type, text)
    });
    let answer = (1..400_000_usize).prop_map(|prompt| {
        let answer = json!({"choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "ok"}}],
            "usage": {"prompt_tokens": prompt, "completion_tokens": 1,
                "total_tokens": prompt + 1}});
        (200, "application/json", answer.to_string())
    });
    prop_oneof![refusal, answer]
}

fn attack() -> impl Strategy<Value = Attack> {
    (0..OTHERS.len(), reply(), 1..40_usize).prop_map(|(other, reply, turns)| Attack {
        credentials: OTHERS[other].0,
        path: OTHERS[other].1,
        status: reply.0,
        content_type: reply.1,
        reply: reply.2,
        turns,
    })
}

/// Answers attacks as they ask, and honest chats as a model with a window of [`WINDOW`] does.
/// Bodies of honest chats are added to `honest`.
async fn serve(
    request: Request<Incoming>,
    honest: Arc<Mutex<Vec<Bytes>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let scripted = |name: &str| head.headers.get(name)?.to_str().ok();
    let (status, content_type, text) = if let Some(text) = scripted("x-scripted") {
        let status = scripted("x-status").unwrap().parse().unwrap();
        (status, scripted("x-type").unwrap(), text.to_owned())
    } else if head.method == http::Method::GET {
        // A listing in the hostile caller's interest. The honest caller gets none.
        let is_honest = head.uri.path() == "/v1/models"
            && scripted("authorization") == Some("Bearer honest")
            && ["x-portkey-api-key", "helicone-auth", "x-user-id"]
                .iter()
                .all(|name| !head.headers.contains_key(*name));
        let listing = r#"{"data":[{"id":"m","context_length":1000}]}"#;
        let status = if is_honest { 404 } else { 200 };
        (status, "application/json", listing.to_owned())
    } else {
        let tokens = body.len() / 4;
        honest.lock().unwrap().push(body);
        if tokens > WINDOW {
            let said = format!(
                "This model's maximum context length is {WINDOW} tokens. However, your messages \
                 resulted in {tokens} tokens."
            );
            let error = json!({"error": {"code": "context_length_exceeded", "message": said}});
            (400, "application/json", error.to_string())
        } else {
            let answer = json!({"choices": [{"index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "ok"}}],
                "usage": {"prompt_tokens": tokens, "completion_tokens": 1,
                    "total_tokens": tokens + 1}});
            (200, "application/json", answer.to_string())
        }
    };
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap();
    let content_type = content_type.parse().unwrap();
    reply.headers_mut().insert("content-type", content_type);
    Ok(reply)
}

/// A turn of the honest caller: the attacks before it, and whether the proxies restart before those.
type Turn = (Vec<Attack>, bool);

/// Place where the proxies keep what they learn.
#[derive(Clone, Copy)]
enum Place {
    Memory,
    File,
    /// A server that two proxies share. They serve both callers by turns.
    Redis,
}

/// Starts the proxies.
async fn start(settings: &[(&str, String)], replicas: usize) -> Vec<Proxy> {
    let mut proxies = Vec::new();
    for _ in 0..replicas {
        let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
        proxies.push(Proxy::asking(Config::default_with(settings).unwrap()).await);
    }
    proxies
}

/// Runs the honest caller's conversation. Returns the bodies that the upstream received from the honest
/// caller, and the status of each reply.
async fn run(place: Place, turns: &[Turn]) -> (Vec<Bytes>, Vec<u16>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let honest = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&honest);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let serve = service_fn(|request| serve(request, Arc::clone(&seen)));
                // The proxy may disconnect during an answer.
                _ = http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await;
            });
        }
    });
    let mut settings = vec![
        ("upstream.base", base),
        ("summary.model", "none".into()),
        // A busy machine reads slowly; a request that does not wait is compacted anew.
        ("store.wait", "10s".into()),
    ];
    let folder = tempfile::tempdir().unwrap();
    let server = matches!(place, Place::Redis).then(RedisServer::start);
    let replicas = match &server {
        Some(server) => {
            settings.push(("store.at", server.url()));
            settings.push(("store.scope_secret", "a secret of thirty-two characters".into()));
            2
        }
        None => 1,
    };
    if matches!(place, Place::File) {
        let file = folder.path().join("records");
        settings.push(("store.at", format!("file:{}", file.display())));
    }
    let mut proxies = start(&settings, replicas).await;
    let (mut statuses, mut asked) = (Vec::new(), 0);
    for (turn, (attacks, restarts)) in turns.iter().enumerate() {
        if *restarts {
            for proxy in proxies {
                proxy.stop().await;
            }
            proxies = start(&settings, replicas).await;
        }
        for attack in attacks {
            asked += 1;
            let caller = Caller::of(proxies[asked % replicas].address);
            let status = attack.status.to_string();
            let scripted = [
                ("x-scripted", attack.reply.trim_end()),
                ("x-status", &status),
                ("x-type", attack.content_type),
            ];
            let fields = [attack.credentials, &scripted].concat();
            // The first messages are the honest caller's own, so that records could be shared.
            let body = chat(attack.turns, 1_000);
            caller.ask_at(attack.path, &fields, body).await;
        }
        let body = chat(8 + 5 * turn, 1_000);
        let caller = Caller::of(proxies[turn % replicas].address);
        let reply = caller.ask_at(CHAT, HONEST, body).await;
        statuses.push(reply.status);
    }
    for proxy in proxies {
        proxy.stop().await;
    }
    let bodies = honest.lock().unwrap().clone();
    (bodies, statuses)
}

/// Turns in which the proxies restart now and then, if `restarts`.
fn turns(restarts: bool) -> impl Strategy<Value = Vec<Turn>> {
    let restart = if restarts { any::<bool>().boxed() } else { Just(false).boxed() };
    let turn = (prop::collection::vec(attack(), 0..4), restart);
    prop::collection::vec(turn, 9..=9)
}

/// Checks that the hostile caller's requests change nothing for the honest one.
fn check(place: Place, turns: &[Turn]) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let peaceful: Vec<Turn> = turns.iter().map(|(_, restart)| (Vec::new(), *restart)).collect();
    let alone = runtime.block_on(run(place, &peaceful));
    prop_assert!(alone.1.iter().all(|&status| status == 200), "{:?}", alone.1);
    prop_assert!(alone.0.len() > turns.len(), "the honest caller meets its own window");
    let beside = runtime.block_on(run(place, turns));
    prop_assert_eq!(alone.1, beside.1);
    prop_assert!(alone.0 == beside.0, "forwarded bytes differ");
    Ok(())
}

proptest! {
    #![proptest_config(script::cases(12))]

    #[test]
    fn a_hostile_caller_changes_no_byte_of_an_honest_one(turns in turns(false)) {
        check(Place::Memory, &turns)?;
    }

    #[test]
    fn a_hostile_caller_changes_no_byte_over_restarts_with_a_file(turns in turns(true)) {
        check(Place::File, &turns)?;
    }

    #[test]
    #[ignore = "needs redis-server"]
    fn a_hostile_caller_changes_no_byte_on_replicas_with_one_server(turns in turns(true)) {
        check(Place::Redis, &turns)?;
    }
}
