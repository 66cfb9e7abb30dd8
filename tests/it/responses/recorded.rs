//! Recorded sessions of Codex: read and cleared as the oracle does, and nothing else changes.

use std::collections::BTreeMap;

use longhaul_core::dialect::responses::read;
use longhaul_core::planning::history_fold::{HardThresholdMode, fold};
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::recovery::{RecoveryDecision, plan_recovery};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy};
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::broken_input_rules;
use serde_json::{Value, json};

use super::RecordedInput;
use super::oracle::SameChat;
use crate::oracle::pruner::{self, Rule};
use crate::oracle::reader;
use crate::subject::policy;

fn rules() -> [Rule; 3] {
    let rule = |protect, minimum, user_turns, described| Rule {
        protect,
        minimum,
        user_turns,
        exempt_tools: vec!["update_plan".to_owned()],
        keep_errors: false,
        described,
    };
    [rule(40_000, 20_000, 2, false), rule(2_000, 500, 1, false), rule(0, 0, 0, false)]
}

/// Returns the results that the product clears, by message, and the body that it forwards.
fn cleared(body: &[u8], rule: &Rule) -> (BTreeMap<usize, String>, Option<Vec<u8>>) {
    let conversation = read(body).unwrap();
    let policy = policy(rule);
    let kept = PinnedHead::new(&conversation, &policy, None);
    let state = fold(&conversation, &policy, kept, None, HardThresholdMode::Cut, &[]).prune_state;
    let cleared = state.cleared().map(|result| {
        let message = conversation.message(result.message).unwrap();
        let words = result.placeholder.render(&conversation, message);
        (result.message, words.into_owned())
    });
    let cleared = cleared.collect();
    let known = PriorRecords::default();
    let view = plan(&conversation, &policy, &known, SummarySource::Digest).view;
    let replacements = view.replacements(&conversation);
    let splice = replacements.map(|it| Splice::new(&conversation, &it).unwrap().apply());
    (cleared, splice)
}

#[test]
fn odd_bodies_are_read_and_rewritten_without_a_broken_rule() {
    let mut total = 0;
    for body in [
        &include_bytes!("../../../fixtures/responses/odd_bodies/kinds.json")[..],
        include_bytes!("../../../fixtures/responses/odd_bodies/shapes.json"),
    ] {
        let conversation = read(body).unwrap();
        let allowed = broken_input_rules(body);
        let mut rewrites = 0;
        for window in [200, 400, 1_000, 4_000] {
            let policy = Policy::new(&CompactionSettings::default(), Tokens::new(window));
            let known = PriorRecords::default();
            let view = plan(&conversation, &policy, &known, SummarySource::Digest).view;
            let recovered =
                plan_recovery(&conversation, &policy, &known, &view, SummarySource::Digest);
            let recovered = match recovered {
                RecoveryDecision::Retry(view, _) => Some(view),
                RecoveryDecision::GiveUp | RecoveryDecision::Summarise(_) => None,
            };
            for view in [Some(view), recovered].into_iter().flatten() {
                let Some(replacements) = view.replacements(&conversation) else {
                    continue;
                };
                let splice = Splice::new(&conversation, &replacements).unwrap();
                let after = splice.apply();
                assert_eq!(splice.corrupted_bytes([&*after]), 0);
                let broken = broken_input_rules(&after);
                assert!(broken.iter().all(|it| allowed.contains(it)), "{window}: {broken:?}");
                rewrites += 1;
            }
        }
        total += rewrites;
    }
    assert!(total > 3, "{total}");
}

#[test]
fn parser_agrees_with_the_tree_oracle_on_every_session() {
    for RecordedInput { name, body } in RecordedInput::all() {
        let same = SameChat::of(&body);
        let expect = reader::reading(&same.body).unwrap().messages;
        let text = body.to_string();
        let conversation = read(text.as_bytes()).unwrap();
        let found = crate::subject::reading(&conversation).messages;
        assert_eq!(found.len(), expect.len(), "{name}");
        for (at, (found, expect)) in found.iter().zip(&expect).enumerate() {
            let place = same.places[at];
            assert_eq!(found.role, expect.role, "{name} {place}");
            assert_eq!(found.text, expect.text, "{name} {place}");
            assert_eq!(found.chars, expect.chars, "{name} {place}");
            assert_eq!(found.answers, expect.answers, "{name} {place}");
            let ids = |message: &reader::Message| -> Vec<_> {
                let calls = message.calls.iter();
                calls.map(|call| (call.id.clone(), call.arguments.clone())).collect()
            };
            assert_eq!(ids(found), ids(expect), "{name} {place}");
        }
    }
}

#[test]
fn every_session_is_cleared_exactly_by_the_literal_rule() {
    let mut count = 0;
    for RecordedInput { name, body } in RecordedInput::all() {
        let same = SameChat::of(&body);
        let chat = same.body.to_string();
        for rule in rules() {
            let expect = pruner::prune(&chat, &rule).cleared;
            let (found, forwarded) = cleared(body.to_string().as_bytes(), &rule);
            assert_eq!(found, expect, "{name} {rule:?}");
            let mut expected = body.clone();
            for (at, text) in &expect {
                let output = &mut expected["input"][same.places[*at]]["output"];
                *output = if output.is_string() {
                    json!(text)
                } else {
                    json!([{"type": "input_text", "text": text}])
                };
            }
            let forwarded = forwarded.map(|it| serde_json::from_slice::<Value>(&it).unwrap());
            assert_eq!(forwarded.unwrap_or_else(|| body.clone()), expected, "{name}");
            count += expect.len();
        }
    }
    assert!(count > 1_000, "{count}");
}
