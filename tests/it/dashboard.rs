//! The dashboard: the data of its pages for a real session.

use std::net::SocketAddr;

use longhaul_mock_model::{Model, ModelOptions, RequestKind, SummaryBehaviour};
use serde_json::{Value, json};

use crate::admin::{body, get};
use crate::caller::{Caller, talk};
use crate::journey::bodies;
use crate::manual::compact;
use crate::program::{Admin, Program};
use crate::time_limit::bounded;

pub(crate) async fn json_of(admin: SocketAddr, path: &str) -> Value {
    let answer = get(admin, path).await;
    serde_json::from_str(body(&answer, "200")).unwrap()
}

/// Sums a number over all days and models.
async fn total(program: &Program, field: &str) -> i64 {
    let days = json_of(program.admin(), "/days").await;
    days.as_array().unwrap().iter().map(|row| row[field].as_i64().unwrap()).sum()
}

/// Starts a proxy and plays the demo's session through it.
async fn after_the_demo(settings: &[(&str, &str)]) -> (Model, Program) {
    after_the_demo_with(ModelOptions::default(), settings).await
}

/// Plays the demo's session as streams with counts; its summaries are then counted too.
pub(crate) async fn play_counted(caller: &Caller) {
    for body in bodies(&longhaul_mock_model::session().unwrap()) {
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
        assert_eq!(caller.ask(body.to_string()).await.status, 200);
    }
}

async fn after_the_demo_with(options: ModelOptions, settings: &[(&str, &str)]) -> (Model, Program) {
    let model = Model::start(options).await.unwrap();
    let program = Program::with_admin(&model.url(), settings, Admin::Free);
    let caller = Caller::of(program.address());
    for body in bodies(&longhaul_mock_model::session().unwrap()) {
        assert_eq!(caller.ask(body).await.status, 200);
    }
    (model, program)
}

