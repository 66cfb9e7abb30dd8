//! Sessions at servers that count the requested output, of a client that asks for 128,000 tokens each time.

use longhaul::config::StoreLocation;
use longhaul_mock_model::{ErrorFamily, ModelOptions, TokenDensity, Verdict};
use serde_json::{Value, json};

use super::proxied::Setup;

/// Steps of a session: more than two windows of 32,768 tokens.
const STEPS: usize = 60;

/// The request of a client that has made so many steps.
fn request(steps: usize, thinking: Option<u32>) -> Value {
    let line = |step| {
        format!("src/part{step}/main.rs: fn parse{step}(token) -> struct, value 0x{step:x}ff\n")
    };
    request_of("port the parser", line, steps, thinking)
}

/// The request of a client with this task, whose results repeat such a line.
fn request_of(
    task: &str,
    line: impl Fn(usize) -> String,
    steps: usize,
    thinking: Option<u32>,
) -> Value {
    let mut messages = vec![json!({"role": "user", "content": task})];
    for step in 0..steps {
        let id = format!("toolu_{step}");
        messages.extend([
            json!({"role": "assistant", "content": [
                {"type": "tool_use", "id": id, "name": "f", "input": {"path": format!("src/part{step}")}}]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": line(step).repeat(60)}]}),
        ]);
    }
    let schema = json!({"type": "object"});
    let mut body = json!({"model": "m", "max_tokens": 128_000, "messages": messages,
        "tools": [{"name": "f", "input_schema": schema}]});
    if let Some(budget) = thinking {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
    }
    body
}

/// Plays the session, and returns the number of refused requests.
async fn refusals(options: ModelOptions, thinking: Option<u32>) -> usize {
    let setup = Setup::at(options, |_| ()).await;
    play(&setup, thinking).await;
    refused(&setup)
}

async fn play(setup: &Setup, thinking: Option<u32>) {
    for steps in 0..=STEPS {
        let reply = setup.ask(&request(steps, thinking)).await;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{thinking:?}, step {steps}: {text}");
    }
}

fn refused(setup: &Setup) -> usize {
    let seen = setup.model.seen();
    let is_refused = |verdict| matches!(verdict, Verdict::Overflowed | Verdict::Broken(_));
    seen.iter().filter(|seen| is_refused(seen.verdict)).count()
}

#[tokio::test]
async fn a_server_that_counts_output_refuses_once_however_it_counts() {
    for density in [33, 26, 40] {
        for family in [ErrorFamily::Anthropic, ErrorFamily::Vllm] {
            let options = ModelOptions {
                density: TokenDensity::from_tenths(density),
                ..ModelOptions::with_window(65_536).refusing_as(family)
            };
            assert_eq!(refusals(options, None).await, 1, "{density}");
        }
    }
}

#[tokio::test]
async fn a_restarted_process_lowers_the_output_of_its_first_request() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("records");
    let options = ModelOptions::with_window(65_536).refusing_as(ErrorFamily::Vllm);
    let mut setup = Setup::at(options, |config| {
        config.store.location = StoreLocation::File(file);
    })
    .await;
    play(&setup, None).await;
    assert_eq!(refused(&setup), 1);
    setup.restart().await;
    play(&setup, None).await;
    assert_eq!(refused(&setup), 1, "the store keeps what was learned");
    // Another caller learns for itself.
    let reply = setup.ask_as(("x-api-key", "other"), &request(0, None)).await;
    assert_eq!((reply.status, refused(&setup)), (200, 2));
}

#[tokio::test]
async fn an_output_beside_a_thinking_budget_is_made_room_for_before_the_first_send() {
    let options = ModelOptions::with_window(32_768).refusing_as(ErrorFamily::Vllm);
    assert_eq!(refusals(options, Some(20_000)).await, 1);
}

#[tokio::test]
async fn a_larger_request_of_sparser_text_does_not_hide_that_a_conversation_is_full() {
    let options = ModelOptions::with_window(65_536).refusing_as(ErrorFamily::Vllm);
    let setup = Setup::at(options, |_| ()).await;
    play(&setup, None).await;
    assert_eq!(refused(&setup), 1);
    // Each character takes two bytes, so that the server counts twice the estimate.
    let line = |step| format!("строка{step} разбор токена структура значение поле запись\n");
    for steps in 0..=STEPS {
        let reply = setup.ask(&request_of("переведи", line, steps, None)).await;
        assert_eq!(reply.status, 200, "step {steps}");
        assert_eq!(refused(&setup), 1, "step {steps}");
    }
}
