//! Tests of the fold: each clause at its edge. The clearing rule is tested here.

mod cuts;
mod records;

use std::sync::Arc;

use super::*;
use crate::conversation::images;
use crate::dialect::chat_completions::read;
use crate::policy::cut_point::tests::{body, body_saying};
use crate::policy::record::CompactionRecord;
use crate::policy::{CompactionSettings, SummaryBudgets};
use crate::pruning::rule::PruneRule;
use crate::pruning::rule::tests::rule;

/// Instructions, a question and five steps, each a call and its result of a thousand characters.
/// The history was a request at 2, 4, 6, 8, 10 and 12 messages.
pub(crate) const STEPS: &str = "suctctctctct";
/// Number of messages in [`STEPS`].
pub(crate) const ALL: usize = STEPS.len();
/// Message indices of the results.
const RESULTS: [usize; 5] = [3, 5, 7, 9, 11];
/// Tokens freed by clearing one of the results: its size less the placeholder's.
const FREES: Tokens = Tokens::new(1_000 / 4 - 33 / 4);
const ONE: Tokens = Tokens::new(1);
const FAR: Tokens = Tokens::new(1_000_000);

/// Policy without a rule and with all thresholds out of reach. A summary is assumed to take a
/// hundred tokens, and everything but the newest content may be cut.
pub(crate) fn policy() -> Policy {
    let mut policy = Policy::new(&CompactionSettings::default(), Tokens::new(8_000));
    policy.prune = None;
    policy.weighs_clearing = false;
    policy.keep_recent = ONE;
    // No steps stay: a test of a cut names what it keeps.
    (policy.clear_target.percent, policy.cut_target.percent) = (0, 0);
    policy.prune_summary_size = Tokens::new(100);
    policy.budgets = SummaryBudgets {
        prose: Tokens::new(100),
        steps: Tokens::new(100),
        file_activity: Tokens::ZERO,
        identifiers: Tokens::ZERO,
        user_messages: Tokens::ZERO,
        agreements: Tokens::ZERO,
        requests: Tokens::ZERO,
    };
    for marks in [&mut policy.thresholds, &mut policy.prune_thresholds] {
        (marks.soft, marks.hard) = (FAR, FAR);
        marks.prune_target = FAR;
    }
    policy
}

/// Like [`policy`], with a rule that clears all but the newest results when it is applied.
pub(crate) fn clearing(when: PruneTrigger, rule: PruneRule) -> Policy {
    Policy { prune: Some((when, rule)), ..policy() }
}

/// Match of a record in use, for the prefix that ends at `at`.
pub(crate) fn found(at: usize, record: CompactionRecord) -> RecordMatch {
    RecordMatch { prefix_end: at, adopted: true, record: Arc::new(record) }
}

/// Match of a record without changes, for the prefix that ends at `at`.
fn nothing(at: usize) -> RecordMatch {
    found(at, CompactionRecord::default())
}

/// Summary of all messages between the question and `covers`.
pub(crate) fn summary(covers: usize) -> CompactionRecord {
    CompactionRecord {
        text: Some("what stands for the rest".into()),
        history_from: 2,
        compacted_message_count: covers,
        ..CompactionRecord::default()
    }
}

fn stand(
    conversation: &Conversation<'_>,
    policy: &Policy,
    base: Option<&RecordMatch>,
    hard_threshold_mode: HardThresholdMode,
) -> FoldOutcome {
    let kept = PinnedHead::new(conversation, policy, base);
    fold(conversation, policy, kept, base, hard_threshold_mode, &[])
}

/// Folds the steps without cutting at a threshold.
fn noted(policy: &Policy, base: Option<&RecordMatch>) -> FoldOutcome {
    let body = body(STEPS);
    stand(&read(body.as_bytes()).unwrap(), policy, base, HardThresholdMode::Report)
}

/// Folds the steps and cuts history at a threshold.
fn cut(policy: &Policy, base: Option<&RecordMatch>) -> FoldOutcome {
    let body = body(STEPS);
    stand(&read(body.as_bytes()).unwrap(), policy, base, HardThresholdMode::Cut)
}

fn cleared(standing: &FoldOutcome) -> Vec<usize> {
    standing.prune_state.cleared().map(|it| it.message).collect()
}

