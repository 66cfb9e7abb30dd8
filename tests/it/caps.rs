//! Caps on spending: what counts, who shares a sum, and what a client gets at the cap.

use longhaul_mock_model::{Model, ModelOptions};
use serde_json::{Value, json};

use crate::caller::{Caller, talk};
use crate::program::Program;
use crate::received_reply::ReceivedReply;

const KEY: (&str, &str) = ("authorization", "Bearer one");
const OTHER_KEY: (&str, &str) = ("authorization", "Bearer two");

/// Builds a chat that begins with `first` and has about `turns` thousand tokens.
fn conversation(first: &str, turns: usize) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&talk(turns, 1_000)).unwrap();
    body["messages"][1]["content"] = json!(first);
    body.to_string().into_bytes()
}

/// Checks that a reply is the fault `code` in the shape of the API, which no SDK retries.
fn assert_capped(reply: &ReceivedReply, code: &str) {
    assert_eq!(reply.status, 400);
    assert_eq!(reply.field("fault"), Some(code));
    assert_eq!(reply.headers["x-should-retry"], "false");
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("to go on"));
}

#[tokio::test]
async fn a_conversation_ends_at_its_cap_and_its_forks_with_it() {
    let model = Model::start(ModelOptions::with_window(100_000)).await.unwrap();
    let program = Program::told(&model.url(), &[("LONGHAUL_CAP_CONVERSATION", "60k")]);
    let caller = Caller::of(program.address());
    let ask = async |first: &str, turns| caller.ask_with(&[KEY], conversation(first, turns)).await;
    for turns in [20, 22] {
        assert!(!program.said().contains("spending nears its cap"));
        assert_eq!(ask("Fix it.", turns).await.status, 200);
    }
    program.logs(|log| log.contains("spending nears its cap")).await;
    assert_eq!(ask("Fix it.", 10).await.status, 200, "the cap is crossed");
    let before = model.seen().len();
    assert_capped(&ask("Fix it.", 3).await, "conversation_cap");
    assert_eq!(model.seen().len(), before, "the upstream sees no request");
    assert_eq!(ask("Another task.", 3).await.status, 200);
}

#[tokio::test]
async fn each_api_has_the_cap_and_so_has_an_explicit_compaction() {
    let model = Model::start(ModelOptions::with_window(100_000)).await.unwrap();
    let program = Program::told(&model.url(), &[("LONGHAUL_CAP_CONVERSATION", "1k")]);
    let caller = Caller::of(program.address());
    let said = [json!({"role": "user", "content": "word ".repeat(1_200)})];
    for (path, body) in [
        ("/v1/chat/completions", json!({"model": "m", "messages": said})),
        ("/v1/responses", json!({"model": "m", "input": said})),
        ("/v1/messages", json!({"model": "m", "max_tokens": 9, "messages": said})),
    ] {
        let body = body.to_string();
        assert_eq!(caller.ask_at(path, &[KEY], body.clone()).await.status, 200, "{path}");
        let before = model.seen().len();
        for path in [path, "/__longhaul__/compact"] {
            let reply = caller.ask_at(path, &[KEY], body.clone()).await;
            assert_eq!(reply.field("fault"), Some("conversation_cap"), "{path} {reply:?}");
            let error: Value = serde_json::from_slice(&reply.body).unwrap();
            assert!(error["error"]["message"].as_str().unwrap().contains("to go on"), "{error}");
            assert_eq!(error["type"] == "error", path == "/v1/messages", "{error}");
        }
        assert_eq!(model.seen().len(), before, "{path}");
    }
}

#[tokio::test]
async fn a_day_ends_at_its_cap_for_one_caller_and_a_restart_changes_nothing() {
    let mut options = ModelOptions::with_window(100_000);
    // A dollar for a million tokens.
    options.price = Some(1_000);
    let model = Model::start(options).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let env = [("HOME", home.path().to_str().unwrap()), ("LONGHAUL_CAP_DAY", "$0.03")];
    let program = Program::told(&model.url(), &env);
    let caller = Caller::of(program.address());
    for (first, turns) in [("Fix it.", 20), ("Another task.", 20)] {
        let reply = caller.ask_with(&[KEY], conversation(first, turns)).await;
        assert_eq!(reply.status, 200);
    }
    let third = conversation("A third task.", 2);
    assert_capped(&caller.ask_with(&[KEY], third.clone()).await, "day_cap");
    program.closed();
    let program = Program::told(&model.url(), &env);
    let caller = Caller::of(program.address());
    assert_capped(&caller.ask_with(&[KEY], third.clone()).await, "day_cap");
    assert_eq!(caller.ask_with(&[OTHER_KEY], third).await.status, 200);
}

#[tokio::test]
async fn the_call_for_a_summary_counts() {
    let model = Model::start(ModelOptions::with_window(20_000)).await.unwrap();
    for (summary, third) in [("none", 200), ("own", 400)] {
        let env = [
            ("LONGHAUL_CAP_CONVERSATION", "25k"),
            ("LONGHAUL_SUMMARY_MODEL", summary),
            ("LONGHAUL_WINDOW", "20k"),
        ];
        let program = Program::told(&model.url(), &env);
        let caller = Caller::of(program.address());
        for (turns, expect) in [(9, 200), (18, 200), (19, third)] {
            let reply = caller.ask(conversation("Fix it.", turns)).await;
            assert_eq!(reply.status, expect, "{summary}, {turns}");
        }
    }
}
