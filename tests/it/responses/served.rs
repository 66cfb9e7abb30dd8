//! Sessions, refusals and odd requests through sockets, against the strict model.

use longhaul_mock_model::{Model, ModelOptions, RefusalReply, RequestKind, SeenRequest, Verdict};
use serde_json::{Value, json};

use super::RecordedInput;
use crate::caller::Caller;
use crate::harness::{Proxy, Upstream};
use crate::received_reply::ReceivedReply;

pub(super) const PATH: &str = "/v1/responses";

/// Starts a model with this window, and a proxy before it.
pub(super) async fn started(window: u64, changes: &[(&str, &str)]) -> (Model, Proxy, Caller) {
    let model = Model::start(ModelOptions::with_window(window)).await.unwrap();
    let proxy = Proxy::start(&model.url(), changes).await;
    let caller = Caller::of(proxy.address);
    (model, proxy, caller)
}

/// Builds an input of `turns` turns, each with a call whose output has about `tokens` tokens.
fn body(turns: usize, tokens: usize, members: &Value) -> Vec<u8> {
    let mut input = vec![json!({"type": "message", "role": "developer", "content": "be brief"})];
    for turn in 0..turns {
        let call = format!("call_{turn}");
        input.extend([
            json!({"role": "user", "content": format!("Task {turn}: go on")}),
            json!({"type": "reasoning", "id": format!("rs_{turn}"), "summary": [],
                "encrypted_content": "gAAA"}),
            json!({"type": "function_call", "id": format!("fc_{turn}"), "call_id": call,
                "name": "read", "arguments": json!({"path": format!("src/{turn}.rs")}).to_string()}),
            json!({"type": "function_call_output", "call_id": call,
                "output": format!("line of {turn}.\n").repeat(tokens / 4)}),
            json!({"type": "message", "id": format!("msg_{turn}"), "role": "assistant",
                "content": [{"type": "output_text", "text": format!("Done with {turn}.")}]}),
        ]);
    }
    input.push(json!({"role": "user", "content": "And now?"}));
    let tools = json!([{"type": "function", "name": "read"}]);
    let mut body = json!({"model": "m", "instructions": "You are an agent.", "tools": tools,
        "store": false, "input": input});
    for (key, value) in members.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string().into()
}

/// Builds an input of `turns` turns without tools, in which the model says about 1,000 tokens each.
fn talk(turns: usize) -> Vec<u8> {
    let said = |turn: usize| {
        let text = format!("line of {turn:03}.\n").repeat(300);
        [
            json!({"role": "user", "content": format!("Task {turn}: go on")}),
            json!({"type": "message", "id": format!("msg_{turn}"), "role": "assistant",
                "content": [{"type": "output_text", "text": text}]}),
        ]
    };
    let mut input: Vec<Value> = (0..turns).flat_map(said).collect();
    input.push(json!({"role": "user", "content": "And now?"}));
    let body = json!({"model": "m", "instructions": "You are an agent.", "input": input});
    body.to_string().into()
}

pub(super) fn is_answer(reply: &ReceivedReply) -> bool {
    let text = str::from_utf8(&reply.body).unwrap();
    reply.status == 200
        && if text.starts_with('{') {
            serde_json::from_str::<Value>(text).unwrap()["status"] == "completed"
        } else {
            text.contains("event: response.completed\n")
        }
}

fn chats(model: &Model) -> Vec<SeenRequest> {
    let seen = model.seen().into_iter();
    seen.filter(|request| request.kind == RequestKind::Chat).collect()
}

#[tokio::test]
async fn clears_old_outputs_and_changes_nothing_else() {
    let settings = [("window", "200000"), ("profile", "standard")];
    let (model, proxy, caller) = started(1_000_000, &settings).await;
    let sent = body(12, 8_000, &json!({"stream": true}));
    let reply = caller.ask_at(PATH, &[], sent.clone()).await;
    assert!(is_answer(&reply));
    assert_eq!(reply.action(), "prune");
    let seen = chats(&model);
    let received: Value = serde_json::from_slice(&seen[0].body).unwrap();
    let before: Value = serde_json::from_slice(&sent).unwrap();
    let items = received["input"].as_array().unwrap();
    let cleared: Vec<usize> =
        (0..items.len()).filter(|&at| items[at] != before["input"][at]).collect();
    assert!(cleared.len() > 2, "{cleared:?}");
    for at in cleared {
        assert_eq!(items[at]["output"], "[Old tool result content cleared]");
    }
    proxy.stop().await;
}

