//! Refusals in words that no rule matches: what longhaul tries, and what a wrong guess costs.

use longhaul::Config;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::units::tokens::Tokens;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::caller::{Caller, talk};
use crate::harness::Proxy;
use crate::journey::digests;
use crate::received_reply::ReceivedReply;
use crate::recovery::scripted::{self, Reply};

const JSON: &str = "content-type: application/json\r\n";
const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;
const UNKNOWN_WORDS: &str = r#"{"oops":{"text":"Das Gespräch passt nicht in den Kontext."}}"#;
const OTHER_CAUSE: &str = r#"{"oops":{"text":"Das Gespräch ist zu lang für diesen Mandanten."}}"#;
const REQUEST_LIMIT: &str = r#"{"error":{"message":"Request too large for model `m` in organization `o` on tokens per minute (TPM): Limit 15000, Requested 20000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#;

struct Stage {
    caller: Caller,
    asked: JoinHandle<Vec<Vec<u8>>>,
    _proxy: Proxy,
}

impl Stage {
    async fn start(replies: &[(u16, &str)], change: impl FnOnce(&mut Config)) -> Self {
        let replies = replies.iter();
        let replies = replies.map(|(status, body)| Reply::new(*status, JSON, *body));
        let (address, asked) = scripted::upstream(replies.collect()).await;
        let base = format!("http://{address}/v1");
        let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
        digests(&mut config);
        change(&mut config);
        let proxy = Proxy::with(config).await;
        Self { caller: Caller::of(proxy.address), asked, _proxy: proxy }
    }

    async fn ask(&self, body: Vec<u8>, status: u16, expect: &str) -> ReceivedReply {
        let reply = self.caller.ask(body).await;
        let received = String::from_utf8_lossy(&reply.body);
        assert_eq!((reply.status, &*received), (status, expect));
        reply
    }

    /// Returns the sizes of the requests that the upstream received, in estimated tokens.
    async fn sizes(self) -> Vec<u32> {
        let asked = self.asked.await.unwrap();
        asked.iter().map(|body| read(body).unwrap().tokens().get()).collect()
    }
}

/// About 20,000 tokens, in a conversation of this name.
fn conversation(name: &str) -> Vec<u8> {
    named(name, 10)
}

/// About 2,000 tokens a turn, in a conversation of this name.
fn named(name: &str, turns: usize) -> Vec<u8> {
    let body: serde_json::Value = serde_json::from_slice(&talk(turns, 2_000)).unwrap();
    let mut messages = body["messages"].as_array().unwrap().clone();
    messages[1]["content"] = name.into();
    json!({"model": "m", "messages": messages}).to_string().into_bytes()
}

#[tokio::test]
async fn refusal_in_unknown_wording_leads_to_a_smaller_request() {
    let stage = Stage::start(&[(400, UNKNOWN_WORDS), (200, ANSWER)], |_| ()).await;
    let reply = stage.ask(conversation("a"), 200, ANSWER).await;
    assert_eq!(reply.action(), "retry, digest");
    let sizes = stage.sizes().await;
    assert!(sizes[1] < sizes[0] * 7 / 10, "{sizes:?}");
}

#[tokio::test]
async fn wrong_suspicion_costs_one_retry_and_no_history() {
    let refused = (400, OTHER_CAUSE);
    let replies = [refused, (400, "no"), refused, (200, ANSWER), (200, ANSWER)];
    let stage = Stage::start(&replies, |_| ()).await;
    // The client receives the first reply, not the second.
    stage.ask(conversation("a"), 400, OTHER_CAUSE).await;
    stage.ask(conversation("b"), 400, OTHER_CAUSE).await;
    stage.ask(conversation("a"), 200, ANSWER).await;
    stage.ask(conversation("b"), 200, ANSWER).await;
    let sizes = stage.sizes().await;
    let whole = sizes[0];
    assert!(sizes[1] < whole, "{sizes:?}");
    assert_eq!(&sizes[2..], [whole; 3]);
}

#[tokio::test]
async fn byte_limit_without_old_images_leads_to_a_smaller_request() {
    let page = "<html><center><h1>413 Request Entity Too Large</h1></center></html>";
    let replies = [(413, page), (200, ANSWER), (200, ANSWER), (413, page)];
    let stage = Stage::start(&replies, |_| ()).await;
    let reply = stage.ask(conversation("a"), 200, ANSWER).await;
    assert_eq!(reply.action(), "retry, digest");
    // A longer body of another conversation fits before it is sent.
    let reply = stage.ask(named("b", 12), 200, ANSWER).await;
    assert_eq!(reply.action(), "digest");
    // A small body is not refused for its bytes.
    stage.ask(named("c", 2), 413, page).await;
    let sizes = stage.sizes().await;
    assert_eq!(sizes.len(), 4);
    assert!(sizes[1] < sizes[0] * 7 / 10 && sizes[2] < sizes[0], "{sizes:?}");
}

#[tokio::test]
async fn refusal_text_quoted_from_the_request_is_no_evidence() {
    let quoted = "prompt is too long: 9000 tokens > 8000 maximum";
    let refusal = json!({"error": {"message": format!("bad value '{quoted}' in messages[1]")}});
    let refusal = refusal.to_string();
    let stage = Stage::start(&[(200, ANSWER), (400, &refusal), (200, ANSWER)], |_| ()).await;
    // The size explains nothing: a request of this size was accepted.
    stage.ask(conversation(quoted), 200, ANSWER).await;
    stage.ask(conversation(quoted), 400, &refusal).await;
    stage.ask(conversation("b"), 200, ANSWER).await;
    let sizes = stage.sizes().await;
    assert!(sizes.iter().all(|size| size.abs_diff(sizes[0]) < 20), "{sizes:?}");
}

