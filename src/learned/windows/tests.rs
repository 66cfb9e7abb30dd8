//! Learning of windows.

use super::*;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::reply::FinishReason;
use longhaul_core::dialect::usage::Usage;
use longhaul_core::overflow::ReplyEnd;
use longhaul_core::overflow::{ClassifierRules, ClassifierStep, ReplyClassifier, Verdict};
use longhaul_core::window::reply_signals::SentSize;
use longhaul_core::window::window_from_refusal;

/// Builds the end of a reply with these counts.
fn reply_end(input: u32, output: u32, finish: FinishReason) -> ReplyEnd {
    ReplyEnd {
        usage: Some(Usage { input, output: Some(output), ..Usage::default() }),
        finish: Some(finish),
        has_content: output > 0,
        verdict: Verdict::Fine,
    }
}

/// Builds the size of a request without tools.
fn size(tokens: u32) -> RequestSize {
    RequestSize { tokens: Tokens::new(tokens), tools: Tokens::ZERO }
}

/// Builds a text request of this size.
fn sent(estimate: u32) -> SentSize {
    SentSize { estimate: Tokens::new(estimate), output_limit: None, is_text_only: true }
}

const REFUSED: &[u8] = br#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 32000 tokens. However, your messages resulted in 40000 tokens."}}"#;

fn overflow() -> Overflow {
    let mut reading =
        ReplyClassifier::new(Dialect::ChatCompletions, 400, ClassifierRules::standard(), None)
            .unwrap();
    assert_eq!(reading.push(REFUSED), ClassifierStep::Hold);
    let verdict = reading.finish();
    let Verdict::Overflow(overflow) = verdict else { panic!("{verdict:?}") };
    overflow
}

#[test]
fn refusal_teaches_the_window_in_estimated_tokens() {
    let windows = LearnedWindows::default();
    windows.learn_from_refusal("m", Tokens::new(30_000), &overflow());
    assert_eq!(windows.sizes("m").window(), Some(Tokens::new(24_000)));
    assert_eq!(windows.sizes("other"), LearnedSizes::default());
}

#[test]
fn request_well_below_the_limit_is_known_to_fit() {
    let windows = LearnedWindows::default();
    let limit = Some(Tokens::new(40_000));
    let proves = |request, is_set| {
        let sizes = windows.sizes("m");
        sizes.is_known_to_fit(size(request), limit, is_set)
    };
    assert!(proves(30_000, false) && proves(30_000, true));
    assert!(!proves(30_001, false));
}

#[test]
fn an_accepted_request_proves_smaller_ones_except_above_a_set_window() {
    let windows = LearnedWindows::default();
    let proves = |request, limit: Option<u32>, is_set| {
        let sizes = windows.sizes("m");
        sizes.is_known_to_fit(size(request), limit.map(Tokens::new), is_set)
    };
    assert!(!proves(1, None, false));
    windows.record_accepted("m", size(40_000));
    assert!(proves(36_000, None, false));
    assert!(!proves(36_500, None, false));
    // A real client's request: window set to 32,000, estimate 32,329.
    assert!(!proves(32_329, Some(32_000), true));
    assert!(proves(32_000, Some(32_000), true));
    assert!(proves(32_329, Some(32_000), false));
    let other_tools = RequestSize { tools: Tokens::new(9_000), ..size(10_000) };
    let sizes = windows.sizes("m");
    assert!(!sizes.is_known_to_fit(other_tools, None, false));
}

#[test]
fn learned_request_limit_expires_after_an_hour() {
    let windows = LearnedWindows::default();
    let limit = || windows.sizes("m").request_limit();
    windows.learn_request_limit(
        "m",
        Tokens::new(9_000),
        &Overflow::stated(Some(6_000), Some(9_000)),
    );
    assert_eq!(limit(), Some(Tokens::new(6_000)));
    assert_eq!(windows.sizes("m").window(), None);
    assert_eq!(windows.sizes("n").request_limit(), None);
    let replica = LearnedWindows::default();
    replica.merge_remote("m", &facts(&windows.sizes("m")));
    assert_eq!(replica.sizes("m").request_limit(), limit());
    windows.update("m", |sizes| {
        let long_ago = wall_clock::unix_millis() - REQUEST_LIMIT_TTL_MS - 1;
        let old = Timestamped::superseding(None, long_ago, Tokens::new(6_000));
        sizes.request_limit = Some(old);
    });
    assert_eq!(limit(), None);
}

#[test]
fn a_window_that_a_larger_request_disproves_is_forgotten() {
    let windows = LearnedWindows::default();
    windows.learn_from_refusal("m", Tokens::new(30_000), &overflow());
    // Less dense text may well fit up to the limit that the upstream stated.
    windows.record_accepted("m", size(32_000));
    assert_eq!(windows.sizes("m").window(), Some(Tokens::new(24_000)));
    windows.record_accepted("m", size(32_001));
    assert_eq!(windows.sizes("m").window(), None);
}

