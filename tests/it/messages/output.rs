//! Servers that count the output as part of the window, and a client that asks for a large one each time.

use longhaul_mock_model::{
    ErrorFamily, Model, ModelOptions, RequestKind, SeenRequest, TokenDensity, Verdict,
};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;

/// Output that Claude Code asks for.
const ASKED: u64 = 128_000;

/// A server: its wording, its window, the bytes of a token in tenths, and the client's thinking budget.
type Server = (ErrorFamily, u64, u64, Option<u64>);

/// Plays a growing tool session to a server. Returns what the client received, and what the model did.
async fn play((family, window, tenths, budget): Server) -> (Vec<u16>, Vec<SeenRequest>) {
    let options = ModelOptions {
        density: TokenDensity::from_tenths(tenths),
        ..ModelOptions::with_window(window).refusing_as(family)
    };
    let model = Model::start(options).await.unwrap();
    let base = format!("http://{}", model.addr());
    let mut config = longhaul::Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    let proxy = Proxy::with(config).await;
    let caller = Caller::of(proxy.address);
    let mut body = json!({"model": "m", "max_tokens": ASKED, "system": "s",
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "port it"}]});
    if let Some(budget) = budget {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": budget});
    }
    let mut statuses = Vec::new();
    for turn in 0..48 {
        let reply = caller.ask_at("/v1/messages", &[("x-api-key", "k")], body.to_string());
        statuses.push(reply.await.status);
        let words = format!("line {turn} of the file.\n").repeat(180);
        let id = format!("toolu_{turn}");
        let step = [
            json!({"role": "assistant", "content": [
                {"type": "tool_use", "id": id, "name": "read", "input": {"path": turn}}]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": words}]}),
        ];
        let messages: &mut Vec<Value> = body["messages"].as_array_mut().unwrap();
        messages.extend(step);
    }
    let seen = model.seen().into_iter();
    let chats = seen.filter(|it| it.kind == RequestKind::Chat).collect();
    (statuses, chats)
}

#[tokio::test]
async fn an_output_that_does_not_fit_is_refused_once_and_no_client_sees_it() {
    for server in [
        (ErrorFamily::OpenRouter, 65_536, 40, None),
        (ErrorFamily::OpenRouter, 65_536, 30, None),
        (ErrorFamily::OpenRouter, 65_536, 26, None),
        (ErrorFamily::OpenRouter, 32_768, 40, Some(20_000)),
        (ErrorFamily::Anthropic, 65_536, 26, None),
    ] {
        let (statuses, seen) = play(server).await;
        assert!(statuses.iter().all(|status| *status == 200), "{server:?} {statuses:?}");
        let refused = seen.iter().filter(|it| it.verdict == Verdict::Overflowed);
        assert_eq!(refused.count(), 1, "{server:?}");
        let least = server.3.map_or(3_000, |budget| budget + 1);
        assert!(seen.iter().all(|it| it.max_output.unwrap() >= least), "{server:?}");
        assert!(seen.iter().all(|it| !matches!(it.verdict, Verdict::Broken(_))));
    }
}
