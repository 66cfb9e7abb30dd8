//! Tests of cutting history at the hard threshold.

use super::*;
use crate::summary::digest::summary_budgets;

/// Policy whose hard threshold the steps just reach.
fn full() -> Policy {
    let mut policy = policy();
    policy.thresholds.hard = size(ALL);
    policy
}

/// Like [`full`], with a rule applied at its own threshold, `own_mark`, which is then enough.
fn full_and_clearing(own_mark: Tokens) -> Policy {
    let mut policy = clearing(PruneTrigger::HardThreshold, rule());
    policy.thresholds.hard = size(ALL);
    policy.prune_thresholds.hard = own_mark;
    policy
}

#[test]
fn a_summary_is_due_from_the_hard_threshold_on_to_the_token() {
    let check = |hard, proactive, due| {
        let mut policy = full();
        policy.thresholds.hard = hard;
        policy.settings.proactive = proactive;
        let standing = noted(&policy, None);
        assert_eq!((standing.summary_due, standing.cut_here), (due, false), "{hard}");
        let standing = cut(&policy, None);
        assert_eq!((standing.summary_due, standing.cut_here), (false, due), "{hard}");
        assert_eq!(standing.summarised_until, if due { ALL - 2 } else { 2 });
    };
    check(size(ALL), true, true);
    check(size(ALL) + ONE, true, false);
    check(size(ALL), false, false);
}

#[test]
fn cuts_at_the_point_where_the_hard_threshold_was_first_reached() {
    let mut policy = policy();
    policy.thresholds.hard = size(ALL - 2);
    assert_eq!(cut(&policy, None).summarised_until, ALL - 4);
}

#[test]
fn nothing_is_due_again_at_the_point_where_a_record_was_made() {
    for (at, due) in [(ALL - 2, true), (ALL, false)] {
        assert_eq!(noted(&full(), Some(&nothing(at))).summary_due, due);
        assert_eq!(cut(&full(), Some(&nothing(at))).cut_here, due);
    }
}

#[test]
fn compaction_cannot_help_if_fixed_content_leaves_no_room_for_a_summary() {
    let leaves = size(ALL) - OUTSIDE - run(1..2);
    for (summary, has_hope) in [(leaves - ONE, true), (leaves, false)] {
        let mut policy = full();
        policy.budgets.prose = summary;
        policy.thresholds.capacity = FAR;
        let standing = noted(&policy, None);
        assert_eq!((standing.can_compact, standing.summary_due), (has_hope, has_hope));
    }
}

#[test]
fn history_is_cut_where_that_gains_enough_and_no_less() {
    let policy = full();
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let kept = PinnedHead::new(&conversation, &policy, None);
    let mut both = [false; 2];
    for from in (4..ALL).step_by(2) {
        let policy = Policy { keep_recent: run(from..ALL), ..policy.clone() };
        let replay = HistoryFold::new(&conversation, &policy, kept, None, HardThresholdMode::Cut);
        // Instructions, question, summary, the newest steps.
        let beside = OUTSIDE + run(1..2) + run(from..ALL);
        let budgets = summary_budgets(&conversation, &policy, 2..from);
        let most = replay.largest_text(from, &budgets);
        let gains = beside + most <= size(ALL).percent(85);
        both[usize::from(gains)] = true;
        let standing = cut(&policy, None);
        assert_eq!((standing.cut_here, standing.summary_due), (gains, !gains));
        if gains {
            assert!(standing.size <= beside + most);
        } else {
            assert_eq!(standing.size, size(ALL));
        }
    }
    assert_eq!(both, [true; 2]);
}

#[test]
fn no_summary_is_due_after_clearing_has_made_room() {
    // Four steps reach the threshold; the rule fires with the fifth.
    for (minimum, due) in [(times(FREES, 3), false), (times(FREES, 4), true)] {
        let mut policy = clearing(PruneTrigger::Always, PruneRule { minimum, ..rule() });
        policy.thresholds.hard = size(ALL - 2);
        assert_eq!(noted(&policy, None).summary_due, due);
    }
}

