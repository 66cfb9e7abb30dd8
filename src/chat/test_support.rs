//! Test support: chats prepared without a listener.

use std::sync::Arc;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Version};
use serde_json::json;

use crate::chat::attempt::PlanInputs;
use crate::chat::context::{Chat, ChatRequest};
use crate::chat::prepare::{prepare, read};
use crate::config::Config;
use crate::exchange::send::Route;
use crate::proxy_state::ProxyState;
use crate::request::buffered_body::BufferedBody;
use crate::request::overrides::RequestOverrides;

/// Header that compacts a chat of any size.
pub(super) const NOW: (&str, &str) = ("x-longhaul-compact", "now");

/// Builds the state for the upstream at `base`, with these changes to the default settings.
pub(super) fn state(base: &str, changes: &[(&str, &str)]) -> Arc<ProxyState> {
    let mut all = vec![("upstream.base", base)];
    all.extend(changes);
    Arc::new(ProxyState::new(Config::default_with(all).unwrap()).unwrap())
}

/// Prepares the chat in `text`, sent with the header `fields`, and runs `then` on it.
pub(super) async fn with_chat<T>(
    state: &Arc<ProxyState>,
    fields: &[(&str, &str)],
    text: String,
    then: impl AsyncFnOnce(Chat<'_>, PlanInputs) -> T,
) -> T {
    let path = PathAndQuery::from_static("/v1/chat/completions");
    let route = Route { requested: path.clone(), mapped: path, client_version: Version::HTTP_11 };
    let mut request = Request::post("/v1/chat/completions");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    let body = BufferedBody::plain(Bytes::from(text));
    let scope = state.scope(&route.mapped, &head);
    let conversation = read(state, &head, body.text(), scope).unwrap();
    let (chat, inputs) = prepare(ChatRequest {
        state,
        route: &route,
        head: &head,
        body: &body,
        conversation: &conversation,
        scope,
        overrides: RequestOverrides::from_headers(&head.headers),
        meter: Arc::default(),
        from_gateway: None,
        parent: None,
    })
    .await;
    then(chat, inputs).await
}

/// Builds a chat of `turns` turns, each answered with about `tokens` tokens of model text.
pub(super) fn chat_body(turns: usize, tokens: usize) -> String {
    let mut messages = Vec::new();
    for turn in 0..turns {
        let line = format!("line of {turn:03} said.\n");
        let said = line.repeat(tokens * 4 / line.len() + 1);
        messages.push(json!({"role": "user", "content": format!("Task {turn}: go on")}));
        messages.push(json!({"role": "assistant", "content": said}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    json!({"model": "m", "messages": messages}).to_string()
}
