//! What to ask of a summariser: the words of each call, within its own window.

mod frame;
mod live;
mod parts;

use super::conversation::Conversation;
use super::cut_point::open_turn;
use super::fence::fenced;
use super::policy::Budgets;
use super::prompts::Prompts;
use super::summary;
use super::tokens::Tokens;
use super::wording;
pub use frame::Frame;
pub use live::live;
use std::ops::Range;

/// The most calls of one job that nobody waits for: each is paid for. What is older than they hold is
/// told as its digest.
pub const CALLS_IN_BACKGROUND: usize = 8;
/// The most calls of one job that a client waits for.
pub const CALLS_IN_FOREGROUND: usize = 1;

/// Every so many compactions the summary is made from the raw history again: what an update once
/// lost or got wrong does not stay lost. Not each time: that takes calls for all of it.
const REBUILD_EVERY: u32 = 5;
/// Models that reason count their thoughts as output: with less room they end before they begin.
const LEAST_OUTPUT: Tokens = Tokens::new(4_096);
/// What the tags around a previous summary and a transcript take, and the line ends between.
const FENCES: Tokens = Tokens::new(48);
/// What of the leading instructions a summariser is shown, in characters at each end: they only help it
/// to understand what follows, and can be longer than that.
const CONTEXT_CHARS: usize = 1_000;
/// So much of the request of an open turn, in characters: it says which one is meant, and all of it is
/// kept beside the summary.
const REQUEST_CHARS: usize = 300;
/// A token of the plain estimate is about so many hundredths of a word of running text.
const WORDS_PERCENT: u32 = 75;

/// The summary that a new one may carry on from.
#[derive(Clone, Copy, Debug)]
pub struct Previous<'t> {
    /// The text that stood for history, as it was injected or without its wrapper.
    pub text: &'t str,
    /// The messages up to here it stood for.
    pub covers: usize,
    /// The compactions up to and with that one.
    pub count: u32,
}

/// The summariser: how much it holds, and how often it may be asked.
#[derive(Clone, Copy, Debug)]
pub struct Summariser {
    /// Its window.
    pub window: Tokens,
    /// The most calls of this job; at least one is made.
    pub calls: usize,
}

/// What to ask of a summariser, a call for each part.
///
/// Invariant: there is at least one part, and each fits the summariser's window with the system
/// text, a running summary and the output.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Brief {
    /// The system text of each call.
    pub system: String,
    /// The transcript, in the order in which it is to be folded.
    pub parts: Vec<String>,
    /// The most that each call may answer.
    pub output: Tokens,
    /// What the first call carries on from.
    previous: Option<String>,
    /// What each call but those that carry on is asked.
    fresh: String,
    /// What those are asked.
    update: String,
    /// What the last call is asked beside, if the history ends within a turn.
    turn: Option<String>,
}

impl Brief {
    /// What to ask about the messages `covered`. `None` if there is nothing new to tell, or the
    /// summariser's window is too small to be told anything.
    pub fn new(
        conversation: &Conversation<'_>,
        covered: Range<usize>,
        previous: Option<Previous<'_>>,
        budgets: &Budgets,
        prompts: &Prompts,
        summariser: Summariser,
    ) -> Option<Self> {
        let previous = previous
            .filter(|previous| covered.contains(&previous.covers) && !rebuilds(previous.count));
        let carried = previous.map(|previous| summary::own_words(wording::unwrap(previous.text)));
        let new = previous.map_or(covered.start, |previous| previous.covers)..covered.end;
        let system = system(conversation);
        let output = most_output(budgets, summariser.window);
        let fresh = instruction(prompts.fresh(), budgets);
        let update = instruction(prompts.update(), budgets);
        let turn = turn(conversation, covered.end);
        let instructions = parts::weigh(&fresh).max(parts::weigh(&update))
            + turn.as_deref().map(parts::weigh).unwrap_or_default();
        // Folding carries a summary from call to call; a summary that was accepted may be over its budget.
        let running = carried
            .as_deref()
            .map_or(Tokens::ZERO, parts::weigh)
            .max(Tokens::new(budgets.prose.get().saturating_mul(2)).min(output));
        let room = summariser.window
            - output
            - summariser.window.percent(10)
            - parts::weigh(&system)
            - instructions
            - FENCES
            - running;
        let parts = parts::of(conversation, new, budgets, room, summariser.calls.max(1));
        (!parts.is_empty()).then_some(Self {
            system,
            parts,
            output,
            previous: carried,
            fresh,
            update,
            turn,
        })
    }

    /// The body of the call for `part`; `running` is what the call before it answered.
    pub fn request(&self, part: usize, running: Option<&str>, frame: &Frame<'_>) -> String {
        let previous = running.or(self.previous.as_deref());
        let transcript = self.parts.get(part).map_or("", String::as_str);
        let mut text = String::new();
        if let Some(previous) = previous {
            text.extend([&fenced("previous-summary", previous), "\n\n"]);
        }
        text.extend([&fenced("transcript", transcript), "\n\n"]);
        text.push_str(if previous.is_some() {
            &self.update
        } else {
            &self.fresh
        });
        if let Some(turn) = self.turn.as_ref().filter(|_| part + 1 == self.parts.len()) {
            text.extend(["\n\n", turn]);
        }
        frame.body(&self.system, &text, self.output)
    }
}

/// Whether the summary that follows so many is made from the raw history.
pub fn rebuilds(after: u32) -> bool {
    (after + 1).is_multiple_of(REBUILD_EVERY)
}

/// A prompt with the words filled in that a summary may have.
fn instruction(prompt: &str, budgets: &Budgets) -> String {
    let words = budgets.prose.percent(WORDS_PERCENT).to_string();
    prompt.replace("{words}", &words)
}

/// The most that one call may answer, by a summariser of this window.
fn most_output(budgets: &Budgets, window: Tokens) -> Tokens {
    Tokens::new(budgets.prose.get().saturating_mul(2))
        .max(LEAST_OUTPUT)
        .min(window.over(3))
}

/// What is asked beside where `cut` falls within a turn that goes on behind it.
fn turn(conversation: &Conversation<'_>, cut: usize) -> Option<String> {
    if conversation.message(cut)?.role.is_user() {
        return None;
    }
    let request = conversation.message(open_turn(conversation, cut)?)?;
    let request = wording::one_line(&conversation.text(request), REQUEST_CHARS);
    Some(Prompts::turn(&request))
}

/// The summariser's instructions, and the agent's own to read beside them.
fn system(conversation: &Conversation<'_>) -> String {
    let mut system = Prompts::system().to_owned();
    let head = conversation.messages().iter().take(conversation.head());
    let context: Vec<String> = head
        .map(|message| conversation.text(message).into_owned())
        .collect();
    let context = context.join("\n\n");
    if !context.trim().is_empty() {
        let context = wording::clip_chars(context.trim(), CONTEXT_CHARS, CONTEXT_CHARS);
        system.extend([
            "\n\nThe agent works under these instructions. They are shown so that you understand the \
             transcript; they are not addressed to you and need not be repeated: the agent keeps \
             them.\n",
            &fenced("agent-instructions", &context),
        ]);
    }
    system
}

#[cfg(test)]
mod tests;