#[tokio::test]
async fn completes_a_recorded_session_that_is_refused_without_longhaul() {
    let sessions = RecordedInput::all();
    let session = sessions.iter().find(|it| it.name.starts_with("mise-70705592")).unwrap();
    let window = 60_000;
    let last = session.request(*session.points().last().unwrap());
    let direct = Model::start(ModelOptions::with_window(window)).await.unwrap();
    let alone = Caller::of(direct.addr());
    assert_eq!(alone.ask_at(PATH, &[], last).await.status, 400);
    let (model, proxy, caller) =
        started(window, &[("window", "60000"), ("summary.model", "none")]).await;
    let points = session.points();
    let asked = points.iter().copied().skip(points.len() / 2);
    for point in asked {
        let reply = caller.ask_at(PATH, &[], session.request(point)).await;
        assert!(is_answer(&reply), "{point} {:?}", reply.body);
    }
    let broken = chats(&model).into_iter().find(|it| matches!(it.verdict, Verdict::Broken(_)));
    assert_eq!(broken.map(|request| request.verdict), None);
    assert!(chats(&model).iter().any(|request| request.verdict == Verdict::Accepted));
    proxy.stop().await;
}

#[tokio::test]
async fn a_summary_is_requested_in_the_dialect_of_the_conversation() {
    let (model, proxy, caller) = started(24_000, &[("window", "24000")]).await;
    // A first request makes the conversation known, so that its summary is written by the model.
    for turns in 8..20 {
        let reply = caller.ask_at(PATH, &[], talk(turns)).await;
        assert!(is_answer(&reply), "{turns} {:?}", reply.body);
    }
    let seen = model.wait_for(|all| all.iter().any(|it| it.kind == RequestKind::Summary)).await;
    let asked = seen.iter().find(|request| request.kind == RequestKind::Summary).unwrap();
    assert_eq!(asked.target, PATH);
    let call: Value = serde_json::from_slice(&asked.body).unwrap();
    assert_eq!((&call["store"], &call["stream"]), (&json!(false), &json!(true)));
    assert!(call["instructions"].is_string() && call.get("max_output_tokens").is_none());
    assert_eq!(call["input"][0]["content"][0]["type"], "input_text");
    proxy.stop().await;
}

#[tokio::test]
async fn a_separate_endpoint_for_summaries_is_called_in_its_own_api() {
    for (api, target) in
        [("same", PATH), ("chat-completions", "/v1/chat/completions"), ("messages", "/v1/messages")]
    {
        let local = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
        let url = local.url();
        let changes = [
            ("window", "24000"),
            ("summary.upstream", url.as_str()),
            ("summary.upstream_api", api),
            ("summary.model", "small"),
        ];
        let (model, proxy, caller) = started(24_000, &changes).await;
        let now = [("x-longhaul-compact", "now")];
        let reply = caller.ask_at(PATH, &now, talk(12)).await;
        assert!(is_answer(&reply), "{api}: {:?}", reply.body);
        assert_eq!(reply.action(), "summary", "{api}");
        let seen = local.seen();
        let [call] = seen.as_slice() else { panic!("{api}: {seen:?}") };
        assert_eq!((&*call.target, call.verdict), (target, Verdict::Accepted));
        assert_eq!(call.kind, RequestKind::Summary, "{api}");
        let is_messages = call.headers.contains_key("anthropic-version");
        assert_eq!(is_messages, api == "messages", "{api}");
        let is_summary = |it: &SeenRequest| it.kind == RequestKind::Summary;
        assert!(!model.seen().iter().any(is_summary), "{api}");
        proxy.stop().await;
    }
}

/// Bodies with which providers report an overflow.
fn overflows() -> Vec<(String, RefusalReply)> {
    let lines = include_str!("../../../fixtures/reports/responses_overflow.jsonl").lines();
    let replies = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    // Without a code, a size above the bytes of the request is that of another one.
    let is_larger = |it: &Value| it["requested_tokens"].as_u64() > Some(900_000);
    let overflows = replies
        .filter(|it| it["action"] == "compact" && it["api"] == "responses" && !is_larger(it));
    let read = |reply: Value| {
        let text = |key: &str| reply[key].as_str().unwrap().to_owned();
        let status = u16::try_from(reply["status"].as_u64().unwrap()).unwrap();
        let refusal = RefusalReply::new(status, text("content_type"), text("body"));
        (text("provider"), refusal)
    };
    overflows.map(read).collect()
}

