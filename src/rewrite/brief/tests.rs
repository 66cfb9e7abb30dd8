//! What is asked, with whose words, and that it fits.

use super::*;
use crate::rewrite::chat_completions::read;
use crate::rewrite::policy::{Policy, Wishes};
use serde_json::{Value, json};

fn budgets() -> Budgets {
    Policy::new(&Wishes::default(), Tokens::new(32_000)).budgets
}

fn body(turns: usize, text: &str) -> String {
    let mut messages = vec![json!({"role": "system", "content": "be kind"})];
    for turn in 0..turns {
        messages.push(json!({"role": "user", "content": format!("question {turn} {text}")}));
        messages.push(json!({"role": "assistant", "content": format!("answer {turn} {text}")}));
    }
    json!({
        "model": "some/model", "temperature": 0.5, "n": 2, "stop": ["x"], "tools": [{"x": 1}],
        "provider": {"data_collection": "deny", "order": ["a"]}, "user": "u\u{e9}1", "store": false,
        "max_completion_tokens": 99, "prompt_cache_key": "k", "messages": messages,
    })
    .to_string()
}

fn brief(body: &str, previous: Option<Previous<'_>>, window: u32, calls: usize) -> Option<Brief> {
    let conversation = read(body.as_bytes()).unwrap();
    let covered = 1..conversation.messages().len();
    let summariser = Summariser {
        window: Tokens::new(window),
        calls,
    };
    Brief::new(&conversation, covered, previous, &budgets(), summariser)
}

#[test]
fn the_clients_model_and_routing_are_taken_over_and_nothing_else() {
    let body = body(3, "");
    let brief = brief(&body, None, 32_000, 1).unwrap();
    let conversation = read(body.as_bytes()).unwrap();
    let request = brief.request(0, None, &Frame::of(&conversation, None));
    let request: Value = serde_json::from_str(&request).unwrap();
    let keys: Vec<&str> = request
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        [
            "model",
            "provider",
            "user",
            "store",
            "prompt_cache_key",
            "max_completion_tokens",
            "stream",
            "messages"
        ]
    );
    assert_eq!(request["model"], "some/model");
    assert_eq!(
        request["provider"],
        json!({"data_collection": "deny", "order": ["a"]})
    );
    assert_eq!(request["prompt_cache_key"], "k-longhaul");
    assert_eq!(request["max_completion_tokens"], brief.output.get());
    assert_eq!(request["stream"], true);
    assert!(
        request["messages"][0]["content"]
            .as_str()
            .unwrap()
            .contains("be kind")
    );
    let text = request["messages"][1]["content"].as_str().unwrap();
    assert!(
        text.contains("[User]: question 2")
            && text.contains("## Next Steps")
            && !text.contains("{words}")
    );
}

#[test]
fn a_bare_request_gets_neither_a_cap_nor_a_cache_key() {
    let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let conversation = read(body.as_bytes()).unwrap();
    let summariser = Summariser {
        window: Tokens::new(32_000),
        calls: 1,
    };
    let brief = Brief::new(&conversation, 0..1, None, &budgets(), summariser).unwrap();
    let request = brief.request(0, None, &Frame::of(&conversation, Some("other")));
    let request: Value = serde_json::from_str(&request).unwrap();
    let keys: Vec<&str> = request
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys, ["model", "stream", "messages"]);
    assert_eq!(request["model"], "other");
}

#[test]
fn an_update_is_told_only_what_is_new() {
    let body = body(6, "");
    let previous = Previous {
        text: "## Goal\nold goal",
        covers: 9,
        count: 1,
    };
    let brief = brief(&body, Some(previous), 32_000, 1).unwrap();
    let conversation = read(body.as_bytes()).unwrap();
    let request = brief.request(0, None, &Frame::of(&conversation, None));
    assert!(
        request.contains("old goal")
            && request.contains("question 4")
            && !request.contains("question 3")
    );
}

#[test]
fn every_fifth_summary_is_made_from_the_raw_history() {
    let body = body(6, "");
    let previous = Previous {
        text: "## Goal\nold goal",
        covers: 9,
        count: 4,
    };
    let brief = brief(&body, Some(previous), 32_000, 1).unwrap();
    let conversation = read(body.as_bytes()).unwrap();
    let request = brief.request(0, None, &Frame::of(&conversation, None));
    assert!(!request.contains("old goal") && request.contains("question 0"));
}

#[test]
fn each_call_fits_the_summarisers_window() {
    for text in [
        "word ".repeat(2_000),
        "漢字かな".repeat(2_000),
        "é😀".repeat(3_000),
    ] {
        let body = body(20, &text);
        let conversation = read(body.as_bytes()).unwrap();
        for window in [6_000, 16_000, 64_000] {
            for calls in [1, 3, 8] {
                let brief = brief(&body, None, window, calls).unwrap();
                assert!(!brief.parts.is_empty() && brief.parts.len() <= calls);
                for part in 0..brief.parts.len() {
                    let running = "word ".repeat(300);
                    let running = (part > 0).then_some(running.as_str());
                    let request = brief.request(part, running, &Frame::of(&conversation, None));
                    let ascii = request.bytes().filter(u8::is_ascii).count();
                    let tokens = ascii / 4 + request.chars().count() - ascii;
                    assert!(
                        tokens + brief.output.get() as usize <= window as usize,
                        "{window} {calls} {part} {tokens}"
                    );
                }
                assert!(brief.parts.last().unwrap().contains("answer 19"));
            }
        }
    }
}

#[test]
fn what_does_not_fit_enters_as_the_digest_of_the_older_part() {
    let body = body(60, &"word ".repeat(400));
    let brief = brief(&body, None, 16_000, 1).unwrap();
    assert!(brief.parts[0].contains("Older history") && brief.parts[0].contains("answer 59"));
}

#[test]
fn a_window_too_small_to_tell_anything_is_not_asked() {
    assert_eq!(brief(&body(3, ""), None, 800, 1), None);
}
