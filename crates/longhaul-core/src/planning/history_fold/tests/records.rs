//! Tests of the effects of a record, and of thrash detection.

use super::*;
use crate::policy::thrash::ThrashState;
use crate::text::wording::wrap_summary;

/// Returns the thrash state after compactions at these lengths.
fn thrash(compactions: &[usize]) -> ThrashState {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    compactions
        .iter()
        .fold(ThrashState::default(), |thrash, &at| thrash.after_compaction(&conversation, at))
}

/// Record without changes that only stores the thrash state after these compactions, the last of
/// which made it.
fn paced(compactions: &[usize]) -> CompactionRecord {
    CompactionRecord { thrash: thrash(compactions), ..CompactionRecord::default() }
}

#[test]
fn a_record_clears_results_only_from_its_own_point_on() {
    let minimum = times(FREES, 2);
    let policy = clearing(PruneTrigger::Always, PruneRule { minimum, ..rule() });
    let record = CompactionRecord { cleared_before: 6, ..CompactionRecord::default() };
    // The rule fires at 10 messages, with three results to clear. It would not fire if two of them
    // had been cleared before.
    for (at, expect) in [(ALL, &RESULTS[..3]), (8, &RESULTS[..2])] {
        let base = found(at, record.clone());
        assert_eq!(cleared(&noted(&policy, Some(&base))), expect, "{at}");
    }
}

#[test]
fn a_compaction_is_quick_within_three_requests_of_the_last() {
    let compacted = 4;
    for (full_at, requests) in [(6, 1), (8, 2), (10, 3), (12, 4)] {
        let mut policy = policy();
        policy.thresholds.hard = size(full_at);
        let letters = &STEPS[..full_at];
        let body = body(letters);
        let conversation = read(body.as_bytes()).unwrap();
        let base = found(compacted, paced(&[compacted]));
        let standing = stand(&conversation, &policy, Some(&base), HardThresholdMode::Cut);
        assert!(standing.cut_here);
        assert_eq!(standing.thrash, thrash(&[compacted, full_at]), "{requests}");
    }
    assert_ne!(thrash(&[compacted, 10]), ThrashState::restarted_at(10));
    assert_eq!(thrash(&[compacted, 12]), ThrashState::restarted_at(12));
}

#[test]
fn second_quick_compaction_keeps_half_as_much_and_clips_a_result() {
    // From messages 10, 8 and 6 on, the steps before the newest cost 519, 2,288 and 2,807 tokens.
    let body = resized(9, 6_000);
    let conversation = read(body.as_bytes()).unwrap();
    let check = |compactions: &[usize], covers, clips: &[Clip]| {
        let mut policy = policy();
        policy.thresholds.hard = OUTSIDE + conversation.tokens_of(1..ALL);
        policy.keep_recent = Tokens::new(2_400);
        let base = found(8, paced(compactions));
        let standing = stand(&conversation, &policy, Some(&base), HardThresholdMode::Cut);
        assert_eq!(standing.summarised_until, covers);
        assert_eq!(standing.clips, clips);
        let text = Tokens::estimate_text(standing.text.as_deref().unwrap());
        let beside = OUTSIDE + run(1..2) + text;
        let clipped = times(Tokens::new(500), u32::try_from(clips.len()).unwrap());
        let stands = conversation.tokens_of(covers..ALL) - clipped;
        assert_eq!(standing.size, beside + stands);
    };
    let clip = Clip { message: 9, head: Tokens::new(500), tail: Tokens::new(500) };
    check(&[8], 6, &[]);
    check(&[6, 8], 8, &[clip]);
}

#[test]
fn a_thrashing_record_clears_and_clips_once_at_its_own_point() {
    let body = resized(7, 8_000);
    let conversation = read(body.as_bytes()).unwrap();
    let check = |policy: &Policy, base: &RecordMatch, results: &[usize], clips: &[usize]| {
        let policy = Policy { keep_recent: Tokens::new(2_400), ..policy.clone() };
        let standing = stand(&conversation, &policy, Some(base), HardThresholdMode::Report);
        let clipped: Vec<usize> = standing.clips.iter().map(|it| it.message).collect();
        assert_eq!((&*cleared(&standing), &*clipped), (results, clips));
    };
    let rule = clearing(PruneTrigger::HardThreshold, rule());
    let thrash = paced(&[6, 8, 10]);
    let once = paced(&[8, 10]);
    for at in [8, 10] {
        // Cleared results need no clip. The newest step at the time of the record stays, and so
        // does everything since.
        check(&rule, &found(at, thrash.clone()), &RESULTS[..3], &[]);
        check(&rule, &found(at, once.clone()), &[], &[]);
        check(&policy(), &found(at, thrash.clone()), &[], &[7]);
        check(&policy(), &found(at, once.clone()), &[], &[]);
    }
    // A result that the record has clipped already is as short as it gets.
    for (message, clips) in [(5, &[7][..]), (7, &[])] {
        let mut record = thrash.clone();
        let (head, tail) = (Tokens::new(200), Tokens::new(200));
        record.clips.push(Clip { message, head, tail });
        check(&policy(), &found(10, record), &[], clips);
    }
}

#[test]
fn what_stands_for_history_measures_what_it_is() {
    let sized = |tokens: usize| {
        let text = wrap_summary(&"x".repeat(4 * tokens));
        let record = CompactionRecord { text: Some(text.into()), ..summary(6) };
        noted(&policy(), Some(&found(ALL, record))).size
    };
    assert_eq!(sized(900), sized(1) + Tokens::new(899));
}
