//! Servers with their own rules: a chat template, and the backend of a login.

use longhaul_mock_model::{Model, ModelOptions, ModelServer, RequestKind, Verdict};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::harness::Proxy;

const PATH: &str = "/v1/responses";

/// Builds an input of `turns` turns without tools.
fn talk(turns: usize) -> Value {
    let said = |turn: usize| {
        let text = format!("line of {turn:03}.\n").repeat(300);
        [
            json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": format!("Task {turn}: go on")}]}),
            json!({"type": "message", "id": format!("msg_{turn}"), "role": "assistant",
                "content": [{"type": "output_text", "text": text}]}),
        ]
    };
    let mut input: Vec<Value> = (0..turns).flat_map(said).collect();
    input.push(json!({"role": "user", "content": "And now?"}));
    json!({"model": "m", "instructions": "You are an agent.", "store": false, "stream": true,
        "input": input})
}

/// Plays a growing conversation to a server, with these settings. Returns the requests that it received.
async fn play(
    server: ModelServer,
    changes: &[(&str, &str)],
) -> Vec<longhaul_mock_model::SeenRequest> {
    let options = ModelOptions { server, ..ModelOptions::with_window(16_000) };
    let model = Model::start(options).await.unwrap();
    let proxy = Proxy::start(&model.url(), changes).await;
    let caller = Caller::of(proxy.address);
    for turns in (4..28).step_by(3) {
        let reply = caller.ask_at(PATH, &[], talk(turns).to_string()).await;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert!(text.contains("response.completed"), "{server:?} {turns}: {text}");
    }
    proxy.stop().await;
    model.seen()
}

#[tokio::test]
async fn template_that_wants_alternating_roles_refuses_one_placement_and_the_client_sees_none() {
    let settings = [("window", "16000"), ("summary.model", "none")];
    let seen = play(ModelServer::LlamaCpp, &settings).await;
    let broken: Vec<Verdict> = seen
        .iter()
        .map(|it| it.verdict)
        .filter(|verdict| matches!(verdict, Verdict::Broken(_)))
        .collect();
    assert_eq!(broken, [Verdict::Broken("r-alternation")]);
}

#[tokio::test]
async fn summary_calls_to_the_backend_of_a_login_have_its_form() {
    let seen = play(ModelServer::ChatGpt, &[("window", "16000")]).await;
    assert!(seen.iter().all(|it| !matches!(it.verdict, Verdict::Broken(_))));
    assert!(seen.iter().any(|it| it.kind == RequestKind::Summary));
}
