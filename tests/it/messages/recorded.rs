//! Recorded sessions: read and cleared as the oracle does, and sent without a broken rule.

use longhaul_core::dialect::messages::read;
use serde_json::Value;

use super::oracle::{FIXED, SameChat};
use super::subject::{cleared, pruned, sent, sessions};
use super::validity::newly_broken;
use crate::oracle::pruner::{self, Rule};
use crate::oracle::reader;

fn rules() -> [Rule; 3] {
    let rule = |protect, minimum, user_turns, described| Rule {
        protect,
        minimum,
        user_turns,
        exempt_tools: vec!["Edit".to_owned(), FIXED.to_owned()],
        keep_errors: false,
        described,
    };
    [rule(40_000, 20_000, 2, false), rule(2_000, 500, 1, true), rule(0, 0, 0, false)]
}

#[test]
fn parser_agrees_with_the_tree_oracle_on_every_session() {
    for (name, body) in sessions() {
        let tree: Value = serde_json::from_slice(&body).unwrap();
        let same = SameChat::of(&tree);
        let expect = reader::reading(&same.body).unwrap().messages;
        let conversation = read(&body).unwrap();
        let found = crate::subject::reading(&conversation).messages;
        assert_eq!(found.len(), expect.len(), "{name}");
        for (at, (found, expect)) in found.iter().zip(&expect).enumerate() {
            assert_eq!(found.role, expect.role, "{name} {at}");
            assert_eq!(found.text, expect.text, "{name} {at}");
            assert_eq!(found.chars, expect.chars, "{name} {at}");
            assert_eq!(found.answers, expect.answers, "{name} {at}");
            let ids = |message: &reader::Message| -> Vec<_> {
                message.calls.iter().map(|call| call.id.clone()).collect()
            };
            assert_eq!(ids(found), ids(expect), "{name} {at}");
            for (found, expect) in found.calls.iter().zip(&expect.calls) {
                let value = |call: &reader::Call| -> Value {
                    call.arguments.as_ref().unwrap().parse().unwrap()
                };
                assert_eq!(value(found), value(expect), "{name} {at}");
            }
        }
    }
}

#[test]
fn every_session_is_cleared_exactly_by_the_literal_rule() {
    let mut count = 0;
    for (name, body) in sessions() {
        let tree: Value = serde_json::from_slice(&body).unwrap();
        let same = SameChat::of(&tree);
        let chat = same.body.to_string();
        for rule in rules() {
            let expect = pruner::prune(&chat, &rule).cleared;
            assert_eq!(cleared(&body, &rule), expect, "{name} {rule:?}");
            let mut expected = tree.clone();
            for (at, text) in &expect {
                let (message, block) = same.places[*at];
                let content =
                    &mut expected["messages"][message]["content"][block.unwrap()]["content"];
                *content = if content.is_string() {
                    serde_json::json!(text)
                } else {
                    serde_json::json!([{"type": "text", "text": text}])
                };
            }
            let found = pruned(&body, &rule);
            let found = found.map(|found| serde_json::from_slice::<Value>(&found).unwrap());
            assert_eq!(found.unwrap_or_else(|| tree.clone()), expected, "{name}");
            count += expect.len();
        }
    }
    assert!(count > 1_000, "{count}");
}

/// Cuts a body after a wire message of the user, as an earlier request of the session ended.
fn earlier(body: &Value, upto: usize) -> Option<Vec<u8>> {
    let mut body = body.clone();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.truncate(upto);
    let is_request = messages.last()?["role"] == "user";
    is_request.then(|| body.to_string().into_bytes())
}

#[test]
fn no_rewrite_of_a_session_breaks_a_rule() {
    let mut rewrites = 0;
    for (name, body) in sessions() {
        let tree: Value = serde_json::from_slice(&body).unwrap();
        let messages = tree["messages"].as_array().unwrap().len();
        let step = (messages / 6).max(1);
        let ends = (1..messages).step_by(step).chain([messages]);
        for body in ends.filter_map(|end| earlier(&tree, end)) {
            for window in [16_000, 48_000, 128_000] {
                for after in sent(&body, window) {
                    let broken = newly_broken(&body, &after);
                    assert!(broken.is_empty(), "{name} {window}: {broken:?}");
                    assert!(after.len() < body.len());
                    rewrites += 1;
                }
            }
        }
    }
    assert!(rewrites > 300, "{rewrites}");
}

#[test]
fn planning_over_a_forwarded_body_clears_nothing_again() {
    let [_, rule, _] = rules();
    for (name, body) in sessions() {
        let Some(once) = pruned(&body, &rule) else {
            continue;
        };
        let again = cleared(&once, &rule);
        let before = cleared(&body, &rule);
        assert!(again.keys().all(|at| !before.contains_key(at)), "{name}");
    }
}
