//! Tests of the decisions at each threshold, and of those that wait for a summary.

mod requests;
mod segments;

use super::*;
use crate::dialect::chat_completions::read;
use crate::planning::history_fold::fold;
use crate::policy::record::{CompactionRecord, RecordMatch};
use crate::policy::thrash::ThrashState;
use crate::policy::{CompactionSettings, OutputWindow};
use std::sync::Arc;

/// Builds messages of a thousand characters each, alternately by the user and the assistant.
fn body(messages: usize) -> String {
    body_of(messages, 1_000)
}

fn body_of(messages: usize, characters: usize) -> String {
    let text = "x".repeat(characters);
    let message = |at| {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        format!(r#"{{"role":"{role}","content":"{text}"}}"#)
    };
    let messages: Vec<String> = (0..messages).map(message).collect();
    format!(r#"{{"messages":[{}]}}"#, messages.join(","))
}

/// Policy for a window in which about thirty of these messages fit.
fn policy() -> Policy {
    let mut policy = Policy::new(&CompactionSettings::default(), Tokens::new(8_000));
    (policy.clear_target.percent, policy.cut_target.percent) = (0, 0);
    policy
}

fn seen() -> PriorRecords {
    PriorRecords { seen: true, ..PriorRecords::default() }
}

/// Summary of all messages from the second up to `covers`.
fn summary(covers: usize) -> RecordMatch {
    RecordMatch {
        prefix_end: covers,
        adopted: false,
        record: Arc::new(CompactionRecord {
            text: Some("what stands for the rest".into()),
            history_from: 1,
            compacted_message_count: covers,
            ..CompactionRecord::default()
        }),
    }
}

/// Returns the summary need of a conversation of so many messages under `policy`.
fn need_of(messages: usize, policy: &Policy, known: &PriorRecords) -> SummaryNeed {
    let body = body(messages);
    let conversation = read(body.as_bytes()).unwrap();
    plan(&conversation, policy, known, SummarySource::Model).need
}

const ONE: Tokens = Tokens::new(1);

/// Returns the size of so many messages, as compared with the thresholds.
fn size_of(messages: usize) -> Tokens {
    let body = body(messages);
    let conversation = read(body.as_bytes()).unwrap();
    let kept = PinnedHead::new(&conversation, &policy(), None);
    fold(&conversation, &policy(), kept, None, HardThresholdMode::Report, &[]).size
}

#[test]
fn the_providers_item_is_ordered_a_step_before_the_soft_threshold() {
    // A step of the user and the assistant has the size of two messages.
    let mut policy = policy();
    policy.thresholds.soft = size_of(23);
    assert_eq!(need_of(21, &policy, &seen()), SummaryNeed::Nothing);
    policy.settings.by_provider = true;
    assert!(matches!(need_of(21, &policy, &seen()), SummaryNeed::InBackground(_)));
    policy.thresholds.soft += ONE;
    assert_eq!(need_of(21, &policy, &seen()), SummaryNeed::Nothing);
}

#[test]
fn an_output_as_large_as_the_window_waits_for_the_providers_item() {
    let mut policy = policy();
    policy.thresholds.hard = size_of(25);
    let body = body(25).replacen('{', r#"{"max_tokens":8000,"#, 1);
    let conversation = read(body.as_bytes()).unwrap();
    policy.thresholds.actual_window = conversation.tokens();
    let of = |policy: &Policy| plan(&conversation, policy, &seen(), SummarySource::Model);
    assert!(matches!(of(&policy).need, SummaryNeed::Now(_)));
    policy.settings.by_provider = true;
    let out = of(&policy);
    assert!(!out.fresh_digest && matches!(out.need, SummaryNeed::InBackground(_)));
}

#[test]
fn a_background_summary_starts_exactly_at_the_soft_threshold() {
    let size = size_of(21);
    let mut policy = policy();
    policy.thresholds.soft = size;
    assert!(matches!(need_of(21, &policy, &seen()), SummaryNeed::InBackground(_)));
    policy.thresholds.soft = size + ONE;
    assert_eq!(need_of(21, &policy, &seen()), SummaryNeed::Nothing);
}

#[test]
fn waits_for_a_summary_only_if_the_request_does_not_fit() {
    let mut policy = policy();
    let body = body(25);
    let size = read(body.as_bytes()).unwrap().tokens();
    policy.thresholds.hard = size;
    policy.prune_thresholds.hard = size;
    policy.thresholds.actual_window = size;
    assert_eq!(need_of(25, &policy, &seen()), SummaryNeed::Nothing);
    policy.thresholds.actual_window = Tokens::new(size.get() - 1);
    assert!(matches!(need_of(25, &policy, &seen()), SummaryNeed::Now(_)));
}

#[test]
fn requested_output_must_fit_only_if_it_shares_the_window() {
    let body = body(25).replacen('{', r#"{"max_tokens":100,"#, 1);
    let conversation = read(body.as_bytes()).unwrap();
    let size = conversation.tokens();
    let mut policy = policy();
    (policy.thresholds.hard, policy.prune_thresholds.hard) = (size, size);
    let mut waits = |output, holds| {
        (policy.thresholds.output, policy.thresholds.actual_window) = (output, holds);
        match plan(&conversation, &policy, &seen(), SummarySource::Model).need {
            SummaryNeed::Now(_) => true,
            SummaryNeed::Nothing => false,
            need @ SummaryNeed::InBackground(_) => panic!("{need:?}"),
        }
    };
    assert!(!waits(OutputWindow::Shared, size + Tokens::new(100)));
    assert!(waits(OutputWindow::Shared, size + Tokens::new(99)));
    assert!(!waits(OutputWindow::Separate, size));
}

/// Returns the plan of a conversation of so many messages at the threshold of [`policy`].
fn plan_of(messages: usize, known: &PriorRecords, summaries: SummarySource) -> RequestPlan {
    let body = body(messages);
    let conversation = read(body.as_bytes()).unwrap();
    plan(&conversation, &policy(), known, summaries)
}

#[test]
fn the_prefix_breaks_at_the_mark_with_and_without_a_model() {
    for messages in 4..28 {
        let text = |known: &PriorRecords, summaries| {
            let plan = plan_of(messages, known, summaries);
            plan.view.summary().cloned()
        };
        let digest = text(&seen(), SummarySource::Digest);
        assert_eq!(digest.is_some(), messages >= 25, "{messages}");
        for known in [PriorRecords::default(), seen()] {
            assert_eq!(text(&known, SummarySource::Model), digest, "{messages}");
        }
    }
}

#[test]
fn a_summary_that_is_being_made_is_waited_for_while_the_request_fits() {
    let pending = PriorRecords { pending: true, ..seen() };
    let out = plan_of(25, &pending, SummarySource::Model);
    assert!(!out.view.is_condensed() && out.need == SummaryNeed::Nothing);
    let out = plan_of(40, &pending, SummarySource::Model);
    assert!(matches!(out.need, SummaryNeed::Now(_)));
    // Above 95% of the room, a digest is used.
    let body = body(25);
    let conversation = read(body.as_bytes()).unwrap();
    let mut policy = policy();
    policy.thresholds.capacity = conversation.tokens();
    let out = plan(&conversation, &policy, &pending, SummarySource::Model);
    assert!(out.fresh_digest && out.need == SummaryNeed::Nothing);
    // A digest would cost thinking that the provider's item keeps.
    policy.settings.by_provider = true;
    let out = plan(&conversation, &policy, &pending, SummarySource::Model);
    assert!(!out.fresh_digest && matches!(out.need, SummaryNeed::Now(_)));
}

#[test]
fn a_digest_extends_a_ready_summary_to_the_scheduled_cut() {
    let until = |known: &PriorRecords, summaries| {
        let plan = plan_of(25, known, summaries);
        let text = plan.view.summary().cloned().unwrap();
        (text, plan.view.summarised_until(), plan.fresh_digest)
    };
    let (_, scheduled, _) = until(&seen(), SummarySource::Digest);
    for (covers, extends) in [
        (scheduled - 10, true),
        // A digest of two messages would be as long as they are.
        (scheduled, false),
    ] {
        let known = PriorRecords { ready: Some(summary(covers)), ..seen() };
        let (text, end, fresh) = until(&known, SummarySource::Model);
        assert_eq!((end, fresh), (scheduled, extends), "{covers}");
        assert!(text.contains("what stands for the rest"));
        assert_eq!(text.segments().len(), if extends { 2 } else { 0 });
    }
}

#[test]
fn a_ready_summary_with_little_gain_is_used_where_the_window_forces_the_break() {
    let body = body(25);
    let conversation = read(body.as_bytes()).unwrap();
    let known = PriorRecords { ready: Some(summary(9)), ..seen() };
    let mut policy = policy();
    policy.thresholds.prune_target = ONE;
    let whole = conversation.tokens().get();
    // Below the window, with it full, and with a summary that is too long as well.
    for window in [whole, whole - 1, 1_000] {
        policy.thresholds.actual_window = Tokens::new(window);
        let out = plan(&conversation, &policy, &known, SummarySource::Model);
        let text = out.view.summary().cloned().unwrap();
        assert!(text.contains("what stands for the rest"), "{window}");
        assert_eq!(out.need, SummaryNeed::Nothing, "{window}");
    }
}

#[test]
fn no_summary_is_begun_for_a_conversation_that_is_new() {
    let mut policy = policy();
    policy.thresholds.soft = ONE;
    let new = PriorRecords::default();
    assert_eq!(need_of(21, &policy, &new), SummaryNeed::Nothing);
    policy.thresholds.hard = Tokens::new(3_000);
    policy.thresholds.actual_window = Tokens::new(3_000);
    assert_eq!(need_of(21, &policy, &new), SummaryNeed::Nothing);
}

#[test]
fn an_extended_summary_counts_as_one_compaction() {
    let mut ready = summary(9);
    Arc::make_mut(&mut ready.record).thrash = ThrashState::restarted_at(23);
    let known = PriorRecords { ready: Some(ready), ..seen() };
    let out = plan_of(25, &known, SummarySource::Model);
    let body = body(25);
    let record = out.view.to_record(&read(body.as_bytes()).unwrap());
    assert!(out.fresh_digest && !record.thrash.is_thrashing());
    assert!(record.thrash.was_compacted_at(25));
}

#[test]
fn no_summary_is_prepared_if_it_could_not_help() {
    let mut policy = policy();
    policy.thresholds.soft = ONE;
    assert!(matches!(need_of(21, &policy, &seen()), SummaryNeed::InBackground(_)));
    // The part that can never be removed is already past this threshold.
    policy.thresholds.hard = ONE;
    assert_eq!(need_of(21, &policy, &seen()), SummaryNeed::Nothing);
}

#[test]
fn no_summary_is_prepared_if_the_record_in_use_covers_the_cut() {
    let mut policy = policy();
    policy.thresholds.soft = ONE;
    let SummaryNeed::InBackground(cut) = need_of(21, &policy, &seen()) else {
        panic!("past its mark");
    };
    let from = |covers| PriorRecords {
        adopted: Some(RecordMatch { adopted: true, ..summary(covers) }),
        ..seen()
    };
    assert_eq!(need_of(21, &policy, &from(cut)), SummaryNeed::Nothing);
    assert_eq!(need_of(21, &policy, &from(cut - 2)), SummaryNeed::InBackground(cut));
}

#[test]
fn a_large_adopted_summary_counts_at_its_actual_size() {
    let with = |tokens: usize| {
        let record = CompactionRecord {
            text: Some("x".repeat(4 * tokens).into()),
            ..CompactionRecord::clone(&summary(15).record)
        };
        let adopted = RecordMatch { adopted: true, record: Arc::new(record), ..summary(15) };
        PriorRecords { adopted: Some(adopted), ..seen() }
    };
    assert_eq!(need_of(24, &policy(), &with(400)), SummaryNeed::Nothing);
    assert!(matches!(need_of(24, &policy(), &with(6_000)), SummaryNeed::Now(_)));
}

#[test]
fn a_new_conversation_past_the_mark_gets_a_digest_at_once() {
    let known = PriorRecords::default();
    for (messages, past) in [(4, false), (40, true)] {
        let body = body(messages);
        let conversation = read(body.as_bytes()).unwrap();
        let out = plan(&conversation, &policy(), &known, SummarySource::Model);
        assert_eq!((out.fresh_digest, out.need), (past, SummaryNeed::Nothing));
        assert_eq!(out.view.is_condensed(), past);
    }
}

#[test]
fn seen_conversation_waits_for_a_summary_or_falls_back_to_a_digest() {
    let body = body(40);
    let conversation = read(body.as_bytes()).unwrap();
    let out = plan(&conversation, &policy(), &seen(), SummarySource::Model);
    assert!(matches!(out.need, SummaryNeed::Now(_)) && !out.fresh_digest);
    assert!(!out.view.is_condensed());
    let digest = plan_with_digest(&conversation, &policy(), &seen());
    assert!(digest.fresh_digest && digest.view.is_condensed());
    let none_wanted = plan(&conversation, &policy(), &seen(), SummarySource::Digest);
    assert!(none_wanted.fresh_digest && none_wanted.need == SummaryNeed::Nothing);
}

#[test]
fn nothing_is_compacted_if_proactive_compaction_is_off() {
    let mut policy = policy();
    policy.settings.proactive = false;
    for known in [PriorRecords::default(), seen()] {
        let body = body(40);
        let conversation = read(body.as_bytes()).unwrap();
        let out = plan(&conversation, &policy, &known, SummarySource::Model);
        assert_eq!((out.need, out.view.is_condensed()), (SummaryNeed::Nothing, false));
    }
}

/// Returns whether the ready summary is used, and the remaining summary need.
fn with_ready(messages: usize, covers: usize, policy: &Policy) -> (bool, SummaryNeed) {
    let body = body(messages);
    let conversation = read(body.as_bytes()).unwrap();
    let known = PriorRecords { ready: Some(summary(covers)), ..seen() };
    let out = plan(&conversation, policy, &known, SummarySource::Model);
    assert_eq!(out.base.is_some(), out.view.is_condensed());
    (out.base.is_some(), out.need)
}

#[test]
fn a_ready_summary_is_used_from_the_hard_threshold_on() {
    let policy = policy();
    let size = |messages| read(body(messages).as_bytes()).unwrap().tokens();
    assert!(size(24) >= policy.thresholds.soft && size(24) < policy.thresholds.hard);
    assert!(size(26) >= policy.thresholds.hard);
    assert_eq!(with_ready(24, 15, &policy), (false, SummaryNeed::Nothing));
    assert_eq!(with_ready(26, 15, &policy), (true, SummaryNeed::Nothing));
}

/// Returns the original size of a conversation when a summary of all but its newest three messages
/// is first used. The conversation starts with instructions of so many characters.
fn used_at(instructions: usize) -> Option<Tokens> {
    let system = format!(r#"{{"role":"system","content":"{}"}}"#, "s".repeat(instructions));
    (8..40).find_map(|messages| {
        let body = body(messages).replacen('[', &format!("[{system},"), 1);
        let conversation = read(body.as_bytes()).unwrap();
        let mut ready = summary(messages - 2);
        Arc::make_mut(&mut ready.record).history_from = 2;
        let known = PriorRecords { ready: Some(ready), ..seen() };
        let out = plan(&conversation, &policy(), &known, SummarySource::Model);
        out.base.is_some().then(|| conversation.tokens())
    })
}

#[test]
fn ready_summary_is_used_at_the_hard_threshold_for_any_instruction_size() {
    let policy = policy();
    // On both sides of a power of two.
    for instructions in [7_000, 8_000, 8_300, 9_000] {
        let used = used_at(instructions).unwrap();
        let least = policy.thresholds.hard.percent(90);
        let most = policy.thresholds.max_input(None).percent(85);
        assert!(least <= used && used <= most, "{instructions} {used}");
    }
}

#[test]
fn a_ready_summary_with_little_gain_is_used_below_the_mark_only_if_nothing_else_fits() {
    let mut policy = policy();
    assert_eq!(with_ready(24, 3, &policy), (false, SummaryNeed::InBackground(22)));
    policy.thresholds.actual_window = Tokens::new(6_000);
    let (used, _) = with_ready(24, 3, &policy);
    assert!(used);
}

#[test]
fn explicit_compaction_ignores_the_marks() {
    let body = body(11);
    let conversation = read(body.as_bytes()).unwrap();
    let now =
        |known: &PriorRecords, cut| plan_explicit_compaction(&conversation, &policy(), known, cut);
    let out = now(&seen(), 8).unwrap();
    assert!(out.fresh_digest && out.view.is_condensed() && out.base.is_none());
    assert!(now(&seen(), 1).is_none(), "there is nothing before it that may go");
    let known = PriorRecords { ready: Some(summary(7)), ..seen() };
    let out = now(&known, 9).unwrap();
    assert!(!out.fresh_digest && out.base.is_some());
    // A digest covers the messages since the record in use.
    let known =
        PriorRecords { adopted: Some(RecordMatch { adopted: true, ..summary(7) }), ..seen() };
    assert!(!now(&known, 7).unwrap().fresh_digest);
    assert!(now(&known, 9).unwrap().fresh_digest);
}

#[test]
fn explicit_compaction_requires_a_smaller_result() {
    let known = seen();
    let gains = |characters| {
        let body = body_of(11, characters);
        let conversation = read(body.as_bytes()).unwrap();
        let out = plan_explicit_compaction(&conversation, &policy(), &known, 8);
        if let Some(out) = &out {
            assert!(out.view.tokens(&conversation) < conversation.tokens());
        }
        out.is_some()
    };
    let smallest = (0..1_000).find(|&characters| gains(characters));
    assert!(smallest.is_some_and(|characters| characters > 10), "{smallest:?}");
}

#[test]
fn replacements_sort_by_message_and_part_with_the_output_last() {
    let history =
        Replacement::History { from: 1, to: 7, text: "".into(), placement: Placement::Separate };
    let image = Replacement::Image { at: 7, part: 2 };
    let result = Replacement::Result { at: 9, text: "".into(), marked: false };
    let output = Replacement::Output { tokens: Tokens::ZERO };
    let places = [history, image, result, output].map(|cut| cut.position());
    assert_eq!(places, [(1, 0), (7, 2), (9, 0), (usize::MAX, 0)]);
}