/// Sums a number over all points; every reply to a changed request carries these numbers.
fn sum(points: &[Value], of: &str) -> u64 {
    points.iter().map(|point| point[of].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn a_session_is_one_conversation_with_its_requests_and_files() {
    let (model, program) = after_the_demo(&[]).await;
    let all = json_of(program.admin(), "/conversations").await;
    let conversations = all["conversations"].as_array().unwrap();
    assert_eq!(conversations.len(), 1);
    let chats = model.seen().iter().filter(|seen| seen.kind == RequestKind::Chat).count();
    let id = conversations[0]["id"].as_str().unwrap();
    let one = json_of(program.admin(), &format!("/conversations/{id}")).await;

    let asked = bodies(&longhaul_mock_model::session().unwrap()).count();
    let points = one["points"].as_array().unwrap();
    assert_eq!((points.len(), &one["requests"]), (asked, &json!(asked)));
    assert_eq!(one["tokens_before"], sum(points, "before"));
    assert_eq!(one["tokens_after"], sum(points, "after"));
    assert_eq!(total(&program, "tokens_before").await, one["tokens_before"].as_i64().unwrap());
    assert!(one["tokens_after"].as_u64() < one["tokens_before"].as_u64());
    let retries = points.iter().filter(|point| {
        let acts = point["acts"].as_array().unwrap();
        acts.contains(&json!("retry"))
    });
    assert_eq!(retries.count(), chats - asked, "what the model saw twice");
    assert!(points.iter().any(|point| point["rewritten"] == json!(true)));
    for text in ["title", "body", "model"] {
        assert!(!one[text].as_str().unwrap().is_empty(), "{text}");
    }
    assert!(one["title"].as_str().unwrap().chars().count() <= 80);
    assert!(one["body"].as_str().unwrap().chars().count() <= 400);
    assert!(one.get("summary").is_none(), "nobody asked for content");
}

#[tokio::test]
async fn shows_chat_and_summary_costs_only_if_the_provider_reports_them() {
    const PRICE: u32 = 2_000;
    for price in [Some(PRICE), None] {
        let options = ModelOptions { price, ..ModelOptions::default() };
        let model = Model::start(options).await.unwrap();
        let program = Program::with_admin(&model.url(), &[], Admin::Free);
        let caller = Caller::of(program.address());
        play_counted(&caller).await;
        let all = settled(&program).await;
        let seen = model.seen();
        let cost = |of: RequestKind| -> u64 {
            let all = seen.iter().filter(|seen| seen.kind == of && seen.status == 200);
            all.map(|seen| seen.prompt_tokens * u64::from(PRICE)).sum()
        };
        let answered = |of: RequestKind| {
            let all = seen.iter().filter(|seen| seen.kind == of && seen.status == 200);
            all.count()
        };
        let one = &all["conversations"][0];
        let (chats, calls) = (answered(RequestKind::Chat), answered(RequestKind::Summary));
        assert!(calls > 0, "there were summaries");
        // Several reported costs imply a price.
        assert_eq!(one["saved"].as_u64() > Some(0), price.is_some(), "{one}");
        assert!(price.is_some() || one["saved_unknown"].as_u64() > Some(0), "{one}");
        let priced = price.is_some();
        let (spent, known) = if priced { (cost(RequestKind::Chat), chats) } else { (0, 0) };
        let summaries = if priced { cost(RequestKind::Summary) } else { 0 };
        for (field, expect) in [
            ("cost", spent),
            ("reported", spent),
            ("known", known as u64),
            ("unknown", (chats - known) as u64),
            ("summaries", summaries),
            ("calls_unknown", if priced { 0 } else { calls as u64 }),
        ] {
            assert_eq!(one[field], expect, "{field}");
            assert_eq!(total(&program, field).await, expect.cast_signed(), "{field}");
        }
    }
}

#[tokio::test]
async fn rereading_a_cleared_result_is_counted_once() {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let settings = [
        ("LONGHAUL_PRUNE_PROTECT_TOKENS", "1000"),
        ("LONGHAUL_PRUNE_MINIMUM_TOKENS", "1000"),
        ("LONGHAUL_PRUNE_MIN_USER_TURNS", "1"),
    ];
    let program = Program::with_admin(&model.url(), &settings, Admin::Free);
    let caller = Caller::of(program.address());
    let body = |paths: &[&str]| {
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        for (at, path) in paths.iter().enumerate() {
            let arguments = json!({ "path": path }).to_string();
            let call = json!({"id": format!("call{at}"), "type": "function",
                "function": {"name": "read", "arguments": arguments}});
            let assistant = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            let result = json!({"role": "tool", "tool_call_id": format!("call{at}"),
                "content": "word ".repeat(2_000)});
            messages.extend([assistant, result]);
        }
        let tool = json!({"type": "function", "function": {"name": "read", "parameters": {}}});
        json!({"model": "m", "messages": messages, "tools": [tool]}).to_string()
    };
    let before = ["a", "b", "c", "d"];
    let reread = ["a", "b", "c", "d", "a"];
    for (paths, expect) in [
        (&before[..], 0),
        (&reread[..], 1),
        (&reread[..], 1),
        (&["a", "b", "c", "d", "a", "e"][..], 1),
    ] {
        let came = caller.ask(body(paths)).await;
        assert_eq!((came.status, came.action()), (200, "prune"));
        let all = json_of(program.admin(), "/conversations").await;
        assert_eq!(all["conversations"][0]["rereads"], expect, "{paths:?}");
    }
    // The result of the first call is message 2. The second request asked for it again.
    let last = json_of(program.admin(), "/requests/last").await;
    let rows = last["messages"].as_array().unwrap().iter();
    let asked: Vec<_> = rows.filter(|row| row["asked_again"].is_u64()).collect();
    assert_eq!((asked.len(), &asked[0]["number"]), (1, &json!(2)), "{asked:?}");
    assert_eq!(asked[0]["asked_again"], 2);
}

#[tokio::test]
async fn reports_that_throttled_summaries_are_paused() {
    let throttled =
        ModelOptions { summary: SummaryBehaviour::Throttled, ..ModelOptions::default() };
    let (_model, program) = after_the_demo_with(throttled, &[]).await;
    let told = json_of(program.admin(), "/conversations").await;
    assert_eq!(told["summaries"]["paused"], 1, "{told}");
}

#[tokio::test]
async fn shows_the_summary_text_if_show_content_is_set() {
    let (_model, program) = after_the_demo(&[("LONGHAUL_ADMIN_SHOW_CONTENT", "true")]).await;
    let all = json_of(program.admin(), "/conversations").await;
    let id = all["conversations"][0]["id"].as_str().unwrap();
    let one = json_of(program.admin(), &format!("/conversations/{id}")).await;
    let summary = one["summary"].as_str().unwrap();
    assert!(summary.contains("condensed by longhaul"), "{summary}");
}

#[tokio::test]
async fn shows_a_conversation_as_compacting_while_its_summary_is_pending() {
    let hangs =
        ModelOptions { summary: SummaryBehaviour::Hangs, ..ModelOptions::with_window(10_000_000) };
    let model = Model::start(hangs).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let url = format!("http://{}/v1", program.address());
    let asked = tokio::spawn(async move { compact(&url, &talk(20, 2_000)).await.status });
    bounded(model.wait_for(|seen| seen.iter().any(|seen| seen.kind == RequestKind::Summary))).await;
    let all = json_of(program.admin(), "/conversations").await;
    assert!(all["conversations"][0]["compacting"].is_u64(), "{all}");
    asked.abort();
    _ = asked.await;
    // The waiting client has left, and the job has ended with it.
    settled(&program).await;
}

/// Returns the conversations once no summary of the newest is being made.
async fn settled(program: &Program) -> Value {
    bounded(async {
        loop {
            let all = json_of(program.admin(), "/conversations").await;
            if all["conversations"][0]["compacting"].is_null() {
                break all;
            }
        }
    })
    .await
}

#[tokio::test]
async fn keeps_the_64_newest_conversations() {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let caller = Caller::of(program.address());
    for number in 0..518 {
        let message = json!({"role": "user", "content": format!("Conversation {number}")});
        let body = json!({"model": "m", "messages": [message]}).to_string();
        assert_eq!(caller.ask(body).await.status, 200);
    }
    let all = json_of(program.admin(), "/conversations").await;
    let conversations = all["conversations"].as_array().unwrap();
    assert_eq!(conversations.len(), 512);
    assert_eq!(conversations[0]["title"], "Conversation 517", "the newest first");
    assert_eq!(conversations[511]["title"], "Conversation 6");
    assert_eq!(all["evicted_count"], 6);
    assert_eq!(all["evicted"].as_array().unwrap().len(), 6);
}

/// Returns the rows of an explanation with this action.
fn rows<'a>(explanation: &'a Value, action: &str) -> Vec<&'a Value> {
    let rows = explanation["messages"].as_array().unwrap().iter();
    rows.filter(|row| row["action"] == action).collect()
}

