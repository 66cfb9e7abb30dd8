//! Tests of an explanation: it covers every message once, and its numbers add up.

use super::*;
use crate::dialect::chat_completions::read;
use crate::planning::plan::{SummarySource, plan};
use crate::policy::CompactionSettings;
use crate::policy::cut_point::PinnedHead;
use crate::policy::cut_point::tests::body;
use crate::policy::record::PriorRecords;
use crate::pruning::rule::PruneState;
use crate::pruning::rule::tests::rule;

/// Instructions, a question and four steps, each a call and its result of a thousand characters.
const STEPS: &str = "suctctctct";

fn policy(window: u32) -> Policy {
    Policy::new(&CompactionSettings::default(), Tokens::new(window))
}

/// Returns the last message of a row.
fn last(row: &ExplanationRow) -> usize {
    row.through.unwrap_or(row.number)
}

/// Checks that the rows cover every message once and add up to the totals.
#[track_caller]
fn check_sums(explanation: &RequestExplanation) {
    let totals = &explanation.totals;
    let mut end = explanation.rows.first().map_or(0, |row| row.number);
    for row in &explanation.rows {
        assert_eq!(row.number, end, "{row:?}");
        assert!(row.through.is_none_or(|through| through > row.number));
        end = last(row) + 1;
    }
    assert_eq!(end, totals.messages);
    let sum = |of: fn(&ExplanationRow) -> Tokens| explanation.rows.iter().map(of).sum::<Tokens>();
    assert_eq!(sum(|row| row.tokens) + totals.tools, totals.before);
    let digest = explanation.digest.as_ref().map(|it| it.tokens);
    assert_eq!(sum(|row| row.becomes) + totals.tools + digest.unwrap_or_default(), totals.after);
    let layers = &explanation.layers;
    let mut end = 0;
    for layer in layers {
        assert_eq!((layer.from, layer.through + 1), (end, end + layer.messages));
        end = layer.through + 1;
    }
    if !layers.is_empty() {
        let forwarded: Tokens = layers.iter().map(|layer| layer.tokens).sum();
        assert_eq!(forwarded + totals.tools, totals.after);
        assert_eq!(end, totals.messages);
    }
}

#[test]
fn each_message_is_explained_once_with_its_change() {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let mut state = PruneState::new(&conversation, Some(&rule()));
    state.ingest_until(conversation.messages().len());
    state.clear_before(6);
    let mut view = ForwardedView::new(PinnedHead { end: 2 }, &state);
    view.add_clips([crate::policy::record::Clip {
        message: 7,
        head: Tokens::new(50),
        tail: Tokens::new(40),
    }]);
    let decisions = RuleDecisions { prune_state: state, size: conversation.tokens() };
    let explanation =
        RequestExplanation::new(&conversation, &policy(8_000), &view, Some(&decisions));
    check_sums(&explanation);
    let changes: Vec<_> = explanation.changes().map(|row| (row.number, row.decision)).collect();
    let cleared = MessageDecision::ToolResult(ClearDecision::Cleared);
    assert_eq!(changes, [(3, cleared), (5, cleared), (7, MessageDecision::Clipped)]);
    view.set_replacement(4, "what stands for the rest".into());
    let explanation =
        RequestExplanation::new(&conversation, &policy(8_000), &view, Some(&decisions));
    check_sums(&explanation);
    let folded = explanation.clone().folded(true);
    check_sums(&folded);
    let rows: Vec<_> = folded.rows.iter().map(|row| (row.number, last(row))).collect();
    assert_eq!(rows[..2], [(0, 1), (2, 3)], "{folded:?}");
    assert_eq!(folded.rows[1].decision, MessageDecision::Summarised);
    assert_eq!(folded.limited_to(1).omitted, rows.len() - 1);
    let unchanged = explanation.unchanged();
    assert_eq!(unchanged.totals.after, unchanged.totals.before);
    assert_eq!(unchanged.changes().count(), 0);
    assert_eq!(unchanged.layers, []);
}

