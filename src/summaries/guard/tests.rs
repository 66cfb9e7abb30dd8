//! Tests of the limits on summaries.

use super::*;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::summary::SummaryRejection;

/// Hourly cap of one conversation.
const MOST: usize = 6;

/// Guards of callers that an upstream has accepted, each with a credential of its own.
fn fresh() -> SummaryGuards {
    let accepted = Arc::<AcceptedCallers>::default();
    for number in 0..=u8::MAX {
        accepted.insert_alone(scope(number).tag());
    }
    SummaryGuards::new(MOST, &Arc::default(), &accepted)
}

fn scope(number: u8) -> Scope {
    Scope::new(&[number; 32], &[])
}

/// A conversation that begins with `first`, after `turns` turns.
fn prefix_keys(first: &str, turns: usize) -> PrefixKeys {
    let turn = r#",{"role":"assistant","content":"a"},{"role":"user","content":"b"}"#;
    let body =
        format!(r#"{{"messages":[{{"role":"user","content":"{first}"}}{}]}}"#, turn.repeat(turns));
    PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope(0))
}

/// A conversation whose first reply is `reply`, after `turns` turns.
fn answered(reply: &str, turns: usize) -> PrefixKeys {
    let turn = r#",{"role":"assistant","content":"a"},{"role":"user","content":"b"}"#;
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"rules"}},{{"role":"user","content":"begin"}},{{"role":"assistant","content":"{reply}"}},{{"role":"user","content":"go"}}{}]}}"#,
        turn.repeat(turns)
    );
    PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope(0))
}

/// A permit for a whole conversation of `turns` turns and ten thousand tokens.
fn permit(guards: &SummaryGuards, caller: u8, first: &str, turns: usize) -> SummaryPermit {
    sized(guards, caller, &prefix_keys(first, turns), 10_000)
}

fn sized(
    guards: &SummaryGuards,
    caller: u8,
    prefix_keys: &PrefixKeys,
    tokens: u32,
) -> SummaryPermit {
    let (_, cut) = prefix_keys.newest().unwrap();
    guards.permit(scope(caller), prefix_keys, cut, Tokens::new(tokens))
}

/// Starts and ends a job for this permit; `is_taken` states whether its call was accepted.
fn asks(guards: &SummaryGuards, permit: &SummaryPermit, is_taken: bool) {
    let meter = Arc::new(CostMeter::new(&Arc::default(), None));
    let _counted = guards.record_start(permit, &meter);
    if is_taken {
        meter.start_call(0).mark_accepted();
    }
}

/// Runs a job for this permit that is refused in the body of a successful reply.
fn is_refused(guards: &SummaryGuards, permit: &SummaryPermit) {
    let meter = Arc::new(CostMeter::new(&Arc::default(), None));
    let _counted = guards.record_start(permit, &meter);
    let mut call = meter.start_call(0);
    call.mark_accepted();
    call.finish_free();
}

/// Uses up the process's hourly cap, each time with another conversation and over several callers.
fn spend(guards: &SummaryGuards, is_taken: bool) {
    for number in 0..hourly_caps::PER_PROCESS {
        let caller = u8::try_from(number / hourly_caps::PER_CALLER).unwrap() + 10;
        asks(guards, &permit(guards, caller, &number.to_string(), 1), is_taken);
    }
}

/// Guards after three failed summaries in a row, each for a longer history.
fn after_three_failures(failure: SummaryError) -> SummaryGuards {
    let guards = fresh();
    for turns in 1..=3 {
        let permit = permit(&guards, 1, "x", turns);
        assert!(guards.allows(&permit), "{turns}");
        guards.record_end(permit, Err(failure));
    }
    guards
}

#[tokio::test(start_paused = true)]
async fn three_failures_open_the_breaker_for_the_cut_and_its_descendants() {
    let guards = after_three_failures(SummaryError::NotASummary(SummaryRejection::Empty));
    assert!(!guards.allows(&permit(&guards, 1, "x", 3)));
    assert!(!guards.allows(&permit(&guards, 1, "x", 9)), "a descendant");
    assert!(guards.allows(&permit(&guards, 1, "x", 1)), "a fork before it");
    assert!(guards.allows(&permit(&guards, 1, "y", 3)), "another conversation");
}

