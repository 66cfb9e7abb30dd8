//! Forks, undos and edits through the whole proxy: a record is used only for the history it was
//! made from.

use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{ModelOptions, ReplyCompletion, RequestKind, SeenRequest, ValidityRules};
use serde_json::{Value, json};

use crate::journey::{Journey, STANDS_FOR_HISTORY, Step, digests};
use crate::manual::compact;
use crate::oracle::reader::messages;
use crate::time_limit::bounded;

/// Larger than anything here, so that only explicit requests are compacted.
const HUGE: u64 = 10_000_000;
/// Turns of a conversation, each with four messages.
const TURNS: usize = 20;

/// Builds a turn about `topic`: a user message, a call, its result and a long answer.
fn turn(topic: &str, at: usize) -> [Value; 4] {
    let id = format!("call_{topic}_{at}");
    let function = json!({"name": "read", "arguments": json!({"path": format!("{topic}_{at}.rs")}).to_string()});
    let line = format!("{topic} {at:03} said. ");
    [
        json!({"role": "user", "content": format!("{topic}, task {at}")}),
        json!({"role": "assistant", "content": null,
            "tool_calls": [{"id": id, "type": "function", "function": function}]}),
        json!({"role": "tool", "tool_call_id": id, "content": line.repeat(10)}),
        json!({"role": "assistant", "content": line.repeat(400)}),
    ]
}

/// Builds a conversation about `topic` after a system message.
fn conversation(topic: &str, turns: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "system", "content": "You are an agent."})];
    messages.extend((0..turns).flat_map(|at| turn(topic, at)));
    messages
}

/// Builds a request that ends with `question`.
fn asked(messages: &[Value], question: &str) -> Vec<u8> {
    let mut messages = messages.to_vec();
    messages.push(json!({"role": "user", "content": question}));
    body(&messages)
}

fn body(messages: &[Value]) -> Vec<u8> {
    let tools = json!([{"type": "function", "function": {"name": "read",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}]);
    json!({"model": "m", "messages": messages, "tools": tools}).to_string().into()
}

/// Returns the text that replaces history in a body, if there is one.
fn stands_for_history(body: &[u8]) -> Option<String> {
    let found = messages(body);
    let found = found.iter().find(|text| text.contains(STANDS_FOR_HISTORY));
    found.map(|text| (*text).to_owned())
}

/// Number of messages that the record covers, including the system message.
fn covered(sent: &[u8], compacted: &[u8]) -> usize {
    // The system message and the first user message stay, and one message replaces the rest.
    messages(sent).len() - (messages(compacted).len() - 3)
}

/// A manually compacted conversation, with the text that replaces its history.
struct Compacted {
    journey: Journey,
    messages: Vec<Value>,
    text: String,
    /// Index of the first message kept after the replacement.
    cut: usize,
}

impl Compacted {
    async fn start() -> Self {
        let mut journey = Journey::start(ModelOptions::with_window(HUGE), digests).await;
        let messages = conversation("alpha", TURNS);
        let body = asked(&messages, "And now?");
        assert!(journey.step(body.clone()).await.arrived.is_answer());
        let compacted = compact(&journey.url(), &body).await;
        let text = stands_for_history(&compacted.body).unwrap();
        let cut = covered(&body, &compacted.body);
        assert!((9..messages.len() - 4).contains(&cut), "{cut}");
        Self { journey, messages, text, cut }
    }

    /// Sends `body`. Returns whether the record was used for it.
    async fn uses(&mut self, body: Vec<u8>) -> (bool, Step) {
        let step = self.journey.step(body).await;
        assert!(step.arrived.is_answer());
        let broken = ValidityRules::standard().broken_by(&step.forwarded().body);
        assert_eq!(broken.map(|rule| rule.id), None);
        let found = stands_for_history(&step.forwarded().body);
        if let Some(found) = &found {
            assert_eq!(*found, self.text);
        }
        (found.is_some(), step)
    }

    async fn hits(&mut self, body: Vec<u8>) -> Step {
        let (used, step) = self.uses(body).await;
        assert!(used, "the record is this conversation's");
        step
    }

    /// Checks that the conversation is treated as another and forwarded byte for byte.
    async fn misses(&mut self, body: Vec<u8>) {
        let (used, step) = self.uses(body).await;
        assert!(!used, "the record is not this conversation's");
        assert_eq!(step.forwarded().body, step.sent);
    }
}

#[tokio::test]
async fn record_is_used_if_ids_and_timestamps_are_regenerated() {
    let mut compacted = Compacted::start().await;
    let mut messages = compacted.messages.clone();
    for (at, message) in messages.iter_mut().enumerate() {
        message["id"] = json!(format!("msg-{at}"));
        message["timestamp"] = json!(1_700_000_000 + at);
        if let Some(id) = message.pointer_mut("/tool_calls/0/id") {
            *id = json!(format!("new_{at}"));
        }
        if message["role"] == "tool" {
            message["tool_call_id"] = json!(format!("new_{}", at - 1));
        }
    }
    let step = compacted.hits(asked(&messages, "And now?")).await;
    let kept = String::from_utf8(step.forwarded().body.to_vec()).unwrap();
    assert!(kept.contains("\"new_") && !kept.contains("\"call_"));
}

#[tokio::test]
async fn record_is_used_if_the_client_reserialises_the_body() {
    let mut compacted = Compacted::start().await;
    let value: Value = serde_json::from_slice(&asked(&compacted.messages, "And now?")).unwrap();
    compacted.hits(serde_json::to_vec_pretty(&value).unwrap()).await;
    // Rewritten with another key order, texts as parts, and a cache mark.
    let rewritten = |(at, message): (usize, &Value)| {
        let mut members: Vec<String> = message
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| {
                let mut value = value.clone();
                if key == "content" && message["role"] == "user" {
                    value = json!([{"type": "text", "text": value}]);
                    if at == 1 {
                        value[0]["cache_control"] = json!({"type": "ephemeral"});
                    }
                }
                format!("{} : {value}", json!(key))
            })
            .collect();
        members.reverse();
        format!("{{ {} }}", members.join(" ,\n"))
    };
    let messages: Vec<String> =
        value["messages"].as_array().unwrap().iter().enumerate().map(rewritten).collect();
    let text = format!(
        "{{\"messages\" :[{}], \"model\":\"m\",\"tools\":{}}}",
        messages.join(","),
        value["tools"]
    );
    compacted.hits(text.into()).await;
}

