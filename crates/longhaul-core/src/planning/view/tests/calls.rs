//! Clipped calls in a view: which are clipped, and what the forwarded body has of them.

use super::cuts;
use crate::conversation::Conversation;
use crate::dialect::Dialect;
use crate::planning::plan::{RequestPlan, SummarySource, plan};
use crate::planning::splice::Splice;
use crate::planning::view::ForwardedView;
use crate::policy::cut_point::PinnedHead;
use crate::policy::record::PriorRecords;
use crate::policy::thinking_removal::{PriorThinking, StaleThinking};
use crate::policy::{CompactionSettings, Policy, Profile};
use crate::pruning::rule::PruneState;
use crate::pruning::rule::tests::rule;
use crate::units::tokens::Tokens;
use serde_json::{Value, json};

/// A step that writes a file of `size` characters and gets `result`.
fn step(dialect: Dialect, id: usize, size: usize, result: &str) -> Vec<Value> {
    let id = format!("c{id}");
    let input =
        json!({"file_path": format!("{id}.rs"), "content": "fn f() {}\n".repeat(size / 10)});
    let text = input.to_string();
    match dialect {
        Dialect::ChatCompletions => {
            let function = json!({"name": "write", "arguments": text});
            let call = json!({"id": id, "type": "function", "function": function});
            vec![
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                json!({"role": "tool", "tool_call_id": id, "content": result}),
            ]
        }
        Dialect::Messages => {
            let call = json!({"type": "tool_use", "id": id, "name": "write", "input": input});
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": result});
            vec![
                json!({"role": "assistant", "content": [call]}),
                json!({"role": "user", "content": [result]}),
            ]
        }
        Dialect::Responses => vec![
            json!({"type": "function_call", "call_id": id, "name": "write", "arguments": text}),
            json!({"type": "function_call_output", "call_id": id, "output": result}),
        ],
    }
}

/// A question, and these steps.
fn body(dialect: Dialect, steps: &[(usize, &str)]) -> String {
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    for (id, (size, result)) in steps.iter().enumerate() {
        messages.extend(step(dialect, id, *size, result));
    }
    match dialect {
        Dialect::ChatCompletions => json!({"messages": messages}),
        Dialect::Messages => json!({"system": "s", "messages": messages}),
        Dialect::Responses => json!({"input": messages}),
    }
    .to_string()
}

/// Clears the results before `before` under the rule of the tests.
fn cleared(conversation: &Conversation<'_>, before: usize) -> ForwardedView {
    let mut state = PruneState::new(conversation, Some(&rule()));
    state.ingest_until(conversation.messages().len());
    state.clear_before(before);
    ForwardedView::new(PinnedHead { end: 1 }, &state)
}

fn sent(conversation: &Conversation<'_>, view: &ForwardedView) -> String {
    let cuts = view.replacements(conversation).unwrap();
    let splice = Splice::new(conversation, &cuts).unwrap();
    String::from_utf8(splice.apply()).unwrap()
}

#[test]
fn a_call_is_clipped_once_the_rule_has_passed_its_result() {
    let long = "x".repeat(1_000);
    let steps = [(100, &*long), (9_000, &long), (9_000, "ok"), (9_000, "ok")];
    for dialect in Dialect::ALL {
        let body = body(dialect, &steps);
        let conversation = dialect.read(body.as_bytes()).unwrap();
        for (before, expect) in [
            (3, &["2 cleared"][..]),
            (5, &["2 cleared", "4 call clipped", "4 cleared"]),
            (7, &["2 cleared", "4 call clipped", "4 cleared", "6 call clipped"]),
        ] {
            let view = cleared(&conversation, before);
            assert_eq!(cuts(&view, &conversation), expect);
            let sent = sent(&conversation, &view);
            let said = view.tokens(&conversation);
            let sent = dialect.read(sent.as_bytes()).unwrap().tokens();
            assert!((said - sent).max(sent - said) <= Tokens::new(4), "{sent} {said}");
        }
    }
}

#[test]
fn a_result_kept_for_its_content_keeps_its_call_whole() {
    let body = body(Dialect::ChatCompletions, &[(9_000, "Error: no"), (9_000, "ok"), (9, "ok")]);
    let conversation = Dialect::ChatCompletions.read(body.as_bytes()).unwrap();
    let mut keeps = rule();
    keeps.keep_errors = true;
    let mut state = PruneState::new(&conversation, Some(&keeps));
    state.ingest_until(7);
    state.clear_before(5);
    let clipped = |state: &PruneState| state.clipped_calls().map(|(at, _)| at).collect::<Vec<_>>();
    // The first result is too short for a placeholder, error or not.
    assert_eq!(clipped(&state), [2, 4]);
    keeps.exempt_tools = vec!["write".into()];
    let mut state = PruneState::new(&conversation, Some(&keeps));
    state.ingest_until(7);
    state.clear_before(5);
    assert_eq!(clipped(&state), [0; 0]);
}

#[test]
fn signed_calls_and_calls_of_an_open_round_stay_whole() {
    let steps = [(9_000, "ok"), (9_000, "ok")];
    let body = body(Dialect::ChatCompletions, &steps);
    let clips = |body: &str| {
        let conversation = Dialect::ChatCompletions.read(body.as_bytes()).unwrap();
        cuts(&cleared(&conversation, 3), &conversation).len()
    };
    assert_eq!(clips(&body), 1);
    let google = r#""extra_content":{"google":{"thought_signature":"s"}},"id":"c0","#;
    assert_eq!(clips(&body.replacen(r#""id":"c0","#, google, 1)), 0);
    let second = r#""tool_calls":[{"id":"open","function":{"name":"f","arguments":"{}"}},"#;
    let open = body.replacen(r#""tool_calls":["#, second, 1);
    assert_eq!(clips(&open), 0);
}

#[test]
fn thinking_leaves_from_the_clipped_call_on_where_it_is_bound() {
    let body = body(Dialect::Messages, &[(9_000, "ok"), (9, "ok")]);
    let thinking = r#"[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use""#;
    let body = body.replace(r#"[{"type":"tool_use""#, thinking);
    let conversation = Dialect::Messages.read(body.as_bytes()).unwrap();
    let prior = PriorThinking { stale: StaleThinking::Removed, ..PriorThinking::default() };
    let plan = RequestPlan::from_view(cleared(&conversation, 3));
    let plan = plan.without_stale_thinking(&conversation, &prior);
    assert_eq!(plan.view.thinking_removals(&conversation), 2);
    assert!(!sent(&conversation, &plan.view).contains("signature"));
}

#[test]
fn standard_clips_no_call() {
    let long = "x".repeat(4_000);
    let steps: Vec<_> = (0..20).map(|_| (9_000, &*long)).collect();
    for profile in [Profile::Auto, Profile::Frugal, Profile::Standard] {
        let body = body(Dialect::ChatCompletions, &steps);
        let conversation = Dialect::ChatCompletions.read(body.as_bytes()).unwrap();
        let settings = CompactionSettings {
            profile,
            user_turns: Some(0),
            protect: Some(Tokens::new(2_000)),
            minimum: Some(Tokens::ZERO),
            ..CompactionSettings::default()
        };
        let policy = Policy::new(&settings, Tokens::new(64_000));
        let prior = PriorRecords::default();
        let plan = plan(&conversation, &policy, &prior, SummarySource::Digest);
        let sent = sent(&conversation, &plan.view);
        assert!(sent.contains(crate::text::wording::CLEARED));
        let is_clipped = sent.contains("characters left out");
        assert_eq!(is_clipped, profile != Profile::Standard, "{profile:?}");
    }
}
