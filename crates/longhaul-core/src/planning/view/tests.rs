//! Tests of a view: the forwarded content, its size, and the resulting record.

mod calls;
mod pictures;

use super::*;
use crate::dialect::chat_completions::read;
use crate::planning::history_fold::tests::{found, policy};
use crate::planning::history_fold::{HardThresholdMode, fold};
use crate::policy::cut_point::tests::body;
use crate::pruning::rule::tests::rule;

/// Instructions, a question and four steps, each a call and its result of a thousand characters.
/// The results are messages 3, 5, 7 and 9.
const STEPS: &str = "suctctctct";
/// Head with the instructions and the question.
const KEPT: PinnedHead = PinnedHead { end: 2 };
/// Text of the summary: 24 characters.
const TEXT: &str = "what stands for the rest";
/// Placeholder of a cleared result.
const CLEARED: &str = "[Old tool result content cleared]";

/// Builds a view in which the results before this message are cleared.
fn cleared(conversation: &Conversation<'_>, before: usize) -> ForwardedView {
    let mut prune_state = PruneState::new(conversation, Some(&rule()));
    prune_state.ingest_until(conversation.messages().len());
    prune_state.clear_before(before);
    ForwardedView::new(KEPT, &prune_state)
}

/// Builds a clip with 50 tokens of the beginning and 40 of the end.
fn clip(message: usize) -> Clip {
    Clip { message, head: Tokens::new(50), tail: Tokens::new(40) }
}

/// Describes the replacements of a view, if it has any.
fn cuts(view: &ForwardedView, conversation: &Conversation<'_>) -> Vec<String> {
    let plan = view.replacements(conversation);
    let cuts = plan.as_deref().unwrap_or_default();
    let words = |cut: &Replacement| match cut {
        Replacement::Arguments { result } => format!("{result} call clipped"),
        Replacement::History { from, to, text, .. } => format!("{from}..{to} {}", &**text),
        Replacement::Image { at, part } => format!("{at} image {part}"),
        Replacement::Output { tokens } => format!("output {tokens}"),
        Replacement::Provider { from, to, item } => format!("{from}..{to} {item}"),
        Replacement::Thinking { at } => format!("{at} without thinking"),
        Replacement::Words { at, text } => format!("{at} followed by {text}"),
        Replacement::Result { at, text, .. } if text == CLEARED => format!("{at} cleared"),
        Replacement::Result { at, text, .. } => {
            assert!(text.starts_with(&"x".repeat(200)) && text.ends_with(&"x".repeat(160)));
            // The note about the omitted text is between the two ends.
            assert!(text.contains("640 characters") && text.len() < 1_000);
            format!("{at} clipped")
        }
    };
    assert!(plan.is_none() || !cuts.is_empty());
    cuts.iter().map(words).collect()
}

/// Checks the replacements of a view of the steps, and the tokens that they save.
#[track_caller]
fn check(view: impl Fn(&Conversation<'_>) -> ForwardedView, expect: &[&str], saves: Tokens) {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let view = view(&conversation);
    assert_eq!(cuts(&view, &conversation), expect);
    let tokens = view.tokens(&conversation);
    assert_eq!(tokens, conversation.tokens() - saves);
}

/// Returns the size of a range of the steps.
fn run(from: usize, to: usize) -> Tokens {
    let body = body(STEPS);
    read(body.as_bytes()).unwrap().tokens_of(from..to)
}

/// Tokens freed by clearing a result: its size less the placeholder's.
const FREES: Tokens = Tokens::new(250 - 8);
/// Tokens saved by clipping a result, not counting the note.
const CLIPS: Tokens = Tokens::new(250 - 50 - 40);
/// Size of the summary in tokens.
const SUMMARY: Tokens = Tokens::new(6);

#[test]
fn view_replaces_cleared_clipped_and_summarised_content() {
    check(|it| cleared(it, 0), &[], Tokens::ZERO);
    check(|it| cleared(it, 6), &["3 cleared", "5 cleared"], FREES + FREES);
    let clipped = |it: &Conversation<'_>, clips: &[usize]| {
        let mut view = cleared(it, 6);
        for &at in clips {
            view.add_clips([clip(at)]);
        }
        view
    };
    let both = ["3 cleared", "5 cleared", "7 clipped"];
    check(|it| clipped(it, &[7]), &both, FREES + FREES + CLIPS);
    // A cleared result cannot be clipped, and saves tokens only once.
    check(|it| clipped(it, &[3, 7]), &both, FREES + FREES + CLIPS);
    check(|it| clipped(it, &[7, 7]), &both, FREES + FREES + CLIPS);
    let covered = |it: &Conversation<'_>, upto, clips: &[usize]| {
        let mut view = clipped(it, clips);
        view.set_replacement(upto, TEXT.into());
        view
    };
    let history = format!("2..4 {TEXT}");
    let saved = run(2, 4) - SUMMARY;
    check(|it| covered(it, 4, &[]), &[&history, "5 cleared"], saved + FREES);
    let history = format!("2..8 {TEXT}");
    let saved = run(2, 8) - SUMMARY;
    check(|it| covered(it, 8, &[]), &[&history], saved);
    check(|it| covered(it, 8, &[7]), &[&history], saved);
    check(|it| covered(it, 8, &[9]), &[&history, "9 clipped"], saved + CLIPS);
}