#[tokio::test]
async fn record_is_not_used_after_an_edit_before_the_cut() {
    let mut compacted = Compacted::start().await;
    for at in [1, 4, compacted.cut - 1] {
        let mut messages = compacted.messages.clone();
        let edited = messages[..=at].iter().rposition(|m| m["content"].is_string());
        messages[edited.unwrap()]["content"] = json!("edited");
        compacted.misses(asked(&messages, "And now?")).await;
    }
    let mut messages = compacted.messages.clone();
    messages[2]["tool_calls"][0]["function"]["arguments"] = json!("{\"path\":\"edited\"}");
    compacted.misses(asked(&messages, "And now?")).await;
}

#[tokio::test]
async fn record_is_used_after_an_edit_behind_the_cut() {
    let mut compacted = Compacted::start().await;
    let mut messages = compacted.messages.clone();
    let last = messages.len() - 1;
    messages[last]["content"] = json!("edited behind the cut");
    let step = compacted.hits(asked(&messages, "And now?")).await;
    let kept = String::from_utf8(step.forwarded().body.to_vec()).unwrap();
    assert!(kept.contains("edited behind the cut"));
}

#[tokio::test]
async fn record_is_used_after_a_system_message_change_that_is_forwarded() {
    let mut compacted = Compacted::start().await;
    let mut messages = compacted.messages.clone();
    messages[0]["content"] = json!("You are an agent. Today is another day.");
    let step = compacted.hits(asked(&messages, "And now?")).await;
    let kept = String::from_utf8(step.forwarded().body.to_vec()).unwrap();
    assert!(kept.contains("Today is another day."));
}

#[tokio::test]
async fn record_is_used_after_an_undo_behind_but_not_before_the_cut() {
    let mut compacted = Compacted::start().await;
    let (messages, cut) = (compacted.messages.clone(), compacted.cut);
    compacted.hits(asked(&messages[..cut], "Or else?")).await;
    let before = (0..cut).rev().find(|&at| messages[at]["role"] == "user").unwrap();
    compacted.misses(asked(&messages[..before], "Or else?")).await;
    // The record is used again when the undo is reverted.
    compacted.hits(asked(&messages, "And now?")).await;
}

#[tokio::test]
async fn compacted_conversation_is_not_compacted_again_at_its_next_turn() {
    let mut compacted = Compacted::start().await;
    let mut messages = compacted.messages.clone();
    for at in TURNS..TURNS + 3 {
        let sent = asked(&messages, &format!("alpha, task {at}"));
        compacted.hits(sent).await;
        messages.extend(turn("alpha", at));
    }
}

