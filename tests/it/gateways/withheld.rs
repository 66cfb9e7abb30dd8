//! Results without their calls, as `LiteLLM` sends them: no message may go.

use std::collections::HashMap;

use longhaul_mock_model::{ValidityRules, session};
use serde_json::{Value, json};

use super::Service;

/// Returns what the gateway sends: results and users' words, but neither what the model said nor the newest
/// exchange.
fn sent_part(messages: &[Value]) -> Vec<Value> {
    let newest = |role: &str| messages.iter().rposition(|it| it["role"] == role);
    let (user, step) = (newest("user"), newest("assistant"));
    let is_sent = |(at, message): &(usize, &Value)| {
        let is_newest_result = step.is_some_and(|step| *at > step);
        let is_told = message["role"] == "user" && Some(*at) != user;
        is_told || (message["role"] == "tool" && !is_newest_result)
    };
    let parts = messages.iter().enumerate().filter(is_sent);
    parts.map(|(_, message)| message.clone()).collect()
}

#[tokio::test]
async fn results_without_calls_are_cleared_in_place_and_stay_cleared() {
    let service = Service::start(&[("window", "32768")]).await;
    let mut cleared: HashMap<String, Value> = HashMap::new();
    let mut breaks = 0;
    for request in session().unwrap().requests() {
        let body: Value = serde_json::from_slice(&request.body()).unwrap();
        let part = sent_part(body["messages"].as_array().unwrap());
        if part.is_empty() {
            continue;
        }
        let reply = service.compress(&json!(part), "gpt-5.1").await;
        assert_eq!(reply.messages.len(), part.len());
        let mut is_break = false;
        for (before, after) in part.iter().zip(&reply.messages) {
            let (mut but_content, content) = (after.clone(), after["content"].clone());
            but_content["content"] = before["content"].clone();
            assert_eq!(but_content, *before);
            if let Some(id) = before["tool_call_id"].as_str() {
                match cleared.get(id) {
                    Some(known) => assert_eq!(*known, content),
                    None if content != before["content"] => {
                        is_break = true;
                        cleared.insert(id.to_owned(), content);
                    }
                    None => {}
                }
            } else {
                assert_eq!(content, before["content"]);
            }
        }
        breaks += usize::from(is_break);
    }
    assert!(cleared.len() > 50, "{} results", cleared.len());
    assert!((2..=12).contains(&breaks), "{breaks} breaks");
}

#[tokio::test]
async fn results_of_a_model_that_may_bind_its_thinking_stay() {
    let service = Service::start(&[("window", "10000")]).await;
    let last = session().unwrap().requests().next_back().unwrap().body();
    let body: Value = serde_json::from_slice(&last).unwrap();
    let part = sent_part(body["messages"].as_array().unwrap());
    for (model, is_changed) in
        [("claude-opus-5-1", false), ("smart", false), ("claude-opus-4-5", true), ("gpt-6.2", true)]
    {
        let reply = service.compress(&json!(part), model).await;
        assert_eq!(reply.messages != part, is_changed, "{model}");
    }
}

#[tokio::test]
async fn messages_of_users_alone_come_back_as_they_came() {
    let service = Service::start(&[("window", "10000")]).await;
    let words = "word ".repeat(4_000);
    let messages: Vec<Value> =
        (0..8).map(|at| json!({"role": "user", "content": format!("{at} {words}")})).collect();
    let reply = service.compress(&json!(messages), "gpt-5.1").await;
    assert_eq!(reply.messages, messages);
}

#[test]
fn the_part_of_a_valid_chat_breaks_rules_by_itself() {
    let last = session().unwrap().requests().next_back().unwrap().body();
    let mut body: Value = serde_json::from_slice(&last).unwrap();
    body["messages"] = sent_part(body["messages"].as_array().unwrap()).into();
    let broken = ValidityRules::standard().broken_by(body.to_string().as_bytes());
    assert!(broken.is_some());
}
