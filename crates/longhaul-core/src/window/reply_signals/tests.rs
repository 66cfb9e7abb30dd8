//! Windows revealed by the ends of replies.

use super::*;

/// Builds the end of a reply with these counts.
fn reply_end(input: u32, output: u32, finish: FinishReason) -> ReplyEnd {
    ReplyEnd {
        usage: Some(Usage { input, output: Some(output), cached: None, ..Usage::default() }),
        finish: Some(finish),
        has_content: output > 0,
        verdict: Verdict::Fine,
    }
}

/// Builds a text request of this size.
fn sent(estimate: u32) -> SentSize {
    SentSize { estimate: Tokens::new(estimate), output_limit: None, is_text_only: true }
}

/// Observes replies with these (estimate, count) pairs and checks the window that the last reveals.
fn check(replies: &[(u32, u32)], expect: Option<u32>) {
    let mut counted = WindowDetector::default();
    let mut noted = None;
    for &(estimate, input) in replies {
        assert_eq!(noted, None, "{replies:?}: revealed before the last");
        noted = counted.observe_reply(sent(estimate), &reply_end(input, 50, FinishReason::Stop));
    }
    let expect = expect.map(|window| LearnedWindow::truncating_to(Tokens::new(window), window));
    assert_eq!(noted, expect, "{replies:?}");
}

#[test]
fn a_constant_count_of_growing_requests_reveals_the_window() {
    check(&[(10_000, 4_000), (11_429, 3_900)], Some(4_096));
    check(&[(10_000, 4_000), (10_500, 4_090), (11_428, 4_096)], Some(4_096));
    check(&[(4_000, 2_048), (9_000, 2_000)], Some(2_048));
    check(&[(30_000, 12_288), (60_000, 12_000)], Some(12_288));
}

#[test]
fn overestimated_images_reveal_no_window() {
    // Each picture is estimated at 1,200 tokens and counted at 85.
    let mut counted = WindowDetector::default();
    for n in 0..8 {
        let pictures = SentSize { is_text_only: false, ..sent(11_000 + n * 1_200) };
        let stop = reply_end(4_000 + n * 12, 50, FinishReason::Stop);
        assert_eq!(counted.observe_reply(pictures, &stop), None);
    }
}

#[test]
fn a_single_count_reveals_no_window() {
    check(&[(10_000, 4_000)], None);
    check(&[(10_000, 4_000), (11_427, 3_900)], None);
    check(&[(10_000, 4_000), (9_000, 4_000)], None);
}

#[test]
fn a_proportional_count_reveals_no_window() {
    // Spaces or base64: a third of the estimate at every size.
    let replies: Vec<(u32, u32)> = (0..40).map(|n| (6_000 + n * 500, 2_000 + n * 166)).collect();
    check(&replies, None);
    check(&[(10_000, 3_585), (11_500, 4_123)], None);
    // A count of more than three fifths of the estimate is not a truncation.
    check(&[(6_000, 4_000), (6_800, 4_090)], None);
}

#[test]
fn counts_without_cached_tokens_reveal_no_window() {
    check(
        &[(20_000, 1_900), (21_000, 700), (23_000, 1_950), (26_000, 3_000), (30_000, 1_900)],
        None,
    );
    check(&[(20_000, 19_000), (21_000, 1_900), (30_000, 1_900)], None);
}

#[test]
fn a_larger_count_clears_the_suspicion() {
    check(&[(10_000, 4_000), (4_200, 4_200), (20_000, 4_000)], None);
}

#[test]
fn a_full_window_is_prompt_plus_output() {
    let full = |usage| {
        let reply_end = ReplyEnd { usage, ..reply_end(0, 1, FinishReason::WindowFull) };
        WindowDetector::default().observe_reply(sent(10_000), &reply_end)
    };
    let usage = |input| Usage { input, output: Some(1_000), cached: None, ..Usage::default() };
    // Counted at twice the estimate: half the sum.
    let scaled = LearnedWindow::at_most(Tokens::new(10_500));
    assert_eq!(full(Some(usage(20_000))), Some(scaled));
    let sent = LearnedWindow::at_most(Tokens::new(10_000));
    assert_eq!(full(None), Some(sent));
    // A count that excludes the cache cannot be used for scaling.
    assert_eq!(full(Some(usage(100))), Some(sent));
}