/// Checks the layers of [`STEPS`]: kind, first message, last message and cleared results of each. Results
/// before `cleared_before` are cleared, and messages from 2 to `replaced` are replaced.
#[track_caller]
fn check_layers(
    cleared_before: usize,
    replaced: Option<usize>,
    expect: &[(LayerKind, usize, usize, usize)],
) {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let mut state = PruneState::new(&conversation, Some(&rule()));
    state.ingest_until(conversation.messages().len());
    state.clear_before(cleared_before);
    let mut view = ForwardedView::new(PinnedHead { end: 2 }, &state);
    if let Some(until) = replaced {
        view.set_replacement(until, "what stands for the rest".into());
    }
    let explanation = RequestExplanation::new(&conversation, &policy(8_000), &view, None);
    check_sums(&explanation);
    let layers = explanation.layers.iter();
    let layers: Vec<_> =
        layers.map(|layer| (layer.kind, layer.from, layer.through, layer.cleared)).collect();
    assert_eq!(layers, expect);
    let digest = explanation.layers.iter();
    let digest = digest.filter(|layer| layer.kind == LayerKind::Summary);
    assert!(digest.map(|layer| Some(layer.tokens)).eq(replaced.map(|_| view.summary_tokens())));
}

#[test]
fn a_changed_request_has_a_layer_for_each_kind_of_change() {
    use LayerKind::{Head, Steps, Summary, Tail};
    check_layers(0, None, &[]);
    check_layers(6, None, &[(Head, 0, 1, 0), (Steps, 2, 5, 2), (Tail, 6, 9, 0)]);
    let both = [(Head, 0, 1, 0), (Summary, 2, 3, 0), (Steps, 4, 7, 2), (Tail, 8, 9, 0)];
    check_layers(8, Some(4), &both);
    let digest = [(Head, 0, 1, 0), (Summary, 2, 5, 0), (Tail, 6, 9, 0)];
    check_layers(0, Some(6), &digest);
    // A result that was cleared before its history was replaced.
    check_layers(4, Some(6), &digest);
}

#[test]
fn the_steps_end_with_the_batch_of_the_last_cleared_result() {
    let body = body("sucttct");
    let conversation = read(body.as_bytes()).unwrap();
    let mut state = PruneState::new(&conversation, Some(&rule()));
    state.ingest_until(conversation.messages().len());
    state.clear_before(4);
    let view = ForwardedView::new(PinnedHead { end: 2 }, &state);
    let explanation = RequestExplanation::new(&conversation, &policy(8_000), &view, None);
    check_sums(&explanation);
    let steps = explanation.layers[1];
    assert_eq!((steps.kind, steps.cleared), (LayerKind::Steps, 1));
    assert_eq!((steps.from, steps.through), (2, 4));
}

#[test]
fn the_explanation_of_a_plan_gives_the_rule_and_what_waits_for_it() {
    for window in [1_500, 2_500, 200_000] {
        let body = body(&format!("s{}", "uctctct".repeat(4)));
        let conversation = read(body.as_bytes()).unwrap();
        let policy = policy(window);
        let prior = PriorRecords::default();
        let plan = plan(&conversation, &policy, &prior, SummarySource::Digest);
        let decisions = plan.decisions.as_deref();
        let explanation = RequestExplanation::new(&conversation, &policy, &plan.view, decisions);
        check_sums(&explanation);
        assert!(explanation.rule.is_some() && explanation.measured > Tokens::ZERO);
        let changes = plan.view.replacements(&conversation).is_some();
        assert_eq!(explanation.changes().count() > 0, changes, "{window}");
    }
}

#[test]
fn a_call_and_its_result_name_the_file_or_the_command() {
    let deep = format!("{}end.rs", "folder/".repeat(20));
    let call = |id: &str, name: &str, arguments: serde_json::Value| {
        let function = serde_json::json!({"name": name, "arguments": arguments.to_string()});
        serde_json::json!({"id": id, "type": "function", "function": function})
    };
    let calls = [
        call("a", "read", serde_json::json!({"path": "src/a.rs", "limit": 9})),
        call("b", "bash", serde_json::json!({"command": "ls -l\n\tsrc"})),
        call("c", "read", serde_json::json!({"path": deep})),
        call("d", "read", serde_json::json!({"path": "src/d.rs"})),
    ];
    let result =
        |id: &str| serde_json::json!({"role": "tool", "tool_call_id": id, "content": "text"});
    let body = serde_json::json!({"messages": [
        {"role": "user", "content": "look at src/a.rs"},
        {"role": "assistant", "content": null, "tool_calls": calls},
        result("a"), result("b"), result("c"), result("d"),
    ]});
    let body = body.to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let subject = |at| call_subject(&conversation, at).unwrap_or_default().into_string();
    assert_eq!(subject(0), "");
    assert_eq!((subject(2).as_str(), subject(3).as_str()), ("src/a.rs", "ls -l src"));
    let long = subject(4);
    assert_eq!(long.chars().count(), SUBJECT_CHARS);
    assert!(long.starts_with('…') && long.ends_with("folder/end.rs"), "{long}");
    // The first three calls are named.
    assert_eq!(subject(1), format!("src/a.rs, ls -l src, {long}"));
}
