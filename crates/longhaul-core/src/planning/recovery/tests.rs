//! Tests of recovery, step by step, each at the edge of its target.

mod requests;

use super::*;
use crate::dialect::chat_completions::read;
use crate::planning::history_fold::tests::{ALL, STEPS, clearing, found, policy, summary};
use crate::policy::PruneTrigger;
use crate::policy::cut_point::tests::{body, body_saying};
use crate::policy::record::CompactionRecord;
use crate::pruning::rule::PruneRule;
use crate::pruning::rule::tests::rule;

/// Tokens freed by clearing a result of a thousand characters: its size less the placeholder's.
const FREES: Tokens = Tokens::new(250 - 8);
const ONE: Tokens = Tokens::new(1);
const FAR: Tokens = Tokens::new(1_000_000);

/// Returns the policy with a recovery target of `target` and a largest input of `fit`.
fn aiming(policy: &Policy, target: Tokens, fit: Tokens) -> Policy {
    let mut policy = policy.clone();
    policy.thresholds.window = Tokens::new((target.get() * 5).div_ceil(3));
    policy.thresholds.actual_window = fit;
    assert_eq!(policy.thresholds.recovery_target(None), target);
    policy
}

/// Policy that clears no results and cuts the steps at 6, or else at 10.
fn cutting() -> Policy {
    Policy { keep_recent: of_steps(|it| it.tokens_of(6..ALL)), ..policy() }
}

