//! A mock agent in front of the real proxy and a strict model: works for many windows, forgets, and finds
//! facts again by recall.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use longhaul_mock_model::{Model, ModelOptions, RequestKind};
use serde_json::{Value, json};

/// Window of the model, in tokens.
pub(crate) const WINDOW: usize = 8_192;
/// Tokens of each result.
const RESULT_TOKENS: usize = 1_000;
const RECALL_PATH: &str = "/__longhaul__/recall/";
const LINE: &str = "[Full text: longhaul recall ";
const ID_DIGITS: usize = 52;

/// Findings of the agent at the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    /// Requests that the model answered.
    pub(crate) requests: usize,
    /// Requests that failed.
    pub(crate) refused: usize,
    /// Facts that were planted.
    pub(crate) planted: usize,
    /// Facts in the last forwarded request.
    pub(crate) in_prompt: usize,
    /// Facts found by one search with an ID of that request.
    pub(crate) by_search: usize,
    /// Results of which each byte is in the last forwarded request, or is found by one ID in it.
    pub(crate) results_reached: usize,
    pub(crate) results: usize,
    /// IDs in the last forwarded request.
    pub(crate) ids: usize,
    /// Bytes of lines in all forwarded requests, and of all forwarded requests.
    pub(crate) line_bytes: usize,
    pub(crate) forwarded_bytes: usize,
}

/// Client of one proxy.
pub(crate) struct Agent {
    client: Client<HttpConnector, Full<Bytes>>,
    proxy: SocketAddr,
}

impl Agent {
    pub(crate) fn of(proxy: SocketAddr) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), proxy }
    }

    /// Sends a chat; returns whether the model answered.
    async fn ask(&self, body: Vec<u8>) -> bool {
        let request = Request::post(format!("http://{}/v1/chat/completions", self.proxy))
            .header("content-type", "application/json")
            .body(Full::new(body.into()))
            .expect("a request");
        let reply = self.client.request(request).await.expect("a reply");
        let is_answer = reply.status().is_success();
        reply.into_body().collect().await.expect("a whole reply");
        is_answer
    }

    /// Reads an original; returns the status and the text.
    pub(crate) async fn recall(&self, id: &str, query: &str) -> (u16, String) {
        let url = format!("http://{}{RECALL_PATH}{id}{query}", self.proxy);
        let request = Request::get(url).body(Full::default()).expect("a request");
        let reply = self.client.request(request).await.expect("a reply");
        let status = reply.status().as_u16();
        let body = reply.into_body().collect().await.expect("a whole reply");
        (status, String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }
}

/// Returns the model that the agent works with.
pub(crate) async fn model() -> Model {
    let window = u64::try_from(WINDOW).expect("a small window");
    Model::start(ModelOptions::with_window(window)).await.expect("a model")
}

/// Returns the IDs in a forwarded request, oldest first.
pub(crate) fn ids(forwarded: &str) -> Vec<&str> {
    let lines = forwarded.split(LINE).skip(1);
    lines.filter_map(|rest| rest.get(..ID_DIGITS)).collect()
}

/// Works until the history is as long as `windows` windows, with `facts` facts in results spread over it.
/// Then looks for each fact and each result.
pub(crate) async fn play(agent: &Agent, model: &Model, windows: usize, facts: usize) -> Findings {
    let steps = (windows * WINDOW).div_ceil(RESULT_TOKENS + 60);
    let mut found = Findings { planted: facts, ..Findings::default() };
    let mut messages = vec![
        json!({"role": "system", "content": "You are an agent."}),
        json!({"role": "user", "content": "Read every file and remember what it says."}),
    ];
    let tools = json!([{"type": "function", "function": {"name": "read",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}]);
    let mut results = Vec::new();
    for step in 0..steps {
        // The newest results are in the prompt anyway.
        let planted = (0..facts).filter(|fact| fact * steps.saturating_sub(20) / facts == step);
        let planted: String = planted.map(|fact| fact_of(fact) + "\n").collect();
        let result = result_of(step, &planted);
        messages.extend(exchange(step, &result));
        results.push(result);
        let body = json!({"model": "m", "messages": messages, "tools": tools}).to_string();
        let is_answered = agent.ask(body.into_bytes()).await;
        found.requests += usize::from(is_answered);
        found.refused += usize::from(!is_answered);
    }
    let chats = model.seen().into_iter().filter(|seen| seen.kind == RequestKind::Chat);
    let mut last = Bytes::new();
    for chat in chats {
        let text = String::from_utf8_lossy(&chat.body);
        found.line_bytes += ids(&text).len() * (LINE.len() + ID_DIGITS + "]\\n".len());
        found.forwarded_bytes += chat.body.len();
        last = chat.body;
    }
    let last: Value = serde_json::from_slice(&last).expect("a chat");
    let last = last["messages"].as_array().expect("messages").iter();
    let last: String =
        last.map(|message| message["content"].as_str().unwrap_or_default()).collect();
    look(agent, &last, &results, &mut found).await;
    found
}

/// Looks for every fact and every result from the last forwarded request.
async fn look(agent: &Agent, last: &str, results: &[String], found: &mut Findings) {
    let named = ids(last);
    found.ids = named.len();
    let newest = named.last().expect("an ID in the last request");
    for fact in 0..found.planted {
        let fact = fact_of(fact);
        found.in_prompt += usize::from(last.contains(&fact));
        let (key, value) = fact.split_once(" is ").expect("a fact");
        let (_, said) = agent.recall(newest, &format!("?search={}", key.replace(' ', "+"))).await;
        found.by_search += usize::from(said.contains(value));
    }
    let mut texts = Vec::new();
    for id in &named {
        texts.push(whole(agent, id).await);
    }
    found.results = results.len();
    let reached = results
        .iter()
        .filter(|result| last.contains(*result) || texts.iter().any(|text| text.contains(*result)));
    found.results_reached = reached.count();
}

/// Reads an original that may be longer than one answer.
async fn whole(agent: &Agent, id: &str) -> String {
    const LINES: usize = 5_000;
    let mut text = String::new();
    for page in 0.. {
        let (first, last) = (page * LINES + 1, (page + 1) * LINES);
        let (status, said) = agent.recall(id, &format!("?lines={first}-{last}")).await;
        if status != 200 || said.is_empty() {
            break;
        }
        text.push_str(&said);
    }
    text
}

/// Returns a fact that no other text contains.
fn fact_of(fact: usize) -> String {
    let code = fact * 7_919 % 99_991;
    format!("the door code of room {fact:03} is {code:05}-{:03}", fact * 37 % 997)
}

fn result_of(step: usize, planted: &str) -> String {
    let line = format!("file {step} has a line like many others.\n");
    let lines = RESULT_TOKENS * 4 / line.len();
    [&line.repeat(lines / 2), planted, &line.repeat(lines / 2)].concat()
}

fn exchange(step: usize, result: &str) -> [Value; 2] {
    let id = format!("call_{step}");
    let arguments = json!({"path": format!("notes/{step}.txt")}).to_string();
    let function = json!({"name": "read", "arguments": arguments});
    [
        json!({"role": "assistant", "content": format!("File {step} is next."),
            "tool_calls": [{"id": id, "type": "function", "function": function}]}),
        json!({"role": "tool", "tool_call_id": id, "content": result}),
    ]
}