/// Returns the size of a range of the steps.
fn run(messages: Range<usize>) -> Tokens {
    let body = body(STEPS);
    read(body.as_bytes()).unwrap().tokens_of(messages)
}

/// Size of the instructions: 250 tokens, rounded up to a multiple of 16.
const OUTSIDE: Tokens = Tokens::new(256);

/// Returns the original size of the steps up to so many messages.
fn size(upto: usize) -> Tokens {
    OUTSIDE + run(1..upto)
}

fn times(tokens: Tokens, times: u32) -> Tokens {
    Tokens::new(tokens.get() * times)
}

#[test]
fn replay_size_reflects_summary_clearing_and_clips() {
    let check = |policy: &Policy, record: CompactionRecord, expect| {
        let size = noted(policy, Some(&found(ALL, record.clone()))).size;
        assert_eq!(size, expect, "{record:?}");
    };
    let none = policy();
    let rule = clearing(PruneTrigger::HardThreshold, rule());
    let clip = |message| Clip { message, head: Tokens::new(50), tail: Tokens::new(40) };
    let saves = Tokens::new(250 - 50 - 40);
    let cleared = |clips: &[Clip]| CompactionRecord {
        cleared_before: 6,
        clips: clips.to_vec(),
        ..CompactionRecord::default()
    };
    let covered = |clips: &[Clip]| CompactionRecord { clips: clips.to_vec(), ..summary(6) };
    let nominal = Tokens::estimate_text("what stands for the rest");
    check(&none, CompactionRecord::default(), size(ALL));
    check(&none, covered(&[]), OUTSIDE + run(1..2) + nominal + run(6..ALL));
    check(&rule, cleared(&[]), size(ALL) - times(FREES, 2));
    // A clip saves its omitted part if the result is still present.
    let both = times(FREES, 2) + saves;
    check(&rule, cleared(&[clip(5), clip(7)]), size(ALL) - both);
    let behind = nominal + run(6..ALL) - saves;
    check(&none, covered(&[clip(5), clip(7)]), OUTSIDE + run(1..2) + behind);
    // A clip of a missing message saves no tokens.
    check(&none, cleared(&[clip(99)]), size(ALL));
}

#[test]
fn a_clip_saves_tokens_unless_its_result_is_actually_cleared() {
    let exempt = PruneRule { exempt_tools: vec!["f".to_owned()], ..rule() };
    let clip = Clip { message: 5, head: Tokens::new(50), tail: Tokens::new(40) };
    let record =
        CompactionRecord { cleared_before: 8, clips: vec![clip], ..CompactionRecord::default() };
    let base = found(ALL, record);
    let standing = noted(&clearing(PruneTrigger::HardThreshold, exempt), Some(&base));
    assert_eq!(cleared(&standing), [0; 0]);
    assert_eq!(standing.size, size(ALL) - Tokens::new(250 - 50 - 40));
}

#[test]
fn small_instruction_changes_do_not_change_the_size() {
    let size_with = |instructions: usize| {
        let body = resized(0, instructions);
        let conversation = read(body.as_bytes()).unwrap();
        let head = conversation.tokens_of(0..1);
        let size = stand(&conversation, &policy(), None, HardThresholdMode::Report).size;
        (head, size)
    };
    let (least, size) = size_with(970);
    let (most, same) = size_with(1_000);
    assert!(least < most && most < OUTSIDE);
    assert_eq!(size, same);
    assert!(size < size_with(1_100).1);
}

#[test]
fn always_trigger_applies_the_rule_at_each_point_above_its_minimum() {
    let check = |minimum, expect: &[usize]| {
        let rule = PruneRule { minimum, ..rule() };
        let standing = noted(&clearing(PruneTrigger::Always, rule), None);
        assert_eq!(cleared(&standing), expect, "{minimum}");
    };
    check(Tokens::ZERO, &RESULTS[..4]);
    check(times(FREES, 2), &RESULTS[..3]);
    check(times(FREES, 4) - ONE, &RESULTS[..4]);
    check(times(FREES, 4), &[]);
}

