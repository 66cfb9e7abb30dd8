//! Learned of a window from before a refusal.
//!
//! The learned facts are combined with the refusal's own numbers. A request accepted in one conversation
//! does not prevent the recovery of another.

use longhaul_mock_model::{ErrorFamily, Model, ModelOptions, TokenDensity};
use serde_json::{Value, json};

use crate::admin;
use crate::caller::{Caller, talk};
use crate::journey::{Journey, digests, harmless, retries};
use crate::program::{Admin, Program, fed};

/// Builds a streaming request of three messages, each `word` repeated `times` times.
fn stream_of(word: &str, times: usize) -> Vec<u8> {
    let text = word.repeat(times);
    let messages =
        ["user", "assistant", "user"].map(|role| json!({"role": role, "content": text.as_str()}));
    json!({"model": "m", "messages": messages, "stream": true}).to_string().into_bytes()
}

/// Builds a task with `calls` parallel calls, each with a result of 2,900 tokens.
fn batch(calls: usize) -> Vec<u8> {
    let call = |at: usize| {
        let arguments = json!({"path": format!("{at}.rs")}).to_string();
        json!({"id": format!("c{at}"), "type": "function",
            "function": {"name": "read", "arguments": arguments}})
    };
    let result = |at: usize| {
        let content = format!("{at:03} is what it says.\n").repeat(11_600 / 24);
        json!({"role": "tool", "tool_call_id": format!("c{at}"), "content": content})
    };
    let calls_made: Vec<Value> = (0..calls).map(call).collect();
    let mut messages = vec![
        json!({"role": "user", "content": "Look at all of it."}),
        json!({"role": "assistant", "content": null, "tool_calls": calls_made}),
    ];
    messages.extend((0..calls).map(result));
    let tools = json!([{"type": "function", "function": {"name": "read",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}]);
    json!({"model": "m", "messages": messages, "tools": tools}).to_string().into_bytes()
}

/// Starts a model that has answered some 50,000 tokens of another conversation, then shrinks its
/// window to `window`. Its refusals state no window.
async fn shrunk_to(window: u64) -> Journey {
    let options = ModelOptions::with_window(100_000).refusing_as(ErrorFamily::Groq);
    let mut journey = Journey::start(options, digests).await;
    let step = journey.step(talk(50, 1_000)).await;
    assert_eq!((step.arrived.status, step.upstream.len()), (200, 1));
    journey.model.change(|options| options.window = window);
    journey
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_overflow_costs_one_turn_whatever_else_was_accepted() {
    // By the estimate, the accepted prose exceeds the limit that the refusal states.
    let options = ModelOptions {
        density: TokenDensity::from_tenths(60),
        ..ModelOptions::with_window(20_000).refusing_as(ErrorFamily::SgLangStream)
    };
    let mut journey = Journey::start(options, digests).await;
    let prose = stream_of("some words ", 3_100);
    let dense = stream_of("\u{8a9e}\u{8a00}", 7_500);
    assert!(journey.step(prose.clone()).await.arrived.is_answer());
    let missed = journey.step(dense.clone()).await;
    assert!(!missed.arrived.is_answer());
    assert_eq!(missed.arrived.action(), "", "nobody looked at it");
    let seen = journey.step(dense).await;
    assert_eq!((seen.arrived.is_answer(), seen.upstream.len()), (true, 2));
    let other = journey.step(prose.clone()).await;
    assert!(other.arrived.is_answer());
    assert_eq!(other.forwarded().body, prose, "it is cut for nobody else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusal_without_a_number_does_not_reset_the_learned_limit() {
    for warm in [false, true] {
        let mut journey = shrunk_to(24_000).await;
        if !warm {
            journey.restart().await;
        }
        let first = journey.step(batch(16)).await;
        let refused = String::from_utf8_lossy(&first.arrived.body).into_owned();
        assert_eq!((first.arrived.status, first.upstream.len()), (400, 2), "{refused}");
        let next = journey.step(batch(16)).await;
        assert!(next.arrived.is_answer(), "{warm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_refusal_limits_its_conversation_despite_accepted_requests() {
    let mut journey = shrunk_to(3_500).await;
    let first = journey.step(talk(50, 1_020)).await;
    assert_eq!((first.arrived.status, first.upstream.len()), (400, 2));
    let next = journey.step(talk(51, 1_020)).await;
    assert!(next.arrived.is_answer());
    let later = journey.play((52..60).map(|turns| talk(turns, 1_020))).await;
    harmless("later", &later);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusal_without_a_number_prevents_overflows_of_later_conversations() {
    let options = ModelOptions::with_window(36_000).refusing_as(ErrorFamily::Groq);
    let mut journey = Journey::start(options, digests).await;
    // Near the window, each turn adds less than a tenth.
    let grows = |tokens: usize| (8..36).map(move |turns| talk(turns, tokens));
    let first = journey.play(grows(1_000)).await;
    harmless("the first", &first);
    assert_eq!(retries(&first), 1);
    let next = journey.play(grows(1_020)).await;
    harmless("the next", &next);
    assert_eq!(retries(&next), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learned_window_is_shown_and_dropped_at_once() {
    let model = Model::start(ModelOptions::with_window(8_000)).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let home = ("XDG_STATE_HOME", home.path().to_str().unwrap());
    let settings = [("LONGHAUL_SUMMARY_MODEL", "none"), home];
    let program = Program::with_admin(&model.url(), &settings, Admin::Free);
    let address = program.admin().to_string();
    let command = |words: &[&str]| {
        let done = fed(words, &[home], b"");
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let held =
        || command(&["check"]).lines().any(|line| line.starts_with("# learned: m takes about"));
    let ask = async |first: &str| {
        let caller = Caller::of(program.address());
        let mut body: Value = serde_json::from_slice(&talk(40, 1_000)).unwrap();
        body["model"] = json!("m");
        body["messages"][1]["content"] = json!(first);
        let body = body.to_string().into_bytes();
        let before = model.seen().len();
        assert_eq!(caller.ask(body).await.status, 200);
        model.seen().len() - before
    };
    assert!(!held());
    assert_eq!(ask("The first conversation.").await, 2, "one refusal");
    assert!(held());
    // The server restarts with more room.
    model.change(|options| options.window = 100_000);
    assert!(command(&["forget", "n"]).contains("no learned window of n"));
    for field in
        ["Origin: http://other.example", "Sec-Fetch-Site: cross-site", "Host: other.example"]
    {
        let request =
            format!("POST /windows/forget?model=m HTTP/1.1\r\nHost: {address}\r\n{field}\r\n\r\n");
        let answer = admin::told(program.admin(), &request).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{field}: {answer}");
    }
    assert!(held());
    assert!(command(&["forget", "m"]).contains("dropped: m takes about"));
    assert!(!held());
    assert_eq!(ask("Another conversation.").await, 1);
    let sent = model.seen().last().unwrap().body.len();
    assert!(sent > 40_000, "{sent} bytes: nothing is cut any more");
}
