//! Tests of the rule: which thinking goes, and which stays.

#![expect(clippy::single_range_in_vec_init, reason = "a list of ranges, often one")]

use super::*;
use crate::dialect::Dialect;
use crate::dialect::chat_completions::read;
use crate::planning::plan::{SummarySource, plan};
use crate::planning::splice::Splice;
use crate::policy::cut_point::PinnedHead;
use crate::policy::record::{CompactionRecord, PriorRecords, RecordMatch};
use crate::policy::{CompactionSettings, Policy};
use crate::prefix::keys::PrefixKeys;
use crate::pruning::rule::PruneState;
use crate::pruning::rule::tests::rule;
use crate::units::scope::Scope;
use crate::units::tokens::Tokens;
use std::ops::Range;
use std::sync::Arc;

/// Builds a question and `steps` steps: a call with signed thinking, and its result. The calls are
/// the odd messages.
fn body(steps: usize) -> String {
    let mut messages = vec![r#"{"role":"user","content":"u"}"#.to_owned()];
    for step in 0..steps {
        messages.push(format!(
            r#"{{"role":"assistant","content":null,"thinking_blocks":[{{"type":"thinking","thinking":"t{step}","signature":"s"}}],"tool_calls":[{{"id":"c{step}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#
        ));
        messages.push(format!(
            r#"{{"role":"tool","tool_call_id":"c{step}","content":"{}"}}"#,
            "x".repeat(1_000)
        ));
    }
    format!(r#"{{"messages":[{}]}}"#, messages.join(","))
}

/// Builds a view in which the results before `before` are cleared.
fn cleared(conversation: &Conversation<'_>, before: usize) -> ForwardedView {
    let mut prune_state = PruneState::new(conversation, Some(&rule()));
    prune_state.ingest_until(conversation.messages().len());
    prune_state.clear_before(before);
    ForwardedView::new(PinnedHead { end: 1 }, &prune_state)
}

/// Finds these removals, each at the prefix with the index of its turn.
fn prior(conversation: &Conversation<'_>, stored: &[&ThinkingRemoval]) -> PriorRemovals {
    let keys = PrefixKeys::new(conversation, Scope::new(&[0; 32], &[]));
    let mut left: Vec<_> = stored.iter().rev().map(|it| Arc::new((*it).clone())).collect();
    let counts = stored.iter().any(|it| it.is_count());
    PriorRemovals::look_up(&keys, counts, |_| left.pop())
}

/// Returns the ranges without thinking in a conversation of `steps` steps.
fn ranges(
    steps: usize,
    before: usize,
    stored: &[&ThinkingRemoval],
) -> (Vec<Range<usize>>, Option<ThinkingRemoval>) {
    let body = body(steps);
    let conversation = read(body.as_bytes()).unwrap();
    let prior = PriorThinking {
        stale: StaleThinking::Removed,
        removals: prior(&conversation, stored),
        counted: None,
    };
    let plan = RequestPlan::from_view(cleared(&conversation, before))
        .without_stale_thinking(&conversation, &prior);
    let RequestPlan { view, removal, .. } = plan;
    // Every view is sound, and leaves no signature of a removed message.
    if let Some(plan) = view.replacements(&conversation) {
        let sent = Splice::new(&conversation, &plan).unwrap().apply();
        let sent =
            read(&sent).unwrap().messages().iter().filter(|it| it.bound_thinking.is_some()).count();
        assert_eq!(sent, steps - view.thinking_removals(&conversation));
    }
    let whole = prior.removals.ranges.iter().cloned();
    let own = removal.iter().flat_map(|it| it.ranges(0));
    (merge_ranges(whole.chain(own).collect()), removal)
}

#[test]
fn no_thinking_is_removed_without_an_edit() {
    assert_eq!(ranges(4, 0, &[]), (vec![], None));
}

#[test]
fn an_edit_removes_existing_thinking_after_it_and_keeps_newer() {
    // The results 2 and 4 are cleared: thinking 1 stands before the first.
    let (removed, first) = ranges(4, 5, &[]);
    assert_eq!(removed, [2..8]);
    let first = first.unwrap();
    let (removed, none) = ranges(6, 5, &[&first]);
    assert_eq!((removed, none), (vec![2..8], None));
}

#[test]
fn a_further_edit_removes_thinking_from_its_own_position() {
    let (_, first) = ranges(4, 5, &[]);
    let first = first.unwrap();
    let (removed, second) = ranges(9, 13, &[&first]);
    assert_eq!(removed, [2..18], "result 6 is the first that was not cleared before");
    // After what was removed already, thinking made over the first edit stays.
    let body = body(9);
    let conversation = read(body.as_bytes()).unwrap();
    let prior = prior(&conversation, &[&first]);
    let mut view = cleared(&conversation, 5);
    view.add_clips([crate::policy::record::Clip {
        message: 14,
        head: Tokens::new(10),
        tail: Tokens::new(10),
    }]);
    let edits = Edits::new(&conversation, &view);
    let from = edits.first_new(&prior).unwrap();
    let clipped = edits.removal_from(&conversation, &prior, from);
    assert_eq!(clipped.ranges(0).collect::<Vec<_>>(), [2..8, 14..18]);
    let (removed, none) = ranges(10, 13, &[&second.unwrap(), &first]);
    assert_eq!((removed, none), (vec![2..18], None));
}

#[test]
fn an_undone_edit_removes_thinking_from_the_first_edit_on() {
    let (_, first) = ranges(4, 5, &[]);
    let first = first.unwrap();
    let (removed, again) = ranges(6, 0, &[&first]);
    assert_eq!(removed, [2..12]);
    assert_eq!(again.unwrap().edits, EditChain::default());
    let (removed, _) = ranges(6, 3, &[&first]);
    assert_eq!(removed, [2..12]);
}

#[test]
fn a_lost_removal_record_removes_all_after_the_first_edit_once() {
    let (removed, stored) = ranges(6, 5, &[]);
    assert_eq!(removed, [2..12]);
    let (removed, none) = ranges(8, 5, &[&stored.unwrap()]);
    assert_eq!((removed, none), (vec![2..12], None));
}

#[test]
fn removals_of_several_processes_unite() {
    let (_, one) = ranges(4, 5, &[]);
    let (_, two) = ranges(5, 7, &[]);
    let (removed, _) = ranges(6, 7, &[&two.unwrap(), &one.unwrap()]);
    assert_eq!(removed, [2..10]);
}

#[test]
fn a_refusal_removes_thinking_after_the_first_edit_or_all_of_it() {
    let body = body(4);
    let conversation = read(body.as_bytes()).unwrap();
    let none = PriorThinking::default();
    for (before, expect) in [(0, 0..8), (3, 2..8), (5, 2..8)] {
        let plan = RequestPlan::from_view(cleared(&conversation, before));
        let plan = plan.without_thinking_behind_edits(&conversation, &none);
        let removal = plan.unwrap().removal.unwrap();
        assert_eq!(removal.ranges(0).collect::<Vec<_>>(), [expect], "{before}");
    }
}

#[test]
fn removed_thinking_reduces_the_view_size() {
    let body = body(4);
    let conversation = read(body.as_bytes()).unwrap();
    let prior = |stale| PriorThinking { stale, removals: PriorRemovals::default(), counted: None };
    let tokens = |stale| {
        let plan = RequestPlan::from_view(cleared(&conversation, 5));
        let plan = plan.without_stale_thinking(&conversation, &prior(stale));
        plan.view.tokens(&conversation)
    };
    let thinking = |at: usize| conversation.message(at).unwrap().bound_thinking.unwrap();
    assert_eq!(
        tokens(StaleThinking::Kept) - tokens(StaleThinking::Removed),
        thinking(3) + thinking(5) + thinking(7)
    );
    assert!(thinking(3) > Tokens::ZERO);
}

#[test]
fn with_bound_thinking_a_ready_summary_is_used_at_a_user_message() {
    let text = "x".repeat(1_000);
    let message = |at: usize| {
        if at.is_multiple_of(2) {
            return format!(r#"{{"role":"user","content":"{text}"}}"#);
        }
        let thinking = r#""thinking_blocks":[{"type":"thinking","signature":"s"}]"#;
        format!(r#"{{"role":"assistant","content":"{text}",{thinking}}}"#)
    };
    let record = CompactionRecord {
        text: Some("what stands for the rest".into()),
        history_from: 1,
        compacted_message_count: 15,
        ..CompactionRecord::default()
    };
    let ready = RecordMatch { prefix_end: 15, adopted: false, record: Arc::new(record) };
    for (messages, stale, expect) in [
        (21, StaleThinking::Removed, true),
        (22, StaleThinking::Removed, false),
        (21, StaleThinking::Kept, false),
    ] {
        let messages: Vec<String> = (0..messages).map(message).collect();
        let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        let conversation = read(body.as_bytes()).unwrap();
        // Past the soft threshold, and far below the hard one.
        let mut policy = Policy::new(&CompactionSettings::default(), Tokens::new(8_000));
        policy.thresholds.soft = Tokens::new(1);
        let prior = PriorRecords {
            ready: Some(ready.clone()),
            seen: true,
            thinking: PriorThinking { stale, ..PriorThinking::default() },
            ..PriorRecords::default()
        };
        let plan = plan(&conversation, &policy, &prior, SummarySource::Model);
        assert_eq!(plan.view.is_condensed(), expect, "{stale:?}");
    }
}

#[test]
fn thinking_made_over_an_edit_that_had_none_behind_it_stays() {
    let none = PriorThinking::default();
    let thoughtful = body(4);
    let conversation = read(thoughtful.as_bytes()).unwrap();
    let plan = RequestPlan::from_view(cleared(&conversation, 5));
    assert_eq!(plan.note_without_stale_thinking(&conversation, &none), None);
    let silent = body(4).replace("thinking_blocks", "x_blocks");
    let conversation = read(silent.as_bytes()).unwrap();
    let plan = RequestPlan::from_view(cleared(&conversation, 5));
    let note = plan.note_without_stale_thinking(&conversation, &none).unwrap();
    assert_eq!(note.ranges(0).count(), 0);
    assert_eq!(note.edits.count, 2);
    // The next steps think.
    assert_eq!(ranges(6, 5, &[&note]), (vec![], None));
    assert_eq!(ranges(6, 5, &[]).0, [2..12]);
}

#[test]
fn thinking_behind_a_ready_summary_counts_as_room() {
    let text = "x".repeat(1_000);
    let message = |at: usize| {
        if at.is_multiple_of(2) {
            return format!(r#"{{"role":"user","content":"{text}"}}"#);
        }
        let thought = "t".repeat(8_000);
        let thinking = format!(
            r#""thinking_blocks":[{{"type":"thinking","thinking":"{thought}","signature":"s"}}]"#
        );
        format!(r#"{{"role":"assistant","content":"{text}",{thinking}}}"#)
    };
    let messages: Vec<String> = (0..21).map(message).collect();
    let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
    let conversation = read(body.as_bytes()).unwrap();
    let record = CompactionRecord {
        text: Some("what stands for the rest".into()),
        history_from: 1,
        compacted_message_count: 15,
        ..CompactionRecord::default()
    };
    let ready = RecordMatch { prefix_end: 15, adopted: false, record: Arc::new(record) };
    let mut policy = Policy::new(&CompactionSettings::default(), Tokens::new(100_000));
    policy.thresholds.soft = Tokens::new(1);
    // More than the summary and the texts after it, and less than these with their thinking.
    policy.thresholds.prune_target = Tokens::new(3_000);
    let prior = PriorRecords {
        ready: Some(ready),
        seen: true,
        thinking: PriorThinking { stale: StaleThinking::Removed, ..PriorThinking::default() },
        ..PriorRecords::default()
    };
    let plan = plan(&conversation, &policy, &prior, SummarySource::Model);
    assert!(plan.view.is_condensed());
    assert_eq!(plan.view.thinking_removals(&conversation), 3);
}

/// Builds the steps of [`body`] for the Responses API, each with two items of reasoning.
fn responses_body(steps: usize) -> String {
    let reasoning = r#"{"type":"reasoning","summary":[],"encrypted_content":"e"}"#;
    let mut items = vec![r#"{"role":"user","content":"u"}"#.to_owned()];
    for step in 0..steps {
        items.push(format!(
            r#"{reasoning},{reasoning},{{"type":"function_call","call_id":"c{step}","name":"f","arguments":"{{}}"}}"#
        ));
        items.push(format!(
            r#"{{"type":"function_call_output","call_id":"c{step}","output":"{}"}}"#,
            "x".repeat(1_000)
        ));
    }
    format!(r#"{{"model":"gpt-6.2-sol","input":[{}]}}"#, items.join(","))
}

/// Counts the reasoning that the edits before `before` lose, beyond what is `stored`.
fn lost(
    dialect: Dialect,
    body: &str,
    before: usize,
    stored: &[&ThinkingRemoval],
) -> (usize, Option<ThinkingRemoval>) {
    let conversation = dialect.read(body.as_bytes()).unwrap();
    let prior =
        PriorThinking { counted: Some(prior(&conversation, stored)), ..PriorThinking::default() };
    let plan = RequestPlan::from_view(cleared(&conversation, before))
        .without_stale_thinking(&conversation, &prior);
    assert_eq!(plan.view.thinking_removals(&conversation), 0);
    plan.lost_reasoning(&conversation, &prior)
}

#[test]
fn reasoning_behind_each_edit_is_counted_once_and_sent() {
    let chat = (body as fn(usize) -> String, Dialect::ChatCompletions, 1);
    for (body, dialect, items) in [chat, (responses_body, Dialect::Responses, 2)] {
        let lost = |steps, before, stored: &[_]| lost(dialect, &body(steps), before, stored);
        assert_eq!(lost(4, 0, &[]), (0, None));
        // The results 2 and 4 are cleared: three steps are behind the first.
        let (count, first) = lost(4, 5, &[]);
        assert_eq!(count, 3 * items);
        let first = first.unwrap();
        assert_eq!(lost(6, 5, &[&first]), (0, None));
        // Results 6 to 12 are cleared as well: steps 5 and 6 to 9 are behind, and were not counted.
        let (count, second) = lost(9, 13, &[&first]);
        assert_eq!(count, 5 * items);
        assert_eq!(lost(9, 13, &[&second.unwrap()]), (0, None));
    }
}