/// Checks that the layers of a changed request add up to its size as forwarded and its cleared results.
#[track_caller]
fn check_layers(explanation: &Value, cleared: usize) {
    let layers = explanation["layers"].as_array().unwrap();
    let is_changed = cleared > 0 || explanation["digest"].is_object();
    assert_eq!(layers.is_empty(), !is_changed, "{layers:?}");
    let totals = &explanation["totals"];
    if is_changed {
        assert_eq!(sum(layers, "cleared"), cleared as u64);
        assert_eq!(sum(layers, "messages"), totals["messages"]);
        let forwarded = sum(layers, "tokens") + totals["tools"].as_u64().unwrap();
        assert_eq!(forwarded, totals["after"], "{layers:?}");
    }
}

#[tokio::test]
async fn the_explanation_of_a_request_names_what_was_cleared_and_why() {
    for shown in [false, true] {
        let setting = [("LONGHAUL_ADMIN_SHOW_CONTENT", if shown { "true" } else { "false" })];
        let (_model, program) = after_the_demo(&setting).await;
        let all = json_of(program.admin(), "/conversations").await;
        let id = all["conversations"][0]["id"].as_str().unwrap();
        let one = json_of(program.admin(), &format!("/conversations/{id}")).await;
        let mut news = 0;
        for point in one["points"].as_array().unwrap() {
            let request = point["id"].as_str().unwrap();
            let explanation = json_of(program.admin(), &format!("/requests/{request}")).await;
            assert_eq!(explanation["request"]["id"], request);
            assert_eq!(explanation["request"]["conversation"], id);
            assert_eq!(explanation["totals"]["before"], point["before"]);
            assert_eq!(explanation["totals"]["after"], point["after"]);
            let cleared = rows(&explanation, "cleared");
            assert_eq!(cleared.len() as u64, point["cleared"].as_u64().unwrap());
            check_layers(&explanation, cleared.len());
            let number = point["number"].as_u64().unwrap();
            for row in cleared {
                assert!(!row["reason"].as_str().unwrap().is_empty());
                let is_new = row["since"] == number;
                news += u64::from(is_new);
                assert_eq!(row.get("text").is_some(), shown && is_new, "{row}");
                assert!(row["since"].as_u64() <= Some(number));
            }
            let why = explanation["why"].as_str().unwrap();
            if point["acts"].as_array().unwrap().contains(&json!("retry")) {
                let limit = point["refused_limit"].as_u64().unwrap();
                let limit = &limit.to_string()[limit.to_string().len() - 3..];
                assert!(why.contains("refused") && why.contains(limit), "{why}");
            }
        }
        assert!(news > 0, "something was cleared");
        let last = json_of(program.admin(), "/requests/last").await;
        let of_one = json_of(program.admin(), &format!("/conversations/{}/last", &id[..8])).await;
        assert_eq!(last, of_one);
    }
}