#[test]
fn a_reply_without_output_reveals_the_truncated_size() {
    let length = reply_end(8_192, 0, FinishReason::Length);
    let read =
        |sent, reply_end: &ReplyEnd| WindowDetector::default().observe_reply(sent, reply_end);
    let cut = LearnedWindow::truncating_to(Tokens::new(8_192), 8_192);
    assert_eq!(read(sent(12_000), &length), Some(cut));
    let said = ReplyEnd { has_content: true, ..length };
    assert_eq!(read(sent(12_000), &said), None);
    let warming = SentSize { output_limit: Some(Tokens::new(1)), ..sent(12_000) };
    assert_eq!(read(warming, &length), None);
    assert_eq!(read(sent(12_000), &reply_end(9, 0, FinishReason::Length)), None);
    let mut counted = WindowDetector::default();
    counted.observe_reply(sent(9_000), &reply_end(9_000, 5, FinishReason::Stop));
    assert_eq!(counted.observe_reply(sent(12_000), &length), None);
}

#[test]
fn suspicion_starts_at_three_fifths_of_the_request() {
    check(&[(6_000, 3_600), (6_900, 3_600)], Some(4_096));
    // Both counts are slightly higher, and the second grew by less than the request.
    check(&[(5_900, 3_600), (6_750, 4_090)], None);
}

#[test]
fn a_truncated_prompt_is_counted_within_an_eighth_of_its_window() {
    check(&[(10_000, 3_585), (11_429, 3_585)], Some(4_096));
    check(&[(10_000, 3_584), (11_429, 3_583)], None);
}

#[test]
fn only_a_request_of_at_least_equal_size_ends_a_suspicion() {
    check(&[(10_000, 4_000), (9_999, 1_000), (11_429, 3_900)], Some(4_096));
    check(&[(10_000, 4_000), (10_000, 1_000), (11_429, 3_900)], None);
}

#[test]
fn tracks_the_largest_counted_prompt() {
    let mut counted = WindowDetector::default();
    assert_eq!(counted.largest_prompt(), 0);
    for (input, most) in [(900, 900), (7_000, 7_000), (6_999, 7_000)] {
        counted.observe_reply(sent(8_000), &reply_end(input, 5, FinishReason::Stop));
        assert_eq!(counted.largest_prompt(), most);
    }
}

#[test]
fn a_stated_overflow_reveals_the_window_and_an_empty_reply_does_not() {
    let read = |evidence| {
        let overflow = Overflow {
            evidence,
            limit: Some(8_000),
            used: Some(10_000),
            ..Overflow::from_empty_reply()
        };
        let reply_end = ReplyEnd {
            verdict: Verdict::Overflow(overflow),
            ..reply_end(0, 0, FinishReason::Stop)
        };
        WindowDetector::default().observe_reply(sent(9_000), &reply_end)
    };
    let holds = LearnedWindow {
        stated: Some(Tokens::new(8_000)),
        ..LearnedWindow::at_most(Tokens::new(7_200))
    };
    assert_eq!(read(Evidence::Stated), Some(holds));
    assert_eq!(read(Evidence::EmptyReply), None);
}

#[test]
fn cache_warming_output_limits_reveal_no_window() {
    let read = |output| {
        let sent = SentSize { output_limit: Some(Tokens::new(output)), ..sent(12_000) };
        WindowDetector::default().observe_reply(sent, &reply_end(8_192, 0, FinishReason::Length))
    };
    assert_eq!(read(16), None);
    for output in [17, 4_096] {
        let window = read(output).map(|holds| holds.window);
        assert_eq!(window, Some(Tokens::new(8_192)), "{output}");
    }
}