#[tokio::test]
async fn client_that_adopts_the_compacted_body_is_compacted_again() {
    let journey = Journey::start(ModelOptions::with_window(HUGE), digests).await;
    let first = asked(&conversation("alpha", TURNS), "And now?");
    let first = compact(&journey.url(), &first).await.body;
    let value: Value = serde_json::from_slice(&first).unwrap();
    let mut messages = value["messages"].as_array().unwrap().clone();
    messages.push(json!({"role": "assistant", "content": "On we go."}));
    messages.extend((0..TURNS).flat_map(|at| turn("beta", at)));
    let sent = asked(&messages, "And then?");
    let second = compact(&journey.url(), &sent).await.body;
    assert!(second.len() < sent.len() * 2 / 3);
    let broken = ValidityRules::standard().broken_by(&second);
    assert_eq!(broken.map(|rule| rule.id), None);
    let text = stands_for_history(&second).unwrap();
    assert!(text.contains("alpha") && text.contains("beta"), "{text}");
    assert!(messages_of(&second).last().unwrap().contains("And then?"));
}

fn messages_of(body: &[u8]) -> Vec<String> {
    messages(body).into_iter().map(str::to_owned).collect()
}

fn summaries(seen: &[SeenRequest]) -> usize {
    let summary = |seen: &&SeenRequest| seen.kind == RequestKind::Summary;
    seen.iter().filter(summary).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subagents_with_a_common_prefix_share_its_record_and_summary_call() {
    let mut journey = Journey::start(ModelOptions::with_window(HUGE), |_| ()).await;
    let prefix = conversation("alpha", TURNS);
    let (one, other) = (asked(&prefix, "Do one."), asked(&prefix, "Do two."));
    let url = journey.url();
    let (first, second) = tokio::join!(compact(&url, &one), compact(&url, &other));
    assert_eq!(first.action(), "summary");
    let shared = stands_for_history(&first.body).unwrap();
    assert_eq!(stands_for_history(&second.body).unwrap(), shared);
    assert_eq!(summaries(&journey.model.seen()), 1);
    for question in ["Do three.", "Do four."] {
        let step = journey.step(asked(&prefix, question)).await;
        assert_eq!(stands_for_history(&step.forwarded().body).unwrap(), shared);
    }
    assert_eq!(summaries(&journey.model.seen()), 1);
}

#[tokio::test]
async fn summary_of_an_abandoned_branch_does_not_leak_into_another() {
    let mut journey = Journey::start(ModelOptions::with_window(HUGE), |_| ()).await;
    let shared = conversation("shared", 4);
    let branch = |topic: &str| {
        let mut messages = shared.clone();
        messages.extend((0..TURNS).flat_map(|at| turn(topic, at)));
        asked(&messages, "And now?")
    };
    let (left, taken) = (branch("alpha"), branch("beta"));
    let first = compact(&journey.url(), &left).await;
    assert!(stands_for_history(&first.body).unwrap().contains("alpha"));
    assert!(journey.step(left.clone()).await.arrived.is_answer());
    let before = journey.model.seen().len();
    compact(&journey.url(), &taken).await;
    assert!(journey.step(taken).await.arrived.is_answer());
    let seen = journey.model.seen().split_off(before);
    assert!(summaries(&seen) == 1 && seen.len() == 2);
    for seen in seen {
        let text = String::from_utf8(seen.body.to_vec()).unwrap();
        assert!(text.contains("beta"));
        assert!(!text.contains("alpha"), "the other branch is in it");
    }
    // The abandoned branch is unchanged.
    let again = journey.step(left).await;
    assert_eq!(again.forwarded().body, first.body);
}

#[tokio::test]
async fn summary_of_a_replaced_history_is_not_used() {
    let mut journey = Journey::start(ModelOptions::with_window(HUGE), |config| {
        config.window = Tokens::new(32_768);
    })
    .await;
    let sent = |messages: &[Value], turns: usize| asked(messages, &format!("alpha, task {turns}"));
    let mut turns = 1;
    while summaries(&journey.model.seen()) == 0 {
        let body = sent(&conversation("alpha", turns), turns);
        assert!(journey.step(body).await.arrived.is_answer());
        turns += 1;
        assert!(turns < TURNS, "the soft mark was never met");
    }
    let ended =
        |seen: &[SeenRequest]| seen.iter().all(|seen| seen.ended != ReplyCompletion::Pending);
    bounded(journey.model.wait_for(ended)).await;
    // Both are now past the hard mark, and their histories differ from the third message on.
    let whole = conversation("alpha", turns + 1);
    let mut replaced = whole.clone();
    replaced[4]["content"] = json!("replaced, and as long as it was. ".repeat(240));
    let step = journey.step(sent(&replaced, turns + 1)).await;
    assert_eq!(step.arrived.action(), "digest", "of its own history");
    let step = journey.step(sent(&whole, turns + 1)).await;
    assert_eq!(step.arrived.action(), "summary");
}