#[tokio::test]
async fn error_code_is_evidence_even_if_the_request_quotes_the_message() {
    let quoted = "prompt is too long: 9000 tokens > 8000 maximum";
    let refusal = json!({"error": {"message": quoted, "code": "context_length_exceeded"}});
    let refusal = refusal.to_string();
    let stage = Stage::start(&[(400, &refusal), (200, ANSWER)], |_| ()).await;
    stage.ask(conversation(quoted), 200, ANSWER).await;
    let sizes = stage.sizes().await;
    assert!(sizes[1] < sizes[0], "{sizes:?}");
}

#[tokio::test]
async fn per_request_limit_is_remembered_for_other_conversations() {
    let replies = [(413, REQUEST_LIMIT), (200, ANSWER), (200, ANSWER)];
    let stage = Stage::start(&replies, |_| ()).await;
    let reply = stage.ask(conversation("a"), 200, ANSWER).await;
    assert_eq!(reply.action(), "retry, digest");
    // Another conversation stays below the limit before it is sent.
    let reply = stage.ask(conversation("b"), 200, ANSWER).await;
    assert_eq!(reply.action(), "digest");
    let sizes = stage.sizes().await;
    assert!(sizes[1] < sizes[0] * 3 / 4 && sizes[2] < sizes[0] * 3 / 4, "{sizes:?}");
}

#[tokio::test]
async fn per_request_limit_far_from_the_request_counts_for_its_conversation_alone() {
    let small = REQUEST_LIMIT.replace("15000", "3000").replace("20000", "4000");
    let replies = [(413, small.as_str()), (200, ANSWER), (200, ANSWER)];
    let stage = Stage::start(&replies, |_| ()).await;
    stage.ask(conversation("a"), 200, ANSWER).await;
    let reply = stage.ask(conversation("b"), 200, ANSWER).await;
    assert_eq!(reply.action(), "");
}

#[tokio::test]
async fn relays_throttling_that_reports_used_tokens() {
    let used = REQUEST_LIMIT.replace("Limit 15000", "Limit 15000, Used 9000");
    for status in [429, 413] {
        let stage = Stage::start(&[(status, &used)], |_| ()).await;
        stage.ask(conversation("a"), status, &used).await;
        assert_eq!(stage.sizes().await.len(), 1);
    }
}

#[tokio::test]
async fn request_above_a_configured_window_is_clipped_before_sending() {
    let stage = Stage::start(&[(200, ANSWER)], |config| {
        config.window = Tokens::new(15_000);
        config.window_place = Some("a test".into());
    })
    .await;
    // One message of a result fills the window: nothing but clipping helps.
    let result = "line of a result\n".repeat(6_000);
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]});
    let reply = stage.ask(body.to_string().into_bytes(), 200, ANSWER).await;
    assert_eq!(reply.action(), "clip");
    let sizes = stage.sizes().await;
    assert!(sizes[0] < 15_000, "{sizes:?}");
}

#[tokio::test]
async fn holds_the_reply_of_a_request_that_only_seems_to_fit() {
    let refused = r#"{"error":{"message":"This endpoint's maximum context length is 18000 tokens. However, you requested about 20400 tokens","code":400}}"#;
    let stage = Stage::start(&[(200, ANSWER), (200, refused), (200, ANSWER)], |_| ()).await;
    let large_tools = |body: Vec<u8>| {
        let mut body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let text = "a description of a parameter ".repeat(600);
        let function = json!({"name": "f", "description": text});
        body["tools"] = json!([{"type": "function", "function": function}]);
        body.to_string().into_bytes()
    };
    stage.ask(large_tools(conversation("a")), 200, ANSWER).await;
    let reply = stage.ask(conversation("b"), 200, ANSWER).await;
    assert_eq!(reply.action(), "retry, digest");
    let sizes = stage.sizes().await;
    assert!(sizes[1] < sizes[0] && sizes[2] < sizes[1], "{sizes:?}");
}

#[tokio::test]
async fn accepted_sizes_survive_a_restart_and_override_a_lower_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().join("store.db").display());
    let refusal = r#"{"error":{"message":"This model's maximum context length is 8000 tokens. However, your messages resulted in 20000 tokens.","code":"context_length_exceeded"}}"#;
    let answered = (200, ANSWER);
    let replies = [answered, (400, refusal), answered, answered];
    let base = {
        let replies = replies.map(|(status, body)| Reply::new(status, JSON, body));
        scripted::upstream(replies.into()).await
    };
    let start = async || {
        let url = format!("http://{}/v1", base.0);
        let settings = [
            ("upstream.base", url.as_str()),
            ("store.at", store.as_str()),
            ("upstream.ask", "false"),
        ];
        let mut config = Config::default_with(settings).unwrap();
        digests(&mut config);
        Proxy::with(config).await
    };
    let proxy = start().await;
    Caller::of(proxy.address).ask(named("a", 40)).await;
    proxy.stop().await;
    let proxy = start().await;
    let caller = Caller::of(proxy.address);
    // A smaller request is refused, with a limit below what was accepted before the restart.
    let reply = caller.ask(named("b", 20)).await;
    assert_eq!(reply.action(), "retry, digest");
    let whole = named("c", 20);
    let reply = caller.ask(whole.clone()).await;
    assert_eq!(reply.action(), "");
    assert_eq!(base.1.await.unwrap()[3], whole);
}
