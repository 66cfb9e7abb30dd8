//! Text from a model is always an answer: the texts of the recorded sessions, one by one.

use longhaul_core::dialect::Dialect;
use longhaul_core::overflow::{
    ClassifierRules, ClassifierStep, ReplyClassifier, ReplyEnd, ReplyTail, Verdict,
};
use serde_json::{Value, json};

use crate::sessions::sessions;

/// Returns every text of an assistant or a tool in a session, and every call's arguments.
fn texts(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let mut texts = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        if !matches!(message["role"].as_str(), Some("assistant" | "tool")) {
            continue;
        }
        match &message["content"] {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(parts) => {
                let said = parts.iter().filter_map(|part| part["text"].as_str());
                texts.extend(said.map(str::to_owned));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let arguments = calls.filter_map(|call| call["function"]["arguments"].as_str());
        texts.extend(arguments.map(str::to_owned));
    }
    texts.retain(|text| !text.is_empty());
    texts
}

/// Checks that a reply counts as an answer from its beginning, and that its end carries no signal.
fn check(reply: &str) {
    let mut reading =
        ReplyClassifier::new(Dialect::ChatCompletions, 200, ClassifierRules::standard(), None)
            .unwrap();
    let verdict = match reading.push(reply.as_bytes()) {
        ClassifierStep::Hold => reading.finish(),
        ClassifierStep::Settled(verdict) => verdict,
    };
    assert_eq!(verdict, Verdict::Fine, "{reply}");
    let mut tail = ReplyTail::new(Dialect::ChatCompletions);
    tail.push(reply.as_bytes());
    let nothing = ReplyEnd { usage: None, finish: None, has_content: true, verdict: Verdict::Fine };
    assert_eq!(tail.finish(ClassifierRules::standard(), None), nothing, "{reply}");
}

#[test]
fn no_recorded_text_is_mistaken_for_an_error() {
    let mut checked = 0;
    for session in sessions() {
        for text in texts(&session.body) {
            let call = json!([{"index": 0, "function": {"name": "log", "arguments": text}}]);
            for said in [
                json!({"content": text}),
                json!({"reasoning_content": text}),
                json!({"tool_calls": call}),
            ] {
                check(&json!({"id": "c", "choices": [{"index": 0, "message": said}]}).to_string());
                let event = json!({"id": "c", "choices": [{"index": 0, "delta": said}]});
                check(&format!(": PROCESSING\n\ndata: {event}\n\ndata: [DONE]\n\n"));
            }
            checked += 1;
        }
    }
    assert!(checked > 5_000, "{checked}");
}