#[test]
fn clearing_alone_takes_the_place_of_a_cut_if_it_makes_enough_room() {
    let fixed = OUTSIDE + run(1..2);
    let after = size(ALL) - times(FREES, 4);
    let mut both = [false; 2];
    for percent in (0..=100).step_by(5) {
        let mut policy = full_and_clearing(size(ALL));
        policy.clear_target.percent = percent;
        let suffices = after <= fixed + policy.clear_target.of(size(ALL) - fixed);
        both[usize::from(suffices)] = true;
        let standing = cut(&policy, None);
        assert_eq!(standing.cut_here, !suffices, "{percent}");
        assert_eq!(cleared(&standing), RESULTS[..4], "{percent}");
        if suffices {
            assert_eq!((standing.summarised_until, standing.size), (2, after));
        } else {
            assert!(standing.size < size(ALL).percent(85), "{percent}");
        }
        // No summary is asked for, either.
        assert_eq!(noted(&policy, None).summary_due, !suffices);
    }
    assert_eq!(both, [true; 2]);
}

#[test]
fn clearing_alone_leaves_the_text_of_an_earlier_cut() {
    let base = found(ALL - 2, summary(4));
    let full = noted(&policy(), Some(&base)).size;
    for (percent, cuts) in [(100, false), (0, true)] {
        let mut policy = full_and_clearing(full);
        policy.thresholds.hard = full;
        policy.clear_target.percent = percent;
        let standing = cut(&policy, Some(&base));
        assert_eq!(standing.cut_here, cuts, "{percent}");
        assert_eq!(standing.text.is_some(), cuts, "{percent}");
        assert_eq!(standing.summarised_until > 4, cuts, "{percent}");
        if !cuts {
            // The results 5, 7 and 9 of the steps that stay.
            assert_eq!(standing.size, full - times(FREES, 3));
        }
    }
}

#[test]
fn clearing_replaces_a_digest_cut_only_if_its_mark_is_nearer() {
    let check = |own_mark, standing: &FoldOutcome, expect: (bool, &[usize])| {
        let is = (standing.cut_here, &*cleared(standing));
        assert_eq!(is, expect, "{own_mark}");
    };
    let own_mark = size(ALL) - ONE;
    let policy = full_and_clearing(own_mark);
    check(own_mark, &cut(&policy, None), (false, &RESULTS[..4]));
    check(own_mark, &noted(&policy, None), (false, &RESULTS[..4]));
    let own_mark = size(ALL);
    let policy = full_and_clearing(own_mark);
    // The rule clears together with a cut.
    check(own_mark, &cut(&policy, None), (true, &RESULTS[..4]));
    // A summary stands in the place of the digest.
    let waits = noted(&policy, None);
    check(own_mark, &waits, (false, &[]));
    assert!(waits.summary_due);
    // Below its own threshold, the rule never clears.
    let own_mark = size(ALL) + ONE;
    let policy = full_and_clearing(own_mark);
    check(own_mark, &cut(&policy, None), (true, &[]));
}

#[test]
fn clearing_must_suffice_if_history_cannot_be_cut() {
    for (relief, due) in
        [(size(ALL) - times(FREES, 4), false), (size(ALL) - times(FREES, 4) - ONE, true)]
    {
        let mut policy = full_and_clearing(size(ALL));
        policy.keep_recent = FAR;
        policy.prune_thresholds.prune_target = relief;
        let standing = cut(&policy, None);
        assert_eq!((standing.summary_due, standing.cut_here), (due, false));
        assert_eq!(cleared(&standing).is_empty(), due);
    }
}

#[test]
fn pruning_suffices_if_its_mark_comes_first_and_it_frees_enough() {
    let (all, freed) = (size(ALL), times(FREES, 4));
    let check = |own_mark, hard, relief, suffices| {
        let mut policy = full_and_clearing(own_mark);
        (policy.thresholds.hard, policy.prune_thresholds.prune_target) = (hard, relief);
        let standing = noted(&policy, None);
        assert_eq!(standing.pruning_suffices, suffices, "{own_mark} {hard}");
        assert_eq!(cleared(&standing), [0; 0]);
    };
    check(all + ONE, all + ONE + ONE, all - freed, true);
    check(all + ONE, all + ONE + ONE, all - freed - ONE, false);
    check(all + ONE, all + ONE, all - freed, false);
}

