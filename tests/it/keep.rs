//! Texts that stay in a compacted conversation: by the file and by headers, within scope and bounds.

use std::path::Path;

use longhaul_mock_model::{Model, ModelOptions, RequestKind};
use serde_json::Value;

use crate::caller::{Caller, talk};
use crate::program::Program;

const RULE: &str = "Never push to main.";
const KEEP: (&str, &str) = ("x-longhaul-keep", RULE);
const UNKEEP: (&str, &str) = ("x-longhaul-unkeep", RULE);
/// Digests from 16,000 tokens on.
const SMALL: [(&str, &str); 2] = [("LONGHAUL_WINDOW", "16000"), ("LONGHAUL_SUMMARY_MODEL", "none")];

async fn large_model() -> Model {
    Model::start(ModelOptions::with_window(1_000_000)).await.unwrap()
}

/// Returns the last chat that the model received, and checks that it names no header of longhaul.
fn last(model: &Model) -> String {
    let mut seen = model.seen().into_iter();
    let chat = seen.rfind(|seen| seen.kind == RequestKind::Chat).unwrap();
    let mut names = chat.headers.keys().map(http::HeaderName::as_str);
    assert!(names.all(|name| !name.starts_with("x-longhaul")));
    String::from_utf8(chat.body.to_vec()).unwrap()
}

/// Sends a chat beyond the threshold. Returns whether its digest keeps the text.
async fn keeps(caller: &Caller, model: &Model, fields: &[(&str, &str)], turns: usize) -> bool {
    let reply = caller.ask_with(fields, talk(turns, 500)).await;
    assert_eq!(reply.status, 200);
    let forwarded = last(model);
    assert!(forwarded.contains("## Progress"), "{forwarded}");
    forwarded.contains("[Kept]: Never push to main.")
}

/// Returns the chat of the first request of [`talk`].
fn first_request() -> Vec<u8> {
    let mut chat: Value = serde_json::from_slice(&talk(1, 500)).unwrap();
    chat["messages"].as_array_mut().unwrap().truncate(2);
    chat.to_string().into_bytes()
}

#[tokio::test]
async fn a_header_keeps_a_text_of_its_own_conversation_from_the_next_compaction_on() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &SMALL);
    let caller = Caller::of(program.address());
    for body in [first_request(), talk(1, 500)] {
        caller.ask_with(&[KEEP], body.clone()).await;
        assert_eq!(last(&model).as_bytes(), body, "no byte before");
    }
    let other = [("authorization", "Bearer other")];
    assert!(!keeps(&caller, &model, &other, 40).await);
    assert!(keeps(&caller, &model, &[], 40).await);
    assert!(keeps(&caller, &model, &[UNKEEP], 41).await, "bytes that were sent stay");
    let mut is_kept = true;
    for turns in 42..400 {
        is_kept = is_kept && keeps(&caller, &model, &[], turns).await;
    }
    assert!(!is_kept, "a merge of segments leaves the text out");
}

#[tokio::test]
async fn a_header_of_the_first_request_counts_for_the_conversation_and_survives_a_restart() {
    let model = large_model().await;
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().join("store").display());
    let settings = [&SMALL[..], &[("LONGHAUL_STORE_AT", &store)]].concat();
    let program = Program::told(&model.url(), &settings);
    let caller = Caller::of(program.address());
    caller.ask_with(&[KEEP], first_request()).await;
    caller.ask(talk(1, 500)).await;
    program.closed();
    let program = Program::start(&model.url(), &settings);
    assert!(keeps(&Caller::of(program.address()), &model, &[], 40).await);
}

#[tokio::test]
async fn texts_beyond_the_bounds_and_texts_taken_back_are_not_kept() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &SMALL);
    let caller = Caller::of(program.address());
    let long = format!("{RULE} {}", "x".repeat(4_000));
    for value in [&*long, "%FF", ""] {
        let reply = caller.ask_with(&[("x-longhaul-keep", value)], talk(1, 500)).await;
        assert_eq!(reply.status, 200);
    }
    let many: Vec<String> = (0..32).map(|at| format!("rule {at}")).collect();
    let many: Vec<_> = many.iter().map(|text| ("x-longhaul-keep", &**text)).collect();
    caller.ask_with(&many, talk(1, 500)).await;
    caller.ask_with(&[KEEP], talk(1, 500)).await;
    assert!(!keeps(&caller, &model, &[], 40).await);
    assert!(last(&model).contains("[Kept]: rule 31"));
    let other = talk(40, 600);
    caller.ask_with(&[KEEP], talk(1, 600)).await;
    caller.ask_with(&[UNKEEP], talk(1, 600)).await;
    caller.ask(other).await;
    assert!(!last(&model).contains("[Kept]"));
}

#[tokio::test]
async fn texts_of_the_file_stay_in_conversations_of_models_that_match() {
    let model = large_model().await;
    let folder = tempfile::tempdir().unwrap();
    let write = |pattern: &str| {
        let path = folder.path().join(format!("{}.toml", pattern.len()));
        let text = format!("[[keep]]\ntext = '{RULE}'\nmatch = '{pattern}'\n");
        std::fs::write(&path, text).unwrap();
        path
    };
    let kept = async |path: &Path| {
        let config = ("LONGHAUL_CONFIG", path.to_str().unwrap());
        let program = Program::start(&model.url(), &[&SMALL[..], &[config]].concat());
        keeps(&Caller::of(program.address()), &model, &[], 40).await
    };
    assert!(kept(&write("M*")).await);
    assert!(!kept(&write("other*")).await);
}