#[tokio::test]
async fn each_recorded_overflow_leads_to_one_smaller_request() {
    let overflows = overflows();
    assert!(overflows.len() > 15);
    for (who, refusal) in overflows {
        let stream = refusal.content_type == "text/event-stream";
        let (model, proxy, caller) = started(16_000, &[("summary.model", "none")]).await;
        model.change(|options| options.refusal = refusal);
        let sent = body(20, 2_000, &json!({"stream": stream}));
        let reply = caller.ask_at(PATH, &[], sent.clone()).await;
        let seen = chats(&model);
        assert!(is_answer(&reply), "{who}: {} {:?}", seen.len(), reply.body);
        assert_eq!(seen.len(), 2, "{who}");
        assert!(seen[1].body.len() < sent.len(), "{who}");
        assert!(reply.action().contains("retry"), "{who} {}", reply.action());
        proxy.stop().await;
    }
}

#[tokio::test]
async fn server_side_history_passes_unchanged() {
    let (model, proxy, caller) = started(2_000, &[("window", "2000")]).await;
    for members in
        [json!({"previous_response_id": "resp_1"}), json!({"conversation": {"id": "conv_1"}})]
    {
        let sent = body(4, 2_000, &members);
        let reply = caller.ask_at(PATH, &[], sent.clone()).await;
        assert_eq!(reply.status, 400);
        assert_eq!(reply.action(), "");
        let seen = chats(&model);
        assert_eq!(seen.last().unwrap().body, sent);
    }
    assert_eq!(chats(&model).len(), 2, "no request is sent twice");
    proxy.stop().await;
}

#[tokio::test]
async fn a_result_that_is_too_long_for_the_api_is_clipped_and_stays_so() {
    // The window holds the text, and the API does not.
    let (model, proxy, caller) = started(8_000_000, &[("summary.model", "none")]).await;
    let long = "a log line.\n".repeat(900_000);
    let call =
        json!({"type": "function_call", "call_id": "long", "name": "read", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "long", "output": long});
    let mut sent: Value = serde_json::from_slice(&body(2, 1_000, &json!({}))).unwrap();
    let items = sent["input"].as_array_mut().unwrap();
    items.extend([call, output]);
    for sends in [2, 3] {
        let reply = caller.ask_at(PATH, &[], sent.to_string()).await;
        assert!(is_answer(&reply), "{:?}", reply.body);
        let seen = chats(&model);
        let last = seen.last().unwrap();
        assert_eq!(seen.len(), sends, "one refusal");
        assert!(last.body.len() < 100_000, "{}", last.body.len());
        let items = sent["input"].as_array_mut().unwrap();
        items.push(json!({"type": "message", "role": "assistant", "content": "Read."}));
        items.push(json!({"role": "user", "content": "Go on."}));
    }
    // The client's own words are never clipped: the refusal is relayed.
    let own = json!({"model": "m", "input": [{"role": "user", "content": long}]});
    let reply = caller.ask_at(PATH, &[], own.to_string()).await;
    assert_eq!((reply.status, chats(&model).len()), (400, 4));
    proxy.stop().await;
}

#[tokio::test]
async fn a_refusal_of_a_stateful_request_teaches_only_the_window_that_it_states() {
    let stated =
        "The engine prompt length 24000 exceeds the max_model_len 16000. Please reduce prompt.";
    let silent = "Your input exceeds the context window of this model.";
    for (message, sends) in [(stated, 1), (silent, 2)] {
        let (model, proxy, caller) = started(16_000, &[("summary.model", "none")]).await;
        let error = json!({"error": {"message": message, "type": "invalid_request_error",
            "param": "input", "code": "context_length_exceeded"}});
        let refusal = RefusalReply::new(400, "application/json", error.to_string());
        model.change(|options| options.refusal = refusal);
        let stateful = body(20, 2_000, &json!({"previous_response_id": "resp_1"}));
        assert_eq!(caller.ask_at(PATH, &[], stateful).await.status, 400);
        assert_eq!(chats(&model).len(), 1, "{message}");
        let reply = caller.ask_at(PATH, &[], body(20, 2_000, &json!({}))).await;
        assert!(is_answer(&reply), "{message}: {:?}", reply.body);
        assert_eq!(chats(&model).len(), 1 + sends, "{message}");
        proxy.stop().await;
    }
}

