//! Two end users under one key: the same words, but different system prompts.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{NOW, chat_body, plan, prepare, state, with_chat};
use crate::chat::settle;
use crate::proxy_state::ProxyState;

/// Names in the system prompts.
const NAMES: [&str; 2] = ["ALICE", "BOB"];

/// A summariser that quotes each name it sees, and counts its calls.
#[derive(Clone, Default)]
struct Quoting(Arc<Mutex<Vec<Bytes>>>);

impl Quoting {
    fn calls(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let body = request.into_body().collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&body);
        let seen = NAMES.into_iter().find(|name| text.contains(name));
        let seen = seen.unwrap_or("NOBODY");
        let summary = format!("## Goal\nSEEN {seen}\n\n## Next Steps\n1. go on");
        let answer = json!({"choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": summary}}]});
        self.0.lock().unwrap().push(body.clone());
        let mut reply = Response::new(Full::new(Bytes::from(answer.to_string())));
        let json = http::HeaderValue::from_static("application/json");
        reply.headers_mut().insert("content-type", json);
        Ok(reply)
    }

    /// Serves on a free port; returns the base URL.
    async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let model = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let model = model.clone();
                tokio::spawn(async move {
                    let serve = service_fn(|request| model.clone().answer(request));
                    // The proxy may disconnect during an answer.
                    _ = http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await;
                });
            }
        });
        base
    }
}

/// Builds the chat of `turns` turns of the user with this system prompt.
fn chat_of(system: &str, turns: usize) -> String {
    let mut body: Value = serde_json::from_str(&chat_body(turns, 500)).unwrap();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.insert(0, json!({"role": "system", "content": system}));
    body.to_string()
}

/// Compacts a chat as `x-longhaul-compact: now` does, adopts the record, and returns the forwarded
/// body.
async fn compacted(state: &Arc<ProxyState>, text: String) -> String {
    let compacted = with_chat(state, &[NOW], text, async |chat, inputs| {
        let (attempt, sending, report) = plan::first_send(&chat, inputs).await;
        assert_eq!(report.action_labels().as_deref(), Some("summary"));
        settle::finish_explicit_compaction(&chat, &attempt).await;
        sending.body.into_bytes()
    });
    String::from_utf8(compacted.await.to_vec()).unwrap()
}

const ALICES: &str = "You serve ALICE. It is 10:18 on 2026-11-25.";
const ALICES_LATER: &str = "You serve ALICE. It is 00:01 on 2026-11-26.";
const BOBS: &str = "You serve BOB. It is 10:18 on 2026-11-25.";

#[tokio::test]
async fn a_transcript_shows_no_system_prompt_and_its_summary_is_shared() {
    let model = Quoting::default();
    let state = state(&model.start().await, &[]);
    let of_alice = compacted(&state, chat_of(ALICES, 12)).await;
    let of_bob = compacted(&state, chat_of(BOBS, 12)).await;
    for forwarded in [&of_alice, &of_bob] {
        assert!(forwarded.contains("SEEN NOBODY"), "{forwarded}");
    }
    assert!(of_alice.contains("ALICE") && !of_bob.contains("ALICE"));
    assert_eq!(model.calls(), 1);
}

#[tokio::test]
async fn cached_summary_is_not_shared_across_system_prompts() {
    let model = Quoting::default();
    let base = model.start().await;
    let state = state(&base, &[("summary.style", "cached")]);
    prepare(&state, chat_of(ALICES, 12), &[21]).await;
    let first = compacted(&state, chat_of(ALICES, 12)).await;
    assert!(first.contains("SEEN ALICE"), "the call repeats the chat");
    assert_eq!(model.calls(), 1);
    let later = compacted(&state, chat_of(ALICES_LATER, 12)).await;
    assert!(later.contains("SEEN ALICE"), "the clock does not count");
    assert_eq!(model.calls(), 1);
    // The user of the other system prompt receives another summary, and pays for it once.
    for _ in 0..2 {
        let other = compacted(&state, chat_of(BOBS, 12)).await;
        assert!(!other.contains("ALICE"), "{other}");
        assert_eq!(model.calls(), 2);
    }
}

#[tokio::test]
async fn updated_cached_summary_is_not_shared_across_system_prompts() {
    let model = Quoting::default();
    let base = model.start().await;
    let state = state(&base, &[("summary.style", "cached")]);
    prepare(&state, chat_of(ALICES, 12), &[21]).await;
    compacted(&state, chat_of(ALICES, 12)).await;
    // This update is made from a transcript, which shows the previous summary.
    let updated = compacted(&state, chat_of(ALICES, 120)).await;
    assert!(updated.contains("SEEN ALICE"));
    assert_eq!(model.calls(), 2);
    let other = compacted(&state, chat_of(BOBS, 120)).await;
    assert!(!other.contains("ALICE"), "{other}");
    assert_eq!(model.calls(), 3);
}

#[tokio::test]
async fn changed_summary_style_does_not_reuse_the_other_styles_summary() {
    let model = Quoting::default();
    let base = model.start().await;
    let file = tempfile::tempdir().unwrap();
    let store = format!("file:{}", file.path().join("store").display());
    let started = |style| state(&base, &[("summary.style", style), ("store.at", &store)]);
    for (style, calls) in [("cached", 1), ("transcript", 2), ("cached", 2)] {
        let state = started(style);
        prepare(&state, chat_of(ALICES, 12), &[21]).await;
        let forwarded = compacted(&state, chat_of(ALICES, 12)).await;
        let expect = if style == "cached" { "SEEN ALICE" } else { "SEEN NOBODY" };
        assert!(forwarded.contains(expect), "{style}: {forwarded}");
        assert_eq!(model.calls(), calls, "{style}");
        state.store.close().await;
    }
}