#[test]
fn retained_messages_exclude_what_the_next_break_can_clear() {
    // A cut at 6: the messages from there to the end are six.
    let check = |policy: &mut Policy, stays| {
        (policy.thresholds.hard, policy.keep_recent) = (size(ALL), run(6..ALL));
        assert_eq!(cut(policy, None).summarised_until, 6);
        let body = body(STEPS);
        let conversation = read(body.as_bytes()).unwrap();
        let kept = PinnedHead::new(&conversation, policy, None);
        let replay = HistoryFold::new(&conversation, policy, kept, None, HardThresholdMode::Cut);
        assert_eq!(replay.surely_retained(6, ALL), stays);
    };
    check(&mut policy(), 6..ALL);
    let protecting = |when, protect| clearing(when, PruneRule { protect, ..rule() });
    check(&mut protecting(PruneTrigger::HardThreshold, run(6..ALL)), 6..ALL);
    check(&mut protecting(PruneTrigger::HardThreshold, run(6..ALL) - ONE), 7..ALL);
    check(&mut protecting(PruneTrigger::HardThreshold, run(9..ALL)), 9..ALL);
    check(&mut protecting(PruneTrigger::HardThreshold, Tokens::ZERO), ALL..ALL);
    check(&mut protecting(PruneTrigger::Always, FAR), ALL..ALL);
}

/// Builds a turn of ten steps with thinking and large results, as `model` would, and what follows.
fn thought_over(model: &str, then: &str) -> String {
    let step = |at: usize| {
        let text = "x".repeat(40_000);
        format!(
            r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"so it must be","signature":"c2ln"}},
            {{"type":"tool_use","id":"t{at}","name":"f","input":{{}}}}]}},
            {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{at}","content":"{text}"}}]}}"#
        )
    };
    let steps: Vec<String> = (0..10).map(step).collect();
    let steps = steps.join(",");
    format!(
        r#"{{"model":"{model}","max_tokens":9,"messages":[{{"role":"user","content":"Go."}},{steps}{then}]}}"#
    )
}

#[test]
fn clearing_that_no_window_forces_spares_bound_reasoning_until_a_turn_begins() {
    let mut policy = clearing(PruneTrigger::Always, rule());
    policy.weighs_clearing = true;
    policy.settings.proactive = false;
    for marks in [&mut policy.thresholds, &mut policy.prune_thresholds] {
        marks.window_hard_threshold = FAR;
    }
    let turn = r#",{"role":"assistant","content":"Done."},{"role":"user","content":"Next."}"#;
    let much = format!(
        r#",{{"role":"assistant","content":[{{"type":"thinking","thinking":"{}","signature":"c2ln"}},{{"type":"text","text":"Done."}}]}},{{"role":"user","content":"Next."}}"#,
        "hm ".repeat(20_000)
    );
    for (model, then, clears) in [
        ("claude-opus-4-5", "", true),
        ("claude-opus-5-5", "", false),
        ("claude-opus-5-5", turn, true),
        // Reasoning costs more than clearing frees.
        ("claude-opus-5-5", &*much, false),
        ("claude-opus-4-5", &*much, true),
    ] {
        let body = thought_over(model, then);
        let conversation = crate::dialect::messages::read(body.as_bytes()).unwrap();
        let standing = stand(&conversation, &policy, None, HardThresholdMode::Report);
        assert_eq!(!cleared(&standing).is_empty(), clears, "{model} {}", then.len());
    }
}

#[test]
fn clearing_alone_has_to_leave_less_if_reasoning_is_bound() {
    let mut policy = full_and_clearing(Tokens::new(45_000));
    policy.thresholds.hard = Tokens::new(45_000);
    (policy.clear_target.percent, policy.bound_target.percent) = (100, 0);
    for (model, cuts) in [("claude-opus-4-5", false), ("claude-opus-5-5", true)] {
        let body = thought_over(model, "");
        let conversation = crate::dialect::messages::read(body.as_bytes()).unwrap();
        let standing = stand(&conversation, &policy, None, HardThresholdMode::Cut);
        assert!(!cleared(&standing).is_empty(), "{model}");
        assert_eq!(standing.cut_here, cuts, "{model}");
    }
}
