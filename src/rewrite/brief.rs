//! What to ask of a summariser: the words of each call, within its own window.

mod frame;
mod live;
mod parts;

use super::conversation::Conversation;
use super::cut_point::open_turn;
use super::fence::delimited;
use super::policy::SummaryBudgets;
use super::prompts::Prompts;
use super::summary;
use super::tokens::Tokens;
use super::wording;
pub use frame::RequestTemplate;
pub use live::cached_style_body;
use std::ops::Range;

/// The most calls of one job that nobody waits for: each is paid for. What is older than they hold is
/// told as its digest.
pub const MAX_BACKGROUND_CALLS: usize = 8;
/// The most calls of one job that a client waits for.
pub const MAX_FOREGROUND_CALLS: usize = 1;

/// Every so many compactions the summary is made from the raw history again: what an update once
/// lost or got wrong does not stay lost. Not each time: that takes calls for all of it.
const REBUILD_EVERY: u32 = 5;
/// Models that reason count their thoughts as output: with less room they end before they begin.
const MIN_OUTPUT: Tokens = Tokens::new(4_096);
/// What the tags around a previous summary and a transcript take, and the line ends between.
const DELIMITER_TOKENS: Tokens = Tokens::new(48);
/// What of the leading instructions a summariser is shown, in characters at each end: they only help it
/// to understand what follows, and can be longer than that.
const MAX_CONTEXT_CHARS: usize = 1_000;
/// So much of the request of an open turn, in characters: it says which one is meant, and all of it is
/// kept beside the summary.
const MAX_REQUEST_CHARS: usize = 300;
/// A token of the plain estimate is about so many hundredths of a word of running text.
const WORDS_PERCENT: u32 = 75;

/// The summary that a new one may carry on from.
#[derive(Clone, Copy, Debug)]
pub struct PreviousSummary<'t> {
    /// The text that stood for history, as it was injected or without its wrapper.
    pub text: &'t str,
    /// The messages up to here it stood for.
    pub summarised_until: usize,
    /// The compactions up to and with that one.
    pub compactions: u32,
}

/// The summariser: how much it holds, and how often it may be asked.
#[derive(Clone, Copy, Debug)]
pub struct SummariserLimits {
    /// Its window.
    pub window: Tokens,
    /// The most calls of this job; at least one is made.
    pub max_calls: usize,
}

/// What to ask of a summariser, a call for each part.
///
/// Invariant: there is at least one part, and each fits the summariser's window with the system
/// text, a running summary and the output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SummaryRequest {
    /// The system text of each call.
    pub system: String,
    /// The transcript, in the order in which it is to be folded.
    pub parts: Vec<String>,
    /// The most that each call may answer.
    pub max_output: Tokens,
    /// What the first call carries on from.
    previous: Option<String>,
    /// What each call but those that carry on is asked.
    fresh: String,
    /// What those are asked.
    update: String,
    /// What the last call is asked beside, if the history ends within a turn.
    open_turn: Option<String>,
}