#[test]
fn hard_threshold_trigger_clears_if_that_reaches_the_relief_threshold() {
    let check = |hard, relief, base: Option<&RecordMatch>, expect: &[usize]| {
        let mut policy = clearing(PruneTrigger::HardThreshold, rule());
        (policy.prune_thresholds.hard, policy.prune_thresholds.prune_target) = (hard, relief);
        for standing in [noted(&policy, base), cut(&policy, base)] {
            assert_eq!(cleared(&standing), expect, "{hard} {relief}");
            assert!(!standing.cut_here && !standing.summary_due);
        }
    };
    let (size, freed) = (size(ALL), times(FREES, 4));
    check(size, size - freed, None, &RESULTS[..4]);
    check(size + ONE, size - freed, None, &[]);
    check(size, size - freed - ONE, None, &[]);
    // A record determines everything up to the point at which it was made.
    check(size, size - freed, Some(&nothing(ALL - 2)), &RESULTS[..4]);
    check(size, size - freed, Some(&nothing(ALL)), &[]);
}

/// Like [`body`], with a picture in each message of `places`.
fn seen(letters: &str, places: &[usize]) -> String {
    let parts = format!(
        r#"[{{"type":"text","text":"{}"}},{{"type":"image_url","image_url":{{"url":"data:image/png;base64,x"}}}}]"#,
        "x".repeat(1_000)
    );
    let says: Vec<_> = places.iter().map(|&at| (at, "seen")).collect();
    body_saying(letters, &says).replace(r#""seen""#, &parts)
}

#[test]
fn an_image_dropped_from_summarised_history_saves_nothing_more() {
    let body = seen("suuctctct", &[2]);
    let conversation = read(body.as_bytes()).unwrap();
    let [none, dropped] = [0, 5].map(|images_before| {
        let record = CompactionRecord { images_before, ..summary(5) };
        let base = found(7, record);
        stand(&conversation, &policy(), Some(&base), HardThresholdMode::Report).size
    });
    assert_eq!(dropped, none);
}

/// However short a result has become, the conversation has the same size once it is cleared.
#[test]
fn tokens_already_saved_by_a_record_are_not_freed_again() {
    let body = seen(STEPS, &[5, 7, ALL - 1]);
    let conversation = read(body.as_bytes()).unwrap();
    let mut policy = clearing(PruneTrigger::HardThreshold, rule());
    policy.prune_thresholds.hard = OUTSIDE + run(1..2) + policy.prune_summary_size + ONE;
    let standing = stand(&conversation, &policy, None, HardThresholdMode::Report);
    assert_eq!(cleared(&standing), RESULTS[..4]);
    let clip = |message| Clip { message, head: Tokens::new(50), tail: Tokens::new(40) };
    let saves = Tokens::new(250 - 50 - 40);
    let (_, image) =
        images::image_parts(&conversation, conversation.message(ALL - 1).unwrap()).next().unwrap();
    // The newest result is not cleared, so its savings remain.
    for (clips, images_before, saved) in [
        (&[][..], 0, Tokens::ZERO),
        (&[clip(3), clip(5)], 0, Tokens::ZERO),
        (&[], 8, Tokens::ZERO),
        (&[clip(3), clip(5)], 8, Tokens::ZERO),
        (&[clip(ALL - 1)], 8, saves),
        (&[clip(5)], ALL, image),
    ] {
        let record = CompactionRecord {
            clips: clips.to_vec(),
            images_before,
            ..CompactionRecord::default()
        };
        let base = found(ALL - 2, record);
        for (short_of, expect) in [(Tokens::ZERO, &RESULTS[..4]), (ONE, &[])] {
            policy.prune_thresholds.prune_target = standing.size - saved - short_of;
            let stood = stand(&conversation, &policy, Some(&base), HardThresholdMode::Report);
            assert_eq!(cleared(&stood), expect, "{clips:?} {images_before} {short_of}");
        }
    }
}

#[test]
fn always_trigger_does_not_prune_at_the_hard_threshold() {
    let minimum = times(FREES, 4);
    let mut policy = clearing(PruneTrigger::Always, PruneRule { minimum, ..rule() });
    policy.prune_thresholds.hard = size(ALL);
    assert_eq!(cleared(&noted(&policy, None)), [0; 0]);
    assert!(!noted(&policy, None).pruning_suffices);
}

#[test]
fn hard_threshold_trigger_clears_nothing_if_fixed_content_leaves_no_room() {
    let leaves = size(ALL) - OUTSIDE - run(1..2);
    for (summary, expect) in [(leaves - ONE, &RESULTS[..4]), (leaves, &[])] {
        let mut policy = clearing(PruneTrigger::HardThreshold, rule());
        policy.prune_thresholds.hard = size(ALL);
        policy.prune_summary_size = summary;
        assert_eq!(cleared(&noted(&policy, None)), expect, "{summary}");
    }
}

#[test]
fn without_proactive_compaction_hard_threshold_pruning_needs_a_tenth_gain() {
    // The added text takes the size to where four results are a tenth of it, or just not.
    let ten = times(times(FREES, 4), 10);
    for (proactive, wanted, expect) in [
        (false, ten + Tokens::new(9), &RESULTS[..4]),
        (false, ten + Tokens::new(10), &[]),
        (true, ten, &[]),
    ] {
        let mut policy = clearing(PruneTrigger::HardThreshold, rule());
        policy.settings.proactive = proactive;
        policy.prune_thresholds.hard = wanted;
        policy.prune_thresholds.prune_target = Tokens::ZERO;
        let beside_its_text = run(1..2) - Tokens::new(250);
        let more = "x".repeat((wanted - size(ALL) - beside_its_text).to_chars());
        let body = and_then(STEPS, &more);
        let conversation = read(body.as_bytes()).unwrap();
        assert_eq!(OUTSIDE + conversation.tokens_of(1..ALL + 1), wanted);
        for hard_threshold_mode in [HardThresholdMode::Report, HardThresholdMode::Cut] {
            let standing = stand(&conversation, &policy, None, hard_threshold_mode);
            assert_eq!(cleared(&standing), expect, "{proactive} {wanted}");
            assert!(!standing.summary_due && !standing.cut_here);
        }
    }
}

#[test]
fn a_compaction_request_starts_nothing_new_and_keeps_earlier_clearing() {
    let stands = |said: &str| {
        let body = and_then(STEPS, said);
        let conversation = read(body.as_bytes()).unwrap();
        let mut policy = clearing(PruneTrigger::Always, rule());
        policy.prune = policy.prune.map(|(when, rule)| {
            let user_turns = 2;
            (when, PruneRule { user_turns, ..rule })
        });
        policy.thresholds.hard = size(ALL - 2);
        stand(&conversation, &policy, None, HardThresholdMode::Report)
    };
    // A user message starts the second turn, from which the rule clears.
    let other = stands("Go on, please.");
    assert_eq!(cleared(&other), RESULTS[..4]);
    assert!(other.can_compact && !other.blocked_by_turns);
    let order = stands("Summarize the conversation.");
    assert_eq!(cleared(&order), [0; 0]);
    assert!(!order.can_compact && !order.summary_due && !order.blocked_by_turns);
    let cleared_before = {
        let body = and_then(STEPS, "Summarize the conversation.");
        let conversation = read(body.as_bytes()).unwrap();
        let policy = clearing(PruneTrigger::Always, rule());
        cleared(&stand(&conversation, &policy, None, HardThresholdMode::Report))
    };
    // No request before this one contained the newest results.
    assert_eq!(cleared_before, RESULTS[..3]);
}

#[test]
fn blocked_by_turns_is_set_only_if_turns_alone_prevent_clearing() {
    let check = |when, minimum, user_turns, waits: bool| {
        let rule = PruneRule { minimum, user_turns, ..rule() };
        let standing = noted(&clearing(when, rule), None);
        assert_eq!(standing.blocked_by_turns, waits, "{when:?} {user_turns}");
        assert!(!waits || cleared(&standing).is_empty());
    };
    let most = times(FREES, 4);
    check(PruneTrigger::Always, Tokens::ZERO, 2, true);
    check(PruneTrigger::Always, Tokens::ZERO, 1, false);
    check(PruneTrigger::Always, most - ONE, 2, true);
    check(PruneTrigger::Always, most, 2, false);
    check(PruneTrigger::HardThreshold, Tokens::ZERO, 2, false);
}

/// Builds `letters`, followed by a user message with `text`.
fn and_then(letters: &str, text: &str) -> String {
    let body = body(letters);
    let before = body.strip_suffix("]}").unwrap();
    format!(r#"{before},{{"role":"user","content":"{text}"}}]}}"#)
}

/// Builds the steps, with so many characters in the message at `at`.
pub(crate) fn resized(at: usize, characters: usize) -> String {
    body_saying(STEPS, &[(at, &"x".repeat(characters))])
}