#[tokio::test(start_paused = true)]
async fn health_reports_why_summaries_are_withheld() {
    let quiet = GuardHealth::default();
    let guards = fresh();
    assert_eq!(guards.health(), quiet);
    let busy = SummaryError::Refused(StatusCode::TOO_MANY_REQUESTS);
    guards.record_end(permit(&guards, 1, "x", 1), Err(busy));
    let paused = GuardHealth { paused: 1, ..quiet };
    assert_eq!(guards.health(), paused);
    let failing = after_three_failures(SummaryError::TimedOut);
    assert_eq!(failing.health(), GuardHealth { failing: 1, ..quiet });
    tokio::time::advance(PAUSE).await;
    assert_eq!((guards.health(), failing.health()), (quiet, quiet));
    for turns in 1..=MAX_UNUSED_PER_CONVERSATION as usize {
        let permit = guards.try_acquire_background(permit(&guards, 1, "y", turns));
        guards.record_end(permit.unwrap(), Ok(()));
    }
    assert_eq!(guards.health(), GuardHealth { unused: 1, ..quiet });
    guards.record_use(scope(1), &prefix_keys("y", 9));
    assert_eq!(guards.health(), quiet);
    spend(&guards, true);
    assert_eq!(guards.health(), GuardHealth { spent: true, spent_callers: 4, ..quiet });
}

#[tokio::test(start_paused = true)]
async fn open_breaker_allows_one_call_after_five_minutes() {
    let guards = after_three_failures(SummaryError::TimedOut);
    tokio::time::advance(Duration::from_mins(5)).await;
    let next = permit(&guards, 1, "x", 4);
    assert!(guards.allows(&next));
    guards.record_end(next, Err(SummaryError::TimedOut));
    assert!(!guards.allows(&permit(&guards, 1, "x", 5)), "open again at once");
}

#[tokio::test(start_paused = true)]
async fn open_breaker_allows_a_call_after_the_conversation_has_grown() {
    let guards = after_three_failures(SummaryError::Unreachable);
    let grown = prefix_keys("x", 8);
    assert!(!guards.allows(&sized(&guards, 1, &grown, 11_999)));
    assert!(guards.allows(&sized(&guards, 1, &grown, 12_000)));
}