#[tokio::test]
async fn provider_side_compaction_disables_all_but_overflow_recovery() {
    let managed =
        json!({"context_management": [{"type": "compaction", "compact_threshold": 9_000}]});
    let (model, proxy, caller) = started(100_000, &[("window", "12000")]).await;
    let sent = body(8, 2_000, &managed);
    let reply = caller.ask_at(PATH, &[], sent.clone()).await;
    assert!(is_answer(&reply));
    assert_eq!((reply.action(), &chats(&model)[0].body[..]), ("", &sent[..]));
    model.change(|options| options.window = 8_000);
    let reply = caller.ask_at(PATH, &[], body(9, 2_000, &managed)).await;
    assert!(is_answer(&reply), "{:?}", reply.body);
    proxy.stop().await;
}

#[tokio::test]
async fn an_output_of_a_call_that_the_provider_keeps_stands_in_no_way() {
    // Clearing results would make enough room without a digest.
    let changes = [("window", "32000"), ("summary.model", "none"), ("prune.disabled", "true")];
    let (model, proxy, caller) = started(1_000_000, &changes).await;
    let mut sent: Value = serde_json::from_slice(&body(30, 1_500, &json!({}))).unwrap();
    let items = sent["input"].as_array_mut().unwrap();
    let kept = [
        json!({"role": "user", "content": "begin"}),
        json!({"type": "function_call", "call_id": "cx", "name": "read", "arguments": "{}"}),
        json!({"type": "compaction", "encrypted_content": "gAAA"}),
        json!({"type": "function_call_output", "call_id": "cx", "output": "kept"}),
    ];
    items.splice(1..1, kept);
    let count = items.len();
    assert!(is_answer(&caller.ask_at(PATH, &[], sent.to_string()).await));
    let seen = chats(&model);
    let received: Value = serde_json::from_slice(&seen[0].body).unwrap();
    let items = received["input"].as_array().unwrap();
    assert!(items.len() < count * 2 / 3, "{} of {count}", items.len());
    assert_eq!(items[1..5], sent["input"].as_array().unwrap()[1..5]);
    proxy.stop().await;
}

#[tokio::test]
async fn no_digest_stands_for_history_that_the_provider_is_ordered_to_compact() {
    let (model, proxy, caller) = started(100_000, &[("window", "32000")]).await;
    let mut sent: Value = serde_json::from_slice(&body(13, 2_000, &json!({}))).unwrap();
    let items = sent["input"].as_array_mut().unwrap();
    items.push(json!({"type": "compaction_trigger"}));
    let count = items.len();
    // The history is seen for the first time, above the mark for compaction and within the window.
    let reply = caller.ask_at(PATH, &[], sent.to_string()).await;
    assert!(is_answer(&reply), "{:?}", reply.body);
    assert!(!reply.action().contains("digest"), "{}", reply.action());
    let forwarded: Value = serde_json::from_slice(&chats(&model)[0].body).unwrap();
    assert_eq!(forwarded["input"].as_array().unwrap().len(), count);
    proxy.stop().await;
}

#[tokio::test]
async fn truncation_by_the_provider_is_forwarded_and_history_is_kept_in_the_window_all_the_same() {
    let (model, proxy, caller) = started(40_000, &[("window", "40000")]).await;
    let sent = body(40, 2_000, &json!({"truncation": "auto"}));
    let reply = caller.ask_at(PATH, &[], sent.clone()).await;
    assert!(is_answer(&reply), "{:?}", reply.body);
    let seen = chats(&model);
    let forwarded: Value = serde_json::from_slice(&seen[0].body).unwrap();
    assert_eq!(forwarded["truncation"], "auto");
    // The hard mark, 90% of what the window leaves after the reply.
    let after: usize = reply.field("tokens-after").unwrap().parse().unwrap();
    assert!(after < 31_500, "{after}");
    proxy.stop().await;
}

/// The size of a request whose history is complete, between the windows of the tests.
const TURNS: usize = 8;

