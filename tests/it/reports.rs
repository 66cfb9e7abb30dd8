//! Refusals of public reports, played to the proxy as they were received.

mod repeated;
mod situations;

use longhaul::Config;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::units::tokens::Tokens;
use serde::Deserialize;
use serde_json::{Value, json};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::caller::Caller;
use crate::harness::Proxy;
use crate::journey::digests;
use crate::recovery::scripted::{self, Reply};

const JSON: &str = "content-type: application/json\r\n";
const EVENTS: &str = "content-type: text/event-stream\r\n";
const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"on"}}]}"#;
const RESPONSE: &str = r#"{"object":"response","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"on"}]}]}"#;
const MESSAGE: &str = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"on"}],"stop_reason":"end_turn"}"#;
/// Messages of the last steps that an agent has sent when a chat that grew is refused.
const GROWTH: [usize; 5] = [20, 16, 12, 8, 4];

/// A line of `fixtures/reports`, or of `fixtures/unseen/blind_9.jsonl`.
#[derive(Deserialize)]
struct Reported {
    id: String,
    #[serde(default)]
    api: String,
    #[serde(default)]
    language: String,
    status: u16,
    #[serde(default)]
    content_type: String,
    body: String,
    #[serde(default, alias = "overflow")]
    is_overflow: bool,
    /// The output that the model allows, if the request asks for more.
    cap: Option<u32>,
    #[serde(default)]
    sent: String,
    #[serde(default, alias = "modes")]
    fails_when: Vec<String>,
}

fn reported(lines: &str) -> Vec<Reported> {
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Builds a chat of about this many tokens: one user turn with 60 tool results.
fn chat(tokens: usize) -> Vec<u8> {
    let mut messages = vec![
        json!({"role": "system", "content": "You write code."}),
        json!({"role": "user", "content": "Read the project."}),
    ];
    for step in 0..60 {
        let id = format!("call_{step}");
        let arguments = format!("{{\"path\":\"src/part_{step}.rs\"}}");
        let function = json!({"name": "read", "arguments": arguments});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": function}]}));
        let line = format!("line {step} of a file\n");
        let text = line.repeat(tokens / 60 * 4 / line.len());
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
    }
    json!({"model": "model-of-the-report", "messages": messages}).to_string().into_bytes()
}

impl Reported {
    /// Returns the path of the API, the key of its messages, and an answer.
    fn api(&self) -> (&'static str, &'static str, &'static str) {
        match &*self.api {
            "messages" => ("/v1/messages", "messages", MESSAGE),
            "responses" => ("/v1/responses", "input", RESPONSE),
            _ => ("/v1/chat/completions", "messages", ANSWER),
        }
    }
}

/// Converts a chat to this API.
fn converted(api: &str, mut chat: Value) -> Value {
    if api.is_empty() || api == "chat" {
        return chat;
    }
    let messages = chat["messages"].take();
    let mut turns = Vec::new();
    for message in messages.as_array().unwrap() {
        let (text, call) = (&message["content"], &message["tool_calls"][0]);
        let arguments = call["function"]["arguments"].as_str();
        turns.push(match (api, message["role"].as_str().unwrap()) {
            ("messages", "system") => continue,
            ("messages", "assistant") => json!({"role": "assistant", "content": [
                {"type": "tool_use", "id": call["id"], "name": "read",
                    "input": serde_json::from_str::<Value>(arguments.unwrap()).unwrap()}]}),
            ("messages", "tool") => json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}]}),
            (_, "assistant") => json!({"type": "function_call", "call_id": call["id"],
                "name": "read", "arguments": arguments.unwrap()}),
            (_, "tool") => json!({"type": "function_call_output",
                "call_id": message["tool_call_id"], "output": text}),
            (_, role) => json!({"role": role, "content": text}),
        });
    }
    if api == "messages" {
        json!({"model": chat["model"], "max_tokens": 4_096, "messages": turns})
    } else {
        json!({"model": chat["model"], "store": false, "input": turns})
    }
}

