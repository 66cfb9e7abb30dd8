//! Detection of a window from the end of a reply: the window was full, or the server silently
//! truncated the prompt to it.

use crate::dialect::reply::FinishReason;
use crate::dialect::usage::Usage;
use crate::overflow::{Evidence, Overflow, ReplyEnd, Verdict};
use crate::units::tokens::Tokens;
use crate::window::learned_window::LearnedWindow;
use crate::window::window_from_refusal;

/// The smallest window that a truncated prompt may reveal: the lowest default that Ollama has ever
/// had.
const MIN_WINDOW: u32 = 2_048;
/// A prompt may be truncated if its count is at most this percentage of the estimate.
pub(super) const TRUNCATED_PERCENT: u32 = 60;
/// A truncated prompt is counted less than 1/`BAND` of the window below the window: a server that
/// drops whole messages drops slightly too much.
const BAND: u32 = 8;
/// A second request must exceed the first by 1/`GROWTH` of the first to prove truncation. A count
/// that grows in proportion would then have left the band. The band spans 1/`BAND` of the window,
/// hence `BAND - 1`.
const GROWTH: u32 = BAND - 1;
/// Growth of a request that every tokenizer counts.
const STANDING_GROWTH: Tokens = Tokens::new(64);
/// Output limits up to this size are used up at once, for example by a request that only warms a
/// cache.
const TINY_OUTPUT: Tokens = Tokens::new(16);

/// The size of a request that was answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SentSize {
    /// Estimated tokens of the forwarded request.
    pub estimate: Tokens,
    /// The requested output limit, if any.
    pub output_limit: Option<Tokens>,
    /// Whether the request contains text only. The token count of a picture or a file is a mere
    /// guess of the estimate.
    pub is_text_only: bool,
}

/// Detects a model's window from the token counts of its replies.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WindowDetector {
    /// The largest prompt counted, in provider tokens.
    largest_prompt: u32,
    /// A possible truncation that awaits a second, larger request.
    suspicion: Option<TruncationSuspicion>,
    /// The last count of a text, with the smallest request that was counted so. A count that stands while
    /// requests grow is the window.
    standing: Option<TruncationSuspicion>,
}

/// A request whose count may be that of a full window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct TruncationSuspicion {
    /// The possible window, in provider tokens.
    window: u32,
    estimate: Tokens,
}

impl WindowDetector {
    /// Returns the largest prompt counted, in provider tokens.
    pub fn largest_prompt(&self) -> u32 {
        self.largest_prompt
    }

    /// Observes the end of a completely relayed reply to `sent`. Returns the window it reveals, if
    /// any.
    pub fn observe_reply(&mut self, sent: SentSize, reply_end: &ReplyEnd) -> Option<LearnedWindow> {
        let input = reply_end.usage.map(|usage| usage.input);
        let before = self.largest_prompt;
        self.largest_prompt = before.max(input.unwrap_or(0));
        if let Some(note) = window_from_error(sent, reply_end) {
            return Some(note);
        }
        if reply_end.finish == Some(FinishReason::WindowFull) {
            return Some(LearnedWindow::at_most(filled_window(sent.estimate, reply_end.usage)));
        }
        // A smaller count than an earlier one is not the limit.
        if let Some(input) = input.filter(|&input| input >= MIN_WINDOW && input >= before)
            && left_no_room_for_output(sent, reply_end)
        {
            let cut = Overflow { limit: Some(input), ..Overflow::from_empty_reply() };
            let window = window_from_refusal(sent.estimate, &cut);
            return Some(LearnedWindow::truncating_to(window, input));
        }
        let input = input.filter(|_| sent.is_text_only)?;
        let standing = self.detect_standing_count(sent.estimate, input);
        self.detect_truncation(sent.estimate, input).or(standing)
    }