#[test]
fn a_later_clip_of_a_result_takes_the_place_of_an_earlier_one() {
    let smaller = Clip { head: Tokens::new(20), tail: Tokens::new(20), ..clip(7) };
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let mut view = cleared(&conversation, 0);
    for clip in [clip(5), clip(7), smaller] {
        view.add_clips([clip]);
    }
    assert_eq!(view.to_record(&conversation).clips, [clip(5), smaller]);
}

#[test]
fn no_replacement_is_made_if_the_summary_covers_no_messages() {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    for upto in 0..=3 {
        let mut view = cleared(&conversation, 0);
        view.set_replacement(upto, TEXT.into());
        assert!(view.is_condensed());
        assert_eq!(view.summarised_until(), upto.max(KEPT.end));
        assert_eq!(view.replacements(&conversation).is_some(), upto > KEPT.end, "{upto}");
    }
}

#[test]
fn output_limit_is_the_last_replacement() {
    let output = |it: &Conversation<'_>, before| {
        let mut view = cleared(it, before);
        view.set_output_limit(Tokens::new(100));
        view
    };
    check(|it| output(it, 0), &["output 100"], Tokens::ZERO);
    check(|it| output(it, 4), &["3 cleared", "output 100"], FREES);
}

#[test]
fn pruned_totals_exclude_summarised_results() {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    for (covers, pruned) in [
        (None, (3, FREES + FREES + FREES)),
        (Some(4), (2, FREES + FREES)),
        (Some(6), (1, FREES)),
        (Some(8), (0, Tokens::ZERO)),
    ] {
        let mut view = cleared(&conversation, 8);
        if let Some(covers) = covers {
            view.set_replacement(covers, TEXT.into());
        }
        assert_eq!(view.pruned_totals(), pruned, "{covers:?}");
        assert_eq!(view.is_pruned(), pruned.0 > 0);
        assert_eq!(view.is_condensed(), covers.is_some());
        assert_eq!(view.summary_tokens(), covers.map(|_| SUMMARY));
        assert_eq!(view.summarised_until(), covers.unwrap_or(KEPT.end));
    }
}

#[test]
fn hides_results_that_are_cleared_or_summarised() {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let mut view = cleared(&conversation, 8);
    let forgotten = |view: &ForwardedView| -> Vec<usize> {
        (0..STEPS.len()).filter(|&at| view.hides_result(at)).collect()
    };
    assert_eq!(forgotten(&view), [3, 5, 7]);
    view.set_replacement(6, TEXT.into());
    assert_eq!(forgotten(&view), [2, 3, 4, 5, 7]);
}

#[test]
fn changed_prefix_ends_after_the_last_changed_message() {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let reaches = |covers, cleared_before, clipped: &[usize], images| {
        let mut view = cleared(&conversation, cleared_before);
        view.set_replacement(covers, TEXT.into());
        for &at in clipped {
            view.add_clips([clip(at)]);
        }
        view.drop_images_before(images);
        view.changed_prefix_len()
    };
    assert_eq!(reaches(0, 0, &[], 0), 2);
    assert_eq!(reaches(6, 0, &[], 0), 6);
    assert_eq!(reaches(6, 8, &[], 0), 8);
    assert_eq!(reaches(6, 0, &[9, 3], 0), 10);
    assert_eq!(reaches(6, 0, &[], 9), 9);
    assert_eq!(reaches(6, 4, &[3], 5), 6);
}

#[test]
fn a_record_reproduces_the_view_in_the_next_request() {
    let body = body(STEPS);
    let conversation = read(body.as_bytes()).unwrap();
    let mut view = cleared(&conversation, 6);
    view.set_replacement(4, TEXT.into());
    for at in [3, 5, 7] {
        view.add_clips([clip(at)]);
    }
    view.drop_images_before(6);
    view.drop_images_before(5);
    view.set_thrash(ThrashState::restarted_at(10));
    assert_eq!(view.thrash(), ThrashState::restarted_at(10));
    let record = view.to_record(&conversation);
    let expect = CompactionRecord {
        text: Some(TEXT.into()),
        head: 1,
        history_from: 2,
        compacted_message_count: 4,
        cleared_before: 6,
        // The other clips have become invisible.
        clips: vec![clip(7)],
        images_before: 6,
        thrash: ThrashState::restarted_at(10),
        ..CompactionRecord::default()
    };
    assert_eq!(record, expect);
    let next = cleared(&conversation, 6).with_record(&record);
    assert_eq!(next.to_record(&conversation), expect);
    assert_eq!(cuts(&next, &conversation), cuts(&view, &conversation));
}