/// Sends a chat whose first reply is `reported`, and returns the sizes that the upstream received.
async fn play(reported: &Reported, tokens: usize, change: impl FnOnce(&mut Config)) -> Vec<u32> {
    let head = if reported.content_type.contains("event-stream") { EVENTS } else { JSON };
    let refusal = Reply::new(reported.status, head, &*reported.body);
    let replies = vec![refusal, Reply::new(200, JSON, ANSWER)];
    let (address, asked) = scripted::upstream(replies).await;
    let base = format!("http://{address}/v1");
    let mut config = Config::default_with([("upstream.base", base.as_str())]).unwrap();
    digests(&mut config);
    change(&mut config);
    let proxy = Proxy::with(config).await;
    let reply = Caller::of(proxy.address).ask(chat(tokens)).await;
    let received = String::from_utf8_lossy(&reply.body);
    assert_eq!((reply.status, &*received), (200, ANSWER), "{}", reported.id);
    let asked = asked.await.unwrap();
    let sizes = asked.iter().map(|body| read(body).unwrap().tokens().get());
    sizes.collect()
}

#[tokio::test]
async fn every_reported_refusal_leads_to_a_smaller_request() {
    let all = reported(include_str!("../../fixtures/reports/refusals.jsonl"));
    assert_eq!(all.len(), 32);
    for reported in &all {
        let sizes = play(reported, 150_000, |_| ()).await;
        assert!(sizes[1] < sizes[0] * 9 / 10, "{}: {sizes:?}", reported.id);
    }
}

#[tokio::test]
async fn silent_refusal_near_the_window_leads_to_a_smaller_request() {
    let all = reported(include_str!("../../fixtures/reports/silent_400.jsonl"));
    for reported in &all {
        let sizes = play(reported, 119_000, |config| {
            config.window = Tokens::new(150_000);
            config.window_place = Some("a test".into());
            config.compaction.prune = false;
        })
        .await;
        assert!(sizes[1] < sizes[0] * 9 / 10, "{}: {sizes:?}", reported.id);
    }
}

/// Starts an upstream that refuses whatever `refuses` a body of these bytes, after so many sends. Returns
/// its address and the sizes that it received.
async fn refusing(
    reported: &Reported,
    refuses: impl Fn(&[u8], usize) -> bool + Send + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<usize>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Arc::new(Mutex::new(Vec::new()));
    let (sizes, status, text) = (Arc::clone(&received), reported.status, reported.body.clone());
    let is_stream = text.starts_with("data:") || text.starts_with("event:");
    let answer = reported.api().2;
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let Some(body) = scripted::body(&mut socket).await else {
                continue;
            };
            let before = sizes.lock().unwrap().len();
            sizes.lock().unwrap().push(body.len());
            let (status, head, text) = if refuses(&body, before) {
                (status, if is_stream { EVENTS } else { JSON }, &*text)
            } else {
                (200, JSON, answer)
            };
            let length = text.len();
            let reply = format!(
                "HTTP/1.1 {status} Played\r\n{head}content-length: {length}\r\nconnection: close\r\n\r\n{text}"
            );
            _ = socket.write_all(reply.as_bytes()).await;
        }
    });
    (address, received)
}