#[test]
fn truncation_window_persists_until_a_reply_counts_a_larger_input() {
    let windows = LearnedWindows::default();
    let stop = |input| reply_end(input, 5, FinishReason::Stop);
    for (estimate, input, learned) in [(10_000, 4_000, None), (12_000, 3_900, Some(4_096))] {
        windows.record_accepted("m", size(estimate));
        let ended = windows.learn_from_reply_end("m", sent(estimate), &stop(input));
        assert_eq!(ended.map(Tokens::get), learned);
    }
    windows.record_accepted("m", size(20_000));
    let shown = windows.sizes("m");
    assert_eq!(shown.window(), Some(Tokens::new(4_096)));
    assert!(!shown.is_known_to_fit(size(4_097), Some(Tokens::new(4_096)), false));
    assert_eq!(windows.learn_from_reply_end("m", sent(5_000), &stop(4_500)), None);
    assert_eq!(windows.sizes("m").window(), None);
}

#[test]
fn accepted_head_does_not_undo_the_window_from_the_reply_end() {
    let windows = LearnedWindows::default();
    windows.record_accepted("m", size(10_000));
    let full = reply_end(10_000, 2_000, FinishReason::WindowFull);
    let learned = windows.learn_from_reply_end("m", sent(10_000), &full);
    assert_eq!(learned, Some(Tokens::new(12_000)));
    assert_eq!(windows.sizes("m").window(), learned);
    assert_eq!(windows.learn_from_reply_end("m", sent(10_000), &full), None);
}

/// Returns the facts that a process publishes.
fn facts(sizes: &LearnedSizes) -> ModelFacts {
    ModelFacts {
        window: sizes.learned,
        token_ratio: sizes.published_ratio,
        accepted: sizes.published_accepted,
        request_limit: sizes.request_limit,
        ..ModelFacts::default()
    }
}

/// Returns facts that contain a window alone.
fn window_facts(window: Timestamped<Option<LearnedWindow>>) -> ModelFacts {
    ModelFacts { window: Some(window), ..ModelFacts::default() }
}

/// Exchanges the windows of two processes and returns both after the exchange.
fn exchanged(one: &LearnedWindows, other: &LearnedWindows) -> [Option<Tokens>; 2] {
    let (ones, others) = (one.sizes("m"), other.sizes("m"));
    one.merge_remote("m", &facts(&others));
    other.merge_remote("m", &facts(&ones));
    [one, other].map(|windows| windows.sizes("m").window())
}

#[test]
fn merging_keeps_a_window_the_other_process_never_learned() {
    let (one, other) = (LearnedWindows::default(), LearnedWindows::default());
    one.learn_from_refusal("m", Tokens::new(30_000), &overflow());
    let learned = Some(Tokens::new(24_000));
    _ = other.learn_from_reply_end("m", sent(10_000), &reply_end(12_000, 5, FinishReason::Stop));
    assert!(other.sizes("m").average_ratio.is_some());
    assert_eq!(exchanged(&one, &other), [learned; 2]);
    assert_eq!(one.sizes("m").average_ratio, other.sizes("m").average_ratio);
}

#[test]
fn a_window_disproved_in_one_process_is_forgotten_in_all() {
    let (one, other) = (LearnedWindows::default(), LearnedWindows::default());
    one.learn_from_refusal("m", Tokens::new(30_000), &overflow());
    let learned = Some(Tokens::new(24_000));
    assert_eq!(exchanged(&one, &other), [learned; 2]);
    other.record_accepted("m", size(32_001));
    assert_eq!(exchanged(&one, &other), [None; 2]);
    // Likewise if a third process learns the window that has accepted nothing.
    let third = LearnedWindows::default();
    third.learn_from_refusal("m", Tokens::new(30_000), &overflow());
    assert_eq!(exchanged(&third, &other), [None; 2]);
}

#[test]
fn accepted_size_outweighs_a_limit_stated_in_an_error() {
    let windows = LearnedWindows::default();
    windows.record_accepted("m", size(32_001));
    windows.learn_from_refusal("m", Tokens::new(40_000), &overflow());
    assert_eq!(windows.sizes("m").window(), None);
    assert_eq!(windows.sizes("m").largest_accepted, Tokens::new(32_001));
}

#[test]
fn window_from_a_refusal_expires_after_a_day_a_truncating_one_never() {
    let taken_over = |ago: u64, holds| {
        let windows = LearnedWindows::default();
        let lesson = Timestamped::superseding(None, wall_clock::unix_millis() - ago, Some(holds));
        windows.merge_remote("m", &window_facts(lesson));
        windows.sizes("m").window()
    };
    let window = Tokens::new(8_000);
    let refused = LearnedWindow::at_most(window);
    assert_eq!(taken_over(REFUSAL_TTL_MS - 60_000, refused), Some(window));
    assert_eq!(taken_over(REFUSAL_TTL_MS + 1, refused), None);
    let cut = LearnedWindow::truncating_to(window, 8_192);
    assert_eq!(taken_over(REFUSAL_TTL_MS + 1, cut), Some(window));
}

