//! What is learned of windows, and what is not.

use super::*;
use crate::rewrite::overflow::{Reading, Rules, Step, Verdict};
use crate::rewrite::sse::Finish;
use crate::rewrite::window::learn;
use crate::rewrite::window::note::tests::{parting, sent};

const REFUSED: &[u8] = br#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 32000 tokens. However, your messages resulted in 40000 tokens."}}"#;

fn overflow() -> Overflow {
    let mut reading = Reading::new(400, Rules::standard()).unwrap();
    assert_eq!(reading.push(REFUSED), Step::Hold);
    let verdict = reading.end();
    let Verdict::Overflow(overflow) = verdict else {
        panic!("{verdict:?}")
    };
    overflow
}

#[test]
fn a_refusal_teaches_the_window_in_our_own_units() {
    let windows = Windows::default();
    windows.refused("m", Tokens::new(30_000), &overflow());
    assert_eq!(windows.of("m").window(), Some(Tokens::new(24_000)));
    assert_eq!(windows.of("other"), Shown::default());
}

#[test]
fn only_what_was_accepted_or_is_well_below_the_window_is_proven() {
    let windows = Windows::default();
    assert!(!windows.of("m").proves(Tokens::new(1), None));
    windows.accepted("m", Tokens::new(100));
    assert!(windows.of("m").proves(Tokens::new(100), None));
    assert!(!windows.of("m").proves(Tokens::new(101), None));
    windows.refused("m", Tokens::new(30_000), &overflow());
    assert!(windows.of("m").proves(Tokens::new(18_000), None));
    assert!(!windows.of("m").proves(Tokens::new(18_001), None));
}

#[test]
fn a_set_window_proves_what_is_well_below_it_until_another_is_learned() {
    let windows = Windows::default();
    let set = Some(Tokens::new(40_000));
    let proves = |request| windows.of("m").proves(Tokens::new(request), set);
    assert!(proves(30_000));
    assert!(!proves(30_001));
    windows.refused("m", Tokens::new(30_000), &overflow());
    assert!(proves(18_000));
    assert!(!proves(18_001));
}

#[test]
fn a_window_that_a_larger_request_disproves_is_forgotten() {
    let windows = Windows::default();
    windows.refused("m", Tokens::new(30_000), &overflow());
    // Where the text is less dense, as much as the upstream said may well fit.
    windows.accepted("m", Tokens::new(32_000));
    assert_eq!(windows.of("m").window(), Some(Tokens::new(24_000)));
    windows.accepted("m", Tokens::new(32_001));
    assert_eq!(windows.of("m").window(), None);
}

#[test]
fn a_window_that_prompts_are_cut_to_stays_whatever_is_accepted() {
    let windows = Windows::default();
    let stop = |input| parting(input, 5, Finish::Stop);
    for (estimate, input, learned) in [(10_000, 4_000, None), (12_000, 3_900, Some(4_096))] {
        windows.accepted("m", Tokens::new(estimate));
        let ended = windows.ended("m", sent(estimate), &stop(input));
        assert_eq!(ended.map(Tokens::get), learned);
    }
    windows.accepted("m", Tokens::new(20_000));
    let shown = windows.of("m");
    assert_eq!(shown.window(), Some(Tokens::new(4_096)));
    assert!(!shown.proves(Tokens::new(4_097), None));
    assert_eq!(windows.ended("m", sent(5_000), &stop(4_500)), None);
    assert_eq!(windows.of("m").window(), None);
}

#[test]
fn what_the_end_of_a_reply_shows_is_not_undone_by_its_head() {
    let windows = Windows::default();
    windows.accepted("m", Tokens::new(10_000));
    let full = parting(10_000, 2_000, Finish::WindowFull);
    let learned = windows.ended("m", sent(10_000), &full);
    assert_eq!(learned, Some(Tokens::new(12_000)));
    assert_eq!(windows.of("m").window(), learned);
    assert_eq!(windows.ended("m", sent(10_000), &full), None);
}

/// Of two processes, what each knows when both have told the other.
fn exchanged(one: &Windows, other: &Windows) -> [Option<Tokens>; 2] {
    let (ones, others) = (one.of("m"), other.of("m"));
    one.take_over("m", others.learned, others.told);
    other.take_over("m", ones.learned, ones.told);
    [one, other].map(|windows| windows.of("m").window())
}

#[test]
fn what_another_process_never_learned_erases_nothing_here() {
    let (one, other) = (Windows::default(), Windows::default());
    one.refused("m", Tokens::new(30_000), &overflow());
    let learned = Some(Tokens::new(24_000));
    _ = other.ended("m", sent(10_000), &parting(12_000, 5, Finish::Stop));
    assert!(other.of("m").density.is_some());
    assert_eq!(exchanged(&one, &other), [learned; 2]);
    assert_eq!(one.of("m").density, other.of("m").density);
}

#[test]
fn a_window_disproved_in_one_process_is_forgotten_in_all() {
    let (one, other) = (Windows::default(), Windows::default());
    one.refused("m", Tokens::new(30_000), &overflow());
    let learned = Some(Tokens::new(24_000));
    assert_eq!(exchanged(&one, &other), [learned; 2]);
    other.accepted("m", Tokens::new(32_001));
    assert_eq!(exchanged(&one, &other), [None; 2]);
    // And when another learns it that has accepted less.
    one.refused("m", Tokens::new(30_000), &overflow());
    assert_eq!(exchanged(&one, &other), [learned, None]);
    assert_eq!(exchanged(&one, &other), [None; 2]);
}

