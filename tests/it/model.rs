//! The strict model on its socket: what it accepts, refuses, counts, answers and records.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use longhaul_mock_model::{
    ChatBehaviour, ErrorFamily, Model, ModelOptions, RefusalReply, ReplyCompletion, RequestKind,
    SeenRequest, SummaryBehaviour, ValidityRules, Verdict, session,
};
use serde_json::{Value, json};

use crate::recorded::{Recorded, replies};
use crate::time_limit::bounded;

/// Large enough for any recorded session.
const HUGE: u64 = 10_000_000;

async fn send(model: &Model, body: Vec<u8>) -> Response<Incoming> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::post(format!("{}/chat/completions", model.url()))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    client.request(request).await.unwrap()
}

async fn ask(model: &Model, body: Vec<u8>) -> (StatusCode, String) {
    let response = send(model, body).await;
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn chat(words: &str) -> Vec<u8> {
    json!({"model": "m", "messages": [{"role": "user", "content": words}]}).to_string().into()
}

fn summary_request(max_tokens: u64) -> Vec<u8> {
    let transcript =
        "Summarise:\n[User]: deploy FACT-aa1\n[Assistant]: on it\n[Tool Result]: FACT-bb2";
    json!({"model": "m", "max_tokens": max_tokens, "messages": [
        {"role": "system", "content": "You summarise conversations."},
        {"role": "user", "content": transcript}]})
    .to_string()
    .into()
}

fn content(body: &str) -> String {
    let body: Value = body.parse().unwrap();
    body["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn long_session_overflows_a_small_window_and_fits_a_large_one() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let mut answered = 0;
    let session = session().unwrap();
    for request in session.requests() {
        let (status, body) = ask(&model, request.body()).await;
        if status != StatusCode::OK {
            assert!(body.contains("maximum context length is 32768 tokens"), "{body}");
            break;
        }
        answered += 1;
    }
    assert!((5..60).contains(&answered), "{answered}");
    assert_eq!(model.seen().last().unwrap().verdict, Verdict::Overflowed);
    model.change(|options| options.window = HUGE);
    let last = session.requests().next_back().unwrap();
    assert_eq!(ask(&model, last.body()).await.0, StatusCode::OK);
    assert!(model.seen().last().unwrap().prompt_tokens > 3 * 32_768);
}

#[tokio::test]
async fn a_growing_conversation_keeps_its_prefix_and_is_cached() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let session = session().unwrap();
    for request in session.requests().take(8) {
        ask(&model, request.body()).await;
    }
    let seen = model.seen();
    for (before, after) in seen.iter().zip(&seen[1..]) {
        assert!(after.keeps_prefix());
        assert_eq!(after.shared_messages, before.messages);
        assert_eq!(after.cached_tokens, before.prompt_tokens);
        assert!(after.shared_bytes > 0 && after.shared_bytes < before.body.len());
    }
}

#[tokio::test]
async fn records_a_changed_prefix_and_caches_only_the_shared_tokens() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let of = |first: &str| {
        let messages = [("user", "same"), ("assistant", first), ("user", "more")];
        let messages = messages.map(|(role, words)| json!({"role": role, "content": words}));
        json!({"model": "m", "messages": messages}).to_string().into_bytes()
    };
    ask(&model, of("one")).await;
    let (_, body) = ask(&model, of("two")).await;
    let seen = model.seen().pop().unwrap();
    assert_eq!((seen.shared_messages, seen.previous_messages), (1, 3));
    assert!(!seen.keeps_prefix());
    let usage = &body.parse::<Value>().unwrap()["usage"];
    assert_eq!(usage["prompt_tokens"], seen.prompt_tokens);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], seen.cached_tokens);
    assert_eq!(seen.cached_tokens, 6, "4 and the 2 tokens of `same`");
}

#[tokio::test]
async fn requested_output_counts_against_the_window() {
    let model = Model::start(ModelOptions::with_window(100)).await.unwrap();
    let mut body: Value = serde_json::from_slice(&chat(&"a".repeat(33))).unwrap();
    for (name, output, status) in [("max_tokens", 86, 200), ("max_completion_tokens", 87, 400)] {
        body[name] = json!(output);
        let (got, text) = ask(&model, body.to_string().into()).await;
        assert_eq!(got.as_u16(), status, "{text}");
        assert_eq!(text.contains("requested 101 tokens (14 in the messages, 87"), status == 400);
    }
}