#[test]
fn ignores_and_replaces_windows_stamped_in_the_future() {
    const YEAR: u64 = 365 * REFUSAL_TTL_MS;
    for holds in [Some(LearnedWindow::at_most(Tokens::new(8_000))), None] {
        let windows = LearnedWindows::default();
        let lesson = Timestamped::superseding(None, wall_clock::unix_millis() + YEAR, holds);
        windows.merge_remote("m", &window_facts(lesson));
        assert_eq!(windows.sizes("m").learned, None);
        let (tokens, refused) = (Tokens::new(30_000), overflow());
        windows.learn_from_refusal("m", tokens, &refused);
        assert_eq!(windows.sizes("m").window(), Some(window_from_refusal(tokens, &refused)));
    }
}

#[test]
fn images_and_files_do_not_affect_the_text_ratio() {
    let windows = LearnedWindows::default();
    let file = SentSize { is_text_only: false, ..sent(10_000) };
    _ = windows.learn_from_reply_end("m", file, &reply_end(50_000, 5, FinishReason::Stop));
    assert_eq!(windows.sizes("m").average_ratio, None);
}

#[test]
fn republishes_the_average_ratio_once_it_moved_by_a_sixteenth() {
    let windows = LearnedWindows::default();
    let mut told = Vec::new();
    for input in [10_000, 10_100, 10_200, 20_000, 20_000] {
        _ = windows.learn_from_reply_end(
            "m",
            sent(10_000),
            &reply_end(input, 5, FinishReason::Stop),
        );
        told.push(windows.sizes("m").published_ratio);
    }
    assert!(told[0].is_some());
    assert_eq!((told[1], told[2]), (told[0], told[0]));
    assert!(told[3] > told[0] && told[4] > told[3], "{told:?}");
}

#[test]
fn suspected_truncation_alone_changes_nothing() {
    let windows = LearnedWindows::default();
    windows.record_accepted("m", size(11_000));
    let ended =
        windows.learn_from_reply_end("m", sent(10_000), &reply_end(4_000, 5, FinishReason::Stop));
    assert_eq!((ended, windows.sizes("m").window()), (None, None));
    assert!(windows.sizes("m").is_known_to_fit(size(10_000), None, false));
}

/// Builds the end of a stream that refuses the request.
fn refused_in_a_stream() -> ReplyEnd {
    ReplyEnd { verdict: Verdict::Overflow(overflow()), ..reply_end(0, 0, FinishReason::Stop) }
}

#[test]
fn refusal_contradicted_by_accepted_sizes_only_lowers_the_proven_size() {
    let windows = LearnedWindows::default();
    let proves = |request| windows.sizes("m").is_known_to_fit(size(request), None, false);
    windows.record_accepted("m", size(55_000));
    assert!(proves(50_000));
    // 32,000 of 40,000 tokens are four fifths of the 12,000.
    let ended = windows.learn_from_reply_end("m", sent(12_000), &refused_in_a_stream());
    assert_eq!((ended, windows.sizes("m").window()), (None, None));
    assert_eq!(windows.sizes("m").largest_accepted, Tokens::new(55_000));
    assert!(proves(9_599) && !proves(9_600) && !proves(50_000));
    // An answer to a larger request proves nothing about text as dense as the refused text.
    windows.record_accepted("m", size(60_000));
    assert!(!proves(9_600));
    windows.learn_from_refusal("m", Tokens::new(70_000), &overflow());
    assert!(proves(9_599) && !proves(9_600), "the smallest counts");
}

#[test]
fn doubt_about_a_size_expires_after_a_day() {
    let doubted = |ago: u64| {
        let mut shown = LearnedSizes {
            suspect_from: Some(Timestamped::superseding(
                None,
                wall_clock::unix_millis() - ago,
                Tokens::new(10),
            )),
            largest_accepted: Tokens::new(10),
            ..LearnedSizes::default()
        };
        shown.expire();
        !shown.is_known_to_fit(size(10), Some(Tokens::new(100)), false)
    };
    assert!(doubted(REFUSAL_TTL_MS - 60_000));
    assert!(!doubted(REFUSAL_TTL_MS + 1));
}

#[test]
fn refusal_without_a_number_teaches_no_less_than_was_accepted() {
    let learned = |accepted, refused| {
        let windows = LearnedWindows::default();
        windows.record_accepted("m", size(accepted));
        windows.learn_from_refusal("m", Tokens::new(refused), &Overflow::from_empty_reply());
        windows.sizes("m").window().map(Tokens::get)
    };
    assert_eq!(learned(29_000, 30_000), Some(29_000));
    assert_eq!(learned(20_000, 30_000), Some(27_000));
    assert_eq!(learned(30_000, 30_000), None);
}
