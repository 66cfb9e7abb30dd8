//! What the end of a reply teaches about a window: that it was full, or that the prompt was cut to
//! it without a word.

use super::lesson::LearnedWindow;
use super::window_from_refusal;
use crate::rewrite::overflow::{Evidence, Overflow, ReplyEnd, Verdict};
use crate::rewrite::sse::FinishReason;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::usage::Usage;

/// The smallest window that a cut prompt may show: the least that Ollama has ever defaulted to.
const MIN_WINDOW: u32 = 2_048;
/// A cut prompt is counted at no more than this share of what was sent, in hundredths.
pub(super) const TRUNCATED_PERCENT: u32 = 60;
/// How far below the window a cut prompt may be counted: a server that drops whole messages drops
/// a little too much. A part of the window.
const BAND: u32 = 8;
/// How much larger a request has to be than one that was counted in the same band, so that it
/// would have left the band had the count grown with it: the inverse of what the band spans, less
/// one. A part of the smaller request.
const GROWTH: u32 = BAND - 1;
/// An output limit as small as this is used up at once: by a request that only warms a cache.
const TINY_OUTPUT: Tokens = Tokens::new(16);

/// A request that was answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SentSize {
    /// The plain estimate of what was sent.
    pub estimate: Tokens,
    /// The output that it asked for, if it named one.
    pub output_limit: Option<Tokens>,
    /// Whether it is all text. What a picture or a file is counted at, the estimate only guesses.
    pub is_text_only: bool,
}

/// What the replies of one model have counted so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WindowDetector {
    /// The largest prompt.
    largest_prompt: u32,
    /// That prompts are cut.
    suspicion: Option<TruncationSuspicion>,
}

/// A request that was counted just below what may be a window, and far below its size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct TruncationSuspicion {
    /// The window, as the provider counts.
    window: u32,
    /// The plain estimate of the request.
    estimate: Tokens,
}

impl WindowDetector {
    /// The largest prompt that was counted.
    pub fn largest_prompt(&self) -> u32 {
        self.largest_prompt
    }

    /// Reads the end of the reply to `sent`, which was relayed whole.
    pub fn observe_reply(&mut self, sent: SentSize, parting: &ReplyEnd) -> Option<LearnedWindow> {
        let input = parting.usage.map(|usage| usage.input);
        let before = self.largest_prompt;
        self.largest_prompt = before.max(input.unwrap_or(0));
        if let Some(note) = window_from_error(sent, parting) {
            return Some(note);
        }
        if parting.finish == Some(FinishReason::WindowFull) {
            return Some(LearnedWindow::at_most(filled_window(
                sent.estimate,
                parting.usage,
            )));
        }
        // Where more was counted before, this is no limit.
        if let Some(input) = input.filter(|&input| input >= MIN_WINDOW && input >= before)
            && left_no_room_for_output(sent, parting)
        {
            let cut = Overflow {
                limit: Some(input),
                ..Overflow::from_empty_reply()
            };
            let window = window_from_refusal(sent.estimate, &cut);
            return Some(LearnedWindow::truncating_to(window, input));
        }
        let input = input.filter(|_| sent.is_text_only)?;
        self.detect_truncation(sent.estimate, input)
    }

    /// A prompt whose count stands still while its size grows is cut.
    ///
    /// The plain estimate may be far above any real count, for runs of spaces or base64, and some
    /// servers leave out what they had cached. So one count proves nothing. But a count in
    /// proportion would have left the band when the request grew by [`GROWTH`], and one that
    /// depends on a cache does not stay in the band for every request in between.
    fn detect_truncation(&mut self, estimate: Tokens, input: u32) -> Option<LearnedWindow> {
        let more_than = |window: u32| self.largest_prompt > window;
        self.suspicion = self.suspicion.filter(|was| !more_than(was.window));
        let low = input <= estimate.percent(TRUNCATED_PERCENT).get();
        let window = window_above(input).filter(|&window| low && !more_than(window));
        let Some(was) = self.suspicion else {
            self.suspicion = window.map(|window| TruncationSuspicion { window, estimate });
            return None;
        };
        if estimate < was.estimate {
            return None;
        }
        if window != Some(was.window) {
            self.suspicion = window.map(|window| TruncationSuspicion { window, estimate });
            return None;
        }
        (estimate >= was.estimate + was.estimate.divided_by(GROWTH)).then(|| {
            self.suspicion = None;
            LearnedWindow::truncating_to(Tokens::new(was.window), was.window)
        })
    }
}

/// What an error within the reply says: it refuses the request as an error before it would have.
fn window_from_error(sent: SentSize, parting: &ReplyEnd) -> Option<LearnedWindow> {
    match parting.verdict {
        Verdict::Overflow(overflow) if overflow.evidence == Evidence::Stated => {
            Some(LearnedWindow::from_refusal(sent.estimate, &overflow))
        }
        Verdict::Failed
        | Verdict::TooManyBytes
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::Overflow(_)
        | Verdict::OutputTooLarge { .. }
        | Verdict::Unexplained => None,
    }
}

/// The window that prompt and output fill. Without a count, or with one that cannot be that of the
/// whole prompt, it is what was sent: that much is known to fit.
fn filled_window(estimate: Tokens, usage: Option<Usage>) -> Tokens {
    let counted = usage.filter(|usage| usage.input >= estimate.divided_by(2).get());
    counted.map_or(estimate, |usage| {
        let sum = usage.input.saturating_add(usage.output.unwrap_or(0));
        Tokens::new(sum).scaled(estimate, Tokens::new(usage.input))
    })
}

/// Whether the reply ended at its limit without a token: the prompt was cut to fill the window, so
/// that its count is the window's.
fn left_no_room_for_output(sent: SentSize, parting: &ReplyEnd) -> bool {
    parting.finish == Some(FinishReason::Length)
        && !parting.has_content
        && parting.usage.is_some_and(|usage| usage.output == Some(0))
        && sent.output_limit.is_none_or(|output| output > TINY_OUTPUT)
}

/// The window that a prompt of `input` tokens may have been cut to: what local servers are started
/// with, 1,024 times a power of two, or half as much again.
fn window_above(input: u32) -> Option<u32> {
    let power = input.max(MIN_WINDOW).checked_next_power_of_two()?;
    let between = power / 4 * 3;
    let window = if between >= input.max(MIN_WINDOW) {
        between
    } else {
        power
    };
    (input > window - window / BAND).then_some(window)
}

#[cfg(test)]
pub(crate) mod tests;
