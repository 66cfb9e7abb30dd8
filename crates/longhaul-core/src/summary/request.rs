//! Requests to a summariser: the prompt of each call, sized to the summariser's window.

pub mod cached_style;
mod parts;

use crate::conversation::Conversation;
pub use crate::dialect::request_template::RequestTemplate;
use crate::policy::SummaryBudgets;
use crate::policy::cut_point::open_turn;
use crate::summary;
use crate::summary::prompts::Prompts;
use crate::summary::segments::SegmentPlace;
use crate::text::delimiters::delimited;
use crate::text::wording;
use crate::units::tokens::Tokens;
pub use cached_style::{cached_style_body, provider_style_body};
use std::ops::Range;

/// Maximum calls of a background job; each call is paid for. History that does not fit is condensed
/// to a digest.
pub const MAX_BACKGROUND_CALLS: usize = 8;
/// Maximum calls of a job that a client waits for.
pub const MAX_FOREGROUND_CALLS: usize = 1;

/// Minimum output limit. Reasoning counts as output, so with a lower limit a reasoning model may
/// stop before it answers.
const MIN_OUTPUT: Tokens = Tokens::new(4_096);
/// Tokens of the tags and line ends around a previous summary and a transcript.
const DELIMITER_TOKENS: Tokens = Tokens::new(48);
/// Maximum characters of an open turn's request. The excerpt only identifies the request, which is
/// kept in full next to the summary.
const MAX_REQUEST_CHARS: usize = 300;
/// Words of running text per 100 tokens of the plain estimate.
const WORDS_PERCENT: u32 = 75;

/// Limits of the summariser.
#[derive(Clone, Copy, Debug)]
pub struct SummariserLimits {
    /// The model's context window.
    pub window: Tokens,
    /// Maximum calls of this job; 0 counts as 1.
    pub max_calls: usize,
}

/// A request for a summary, with one call for each part of the transcript.
///
/// Invariant: there is at least one part. Each part fits the summariser's window together with the
/// system prompt, a running summary and the output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SummaryRequest {
    /// Parts of the transcript, in the order of the calls.
    pub parts: Vec<String>,
    /// Output limit of each call.
    pub max_output: Tokens,
    /// The model-written sections of the earlier segments, as context.
    earlier: Option<String>,
    /// The agent's own summary of its history, which the first call updates instead of repeating it.
    own: Option<String>,
    /// Instruction for the first call.
    fresh: String,
    /// Instruction for a further call, which updates the answer of the one before.
    update: String,
    /// Extra instruction for the last call if the history ends within a turn.
    open_turn: Option<String>,
}

impl SummaryRequest {
    /// Builds the request for a summary of the part of history that is new at `place`. The earlier
    /// segments are context. Returns `None` if no new content exists, or if the summariser's window is
    /// too small.
    ///
    /// The request shows no leading system and developer messages. Requests that differ in these
    /// messages alone share the summary.
    pub fn new(
        conversation: &Conversation<'_>,
        place: &SegmentPlace<'_>,
        budgets: &SummaryBudgets,
        prompts: &Prompts,
        summariser: SummariserLimits,
    ) -> Option<Self> {
        let earlier = place.earlier.map(|(text, until)| summary::model_sections(text, until));
        let part = place.part();
        let fits = |text: &str| parts::conservative_tokens(text) <= summariser.window.divided_by(4);
        let own = own_summary(conversation, part.clone()).filter(|(text, _)| fits(text));
        let new = own.as_ref().map_or(part.start, |(_, until)| *until)..part.end;
        let own = own.map(|(text, _)| text);
        let output = max_output(budgets, summariser.window);
        let mut fresh = fill_prompt(prompts.fresh(), budgets);
        if earlier.is_some() {
            fresh = [Prompts::segment(), "\n\n", &fresh].concat();
        }
        let update = fill_prompt(prompts.update(), budgets);
        let turn = open_turn_prompt(conversation, new.end);
        let instructions = parts::conservative_tokens(&fresh)
            .max(parts::conservative_tokens(&update))
            + turn.as_deref().map(parts::conservative_tokens).unwrap_or_default();
        // Each call passes a summary on to the next. An accepted summary may exceed its budget.
        let running = [earlier.as_deref(), own.as_deref()]
            .into_iter()
            .flatten()
            .map(parts::conservative_tokens)
            .max()
            .unwrap_or_default()
            .max(Tokens::new(budgets.prose.get().saturating_mul(2)).min(output));
        let room = summariser.window
            - output
            - summariser.window.percent(10)
            - parts::conservative_tokens(Prompts::system())
            - instructions
            - DELIMITER_TOKENS
            - running;
        let parts =
            parts::split_history(conversation, new, budgets, room, summariser.max_calls.max(1));
        (!parts.is_empty()).then_some(Self {
            parts,
            max_output: output,
            earlier,
            own,
            fresh,
            update,
            open_turn: turn,
        })
    }

    /// Returns the body of the call for `part`. `running` is the previous call's answer.
    pub fn call_body(
        &self,
        part: usize,
        running: Option<&str>,
        frame: &RequestTemplate<'_>,
    ) -> String {
        let transcript = self.parts.get(part).map_or("", String::as_str);
        let running = running.or(self.own.as_deref());
        let mut text = String::new();
        if let Some(previous) = running {
            text.extend([&delimited("previous-summary", previous), "\n\n"]);
        } else if let Some(earlier) = &self.earlier {
            text.extend([&delimited("earlier-record", earlier), "\n\n"]);
        }
        text.extend([&delimited("transcript", transcript), "\n\n"]);
        text.push_str(if running.is_some() { &self.update } else { &self.fresh });
        if let Some(turn) = self.open_turn.as_ref().filter(|_| part + 1 == self.parts.len()) {
            text.extend(["\n\n", turn]);
        }
        frame.render(Prompts::system(), &text, self.max_output)
    }
}

/// Returns a prompt with the word limit filled in.
fn fill_prompt(prompt: &str, budgets: &SummaryBudgets) -> String {
    let words = budgets.prose.percent(WORDS_PERCENT).to_string();
    prompt.replace("{words}", &words)
}

/// Returns the output limit of a call to a summariser with this window.
fn max_output(budgets: &SummaryBudgets, window: Tokens) -> Tokens {
    Tokens::new(budgets.prose.get().saturating_mul(2)).max(MIN_OUTPUT).min(window.divided_by(3))
}

/// Returns the newest summary of the agent's own in `covered`, and the index of the message after it.
/// Returns `None` if no history follows it.
///
/// If the agent's summary takes at most a quarter of the summariser's window, the new summary updates
/// it instead of repeating it.
fn own_summary(conversation: &Conversation<'_>, covered: Range<usize>) -> Option<(String, usize)> {
    let at = conversation.newest_agent_summary(covered.clone())?;
    let text = conversation.text(conversation.message(at)?).into_owned();
    Some((text, at + 1)).filter(|(_, behind)| covered.contains(behind))
}

/// Returns the extra instruction if `cut` falls within a turn that continues after it.
fn open_turn_prompt(conversation: &Conversation<'_>, cut: usize) -> Option<String> {
    if conversation.message(cut)?.role.is_user() {
        return None;
    }
    let request = conversation.message(open_turn(conversation, cut)?)?;
    let request = wording::one_line(&conversation.text(request), MAX_REQUEST_CHARS);
    Some(Prompts::open_turn(&request))
}

#[cfg(test)]
mod tests;
