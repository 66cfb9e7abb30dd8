//! Random histories: no rewrite breaks a rule, however odd the history and wherever it is cut.

use longhaul_core::conversation::Role;
use longhaul_core::dialect::messages::read;
use longhaul_core::planning::plan::Replacement;
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::placement::Placement;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::subject::sent;
use super::validity::newly_broken;

/// Builds the wire messages of a history; each number selects an event.
fn messages(draws: &[u32]) -> Vec<Value> {
    let reminder =
        json!({"type": "text", "text": "<system-reminder>rules of 2026</system-reminder>"});
    let mut messages =
        vec![json!({"role": "user", "content": [reminder, {"type": "text", "text": "Begin."}]})];
    for (at, &draw) in draws.iter().enumerate() {
        let words = format!("{at} said {draw}. ").repeat((draw / 64 % 200) as usize + 1);
        let user = |content: Value| json!({"role": "user", "content": content});
        match draw % 8 {
            0 => messages.push(user(json!(words))),
            1 => messages.push(user(json!([
                {"type": "text", "text": words},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]))),
            2 => messages.push(json!({"role": "assistant", "content": words})),
            3 => messages.extend(programmed_step(at, &words)),
            _ => messages.extend(step(at, draw, &words)),
        }
    }
    messages.push(json!({"role": "user", "content": "On."}));
    messages
}

