//! What the end of a reply teaches about a window: that it was full, or that the prompt was cut to
//! it without a word.

use super::learn;
use super::lesson::Holds;
use crate::rewrite::overflow::{Evidence, Overflow, Parting, Verdict};
use crate::rewrite::sse::Finish;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::usage::Usage;

/// The smallest window that a cut prompt may show: the least that Ollama has ever defaulted to.
const LEAST: u32 = 2_048;
/// A cut prompt is counted at no more than this share of what was sent, in hundredths.
pub(super) const CUT_PERCENT: u32 = 60;
/// How far below the window a cut prompt may be counted: a server that drops whole messages drops
/// a little too much. A part of the window.
const BAND: u32 = 8;
/// How much larger a request has to be than one that was counted in the same band, so that it
/// would have left the band had the count grown with it: the inverse of what the band spans, less
/// one. A part of the smaller request.
const GROWTH: u32 = BAND - 1;
/// An output limit as small as this is used up at once: by a request that only warms a cache.
const TINY: Tokens = Tokens::new(16);

/// A request that was answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sent {
    /// The plain estimate of what was sent.
    pub estimate: Tokens,
    /// The output that it asked for, if it named one.
    pub output: Option<Tokens>,
    /// Whether it is all text. What a picture or a file is counted at, the estimate only guesses.
    pub text_alone: bool,
}

/// What the replies of one model have counted so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counted {
    /// The largest prompt.
    most: u32,
    /// That prompts are cut.
    suspicion: Option<Suspicion>,
}

/// A request that was counted just below what may be a window, and far below its size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Suspicion {
    /// The window, as the provider counts.
    window: u32,
    /// The plain estimate of the request.
    estimate: Tokens,
}

impl Counted {
    /// The largest prompt that was counted.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Reads the end of the reply to `sent`, which was relayed whole.
    pub fn read(&mut self, sent: Sent, parting: &Parting) -> Option<Holds> {
        let input = parting.usage.map(|usage| usage.input);
        let before = self.most;
        self.most = before.max(input.unwrap_or(0));
        if let Some(note) = stated(sent, parting) {
            return Some(note);
        }
        if parting.finish == Some(Finish::WindowFull) {
            return Some(Holds::at_most(full(sent.estimate, parting.usage)));
        }
        // Where more was counted before, this is no limit.
        if let Some(input) = input.filter(|&input| input >= LEAST && input >= before)
            && leaves_no_room(sent, parting)
        {
            let cut = Overflow {
                limit: Some(input),
                ..Overflow::silent()
            };
            let window = learn(sent.estimate, &cut);
            return Some(Holds::cutting(window, input));
        }
        let input = input.filter(|_| sent.text_alone)?;
        self.suspect(sent.estimate, input)
    }

    /// A prompt whose count stands still while its size grows is cut.
    ///
    /// The plain estimate may be far above any real count, for runs of spaces or base64, and some
    /// servers leave out what they had cached. So one count proves nothing. But a count in
    /// proportion would have left the band when the request grew by [`GROWTH`], and one that
    /// depends on a cache does not stay in the band for every request in between.
    fn suspect(&mut self, estimate: Tokens, input: u32) -> Option<Holds> {
        let more_than = |window: u32| self.most > window;
        self.suspicion = self.suspicion.filter(|was| !more_than(was.window));
        let low = input <= estimate.percent(CUT_PERCENT).get();
        let window = window_above(input).filter(|&window| low && !more_than(window));
        let Some(was) = self.suspicion else {
            self.suspicion = window.map(|window| Suspicion { window, estimate });
            return None;
        };
        if estimate < was.estimate {
            return None;
        }
        if window != Some(was.window) {
            self.suspicion = window.map(|window| Suspicion { window, estimate });
            return None;
        }
        (estimate >= was.estimate + was.estimate.over(GROWTH)).then(|| {
            self.suspicion = None;
            Holds::cutting(Tokens::new(was.window), was.window)
        })
    }
}

/// What an error within the reply says: it refuses the request as an error before it would have.
fn stated(sent: Sent, parting: &Parting) -> Option<Holds> {
    match parting.verdict {
        Verdict::Overflow(overflow) if overflow.evidence == Evidence::Stated => {
            Some(Holds::refused(sent.estimate, &overflow))
        }
        Verdict::FewerBytes
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::Overflow(_)
        | Verdict::SmallerOutput { .. }
        | Verdict::Unexplained => None,
    }
}

