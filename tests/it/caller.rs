//! A client that sends chats with given header fields, and builders for chats.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::received_reply::ReceivedReply;
use crate::time_limit::bounded;

/// A client of one proxy.
pub(crate) struct Caller {
    client: Client<HttpConnector, Full<Bytes>>,
    proxy: SocketAddr,
}

impl Caller {
    pub(crate) fn of(proxy: SocketAddr) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), proxy }
    }

    /// Sends a chat.
    pub(crate) async fn ask(&self, body: impl Into<Bytes>) -> ReceivedReply {
        self.ask_with(&[], body).await
    }

    /// Sends a chat with these fields.
    pub(crate) async fn ask_with(
        &self,
        fields: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> ReceivedReply {
        self.ask_at("/v1/chat/completions", fields, body).await
    }

    /// Sends a chat with these fields to this path.
    pub(crate) async fn ask_at(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> ReceivedReply {
        let mut request = Request::post(format!("http://{}{path}", self.proxy))
            .header("content-type", "application/json");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        bounded(async {
            let reply = self.client.request(request).await;
            ReceivedReply::read(reply.unwrap()).await
        })
        .await
    }
}

/// Builds a chat of `turns` turns with a question at the end. Each turn is a user message, a call,
/// its result of about `tokens` tokens and a closing text. All texts differ.
pub(crate) fn chat(turns: usize, tokens: usize) -> Vec<u8> {
    let mut messages = vec![json!({"role": "system", "content": "You are an agent."})];
    for turn in 0..turns {
        messages.extend(exchange(turn, tokens));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    body(&messages)
}

/// Like [`chat`], but with long messages by the model and without tools.
pub(crate) fn talk(turns: usize, tokens: usize) -> Vec<u8> {
    let mut messages = vec![json!({"role": "system", "content": "You are an agent."})];
    for turn in 0..turns {
        messages.push(json!({"role": "user", "content": format!("Task {turn}: go on")}));
        messages.push(json!({"role": "assistant", "content": long(turn, tokens)}));
    }
    messages.push(json!({"role": "user", "content": "And now?"}));
    body(&messages)
}

fn exchange(turn: usize, tokens: usize) -> [Value; 4] {
    let (id, path) = (format!("call_{turn}"), format!("src/file_{turn}.rs"));
    let function = json!({"name": "read", "arguments": json!({"path": path}).to_string()});
    [
        json!({"role": "user", "content": format!("Task {turn}: go on")}),
        json!({"role": "assistant", "content": null,
            "tool_calls": [{"id": id, "type": "function", "function": function}]}),
        json!({"role": "tool", "tool_call_id": id, "content": long(turn, tokens)}),
        json!({"role": "assistant", "content": format!("Done with {turn}.")}),
    ]
}

fn long(turn: usize, tokens: usize) -> String {
    let line = format!("line of {turn:03} said.\n");
    line.repeat(tokens * 4 / line.len() + 1)
}

fn body(messages: &[Value]) -> Vec<u8> {
    let tools = json!([{"type": "function", "function": {"name": "read",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}]);
    json!({"model": "m", "messages": messages, "tools": tools}).to_string().into()
}