/// Plays a reply in one of three ways, and returns whether the proxy did what is right:
///
/// - `fresh`: nothing was sent before.
/// - `grown`: the chat grew by 3% a step to 97% of its size, and the agent repeats a refused request.
/// - `told`: the window is set to twice the one that is served.
async fn is_right(reported: &Reported, mode: &str) -> bool {
    let tokens = match reported.sent.split(' ').next() {
        Some("30000") => 30_000,
        Some("120000") => 120_000,
        Some("190000") => 190_000,
        _ => 150_000,
    };
    let chat = serde_json::from_slice(&chat(tokens)).unwrap();
    let mut whole = converted(&reported.api, chat);
    let (path, messages, answer) = reported.api();
    if reported.cap.is_some() {
        whole["max_tokens"] = 200_000.into();
    }
    let grown: &[usize] = if mode == "grown" { &GROWTH } else { &[] };
    let (size, cap, accepted) = (whole.to_string().len(), reported.cap, grown.len());
    let is_mended = reported.is_overflow || cap.is_some();
    let (address, received) = refusing(reported, move |body, before| match cap {
        Some(cap) => {
            let body: Value = serde_json::from_slice(body).unwrap();
            body["max_tokens"].as_u64().unwrap() > u64::from(cap)
        }
        None if is_mended => body.len() > size * 98 / 100,
        None => before >= accepted,
    })
    .await;
    let base = format!("http://{address}/v1");
    let mut config =
        Config::default_with([("upstream.base", base.as_str()), ("upstream.ask", "false")])
            .unwrap();
    digests(&mut config);
    if mode == "told" {
        config.window = Tokens::new(262_144);
        config.window_place = Some("a test".into());
    }
    let proxy = Proxy::with(config).await;
    let caller = Caller::of(proxy.address);
    for missing in grown {
        let mut earlier = whole.clone();
        let messages = earlier[messages].as_array_mut().unwrap();
        messages.truncate(messages.len() - missing);
        caller.ask_at(path, &[], earlier.to_string()).await;
    }
    let whole = whole.to_string();
    let mut replies = Vec::new();
    for _ in 0..2 {
        let reply = caller.ask_at(path, &[], whole.clone()).await;
        replies.push((reply.status, String::from_utf8_lossy(&reply.body).into_owned()));
        if replies.last().is_some_and(|last| last.1 == answer) {
            break;
        }
    }
    let received = received.lock().unwrap().clone();
    if is_mended {
        let is_answered = replies.last().is_some_and(|last| last.1 == answer);
        return is_answered && (accepted > 0 || replies.len() == 1);
    }
    let is_refusal = |reply: &(u16, String)| *reply == (reported.status, reported.body.clone());
    replies.iter().all(is_refusal) && received.len() == 2 + accepted
}

#[tokio::test]
async fn refusals_of_the_second_reports_are_mended_and_look_alikes_are_left_alone() {
    let mut wrong = Vec::new();
    for one in reported(include_str!("../../fixtures/reports/refusals2.jsonl")) {
        for mode in ["fresh", "grown", "told"] {
            let is_played = !one.is_overflow || one.fails_when.iter().any(|fails| fails == mode);
            if is_played && (mode != "told" || one.is_overflow) && !is_right(&one, mode).await {
                wrong.push(format!("{} {mode}", one.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Lists from which no rule was built before their first reading, and the sealed half of the newest.
const LISTS: [(&str, &str); 6] = [
    ("9", include_str!("../../fixtures/unseen/blind_9.jsonl")),
    ("10", include_str!("../../fixtures/unseen/blind_10.jsonl")),
    ("11", include_str!("../../fixtures/unseen/blind_11.jsonl")),
    ("12, built", include_str!("../../fixtures/unseen/blind_12_built.jsonl")),
    (SEALED, include_str!("../../fixtures/unseen/blind_12_sealed.jsonl")),
    ("13", include_str!("../../fixtures/unseen/blind_13.jsonl")),
];
const SEALED: &str = "12, sealed";

/// Prints rates alone, so that no rule is built from the lists.
#[tokio::test]
async fn held_out_refusals_are_mended_and_look_alikes_are_left_alone() {
    let mut rates = BTreeMap::<_, (usize, usize)>::new();
    for (list, text) in LISTS {
        for one in reported(text) {
            let is_mended = one.is_overflow || one.cap.is_some();
            for mode in &one.fails_when {
                let right = usize::from(is_right(&one, mode).await);
                for list in [list, "all"] {
                    let rate = rates.entry((list, is_mended, mode.clone())).or_default();
                    *rate = (rate.0 + right, rate.1 + 1);
                }
            }
        }
    }
    println!("{rates:#?}");
    for ((list, is_mended, mode), (right, all)) in rates {
        let least = match (is_mended, &*mode) {
            (true, "fresh") => 97,
            (true, _) => 90,
            (false, _) => 100,
        };
        let is_held = list == "all" || list == SEALED;
        let what = format!("{list} {mode} {is_mended}: {right} of {all}");
        assert!(!is_held || right * 100 >= all * least, "{what}");
    }
}