/// The window that prompt and output fill. Without a count, or with one that cannot be that of the
/// whole prompt, it is what was sent: that much is known to fit.
fn full(estimate: Tokens, usage: Option<Usage>) -> Tokens {
    let counted = usage.filter(|usage| usage.input >= estimate.over(2).get());
    counted.map_or(estimate, |usage| {
        let sum = usage.input.saturating_add(usage.output.unwrap_or(0));
        Tokens::new(sum).scaled(estimate, Tokens::new(usage.input))
    })
}

/// Whether the reply ended at its limit without a token: the prompt was cut to fill the window, so
/// that its count is the window's.
fn leaves_no_room(sent: Sent, parting: &Parting) -> bool {
    parting.finish == Some(Finish::Length)
        && !parting.said
        && parting.usage.is_some_and(|usage| usage.output == Some(0))
        && sent.output.is_none_or(|output| output > TINY)
}

/// The window that a prompt of `input` tokens may have been cut to: what local servers are started
/// with, 1,024 times a power of two, or half as much again.
fn window_above(input: u32) -> Option<u32> {
    let power = input.max(LEAST).checked_next_power_of_two()?;
    let between = power / 4 * 3;
    let window = if between >= input.max(LEAST) {
        between
    } else {
        power
    };
    (input > window - window / BAND).then_some(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parting(input: u32, output: u32, finish: Finish) -> Parting {
        Parting {
            usage: Some(Usage {
                input,
                output: Some(output),
                cached: None,
                ..Usage::default()
            }),
            finish: Some(finish),
            said: output > 0,
            verdict: Verdict::Fine,
        }
    }

    fn sent(estimate: u32) -> Sent {
        Sent {
            estimate: Tokens::new(estimate),
            output: None,
            text_alone: true,
        }
    }

    /// Reads replies that counted so much for requests of such a size; what was noted at the last.
    fn check(replies: &[(u32, u32)], expect: Option<u32>) {
        let mut counted = Counted::default();
        let mut noted = None;
        for &(estimate, input) in replies {
            assert_eq!(noted, None, "{replies:?}: noted before the last");
            noted = counted.read(sent(estimate), &parting(input, 50, Finish::Stop));
        }
        let expect = expect.map(|window| Holds::cutting(Tokens::new(window), window));
        assert_eq!(noted, expect, "{replies:?}");
    }

    #[test]
    fn a_count_that_stands_still_while_requests_grow_shows_the_window() {
        check(&[(10_000, 4_000), (11_429, 3_900)], Some(4_096));
        check(
            &[(10_000, 4_000), (10_500, 4_090), (11_428, 4_096)],
            Some(4_096),
        );
        check(&[(4_000, 2_048), (9_000, 2_000)], Some(2_048));
        check(&[(30_000, 12_288), (60_000, 12_000)], Some(12_288));
    }

    #[test]
    fn pictures_that_cost_less_than_they_are_estimated_at_show_nothing() {
        // 1,200 are estimated for each, and 85 are counted.
        let mut counted = Counted::default();
        for n in 0..8 {
            let pictures = Sent {
                text_alone: false,
                ..sent(11_000 + n * 1_200)
            };
            let stop = parting(4_000 + n * 12, 50, Finish::Stop);
            assert_eq!(counted.read(pictures, &stop), None);
        }
    }

    #[test]
    fn one_count_shows_nothing_whatever_its_size() {
        check(&[(10_000, 4_000)], None);
        check(&[(10_000, 4_000), (11_427, 3_900)], None);
        check(&[(10_000, 4_000), (9_000, 4_000)], None);
    }

    #[test]
    fn a_count_in_proportion_shows_nothing() {
        // Spaces or base64: a third of the estimate, whatever its size.
        let replies: Vec<(u32, u32)> = (0..40)
            .map(|n| (6_000 + n * 500, 2_000 + n * 166))
            .collect();
        check(&replies, None);
        check(&[(10_000, 3_585), (11_500, 4_123)], None);
        // More than three fifths of it is no cut.
        check(&[(6_000, 4_000), (6_800, 4_090)], None);
    }

    #[test]
    fn a_count_without_the_cache_shows_nothing() {
        check(
            &[
                (20_000, 1_900),
                (21_000, 700),
                (23_000, 1_950),
                (26_000, 3_000),
                (30_000, 1_900),
            ],
            None,
        );
        check(&[(20_000, 19_000), (21_000, 1_900), (30_000, 1_900)], None);
    }

    #[test]
    fn a_larger_count_lifts_the_suspicion() {
        check(&[(10_000, 4_000), (4_200, 4_200), (20_000, 4_000)], None);
    }

    #[test]
    fn a_window_that_is_said_to_be_full_is_prompt_and_output() {
        let full = |usage| {
            let parting = Parting {
                usage,
                ..parting(0, 1, Finish::WindowFull)
            };
            Counted::default().read(sent(10_000), &parting)
        };
        let usage = |input| Usage {
            input,
            output: Some(1_000),
            cached: None,
            ..Usage::default()
        };
        // Counted at twice the estimate: half the sum.
        let scaled = Holds::at_most(Tokens::new(10_500));
        assert_eq!(full(Some(usage(20_000))), Some(scaled));
        let sent = Holds::at_most(Tokens::new(10_000));
        assert_eq!(full(None), Some(sent));
        // What a server that leaves its cache out counts cannot be scaled by.
        assert_eq!(full(Some(usage(100))), Some(sent));
    }

    #[test]
    fn no_room_for_a_token_shows_what_the_prompt_was_cut_to() {
        let length = parting(8_192, 0, Finish::Length);
        let read = |sent, parting: &Parting| Counted::default().read(sent, parting);
        let cut = Holds::cutting(Tokens::new(8_192), 8_192);
        assert_eq!(read(sent(12_000), &length), Some(cut));
        let said = Parting {
            said: true,
            ..length
        };
        assert_eq!(read(sent(12_000), &said), None);
        let warming = Sent {
            output: Some(Tokens::new(1)),
            ..sent(12_000)
        };
        assert_eq!(read(warming, &length), None);
        assert_eq!(read(sent(12_000), &parting(9, 0, Finish::Length)), None);
        let mut counted = Counted::default();
        counted.read(sent(9_000), &parting(9_000, 5, Finish::Stop));
        assert_eq!(counted.read(sent(12_000), &length), None);
    }

    #[test]
    fn a_suspicion_begins_at_three_fifths_of_the_request_and_not_above() {
        check(&[(6_000, 3_600), (6_900, 3_600)], Some(4_096));
        // Each counted at a little more, the second by less than it grew.
        check(&[(5_900, 3_600), (6_750, 4_090)], None);
    }

    #[test]
    fn a_cut_prompt_is_counted_within_an_eighth_of_its_window() {
        check(&[(10_000, 3_585), (11_429, 3_585)], Some(4_096));
        check(&[(10_000, 3_584), (11_429, 3_584)], None);
    }

    #[test]
    fn a_smaller_request_leaves_a_suspicion_and_one_as_large_may_end_it() {
        check(
            &[(10_000, 4_000), (9_999, 1_000), (11_429, 3_900)],
            Some(4_096),
        );
        check(&[(10_000, 4_000), (10_000, 1_000), (11_429, 3_900)], None);
    }

    #[test]
    fn the_largest_prompt_that_was_counted_is_known() {
        let mut counted = Counted::default();
        assert_eq!(counted.most(), 0);
        for (input, most) in [(900, 900), (7_000, 7_000), (6_999, 7_000)] {
            counted.read(sent(8_000), &parting(input, 5, Finish::Stop));
            assert_eq!(counted.most(), most);
        }
    }

    #[test]
    fn an_error_that_states_an_overflow_shows_its_window_and_a_silent_one_nothing() {
        let read = |evidence| {
            let overflow = Overflow {
                evidence,
                limit: Some(8_000),
                used: Some(10_000),
                ..Overflow::silent()
            };
            let parting = Parting {
                verdict: Verdict::Overflow(overflow),
                ..parting(0, 0, Finish::Stop)
            };
            Counted::default().read(sent(9_000), &parting)
        };
        let holds = Holds {
            stated: Some(Tokens::new(8_000)),
            ..Holds::at_most(Tokens::new(7_200))
        };
        assert_eq!(read(Evidence::Stated), Some(holds));
        assert_eq!(read(Evidence::Silent), None);
    }

    #[test]
    fn a_limit_as_small_as_one_that_only_warms_a_cache_shows_nothing() {
        let read = |output| {
            let sent = Sent {
                output: Some(Tokens::new(output)),
                ..sent(12_000)
            };
            Counted::default().read(sent, &parting(8_192, 0, Finish::Length))
        };
        assert_eq!(read(16), None);
        for output in [17, 4_096] {
            let window = read(output).map(|holds| holds.window);
            assert_eq!(window, Some(Tokens::new(8_192)), "{output}");
        }
    }
}