/// Builds instructions, a question, an answer, a call and its result, a question, an answer, a
/// question. All messages except the model's have an image after a long text.
fn album() -> String {
    let shows = |role: &str| {
        let text = "x".repeat(1_000);
        format!(
            r#"{{"role":"{role}","tool_call_id":"1","content":[{{"type":"text","text":"{text}"}},{{"type":"image_url","image_url":{{"url":"https://example.com/a.png"}}}}]}}"#
        )
    };
    let says = r#"{"role":"assistant","content":"I see."}"#.to_owned();
    let calls = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}"#.to_owned();
    let messages = [
        shows("system"),
        shows("user"),
        says.clone(),
        calls,
        shows("tool"),
        shows("user"),
        says,
        shows("user"),
    ];
    format!(r#"{{"messages":[{}]}}"#, messages.join(","))
}

/// Checks the replacements in the album when the images before this message are dropped.
#[track_caller]
fn check_images(
    before: usize,
    change: impl Fn(ForwardedView, &Conversation<'_>) -> ForwardedView,
    expect: &[&str],
) {
    let body = album();
    let conversation = read(body.as_bytes()).unwrap();
    let mut view = change(cleared(&conversation, 0), &conversation);
    let with_images = view.tokens(&conversation);
    assert!(!view.drops_images(&conversation));
    view.drop_images_before(before);
    assert_eq!(cuts(&view, &conversation), expect);
    // An image costs 1,200 tokens, its marker one.
    let gone = expect.iter().filter(|cut| cut.contains("image")).count();
    assert_eq!(view.drops_images(&conversation), gone > 0);
    let saves = Tokens::new(1_199 * u32::try_from(gone).unwrap());
    assert_eq!(with_images - view.tokens(&conversation), saves);
    check_replayed(&view, &conversation);
}

/// Checks that folding the view's conversation gives the same size.
#[track_caller]
fn check_replayed(view: &ForwardedView, conversation: &Conversation<'_>) {
    let record = view.to_record(conversation);
    if record.text.is_some() || record.cleared_before > 0 {
        return;
    }
    let messages = conversation.messages().len();
    let base = found(messages, record);
    let standing = fold(conversation, &policy(), KEPT, Some(&base), HardThresholdMode::Report, &[]);
    let head = conversation.tokens_of(0..conversation.head_len());
    let size = standing.size - head.round_up_to_eighth() + head;
    assert_eq!(size, view.tokens(conversation));
}

#[test]
fn images_are_dropped_up_to_the_limit_except_in_instructions() {
    let as_it_is = |view, _: &Conversation<'_>| view;
    check_images(0, as_it_is, &[]);
    check_images(1, as_it_is, &[]);
    check_images(2, as_it_is, &["1 image 1"]);
    check_images(7, as_it_is, &["1 image 1", "4 image 1", "5 image 1"]);
    let all = ["1 image 1", "4 image 1", "5 image 1", "7 image 1"];
    check_images(8, as_it_is, &all);
    check_images(99, as_it_is, &all);
}

#[test]
fn an_image_in_a_cleared_or_clipped_result_is_removed_with_it() {
    let rest = |result| ["1 image 1", result, "5 image 1"];
    check_images(6, |_, it| cleared(it, 5), &rest("4 cleared"));
    let clipped = |mut view: ForwardedView, _: &Conversation<'_>| {
        view.add_clips([clip(4)]);
        view
    };
    check_images(6, clipped, &rest("4 clipped"));
}

#[test]
fn a_message_merged_with_the_summary_keeps_its_images() {
    let covered = |placement, upto| {
        move |view: ForwardedView, _: &Conversation<'_>| {
            let mut view = ForwardedView { placement, ..view };
            view.set_replacement(upto, TEXT.into());
            view
        }
    };
    let history = |upto: usize| format!("2..{upto} {TEXT}");
    let (to_5, to_6) = (history(5), history(6));
    let check = |placement, upto, expect: &[&str]| {
        check_images(8, covered(placement, upto), expect);
    };
    let separate = ["1 image 1", &to_5, "5 image 1", "7 image 1"];
    check(Placement::Separate, 5, &separate);
    check(Placement::Merged, 5, &[&to_5, "7 image 1"]);
    check(Placement::Merged, 6, &[&to_6, "7 image 1"]);
    // Without a summary, no message is merged.
    let all = ["1 image 1", "4 image 1", "5 image 1", "7 image 1"];
    check_images(8, |view, _| ForwardedView { placement: Placement::Merged, ..view }, &all);
}