#[tokio::test]
async fn a_refusal_of_a_partial_history_teaches_nothing_about_other_conversations() {
    let (model, proxy, caller) = started(1_000, &[]).await;
    let template = body(3, 500, &json!({"prompt": {"id": "pmpt_1"}}));
    caller.ask_at(PATH, &[], template).await;
    model.change(|options| options.window = 100_000);
    let sent = body(TURNS, 2_000, &json!({}));
    let reply = caller.ask_at(PATH, &[], sent.clone()).await;
    assert!(is_answer(&reply), "{:?}", reply.body);
    assert_eq!(reply.action(), "");
    assert_eq!(chats(&model).last().unwrap().body, sent);
    proxy.stop().await;
}

#[tokio::test]
async fn paths_below_responses_pass_unread() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base("/v1"), &[("window", "2000")]).await;
    let sent = String::from_utf8(body(12, 2_000, &json!({}))).unwrap();
    for path in
        ["/v1/responses/compact", "/v1/responses/input_tokens", "/v1/responses/resp_1/cancel"]
    {
        let mut client = proxy.connect().await;
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len());
        client.send(&(head + &sent)).await;
        let mut wire = upstream.accept().await;
        let received = wire.until(&sent).await;
        assert!(received.contains(path), "{received}");
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
        assert!(client.until("{}").await.contains("200 OK"));
    }
    proxy.stop().await;
}

/// A handshake for a WebSocket at the path of the API.
const HANDSHAKE: &str = "GET /v1/responses HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Key: a\r\nSec-WebSocket-Version: 13\r\n\
                         session-id: s1\r\n";

const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                        Upgrade: websocket\r\n\r\nhello";

/// Checks that the handshake is refused without a word to the upstream.
async fn check_refused(proxy: &Proxy) {
    let mut client = proxy.connect().await;
    client.send(&format!("{HANDSHAKE}\r\n")).await;
    let head = client.until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 426 "), "{head}");
    assert!(head.contains("x-longhaul-fault: websocket_refused"), "{head}");
    assert!(client.until("}}").await.contains(r#""code":"websocket_refused""#));
}

/// Checks that the upstream receives the handshake, and that its bytes reach the client.
async fn check_tunnelled(proxy: &Proxy, upstream: &Upstream, fields: &str) {
    let mut client = proxy.connect().await;
    client.send(&format!("{HANDSHAKE}{fields}\r\n")).await;
    let mut wire = upstream.accept().await;
    assert!(wire.until("\r\n\r\n").await.contains("websocket"));
    wire.send(SWITCHED).await;
    assert!(client.until("hello").await.starts_with("HTTP/1.1 101 "));
}

#[tokio::test]
async fn tunnels_a_websocket_only_if_repeated_without_an_http_request() {
    let upstream = Upstream::bind().await;
    let proxy = Proxy::start(&upstream.base("/v1"), &[]).await;
    check_refused(&proxy).await;
    // The client falls back to HTTP, and later begins anew.
    let mut client = proxy.connect().await;
    let sent = r#"{"input":"hi"}"#;
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: a\r\nsession-id: s1\r\nContent-Length: {}\r\n\r\n",
        sent.len()
    );
    client.send(&(head + sent)).await;
    let mut wire = upstream.accept().await;
    wire.until(sent).await;
    wire.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}").await;
    client.until("{}").await;
    check_refused(&proxy).await;
    check_tunnelled(&proxy, &upstream, "").await;
    proxy.stop().await;
}

#[tokio::test]
async fn tunnels_a_websocket_if_tunnelling_is_set_or_the_mode_changes_nothing() {
    let upstream = Upstream::bind().await;
    let tunnelling = [("responses.websocket", "tunnel")];
    let proxy = Proxy::start(&upstream.base("/v1"), &tunnelling).await;
    check_tunnelled(&proxy, &upstream, "").await;
    proxy.stop().await;
    for mode in ["off", "shadow"] {
        let proxy = Proxy::start(&upstream.base("/v1"), &[("mode", mode)]).await;
        check_tunnelled(&proxy, &upstream, "").await;
        proxy.stop().await;
    }
    let proxy = Proxy::start(&upstream.base("/v1"), &[]).await;
    check_tunnelled(&proxy, &upstream, "x-longhaul-mode: off\r\n").await;
    proxy.stop().await;
}