fn of_steps<R>(ask: impl FnOnce(&Conversation<'_>) -> R) -> R {
    let body = body(STEPS);
    ask(&read(body.as_bytes()).unwrap())
}

/// View of the original conversation.
fn as_it_came(conversation: &Conversation<'_>, policy: &Policy) -> ForwardedView {
    ForwardedView::new(
        PinnedHead::new(conversation, policy, None),
        &PruneState::new(conversation, None),
    )
}

/// Describes a recovery decision: the end of the replaced history, and the clips with their
/// sizes.
fn told(recovery: RecoveryDecision) -> String {
    match recovery {
        RecoveryDecision::Summarise(cut) => format!("ask {cut}"),
        RecoveryDecision::GiveUp => "give up".to_owned(),
        RecoveryDecision::Retry(view, step) => {
            let clips = of_steps(|it| view.to_record(it).clips);
            let clips = clips.iter().map(|it| {
                assert_eq!(it.head, it.tail);
                format!(", {} at {}", it.message, it.head)
            });
            let step = format!("{step:?}").to_lowercase();
            format!("{step} {}{}", view.summarised_until(), clips.collect::<String>())
        }
    }
}

/// Describes the decision for the steps if they were refused in their original form.
fn climbs(policy: &Policy, known: &PriorRecords, summaries: SummarySource) -> String {
    of_steps(|it| told(plan_recovery(it, policy, known, &as_it_came(it, policy), summaries)))
}

fn nothing() -> PriorRecords {
    PriorRecords::default()
}

fn ready(record: CompactionRecord) -> PriorRecords {
    PriorRecords { ready: Some(found(ALL, record)), ..nothing() }
}

/// Returns `record` with a text of so many tokens.
fn saying(record: CompactionRecord, tokens: u32) -> CompactionRecord {
    CompactionRecord {
        text: Some("word".repeat(usize::try_from(tokens).unwrap()).into()),
        ..record
    }
}

/// Returns the smallest value whose nine tenths reach `tokens`.
fn ninth_more(tokens: Tokens) -> Tokens {
    Tokens::new((tokens.get() * 10).div_ceil(9))
}

#[test]
fn clearing_suffices_if_it_reaches_the_target_and_saves_a_tenth() {
    let cleared = of_steps(|it| it.tokens_of(0..ALL)) - times(FREES, 4);
    let clears = Policy {
        recovery_protect: Some([Tokens::ZERO; 2]),
        ..clearing(PruneTrigger::HardThreshold, rule())
    };
    let check = |target, refused: Tokens, clears_only| {
        let policy = aiming(&clears, target, FAR);
        let told = of_steps(|it| {
            let mut view = as_it_came(it, &policy);
            view.set_replacement(ALL - 2, "".into());
            let text = "word".repeat((refused - view.tokens(it)).to_chars() / 4);
            view.set_replacement(ALL - 2, text.into());
            assert_eq!(view.tokens(it), refused);
            told(plan_recovery(it, &policy, &nothing(), &view, SummarySource::Digest))
        });
        assert_eq!(told == "cleared 2", clears_only, "{told}");
    };
    let least = ninth_more(cleared);
    check(cleared, least, true);
    check(cleared - ONE, least, false);
    check(cleared, least - ONE, false);
    // A distant target does not justify a retry with hardly any gain.
    check(FAR.percent(10), least - ONE, false);
    let mut switched_off = aiming(&clears, cleared, FAR);
    switched_off.settings.recover = false;
    assert_eq!(climbs(&switched_off, &nothing(), SummarySource::Model), "give up");
    let no_rule = Policy { recovery_protect: None, ..aiming(&clears, cleared, FAR) };
    assert_ne!(climbs(&no_rule, &nothing(), SummarySource::Digest), "cleared 2");
}

#[test]
fn clears_only_what_the_rule_allows_if_that_reaches_the_target() {
    let whole = of_steps(|it| it.tokens_of(0..ALL));
    let protecting = PruneRule { protect: Tokens::new(600), ..rule() };
    let clears = Policy {
        recovery_protect: Some([protecting.protect, Tokens::ZERO]),
        ..clearing(PruneTrigger::HardThreshold, protecting)
    };
    let check = |target, expect| {
        let policy = aiming(&clears, target, FAR);
        let cleared = of_steps(|it| {
            let refused = as_it_came(it, &policy);
            let known = nothing();
            let recovery = plan_recovery(it, &policy, &known, &refused, SummarySource::Digest);
            let RecoveryDecision::Retry(view, RecoveryStep::Cleared) = recovery else {
                panic!("{recovery:?}");
            };
            (0..ALL).filter(|&at| view.is_cleared(at)).count()
        });
        assert_eq!(cleared, expect);
    };
    let by_rule = whole - times(FREES, 3);
    check(by_rule, 3);
    check(by_rule - ONE, 4);
}

fn times(tokens: Tokens, times: u32) -> Tokens {
    Tokens::new(tokens.get() * times)
}

#[test]
fn a_ready_record_is_used_if_it_suffices_and_can_be_sent() {
    let with = |covers, text| {
        of_steps(|it| it.tokens_of(0..2) + Tokens::new(text) + it.tokens_of(covers..ALL))
    };
    let policy = |target| aiming(&cutting(), target, FAR);
    let known = ready(saying(summary(6), 300));
    let is = |policy: &Policy, known| climbs(policy, known, SummarySource::Digest);
    assert_eq!(is(&policy(with(6, 300)), &known), "summary 6");
    assert_eq!(is(&policy(with(6, 300) - ONE), &known), "digest 6");
    // With wide characters, the text has more bytes than the history that it replaces.
    let wide = CompactionRecord { text: Some("\u{1f980}".repeat(1_200).into()), ..summary(6) };
    assert_eq!(is(&policy(with(6, 300)), &ready(wide)), "digest 6");
}

#[test]
fn requests_a_summary_only_if_it_could_reach_the_target() {
    // The summary is assumed to take a hundred tokens, scaled to the room beside the head.
    let with = |cut| of_steps(|it| it.tokens_of(0..2) + Tokens::new(99) + it.tokens_of(cut..ALL));
    let check = |target, summaries, expect: &str| {
        let policy = aiming(&cutting(), target, FAR);
        assert_eq!(climbs(&policy, &nothing(), summaries), expect);
    };
    check(with(6), SummarySource::Model, "ask 6");
    check(with(6) - ONE, SummarySource::Model, "ask 10");
    check(with(10), SummarySource::Model, "ask 10");
    check(with(10) - ONE, SummarySource::Model, "digest 10");
    // A digest is larger, because of the text that wraps it.
    check(with(6), SummarySource::Digest, "digest 10");
}

#[test]
fn a_digest_covers_no_more_history_than_needed() {
    let digest_at = |cut, target| {
        let policy = aiming(&cutting(), target, FAR);
        let told = climbs(&policy, &nothing(), SummarySource::Digest);
        assert_eq!(told, format!("digest {cut}"));
        of_steps(|it| {
            let view = as_it_came(it, &policy);
            let RecoveryDecision::Retry(view, _) =
                plan_recovery(it, &policy, &nothing(), &view, SummarySource::Digest)
            else {
                panic!("{told}");
            };
            assert_eq!(view.thrash(), ThrashState::restarted_at(ALL));
            view.tokens(it)
        })
    };
    let enough = digest_at(6, FAR.percent(10));
    assert_eq!(digest_at(6, enough), enough);
    let enough = digest_at(10, enough - ONE);
    assert_eq!(digest_at(10, enough), enough);
    // No cut is enough: the result is sent only if it fits.
    let check = |fit, expect| {
        let policy = aiming(&cutting(), Tokens::ZERO, fit);
        assert_eq!(climbs(&policy, &nothing(), SummarySource::Digest), expect);
    };
    check(enough, "digest 10");
    check(enough - ONE, "give up");
}

#[test]
fn history_covered_by_the_record_in_use_is_not_summarised_again() {
    let known = |covers| PriorRecords {
        adopted: Some(found(ALL, saying(summary(covers), 300))),
        ..nothing()
    };
    let with_record = of_steps(|it| {
        let policy = policy();
        as_it_came(it, &policy).with_record(&saying(summary(10), 300)).tokens(it)
    });
    let policy = |fit| aiming(&cutting(), with_record - Tokens::new(150), fit);
    for summaries in [SummarySource::Digest, SummarySource::Model] {
        let is = |covers, fit| climbs(&policy(fit), &known(covers), summaries);
        assert_eq!(is(10, FAR), "cleared 10");
        assert_eq!(is(10, with_record - ONE), "give up");
    }
    assert_eq!(climbs(&policy(FAR), &known(8), SummarySource::Model), "ask 10");
}

#[test]
fn a_digest_longer_than_its_history_is_not_used() {
    let short = [(2, "a"), (3, "b"), (4, "c")];
    for (says, expect) in [(&[][..], "clipped 5, 6 at 2000"), (&short, "clipped 2, 6 at 2200")] {
        let newest = "x".repeat(40_000);
        let body = body_saying("suauact", &[says, &[(6, &newest)]].concat());
        check(&body, &policy(), 5_200, expect);
    }
}

/// Checks the recovery of a body with room for so many tokens, which cannot reach its target.
#[track_caller]
fn check(body: &str, policy: &Policy, room: u32, expect: &str) {
    let conversation = read(body.as_bytes()).unwrap();
    let policy = aiming(policy, Tokens::ZERO, Tokens::new(room));
    let mut refused = as_it_came(&conversation, &policy);
    refused.set_replacement(0, "word".repeat(20_000).into());
    let known = nothing();
    let recovery = plan_recovery(&conversation, &policy, &known, &refused, SummarySource::Digest);
    assert_eq!(told(recovery), expect, "{room}");
}

#[test]
fn clips_the_newest_result_no_more_than_needed() {
    // There is room for `left` tokens of the result, the note among them.
    let check_left = |characters: usize, left: u32, expect: &str| {
        let newest = "x".repeat(characters);
        let body = body_saying("suct", &[(3, &newest)]);
        let conversation = read(body.as_bytes()).unwrap();
        let beside = conversation.tokens() - conversation.message(3).unwrap().text_tokens;
        check(&body, &policy(), beside.get() + left, expect);
    };
    check_left(40_000, 9_999, "clipped 2, 3 at 4900");
    check_left(40_000, 4_015, "clipped 2, 3 at 2000");
    check_left(40_000, 4_013, "clipped 2, 3 at 1900");
    check_left(40_000, 1_000, "clipped 2, 3 at 490");
    check_left(40_000, 400, "clipped 2, 3 at 200");
    check_left(40_000, 399, "give up");
}

#[test]
fn an_estimated_window_ends_no_retry_that_shrinks() {
    let estimated = Policy { is_window_stated: false, ..policy() };
    let body = body_saying("suct", &[(3, &"x".repeat(40_000))]);
    check(&body, &policy(), 100, "give up");
    check(&body, &estimated, 100, "clipped 2, 3 at 200");
}

#[test]
fn clips_the_largest_result_first_and_never_a_user_message() {
    let [small, large, medium] = [12_000, 40_000, 24_000].map(|it| "x".repeat(it));
    let body = body_saying("sucttt", &[(3, &small), (4, &large), (5, &medium)]);
    let all = read(body.as_bytes()).unwrap().tokens().get();
    let check_less = |less, expect| check(&body, &policy(), all - less, expect);
    check_less(3_000, "clipped 2, 4 at 3400");
    check_less(6_000, "clipped 2, 4 at 2400, 5 at 2400");
    check_less(12_000, "clipped 2, 3 at 1100, 4 at 1100, 5 at 1100");
    // The newest user message stays, however large it is.
    let body = body_saying("suctau", &[(5, &large)]);
    check(&body, &policy(), 9_000, "give up");
}

/// The user's words follow results that the model has not seen.
#[test]
fn unseen_results_are_clipped_and_never_summarised() {
    let large = "x".repeat(40_000);
    let body = body_saying("suctctu", &[(5, &large)]);
    check(&body, &policy(), 2_000, "clipped 4, 5 at 400");
}

#[test]
fn gives_up_if_the_retry_would_be_the_original_request() {
    let body = body("suct");
    let conversation = read(body.as_bytes()).unwrap();
    for is_window_stated in [true, false] {
        let policy = Policy { is_window_stated, ..aiming(&policy(), FAR.percent(10), FAR) };
        let mut refused = as_it_came(&conversation, &policy);
        refused.set_replacement(0, "word".repeat(1_000).into());
        let known = nothing();
        let recovery =
            plan_recovery(&conversation, &policy, &known, &refused, SummarySource::Model);
        assert_eq!(told(recovery), "give up");
    }
}
