//! Tests of cut points: each clause of the rule at its edge.

use std::sync::Arc;

use super::*;
use crate::dialect::chat_completions::read;
use crate::policy::CompactionSettings;
use crate::policy::record::CompactionRecord;
use crate::pruning::rule::tests::rule;
use crate::units::tokens::Tokens;

/// Builds a body of one message a letter, each of a thousand characters. The letters are `u`ser,
/// `a`ssistant, `s`ystem, a `c`all alone, a call with its `r`easoning, a `t`ool's result.
pub(crate) fn body(letters: &str) -> String {
    let text = "x".repeat(1_000);
    let call =
        r#""tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]"#;
    let message = |letter| match letter {
        'a' => format!(r#"{{"role":"assistant","content":"{text}"}}"#),
        'c' => format!(r#"{{"role":"assistant","content":"{text}",{call}}}"#),
        'r' => {
            format!(r#"{{"role":"assistant","reasoning_content":"{text}","content":"",{call}}}"#)
        }
        's' => format!(r#"{{"role":"system","content":"{text}"}}"#),
        't' => format!(r#"{{"role":"tool","tool_call_id":"1","content":"{text}"}}"#),
        _ => format!(r#"{{"role":"user","content":"{text}"}}"#),
    };
    let messages: Vec<String> = letters.chars().map(message).collect();
    format!(r#"{{"messages":[{}]}}"#, messages.join(","))
}

/// Like [`body`], with other texts in the messages at the indices in `says`.
pub(crate) fn body_saying(letters: &str, says: &[(usize, &str)]) -> String {
    let (body, text) = (body(letters), "x".repeat(1_000));
    let said = |at| says.iter().find(|it| it.0 == at).map_or(&*text, |it| it.1);
    let mut pieces = body.split(&text);
    let start = pieces.next().unwrap().to_owned();
    let rest = pieces.enumerate();
    rest.fold(start, |body, (at, piece)| [&body, said(at), piece].concat())
}

/// Checks the cut of all of `letters` after the first message. `recent` computes the tokens to keep
/// from the conversation.
#[track_caller]
fn check(letters: &str, recent: impl Fn(&Conversation<'_>) -> Tokens, expect: Option<usize>) {
    let body = body(letters);
    let conversation = read(body.as_bytes()).unwrap();
    let keep_recent = recent(&conversation);
    let cut = find(&conversation, keep_recent, None, PinnedHead { end: 1 }, letters.len());
    assert_eq!(cut, expect, "{letters}");
}

/// Returns four times `tokens`, so that a quarter of the result allows the kept part to grow by
/// `tokens`.
fn four_times(tokens: Tokens) -> Tokens {
    tokens + tokens + tokens + tokens
}

const ONE: Tokens = Tokens::new(1);

#[test]
fn cut_keeps_at_least_keep_recent_to_the_token() {
    let letters = "uctctctct";
    check(letters, |it| it.tokens_of(5..9), Some(5));
    check(letters, |it| it.tokens_of(5..9) + ONE, Some(3));
    check(letters, |it| it.tokens_of(3..9) + ONE, Some(3));
    check(letters, |it| it.tokens_of(1..9) + ONE, None);
}

#[test]
fn a_unit_is_never_cut_in_two() {
    // The kept part begins within the second step.
    check("uctctct", |it| it.tokens_of(4..7), Some(3));
}

#[test]
fn a_turn_stays_whole_if_that_keeps_a_quarter_more_at_the_most() {
    let letters = "uauctctctctctctctctctct";
    let recent = |it: &Conversation<'_>| four_times(it.tokens_of(2..5));
    let body = body(letters);
    let conversation = read(body.as_bytes()).unwrap();
    let least = recent(&conversation);
    assert!(conversation.tokens_of(5..letters.len()) >= least);
    assert!(conversation.tokens_of(7..letters.len()) >= least);
    let cut_at =
        |keep_recent, upto| find(&conversation, keep_recent, None, PinnedHead { end: 1 }, upto);
    // End of the history at which message 5 has just enough after it to be the latest cut.
    let upto = (6..letters.len()).find(|&upto| conversation.tokens_of(5..upto) >= least).unwrap();
    assert_eq!(cut_at(least, upto), Some(2));
    let less = Tokens::new(least.get() - 4);
    assert_eq!(cut_at(less, upto), Some(5));
}

#[test]
fn a_run_of_reasoning_stays_whole_if_that_adds_as_much_at_the_most() {
    // The run begins at 3: each later step carries reasoning after a result.
    let letters = "uctctrtrtrt";
    let added = |it: &Conversation<'_>| it.tokens_of(3..7);
    check(letters, added, Some(3));
    check(letters, |it| added(it) - ONE, Some(7));
    check("uctctctctct", added, Some(7));
}

#[test]
fn steps_that_fit_their_room_stay() {
    let letters = "uctctctctct";
    let body = body(letters);
    let conversation = read(body.as_bytes()).unwrap();
    let mut results = PruneState::new(&conversation, Some(&rule()));
    results.ingest_until(letters.len());
    results.extend_clearable(Tokens::ZERO);
    let cut_with = |clearing, room| {
        let keep_recent = ONE;
        let steps = RetainedSteps { results: &results, clearing, room };
        let head = PinnedHead { end: 1 };
        find(&conversation, keep_recent, Some(steps), head, letters.len())
    };
    let size = |clearing, from| {
        conversation.tokens_of(from..letters.len())
            - results.frees_in(clearing, from..letters.len())
    };
    assert!(size(Clearing::UpToLimit, 3) < size(Clearing::Past, 3));
    for clearing in [Clearing::Past, Clearing::UpToLimit] {
        for cut in [3, 5, 7] {
            let room = size(clearing, cut);
            assert_eq!(cut_with(clearing, room), Some(cut), "{clearing:?}");
            // A step that does not fit whole goes.
            assert_eq!(cut_with(clearing, room - ONE), Some(cut + 2));
        }
        // The newest step stays without any room.
        assert_eq!(cut_with(clearing, Tokens::ZERO), Some(9));
    }
}

/// A provider that signs reasoning wants a turn to begin with it, though later steps carry no
/// reasoning.
#[test]
fn turn_that_starts_with_reasoning_stays_whole_up_to_twice_as_much() {
    let letters = "uauauacturtctctctct";
    let whole = |it: &Conversation<'_>| Tokens::new(it.tokens_of(9..19).get().div_ceil(2));
    check(letters, whole, Some(9));
    check(letters, |it| Tokens::new(whole(it).get() - 1), Some(13));
    // An earlier turn's reasoning does not belong to this turn.
    check("urtrtuctctctctct", |it| it.tokens_of(9..16), Some(8));
}

#[test]
fn falls_back_to_the_next_cut_if_none_keeps_enough() {
    // The kept part begins within the first unit that could be removed.
    check("uau", |it| it.tokens_of(1..3), Some(2));
    check("uct", |it| it.tokens_of(2..3), None);
}

#[test]
fn the_newest_unit_stays() {
    check("uctct", |_| ONE, Some(3));
    check("uacttt", |_| ONE, Some(2));
}

#[test]
fn unanswered_user_messages_stay() {
    check("uauu", |_| ONE, Some(2));
    check("uauau", |_| ONE, Some(4));
    check("uuu", |_| ONE, None);
    // A server message in between is not an answer.
    check("uaus", |_| ONE, Some(2));
    check("uus", |_| ONE, None);
}

/// The model has seen neither the results nor what the user typed meanwhile.
#[test]
fn results_stay_with_the_words_behind_them() {
    check("uctctu", |_| ONE, Some(3));
    check("uctctsuu", |_| ONE, Some(3));
    check("uctu", |_| ONE, None);
    check("uctau", |_| ONE, Some(4));
    let begins = |letters: &str| {
        let body = body(letters);
        read(body.as_bytes()).unwrap().newest_unit(letters.len())
    };
    assert_eq!(begins("uctctu"), 3);
    assert_eq!(begins("uctcttsu"), 3);
    // A call without a result joins the user message after it.
    assert_eq!(begins("uctcu"), 3);
}

#[test]
fn a_turn_with_manual_thinking_is_cut_only_before_a_step_with_thinking() {
    let cuts = |letters: &str, model: &str| {
        let body = body(letters).replacen('{', &format!(r#"{{"model":"{model}","#), 1);
        let conversation = read(body.as_bytes()).unwrap();
        let keep_recent = ONE;
        let (kept, upto) = (PinnedHead { end: 1 }, letters.len());
        let found = find(&conversation, keep_recent, None, kept, upto);
        (found, deepest(&conversation, kept, upto))
    };
    let manual = "claude-sonnet-4-5";
    assert_eq!(cuts("urtctctct", manual), (None, None));
    assert_eq!(cuts("urtctctct", "glm-5"), (Some(7), Some(7)));
    assert_eq!(cuts("urtctrtctct", manual), (Some(5), Some(5)));
    assert_eq!(cuts("uartctct", manual), (Some(2), Some(2)));
    // A finished turn may begin anywhere.
    assert_eq!(cuts("urtctctctauct", manual), (Some(11), Some(11)));
    let policy_keeping = |letters: &str, keep: usize| {
        let body = body(letters).replacen('{', &format!(r#"{{"model":"{manual}","#), 1);
        let conversation = read(body.as_bytes()).unwrap();
        let keep_recent = conversation.tokens_of(keep..letters.len());
        find(&conversation, keep_recent, None, PinnedHead { end: 1 }, letters.len())
    };
    assert_eq!(policy_keeping("urtctctctauauaua", 5), Some(5));
    assert_eq!(policy_keeping("uctrtctct", 5), Some(3));
    assert_eq!(policy_keeping("urtctctctrt", 5), Some(9));
}

#[test]
fn newest_unit_starts_before_the_given_end() {
    let begins = |letters: &str, upto| {
        let body = body(letters);
        read(body.as_bytes()).unwrap().newest_unit(upto)
    };
    assert_eq!(begins("uctctct", 7), 5);
    assert_eq!(begins("uctctct", 5), 3);
    assert_eq!(begins("uctctct", 6), 5);
    assert_eq!(begins("uau", 3), 2);
    assert_eq!(begins("uau", 2), 0);
    // The beginning of an answer to no message is a unit by itself.
    assert_eq!(begins("a", 1), 0);
    assert_eq!(begins("sa", 2), 1);
}

#[test]
fn deepest_cut_leaves_the_pinned_head_and_the_newest_unit() {
    let deepest_of = |letters: &str, end| {
        let body = body(letters);
        let conversation = read(body.as_bytes()).unwrap();
        deepest(&conversation, PinnedHead { end }, letters.len())
    };
    assert_eq!(deepest_of("uctctct", 1), Some(5));
    assert_eq!(deepest_of("uauu", 1), Some(2));
    assert_eq!(deepest_of("sua", 2), None);
    assert_eq!(deepest_of("suauc", 2), Some(4));
    assert_eq!(deepest_of("suauctct", 2), Some(6));
    assert_eq!(deepest_of("u", 1), None);
}

#[test]
fn a_question_and_the_beginning_of_its_answer_stay() {
    let cut = |letters: &str| {
        let body = body(letters);
        let conversation = read(body.as_bytes()).unwrap();
        let keep_recent = ONE;
        let (kept, upto) = (PinnedHead { end: 1 }, letters.len());
        let deepest = deepest(&conversation, kept, upto);
        assert_eq!(find(&conversation, keep_recent, None, kept, upto), deepest, "{letters}");
        deepest
    };
    assert_eq!(cut("sua"), None);
    assert_eq!(cut("suaua"), Some(3));
    assert_eq!(cut("suauua"), Some(3));
    assert_eq!(cut("suausa"), Some(3));
    // An answer after tool steps keeps the newest step, not the question before it.
    assert_eq!(cut("suctcta"), Some(4));
    // With two answers in a row, the newest unit begins at the first.
    assert_eq!(cut("suaa"), Some(2));
}

#[test]
fn a_turn_is_open_at_a_cut_after_its_request_or_results() {
    let open = |letters: &str, cut| {
        let body = body(letters);
        open_turn(&read(body.as_bytes()).unwrap(), cut)
    };
    assert_eq!(open("uauctct", 5), Some(2));
    assert_eq!(open("uauctct", 3), Some(2));
    assert_eq!(open("uauctct", 2), None);
    assert_eq!(open("uauctct", 4), None);
    assert_eq!(open("uauctct", 0), None);
    assert_eq!(open("sct", 3), None);
}

#[test]
fn a_summary_of_the_agents_own_is_kept_up_to_a_tenth_of_the_window() {
    let own =
        "This session is being continued from a previous conversation that ran out of context. ";
    let said = |text: &str, chars: usize| format!("{text}{}", "x".repeat(chars - text.len()));
    for (first, window, end) in [
        (said(own, 24_000), 64_000, 1),
        (said(own, 26_000), 64_000, 0),
        (said("Go on. ", 24_000), 64_000, 0),
        (said(own, 7_000), 200_000, 1),
    ] {
        let body = body_saying("uauau", &[(0, &first)]);
        let conversation = read(body.as_bytes()).unwrap();
        let policy = Policy::new(&CompactionSettings::default(), Tokens::new(window));
        let head = PinnedHead::new(&conversation, &policy, None);
        assert_eq!(head, PinnedHead { end }, "{}", first.len());
    }
}

#[test]
fn a_head_pinned_by_a_record_stays_pinned_in_a_smaller_window() {
    let first = "x".repeat(6_000);
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{first}"}},{{"role":"assistant","content":"y"}}]}}"#
    );
    let conversation = read(body.as_bytes()).unwrap();
    let small = Policy::new(&CompactionSettings::default(), Tokens::new(8_000));
    let wide = Policy::new(&CompactionSettings::default(), Tokens::new(200_000));
    assert_eq!(PinnedHead::new(&conversation, &small, None), PinnedHead { end: 0 });
    assert_eq!(PinnedHead::new(&conversation, &wide, None), PinnedHead { end: 1 });
    let base = RecordMatch {
        prefix_end: 2,
        adopted: true,
        record: Arc::new(CompactionRecord {
            text: Some("what stands for the rest".into()),
            history_from: 1,
            compacted_message_count: 2,
            ..CompactionRecord::default()
        }),
    };
    let kept = PinnedHead::new(&conversation, &small, Some(&base));
    assert_eq!(kept, PinnedHead { end: 1 });
}

#[test]
fn first_unanswered_is_the_first_user_message_after_the_last_answer() {
    for letters in ["", "u", "auu", "uuauusuact", "suasuctuutau", "cttuuuu", "aas"] {
        let body = body(letters);
        let conversation = read(body.as_bytes()).unwrap();
        for upto in 0..=letters.len() {
            let before = &letters[..upto];
            let whole = before.strip_suffix('a').unwrap_or(before);
            let answered = whole.rfind(['a', 'c']).map_or(0, |at| at + 1);
            let waits = before[answered..].find('u').map(|at| answered + at);
            assert_eq!(conversation.first_unanswered(upto), waits, "{letters} up to {upto}");
        }
    }
}

#[test]
fn a_thrashing_conversation_keeps_half_as_much() {
    let letters = "uctctctct";
    let body = body(letters);
    let conversation = read(body.as_bytes()).unwrap();
    let mut policy = Policy::new(&CompactionSettings::default(), Tokens::new(200_000));
    policy.keep_recent = conversation.tokens_of(5..9);
    let quick = ThrashState::restarted_at(1).after_requests(1, 2);
    for (thrash, expect) in [(quick, 5), (quick.after_requests(1, 3), 7)] {
        let steps = RetainedSteps {
            results: &PruneState::default(),
            clearing: Clearing::Past,
            room: policy.keep_recent,
        };
        let head = PinnedHead { end: 1 };
        let cut = find_adaptive(&conversation, &policy, steps, thrash, head, letters.len());
        assert_eq!(cut, Some(expect), "{thrash:?}");
    }
}