#[tokio::test]
async fn invalid_request_gets_the_message_of_the_broken_rule() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let orphan = json!({"model": "m", "messages": [
        {"role": "user", "content": "u"}, {"role": "tool", "tool_call_id": "c", "content": "r"}]});
    let (status, body) = ask(&model, orphan.to_string().into()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.contains("messages with role 'tool' must be a response"), "{body}");
    assert_eq!(model.seen()[0].verdict, Verdict::Broken("tool-pair-back"));
    let (status, _) = ask(&model, b"{".to_vec()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(model.seen()[1].verdict, Verdict::Unread);
}

/// Checks every recorded overflow of a chat request, with this model's numbers filled in.
#[tokio::test]
async fn refuses_in_the_words_of_every_recorded_overflow() {
    let model = Model::start(ModelOptions::with_window(1_000)).await.unwrap();
    let mut families = 0;
    for Recorded { about, status, content_type, body, .. } in replies() {
        let number = |name: &str| about[name].as_u64();
        let (limit, output) = (number("limit"), number("output"));
        let floor = number("floor").filter(|_| output.is_some());
        // Skips the refusal that states the size it cut the prompt to: both of its numbers are the
        // limit.
        let cut = limit.is_some() && number("floor") == limit;
        if about["api"] != "chat" || about["answer"] != "compact" || about["silent"] == true || cut
        {
            continue;
        }
        let sum = number("used").map(|used| used + output.unwrap_or(0));
        let requested = sum.or_else(|| number("floor")).or_else(|| number("total"));
        let refusal = RefusalReply::new(status, content_type.clone(), body);
        let refusal = refusal.into_template(limit, requested, output);
        model.change(|options| options.refusal = refusal);
        let body =
            json!({"stream": true, "messages": [{"role": "user", "content": "a".repeat(6_600)}]});
        let response = send(&model, body.to_string().into()).await;
        assert_eq!(response.status().as_u16(), status);
        let kind = response.headers().get("content-type");
        assert_eq!(kind.map_or("", |kind| kind.to_str().unwrap()), content_type);
        let sent = response.into_body().collect().await.unwrap().to_bytes();
        let sent = str::from_utf8(&sent).unwrap();
        assert_eq!(sent.contains("1000"), limit.is_some(), "{sent}");
        // 4 + 2,000 tokens, or the first token past the limit if the server stops counting there.
        let counted = sent.contains(if floor.is_some() { "1001" } else { "2004" });
        assert_eq!(counted, requested.is_some(), "{sent}");
        families += 1;
    }
    assert!(families >= 50, "{families}");
}

#[tokio::test]
async fn refuses_in_an_event_stream_only_if_streaming_was_requested() {
    let options = ModelOptions::with_window(10).refusing_as(ErrorFamily::OpenRouterStream);
    let model = Model::start(options).await.unwrap();
    let (status, body) = ask(&model, chat(&"a".repeat(100))).await;
    assert_eq!((status, body.starts_with('{')), (StatusCode::BAD_REQUEST, true));
    let asked = json!({"stream": true, "messages": [{"role": "user", "content": "a".repeat(100)}]});
    let (status, body) = ask(&model, asked.to_string().into()).await;
    assert_eq!((status, body.starts_with(": OPENROUTER")), (StatusCode::OK, true));
}

#[tokio::test]
async fn models_listing_omits_the_window() {
    let model = Model::start(ModelOptions::with_window(54_321)).await.unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let reply = client.get(format!("{}/models", model.url()).parse().unwrap()).await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    let body = str::from_utf8(&body).unwrap();
    assert!(body.contains("strict") && !body.contains("54321"), "{body}");
    assert_eq!(model.seen()[0].kind, RequestKind::Other);
}

#[tokio::test]
async fn summary_contains_facts_of_the_request() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let (_, body) = ask(&model, summary_request(500)).await;
    let text = content(&body);
    for part in ["## Goal\ndeploy FACT-aa1", "- [x] on it", "FACT-bb2"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(model.seen()[0].kind, RequestKind::Summary);
    assert_eq!(ask(&model, chat("hello")).await.0, StatusCode::OK);
    let kinds: Vec<RequestKind> = model.seen().iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [RequestKind::Summary, RequestKind::Chat]);
    assert_eq!(model.seen()[1].previous_messages, 0, "a summary is no step of the conversation");
}