/// Builds a step of one to three calls, with what a client may put next to the results.
fn step(at: usize, draw: u32, words: &str) -> Vec<Value> {
    let width = draw / 16 % 3 + 1;
    let mut asks = vec![json!({"type": "thinking", "thinking": "hm", "signature": "s"})];
    let mut answers = Vec::new();
    for call in 0..width {
        let id = format!("toolu_{at}_{call}");
        asks.push(json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": words}}));
        let content = match draw / 512 % 4 {
            0 => json!([{"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}]),
            1 => json!([{"type": "tool_reference", "tool_name": "read"}]),
            _ => json!(words),
        };
        let mut answer = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        if (draw / 2048).is_multiple_of(3) {
            answer["is_error"] = json!(true);
        }
        if (draw / 8192).is_multiple_of(3) && draw / 512 % 4 > 1 {
            answer["cache_control"] = json!({"type": "ephemeral", "ttl": "5m"});
        }
        answers.push(answer);
    }
    if (draw / 256).is_multiple_of(2) {
        asks.remove(0);
    }
    answers.reverse();
    match draw / 1024 % 4 {
        0 => {
            answers
                .push(json!({"type": "text", "text": "<system-reminder>todo</system-reminder>"}));
        }
        1 => answers.push(json!({"type": "text", "text": format!("also {words}")})),
        _ => {}
    }
    let mut step = vec![
        json!({"role": "assistant", "content": asks}),
        json!({"role": "user", "content": answers}),
    ];
    if (draw / 4096).is_multiple_of(4) {
        step.push(
            json!({"role": "system", "content": "<total_tokens>900 tokens left</total_tokens>"}),
        );
        step.push(json!({"role": "assistant", "content": "so"}));
    }
    step
}

/// Builds a step in which a tool of the provider calls a tool of the client, and ends after it.
fn programmed_step(at: usize, words: &str) -> Vec<Value> {
    let (program, call) = (format!("srvtoolu_{at}"), format!("toolu_{at}_p"));
    vec![
        json!({"role": "assistant", "content": [
            {"type": "server_tool_use", "id": program, "name": "code_execution", "input": {}},
            {"type": "tool_use", "id": call, "name": "read", "input": {}, "caller":
                {"type": "code_execution_20250825", "tool_id": program}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": words}]}),
        json!({"role": "assistant", "content": [
            {"type": "code_execution_tool_result", "tool_use_id": program, "content": {}},
            {"type": "text", "text": "so"}]}),
    ]
}

/// Builds a step of a tool loop: nobody says a word in it. Some steps begin with thinking.
fn silent_step(at: usize, draw: u32) -> Vec<Value> {
    let words = format!("{at} read {draw}. ").repeat((draw / 64 % 200) as usize + 1);
    let mut step = step(1_000 + at, draw, &words);
    step.truncate(2);
    let results = step[1]["content"].as_array_mut().unwrap();
    results.retain(|block| block["type"] == "tool_result");
    step
}

fn body(draws: &[u32]) -> Vec<u8> {
    let tools = json!([{"name": "read", "input_schema": {"type": "object"}}]);
    let body = json!({"model": "m", "max_tokens": 4_096, "system": "s", "tools": tools,
        "messages": messages(draws)});
    body.to_string().into()
}

#[test]
fn odd_bodies_are_read_and_rewritten_without_a_broken_rule() {
    for body in [
        &include_bytes!("../../../fixtures/messages/odd_bodies/containers.json")[..],
        include_bytes!("../../../fixtures/messages/odd_bodies/order.json"),
        include_bytes!("../../../fixtures/messages/odd_bodies/provider.json"),
    ] {
        assert!(read(body).is_ok());
        for window in [200, 400, 1_000, 4_000] {
            for after in sent(body, window) {
                assert_eq!(newly_broken(body, &after), [""; 0]);
            }
        }
    }
}

proptest! {
    #[test]
    fn rewrite_of_a_readable_damaged_body_stays_readable_json(
        draws in prop::collection::vec(any::<u32>(), 4..20),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..5),
    ) {
        let mut body = body(&draws);
        for (at, byte, edit) in edits {
            let at = at.index(body.len());
            match edit {
                0 => body[at] = byte,
                1 => drop(body.remove(at)),
                _ => body.insert(at, b"{}[]\",:\\"[usize::from(byte) % 8]),
            }
        }
        if read(&body).is_ok() {
            for after in sent(&body, 8_000) {
                prop_assert!(serde_json::from_slice::<IgnoredAny>(&after).is_ok());
                prop_assert!(read(&after).is_ok());
            }
        }
    }

    #[test]
    fn no_rewrite_breaks_a_rule(draws in prop::collection::vec(any::<u32>(), 4..50), window in 4_000_u32..40_000) {
        let body = body(&draws);
        for after in sent(&body, window) {
            let broken = newly_broken(&body, &after);
            prop_assert!(broken.is_empty(), "{broken:?} {}", String::from_utf8_lossy(&after));
        }
    }

    #[test]
    fn no_rewrite_tears_manual_thinking(
        draws in prop::collection::vec(any::<u32>(), 1..8),
        steps in prop::collection::vec(any::<u32>(), 4..40),
        window in 4_000_u32..20_000,
    ) {
        let mut body: Value = serde_json::from_slice(&body(&draws)).unwrap();
        body["thinking"] = json!({"type": "enabled", "budget_tokens": 1_024});
        let messages = body["messages"].as_array_mut().unwrap();
        for (at, &draw) in steps.iter().enumerate() {
            messages.extend(silent_step(at, if at == 0 { draw | 256 } else { draw }));
        }
        let body = body.to_string().into_bytes();
        for after in sent(&body, window) {
            let broken = newly_broken(&body, &after);
            prop_assert!(broken.is_empty(), "{broken:?} {}", String::from_utf8_lossy(&after));
        }
    }

    #[test]
    fn unseen_results_stay_with_the_words_behind_them(
        draws in prop::collection::vec(any::<u32>(), 4..20), last: u32, window in 1_000_u32..20_000,
    ) {
        let mut body: Value = serde_json::from_slice(&body(&draws)).unwrap();
        let messages = body["messages"].as_array_mut().unwrap();
        messages.pop();
        messages.extend(step(999, last, &"read ".repeat(400)).into_iter().take(2));
        let words = json!({"type": "text", "text": "and stop there"});
        messages.last_mut().unwrap()["content"].as_array_mut().unwrap().push(words);
        for after in sent(&body.to_string().into_bytes(), window) {
            let after: Value = serde_json::from_slice(&after).unwrap();
            let ids = |body: &Value| -> Vec<Value> {
                let blocks = body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
                blocks.as_array().unwrap().iter().map(|block| block["tool_use_id"].clone()).collect()
            };
            prop_assert_eq!(ids(&after), ids(&body));
        }
    }

    #[test]
    fn a_cut_between_any_two_units_leaves_a_valid_body(draws in prop::collection::vec(any::<u32>(), 4..12)) {
        let body = body(&draws);
        let conversation = read(&body).unwrap();
        let cuts = conversation.boundaries();
        // History begins after the head and the first request, never after a system message.
        let is_system = |at: usize| {
            let message = conversation.message(at).unwrap();
            message.role == Role::System && message.span.slice(conversation.body()).contains("\"role\"")
        };
        let begins = |from: usize| from.checked_sub(1).is_none_or(|at| !is_system(at));
        for (at, &from) in cuts.iter().enumerate().take(4).filter(|&(_, &from)| begins(from)) {
            for &to in cuts[at + 1..].iter().filter(|&&to| to < conversation.messages().len()) {
                for placement in [Placement::Separate, Placement::Merged] {
                    let text = "sum".into();
                    let cut = Replacement::History { from, to, text, placement };
                    let cuts = vec![cut];
                    let Some(splice) = Splice::new(&conversation, &cuts) else {
                        continue;
                    };
                    let after = splice.apply();
                    prop_assert_eq!(splice.corrupted_bytes([&*after]), 0);
                    let broken = newly_broken(&body, &after);
                    prop_assert!(broken.is_empty(), "{broken:?} {}", String::from_utf8_lossy(&after));
                }
            }
        }
    }
}