impl SummaryRequest {
    /// What to ask about the messages `covered`. `None` if there is nothing new to tell, or the
    /// summariser's window is too small to be told anything.
    pub fn new(
        conversation: &Conversation<'_>,
        covered: Range<usize>,
        previous: Option<PreviousSummary<'_>>,
        budgets: &SummaryBudgets,
        prompts: &Prompts,
        summariser: SummariserLimits,
    ) -> Option<Self> {
        let previous = previous.filter(|previous| {
            covered.contains(&previous.summarised_until) && !is_rebuild_due(previous.compactions)
        });
        let carried = previous
            .map(|previous| summary::model_sections(wording::unwrap_summary(previous.text)));
        let new = previous.map_or(covered.start, |previous| previous.summarised_until)..covered.end;
        let system = system_prompt(conversation);
        let output = max_output(budgets, summariser.window);
        let fresh = fill_prompt(prompts.fresh(), budgets);
        let update = fill_prompt(prompts.update(), budgets);
        let turn = open_turn_prompt(conversation, covered.end);
        let instructions = parts::conservative_tokens(&fresh)
            .max(parts::conservative_tokens(&update))
            + turn
                .as_deref()
                .map(parts::conservative_tokens)
                .unwrap_or_default();
        // Folding carries a summary from call to call; a summary that was accepted may be over its budget.
        let running = carried
            .as_deref()
            .map_or(Tokens::ZERO, parts::conservative_tokens)
            .max(Tokens::new(budgets.prose.get().saturating_mul(2)).min(output));
        let room = summariser.window
            - output
            - summariser.window.percent(10)
            - parts::conservative_tokens(&system)
            - instructions
            - DELIMITER_TOKENS
            - running;
        let parts = parts::split_history(
            conversation,
            new,
            budgets,
            room,
            summariser.max_calls.max(1),
        );
        (!parts.is_empty()).then_some(Self {
            system,
            parts,
            max_output: output,
            previous: carried,
            fresh,
            update,
            open_turn: turn,
        })
    }

    /// The body of the call for `part`; `running` is what the call before it answered.
    pub fn call_body(
        &self,
        part: usize,
        running: Option<&str>,
        frame: &RequestTemplate<'_>,
    ) -> String {
        let previous = running.or(self.previous.as_deref());
        let transcript = self.parts.get(part).map_or("", String::as_str);
        let mut text = String::new();
        if let Some(previous) = previous {
            text.extend([&delimited("previous-summary", previous), "\n\n"]);
        }
        text.extend([&delimited("transcript", transcript), "\n\n"]);
        text.push_str(if previous.is_some() {
            &self.update
        } else {
            &self.fresh
        });
        if let Some(turn) = self
            .open_turn
            .as_ref()
            .filter(|_| part + 1 == self.parts.len())
        {
            text.extend(["\n\n", turn]);
        }
        frame.render(&self.system, &text, self.max_output)
    }
}

/// Whether the summary that follows so many is made from the raw history.
pub fn is_rebuild_due(after: u32) -> bool {
    (after + 1).is_multiple_of(REBUILD_EVERY)
}

/// A prompt with the words filled in that a summary may have.
fn fill_prompt(prompt: &str, budgets: &SummaryBudgets) -> String {
    let words = budgets.prose.percent(WORDS_PERCENT).to_string();
    prompt.replace("{words}", &words)
}

/// The most that one call may answer, by a summariser of this window.
fn max_output(budgets: &SummaryBudgets, window: Tokens) -> Tokens {
    Tokens::new(budgets.prose.get().saturating_mul(2))
        .max(MIN_OUTPUT)
        .min(window.divided_by(3))
}

/// What is asked beside where `cut` falls within a turn that goes on behind it.
fn open_turn_prompt(conversation: &Conversation<'_>, cut: usize) -> Option<String> {
    if conversation.message(cut)?.role.is_user() {
        return None;
    }
    let request = conversation.message(open_turn(conversation, cut)?)?;
    let request = wording::one_line(&conversation.text(request), MAX_REQUEST_CHARS);
    Some(Prompts::open_turn(&request))
}

/// The summariser's instructions, and the agent's own to read beside them.
fn system_prompt(conversation: &Conversation<'_>) -> String {
    let mut system = Prompts::system().to_owned();
    let head = conversation.messages().iter().take(conversation.head_len());
    let context: Vec<String> = head
        .map(|message| conversation.text(message).into_owned())
        .collect();
    let context = context.join("\n\n");
    if !context.trim().is_empty() {
        let context = wording::clip_chars(context.trim(), MAX_CONTEXT_CHARS, MAX_CONTEXT_CHARS);
        system.extend([
            "\n\nThe agent works under these instructions. They are shown so that you understand the \
             transcript; they are not addressed to you and need not be repeated: the agent keeps \
             them.\n",
            &delimited("agent-instructions", &context),
        ]);
    }
    system
}

#[cfg(test)]
mod tests;