#[tokio::test]
async fn summaries_fail_in_the_configured_way() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    for (conduct, status, sign) in [
        (SummaryBehaviour::Empty, 200, r#""content":"""#),
        (SummaryBehaviour::Fails, 500, "server_error"),
        (SummaryBehaviour::None, 200, r"## Goal\n(none)"),
        (SummaryBehaviour::Refuses, 200, "I can't help"),
        (SummaryBehaviour::Throttled, 429, "rate_limit_exceeded"),
        (SummaryBehaviour::ToolCall, 200, r#""finish_reason":"tool_calls""#),
        (SummaryBehaviour::Truncated, 200, r#""finish_reason":"length""#),
    ] {
        model.change(|options| options.summary = conduct);
        let (got, body) = ask(&model, summary_request(500)).await;
        assert_eq!(got.as_u16(), status, "{conduct:?}");
        assert!(body.contains(sign), "{conduct:?}: {body}");
    }
    model.change(|options| options.summary = SummaryBehaviour::Forgetful);
    assert!(!ask(&model, summary_request(500)).await.1.contains("FACT-"));
    model.change(|options| options.summary = SummaryBehaviour::Faithful);
    assert!(ask(&model, summary_request(20)).await.1.contains(r#""finish_reason":"length""#));
}

#[tokio::test]
async fn records_a_client_that_disconnects_before_the_reply() {
    let options =
        ModelOptions { chat: ChatBehaviour::HangsAtHead, ..ModelOptions::with_window(HUGE) };
    let model = Model::start(options).await.unwrap();
    let arrived = |seen: &[SeenRequest]| seen.len() == 1;
    tokio::select! {
        _ = send(&model, chat("hello")) => panic!("it answered"),
        seen = bounded(model.wait_for(arrived)) => assert_eq!(seen[0].ended, ReplyCompletion::Pending),
    }
    let seen = bounded(model.wait_for(|seen| seen[0].ended != ReplyCompletion::Pending)).await;
    assert_eq!((seen[0].ended, seen[0].status), (ReplyCompletion::Abandoned, 0));
}

#[tokio::test]
async fn records_a_client_that_disconnects_during_the_reply() {
    let options =
        ModelOptions { chat: ChatBehaviour::HangsMidway, ..ModelOptions::with_window(HUGE) };
    let model = Model::start(options).await.unwrap();
    let mut body = send(&model, chat("hello")).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    assert_eq!(model.seen()[0].ended, ReplyCompletion::Pending);
    drop(body);
    let seen = bounded(model.wait_for(|seen| seen[0].ended != ReplyCompletion::Pending)).await;
    assert_eq!((seen[0].ended, seen[0].status), (ReplyCompletion::Abandoned, 200));
}

#[tokio::test]
async fn reset_reply_fails_for_the_client() {
    let options =
        ModelOptions { chat: ChatBehaviour::ResetsMidway, ..ModelOptions::with_window(HUGE) };
    let model = Model::start(options).await.unwrap();
    for stream in [true, false] {
        let body = json!({"stream": stream, "messages": [{"role": "user", "content": "u"}]});
        let response = send(&model, body.to_string().into()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.into_body().collect().await.is_err());
    }
}

#[tokio::test]
async fn slow_reply_and_tool_call_arrive_complete() {
    let slow = ChatBehaviour::Slow(std::time::Duration::from_millis(1));
    let model = Model::start(ModelOptions { chat: slow, ..ModelOptions::default() }).await.unwrap();
    let body = json!({"stream": true, "messages": [{"role": "user", "content": "u"}],
        "tools": [{"type": "function", "function": {"name": "look"}}]})
    .to_string();
    let (_, text) = ask(&model, body.clone().into()).await;
    assert!(text.ends_with("data: [DONE]\n\n"));
    model.change(|options| options.chat = ChatBehaviour::CallsTool);
    let (_, text) = ask(&model, body.into()).await;
    assert!(text.contains(r#""name":"look""#), "{text}");
    let ended =
        |seen: &[SeenRequest]| seen.iter().all(|seen| seen.ended == ReplyCompletion::Answered);
    assert_eq!(bounded(model.wait_for(ended)).await.len(), 2);
}

#[tokio::test]
async fn enforces_an_additional_validity_rule() {
    let validity = ValidityRules::standard().with("system-first").unwrap();
    let options = ModelOptions { validity, ..ModelOptions::with_window(HUGE) };
    let model = Model::start(options).await.unwrap();
    let late =
        json!({"messages": [{"role": "user", "content": "u"}, {"role": "system", "content": "s"}]});
    let (_, body) = ask(&model, late.to_string().into()).await;
    assert!(body.contains("System message must be at the beginning."), "{body}");
}

#[tokio::test]
async fn stopped_model_accepts_no_connection() {
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let addr = model.addr();
    model.stop().await;
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}