#[test]
fn what_was_accepted_counts_for_more_than_what_an_error_states() {
    let windows = Windows::default();
    windows.accepted("m", Tokens::new(32_001));
    windows.refused("m", Tokens::new(40_000), &overflow());
    assert_eq!(windows.of("m").window(), None);
    assert_eq!(windows.of("m").accepted, Tokens::new(32_001));
}

#[test]
fn a_refusal_is_believed_for_a_day_and_a_window_that_is_cut_to_for_good() {
    let taken_over = |ago: u64, holds| {
        let windows = Windows::default();
        let lesson = Lesson::over(None, wall_clock::millis() - ago, Some(holds));
        windows.take_over("m", Some(lesson), None);
        windows.of("m").window()
    };
    let window = Tokens::new(8_000);
    let refused = Holds::at_most(window);
    assert_eq!(taken_over(BELIEVED_FOR - 60_000, refused), Some(window));
    assert_eq!(taken_over(BELIEVED_FOR + 1, refused), None);
    let cut = Holds::cutting(window, 8_192);
    assert_eq!(taken_over(BELIEVED_FOR + 1, cut), Some(window));
}

#[test]
fn what_was_learned_under_a_clock_that_ran_ahead_is_not_believed_and_gives_way() {
    const YEAR: u64 = 365 * BELIEVED_FOR;
    for holds in [Some(Holds::at_most(Tokens::new(8_000))), None] {
        let windows = Windows::default();
        let lesson = Lesson::over(None, wall_clock::millis() + YEAR, holds);
        windows.take_over("m", Some(lesson), None);
        assert_eq!(windows.of("m").learned, None);
        let (tokens, refused) = (Tokens::new(30_000), overflow());
        windows.refused("m", tokens, &refused);
        assert_eq!(windows.of("m").window(), Some(learn(tokens, &refused)));
    }
}

#[test]
fn what_pictures_and_files_are_counted_at_says_nothing_of_text() {
    let windows = Windows::default();
    let file = Sent {
        text_alone: false,
        ..sent(10_000)
    };
    _ = windows.ended("m", file, &parting(50_000, 5, Finish::Stop));
    assert_eq!(windows.of("m").density, None);
}

#[test]
fn an_average_is_told_again_where_it_has_moved_by_a_sixteenth() {
    let windows = Windows::default();
    let mut told = Vec::new();
    for input in [10_000, 10_100, 10_200, 20_000, 20_000] {
        _ = windows.ended("m", sent(10_000), &parting(input, 5, Finish::Stop));
        told.push(windows.of("m").told);
    }
    assert!(told[0].is_some());
    assert_eq!((told[1], told[2]), (told[0], told[0]));
    assert!(told[3] > told[0] && told[4] > told[3], "{told:?}");
}

#[test]
fn a_suspicion_changes_nothing() {
    let windows = Windows::default();
    windows.accepted("m", Tokens::new(10_000));
    let ended = windows.ended("m", sent(10_000), &parting(4_000, 5, Finish::Stop));
    assert_eq!((ended, windows.of("m").window()), (None, None));
    assert!(windows.of("m").proves(Tokens::new(10_000), None));
}

/// The end of a stream that refuses what was sent after all.
fn refused_in_a_stream() -> Parting {
    Parting {
        verdict: Verdict::Overflow(overflow()),
        ..parting(0, 0, Finish::Stop)
    }
}

#[test]
fn a_refusal_that_what_was_accepted_speaks_against_changes_what_is_held_alone() {
    let windows = Windows::default();
    let proves = |request| windows.of("m").proves(Tokens::new(request), None);
    windows.accepted("m", Tokens::new(50_000));
    assert!(proves(50_000));
    // 32,000 of 40,000 are four fifths of 12,000.
    let ended = windows.ended("m", sent(12_000), &refused_in_a_stream());
    assert_eq!((ended, windows.of("m").window()), (None, None));
    assert_eq!(windows.of("m").accepted, Tokens::new(50_000));
    assert!(proves(9_599) && !proves(9_600) && !proves(50_000));
    // What is larger and answered says nothing of text as dense as that.
    windows.accepted("m", Tokens::new(60_000));
    assert!(!proves(9_600));
    windows.refused("m", Tokens::new(70_000), &overflow());
    assert!(proves(9_599) && !proves(9_600), "the smallest counts");
}

#[test]
fn a_size_is_doubted_for_a_day() {
    let doubted = |ago: u64| {
        let mut shown = Shown {
            doubted: Some(Lesson::over(
                None,
                wall_clock::millis() - ago,
                Tokens::new(10),
            )),
            accepted: Tokens::new(10),
            ..Shown::default()
        };
        shown.expire();
        !shown.proves(Tokens::new(10), None)
    };
    assert!(doubted(BELIEVED_FOR - 60_000));
    assert!(!doubted(BELIEVED_FOR + 1));
}

#[test]
fn a_refusal_without_a_number_shows_no_less_than_was_accepted() {
    let learned = |accepted, refused| {
        let windows = Windows::default();
        windows.accepted("m", Tokens::new(accepted));
        windows.refused("m", Tokens::new(refused), &Overflow::silent());
        windows.of("m").window().map(Tokens::get)
    };
    assert_eq!(learned(29_000, 30_000), Some(29_000));
    assert_eq!(learned(20_000, 30_000), Some(27_000));
    assert_eq!(learned(30_000, 30_000), None);
}