#[tokio::test(start_paused = true)]
async fn throttled_upstream_pauses_summaries_of_that_caller() {
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let guards = fresh();
        guards.record_end(permit(&guards, 1, "x", 1), Err(SummaryError::Refused(status)));
        assert!(!guards.allows(&permit(&guards, 1, "y", 1)));
        assert!(guards.allows(&permit(&guards, 2, "x", 1)));
        tokio::time::advance(PAUSE).await;
        assert!(guards.allows(&permit(&guards, 1, "y", 1)));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_to_summarise_is_no_failure_and_success_resets_the_count() {
    let guards = fresh();
    let end = |turns, outcome| guards.record_end(permit(&guards, 1, "x", turns), outcome);
    for _ in 0..10 {
        end(1, Err(SummaryError::NothingToAsk));
    }
    end(1, Err(SummaryError::Unreachable));
    end(1, Err(SummaryError::Unreachable));
    end(2, Ok(()));
    end(3, Err(SummaryError::Unreachable));
    assert!(guards.allows(&permit(&guards, 1, "x", 3)));
}

#[tokio::test(start_paused = true)]
async fn only_one_background_summary_runs_per_caller() {
    let guards = fresh();
    let begin = |caller| guards.try_acquire_background(permit(&guards, caller, "x", 1));
    let first = begin(1).unwrap();
    assert!(begin(1).is_none());
    let _others = begin(2).unwrap();
    guards.record_end(first, Ok(()));
    assert!(begin(1).is_some());
}

#[tokio::test(start_paused = true)]
async fn dropped_permit_frees_the_background_place() {
    let guards = fresh();
    let begin = || guards.try_acquire_background(permit(&guards, 1, "x", 1));
    drop(begin().unwrap());
    assert!(begin().is_some());
}

#[tokio::test(start_paused = true)]
async fn background_summary_keeps_its_place_however_long_it_takes() {
    let guards = fresh();
    let begin = || guards.try_acquire_background(permit(&guards, 1, "x", 1));
    let first = begin().unwrap();
    tokio::time::advance(4 * PAUSE).await;
    assert!(begin().is_none());
    guards.record_end(first, Ok(()));
    assert!(begin().is_some());
}

#[tokio::test(start_paused = true)]
async fn throttled_chat_pauses_background_summaries_of_the_caller() {
    let guards = fresh();
    let begin = |caller| guards.try_acquire_background(permit(&guards, caller, "x", 1));
    guards.record_throttled_chat(scope(1));
    assert!(begin(1).is_none() && begin(2).is_some());
    // A foreground summary is still allowed: the request might not fit without it.
    assert!(guards.allows(&permit(&guards, 1, "x", 1)));
    tokio::time::advance(PAUSE).await;
    assert!(begin(1).is_some());
}

#[tokio::test(start_paused = true)]
async fn foreground_summaries_neither_end_nor_count_as_background_ones() {
    let guards = fresh();
    let waited = || permit(&guards, 1, "y", 1);
    let begin = || guards.try_acquire_background(permit(&guards, 1, "x", 1));
    for unused in 1..=MAX_UNUSED_PER_CONVERSATION {
        let behind = begin().unwrap();
        for outcome in [Ok(()), Err(SummaryError::NothingToAsk), Err(SummaryError::TimedOut)] {
            guards.record_end(waited(), outcome);
            assert!(begin().is_none(), "{outcome:?}");
        }
        guards.record_end(behind, Ok(()));
        let many = usize::from(unused == MAX_UNUSED_PER_CONVERSATION);
        assert_eq!(guards.health().unused, many, "{unused}");
    }
}

#[tokio::test(start_paused = true)]
async fn unused_background_summaries_prevent_further_ones() {
    let guards = fresh();
    let begin = |turns| guards.try_acquire_background(permit(&guards, 1, "x", turns));
    let grown = prefix_keys("x", 9);
    for turns in 1..=MAX_UNUSED_PER_CONVERSATION as usize {
        guards.record_end(begin(turns).unwrap(), Ok(()));
    }
    assert!(begin(9).is_none());
    let waited = permit(&guards, 1, "x", 9);
    assert!(guards.allows(&waited), "a foreground summary is always used");
    guards.record_use(scope(1), &prefix_keys("y", 9));
    assert!(begin(9).is_none(), "a summary of another conversation was used");
    let other = guards.try_acquire_background(permit(&guards, 1, "y", 1));
    assert!(other.is_some(), "another conversation");
    drop(other);
    guards.record_use(scope(1), &grown);
    assert!(begin(9).is_some());
}

#[tokio::test(start_paused = true)]
async fn use_in_another_process_counts_only_for_the_newest_summary() {
    let guards = fresh();
    let begin = |turns| guards.try_acquire_background(permit(&guards, 1, "x", turns));
    let grown = prefix_keys("x", 9);
    let made = |turns| prefix_keys("x", turns).newest().unwrap().1;
    for turns in 1..=MAX_UNUSED_PER_CONVERSATION as usize {
        guards.record_end(begin(turns).unwrap(), Ok(()));
    }
    guards.record_later_use(scope(1), &grown, made(1));
    assert!(begin(9).is_none(), "an older summary");
    guards.record_later_use(scope(1), &grown, made(MAX_UNUSED_PER_CONVERSATION as usize));
    assert_eq!(guards.health(), GuardHealth::default());
    assert!(begin(9).is_some());
}

#[tokio::test(start_paused = true)]
async fn unused_summaries_of_many_conversations_stop_the_caller() {
    let guards = fresh();
    let begin =
        |first: u32| guards.try_acquire_background(permit(&guards, 1, &first.to_string(), 1));
    for first in 0..MAX_UNUSED_PER_CALLER {
        guards.record_end(begin(first).unwrap(), Ok(()));
    }
    assert!(begin(MAX_UNUSED_PER_CALLER).is_none());
    let health = guards.health();
    assert_eq!((health.unused, health.unused_callers), (0, 1));
    assert!(guards.try_acquire_background(permit(&guards, 2, "x", 1)).is_some());
    guards.record_use(scope(1), &prefix_keys("0", 1));
    assert!(begin(MAX_UNUSED_PER_CALLER).is_some());
}

#[tokio::test(start_paused = true)]
async fn conversation_has_an_hourly_limit() {
    let guards = fresh();
    for turns in 1..=MOST {
        let permit = permit(&guards, 1, "x", turns);
        assert!(guards.allows(&permit));
        asks(&guards, &permit, true);
    }
    assert!(!guards.allows(&permit(&guards, 1, "x", 20)));
    assert!(guards.allows(&permit(&guards, 1, "y", 20)));
    tokio::time::advance(hourly_caps::HOUR).await;
    assert!(guards.allows(&permit(&guards, 1, "x", 20)));
}

#[tokio::test(start_paused = true)]
async fn conversations_with_equal_starts_have_separate_limits() {
    let guards = fresh();
    let permit = |reply, turns| sized(&guards, 1, &answered(reply, turns), 10_000);
    for turns in 0..MOST {
        asks(&guards, &permit("one", turns), true);
    }
    assert!(!guards.allows(&permit("one", MOST)));
    assert!(guards.allows(&permit("another", MOST)));
}

#[tokio::test(start_paused = true)]
async fn process_has_an_hourly_limit() {
    let guards = fresh();
    spend(&guards, true);
    assert!(!guards.allows(&permit(&guards, 2, "x", 1)));
    tokio::time::advance(hourly_caps::HOUR).await;
    assert!(guards.allows(&permit(&guards, 2, "x", 1)));
}

#[tokio::test(start_paused = true)]
async fn caller_has_an_hourly_limit_and_leaves_the_rest_to_others() {
    let guards = fresh();
    for number in 0..hourly_caps::PER_CALLER {
        let permit = permit(&guards, 1, &number.to_string(), 1);
        assert!(guards.allows(&permit), "{number}");
        asks(&guards, &permit, true);
    }
    assert!(!guards.allows(&permit(&guards, 1, "x", 1)));
    assert!(!guards.allows(&permit(&guards, 2, "x", 1)), "as new");
    tokio::time::advance(hourly_caps::NEWCOMER_AGE).await;
    assert!(!guards.allows(&permit(&guards, 1, "x", 1)));
    assert!(guards.allows(&permit(&guards, 2, "x", 1)));
    tokio::time::advance(hourly_caps::HOUR).await;
    assert!(guards.allows(&permit(&guards, 1, "x", 1)));
}

/// One caller with many keys uses up one share, however many its keys are.
#[tokio::test(start_paused = true)]
async fn new_callers_share_one_limit_and_leave_the_rest_to_earlier_ones() {
    let guards = fresh();
    let victim = || permit(&guards, 1, "victim", 1);
    assert!(guards.allows(&victim()), "seen before the others");
    tokio::time::advance(hourly_caps::NEWCOMER_AGE).await;
    let mut taken = 0;
    for caller in 2..u8::MAX {
        for number in 0..10 {
            let permit = permit(&guards, caller, &format!("{caller} {number}"), 1);
            if guards.allows(&permit) {
                asks(&guards, &permit, true);
                taken += 1;
            }
        }
    }
    assert_eq!(taken, hourly_caps::PER_CALLER);
    for number in 0..10 {
        let permit = permit(&guards, 1, &number.to_string(), 1);
        assert!(guards.allows(&permit), "{number}");
        asks(&guards, &permit, true);
    }
}

#[tokio::test(start_paused = true)]
async fn abandoned_calls_count_for_the_conversation_but_not_the_process() {
    let guards = fresh();
    for turns in 1..=MOST {
        let meter = Arc::new(CostMeter::new(&Arc::default(), None));
        let _counted = guards.record_start(&permit(&guards, 1, "x", turns), &meter);
        drop(meter.start_call(0));
    }
    assert!(!guards.allows(&permit(&guards, 1, "x", 20)));
    assert!(guards.allows(&permit(&guards, 2, "y", 1)), "seen before");
    tokio::time::advance(hourly_caps::NEWCOMER_AGE).await;
    for other in 0..hourly_caps::PER_PROCESS - 1 {
        let caller = u8::try_from(other / hourly_caps::PER_CALLER).unwrap() + 10;
        asks(&guards, &permit(&guards, caller, &other.to_string(), 1), true);
    }
    assert!(guards.allows(&permit(&guards, 2, "y", 1)), "the cap of the process");
}

#[tokio::test(start_paused = true)]
async fn unanswered_calls_count_only_while_they_run() {
    let guards = fresh();
    spend(&guards, false);
    assert!(guards.allows(&permit(&guards, 2, "x", 1)));
    assert_eq!(guards.health(), GuardHealth::default());
    let meter = Arc::new(CostMeter::new(&Arc::default(), None));
    let waits = || permit(&guards, 2, "x", 1);
    let under_way: Vec<_> = (0..MOST).map(|_| guards.record_start(&waits(), &meter)).collect();
    assert!(!guards.allows(&waits()));
    drop(under_way);
    assert!(guards.allows(&waits()));
}

#[tokio::test(start_paused = true)]
async fn refusals_under_a_success_status_do_not_count() {
    let guards = fresh();
    for number in 0..hourly_caps::PER_PROCESS {
        is_refused(&guards, &permit(&guards, 1, &number.to_string(), 1));
        is_refused(&guards, &permit(&guards, 1, "x", number));
    }
    assert!(guards.allows(&permit(&guards, 1, "x", 1)));
    assert_eq!(guards.health(), GuardHealth::default());
}

#[tokio::test(start_paused = true)]
async fn withheld_summaries_are_counted_by_reason() {
    let counted = |guards: &SummaryGuards| {
        let counts = guards.metrics.withheld.iter();
        let some = counts.filter(|(_, count)| *count > 0);
        some.collect::<Vec<_>>()
    };
    let guards = fresh();
    for turns in 1..=MOST {
        let permit = permit(&guards, 1, "x", turns);
        assert!(guards.allows(&permit));
        asks(&guards, &permit, true);
    }
    assert_eq!(counted(&guards), []);
    let spent = || permit(&guards, 1, "x", 20);
    assert!(!guards.allows(&spent()) && guards.try_acquire_background(spent()).is_none());
    assert_eq!(counted(&guards), [(WithheldReason::Conversation, 2)]);
    let failing = after_three_failures(SummaryError::TimedOut);
    assert!(!failing.allows(&permit(&failing, 1, "x", 3)));
    assert_eq!(counted(&failing), [(WithheldReason::Breaker, 1)]);
    let throttled = fresh();
    let busy = SummaryError::Refused(StatusCode::TOO_MANY_REQUESTS);
    throttled.record_end(permit(&throttled, 1, "x", 1), Err(busy));
    assert!(!throttled.allows(&permit(&throttled, 1, "y", 1)));
    assert_eq!(counted(&throttled), [(WithheldReason::Throttled, 1)]);
}

/// Anyone can make up credentials and histories whose summary fails.
#[tokio::test]
async fn failures_of_made_up_callers_end_no_pause_of_an_accepted_one() {
    let accepted = Arc::<AcceptedCallers>::default();
    accepted.insert_alone(scope(0).tag());
    let guards = SummaryGuards::new(MOST, &Arc::default(), &accepted);
    for _ in 0..MAX_FAILURES {
        guards.record_end(permit(&guards, 0, "x", 1), Err(SummaryError::TimedOut));
    }
    for caller in 1..=2 * u32::try_from(MAX_REMEMBERED).unwrap() {
        let scope = Scope::new(&[0; 32], &[&caller.to_le_bytes()]);
        let cut = scope.named_key("");
        // A second use makes the newer entry the one that is worth keeping.
        for _ in 0..2 {
            let permit = guards.permit(scope, &prefix_keys("", 0), cut, Tokens::new(10_000));
            guards.record_end(permit, Err(SummaryError::TimedOut));
        }
    }
    assert!(!guards.allows(&permit(&guards, 0, "x", 1)));
}