    /// Detects a count that stands: the next larger request has the same count, to the token. Only the
    /// largest count may be that of a window.
    fn detect_standing_count(&mut self, estimate: Tokens, input: u32) -> Option<LearnedWindow> {
        let now = TruncationSuspicion { window: input, estimate };
        let is_standing = |was: &TruncationSuspicion| was.window == input;
        let was = self.standing.filter(is_standing);
        self.standing = was.or(Some(now));
        let is_window = input >= MIN_WINDOW && input >= self.largest_prompt;
        let is_larger = |was: &TruncationSuspicion| estimate >= was.estimate + STANDING_GROWTH;
        let was = was.filter(|was| is_window && is_larger(was))?;
        Some(LearnedWindow::truncating_to(was.estimate.min(Tokens::new(input)), input))
    }

    /// Detects truncation: the request grows, and its count stays near a usual window.
    ///
    /// One low count proves nothing. The estimate may far exceed every real count, for runs of
    /// spaces or base64, and some servers leave out the cached part. Growth by [`GROWTH`] excludes
    /// both. A proportional count would have left the band. A count that depends on a cache does
    /// not stay within the band for every request in between.
    fn detect_truncation(&mut self, estimate: Tokens, input: u32) -> Option<LearnedWindow> {
        let more_than = |window: u32| self.largest_prompt > window;
        self.suspicion = self.suspicion.filter(|was| !more_than(was.window));
        let low = input <= estimate.percent(TRUNCATED_PERCENT).get();
        let window = window_above(input).filter(|&window| low && !more_than(window));
        let stands =
            |was: &TruncationSuspicion| estimate < was.estimate || window == Some(was.window);
        let Some(was) = self.suspicion.filter(stands) else {
            self.suspicion = window.map(|window| TruncationSuspicion { window, estimate });
            return None;
        };
        (estimate >= was.estimate + was.estimate.divided_by(GROWTH)).then(|| {
            self.suspicion = None;
            LearnedWindow::truncating_to(Tokens::new(was.window), was.window)
        })
    }
}

/// Returns the window from an error within the reply, which refuses the request like an error
/// before the reply.
fn window_from_error(sent: SentSize, reply_end: &ReplyEnd) -> Option<LearnedWindow> {
    let Verdict::Overflow(overflow) = reply_end.verdict else {
        return None;
    };
    let is_stated = overflow.evidence == Evidence::Stated;
    is_stated.then(|| LearnedWindow::from_refusal(sent.estimate, &overflow))
}

/// Computes the window that prompt and output fill, in estimated tokens. Without a count, or if the
/// count cannot cover the whole prompt, returns the request's size, which is known to fit.
fn filled_window(estimate: Tokens, usage: Option<Usage>) -> Tokens {
    let counted = usage.filter(|usage| usage.input >= estimate.divided_by(2).get());
    counted.map_or(estimate, |usage| {
        let sum = usage.input.saturating_add(usage.output.unwrap_or(0));
        Tokens::new(sum).scaled(estimate, Tokens::new(usage.input))
    })
}

/// Whether the reply reached its limit without a text. The prompt was then truncated to
/// fill the window, so its count equals the window.
fn left_no_room_for_output(sent: SentSize, reply_end: &ReplyEnd) -> bool {
    reply_end.finish == Some(FinishReason::Length)
        && !reply_end.has_content
        && reply_end.usage.is_some_and(|usage| usage.output.is_some())
        && sent.output_limit.is_none_or(|output| output > TINY_OUTPUT)
}

/// Returns the window to which a prompt of `input` tokens may have been truncated. Candidates are
/// the usual window sizes of local servers: 1,024 times a power of two, or one and a half times
/// that.
fn window_above(input: u32) -> Option<u32> {
    let power = input.max(MIN_WINDOW).checked_next_power_of_two()?;
    let between = power / 4 * 3;
    let window = if between >= input.max(MIN_WINDOW) { between } else { power };
    (input > window - window / BAND).then_some(window)
}

#[cfg(test)]
mod tests;
