//! Judging what a summariser wrote, and making of it what stands for history.

mod sections;

use super::conversation::Conversation;
use super::digest::with_our_parts;
use super::policy::Budgets;
use super::prompts::Prompts;
use super::sse::Finish;
use super::tokens::Tokens;
use sections::Section;
use std::ops::Range;

/// Why a summary is not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It did not come to its own end.
    CutOff,
    /// Nothing was written, or only reasoning.
    Empty,
    /// It is no smaller than what it would stand for.
    NotSmaller,
    /// Every section says "(none)".
    NothingSaid,
    /// It calls tools, or writes calls as text.
    ToolCalls,
    /// It is far over its budget, and not in what can be dropped.
    TooLong,
    /// It does not have the form that was asked for: most likely it continues the conversation.
    Unformed,
}

/// What a summariser wrote, accepted: no reasoning, no fence, within its bounds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Prose(String);

impl Prose {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Prose may be so many times its budget once finished items are dropped; beyond, it is refused.
const FAR_OVER: u32 = 3;

/// Tags between which models think aloud.
const THINKING: [&str; 4] = ["think", "thinking", "analysis", "reasoning"];

/// Marks of a tool call written as text, in the spellings of several model families. Taken for a
/// summary, such text would go into the order for the next one, and spoil that too.
const CALL_MARKS: [&str; 9] = [
    "<tool_call>",
    "<function_calls>",
    "<function=",
    "<invoke name=",
    "<|tool_call",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "<｜tool▁call",
    "<minimax:tool_call>",
];

/// Takes what a summariser wrote, asked with `prompts`, to stand for `replaced` tokens of history,
/// or says why not.
///
/// # Errors
/// The reason; the history then stays as it is, or the digest serves.
pub fn accept(
    text: &str,
    finish: Finish,
    prompts: &Prompts,
    budgets: &Budgets,
    replaced: Tokens,
) -> Result<Prose, Refusal> {
    match finish {
        Finish::Length | Finish::Other | Finish::WindowFull => return Err(Refusal::CutOff),
        Finish::ToolCalls => return Err(Refusal::ToolCalls),
        Finish::Stop => {}
    }
    let text = unfenced(&without_thinking(text)).to_owned();
    if text.is_empty() {
        return Err(Refusal::Empty);
    }
    if CALL_MARKS.iter().any(|mark| text.contains(mark)) {
        return Err(Refusal::ToolCalls);
    }
    let mut sections = Section::parse(&text);
    if sections
        .iter()
        .filter(|section| prompts.ask_for(section.heading))
        .count()
        < prompts.least_headings()
    {
        return Err(Refusal::Unformed);
    }
    // The files are ours to list: from the calls, not from memory. Words before the first heading
    // are a preface where headings were asked for.
    let headed = prompts.least_headings() > 0;
    sections.retain(|section| !(headed && section.heading.is_empty() || section.is_ours()));
    if sections.iter().all(Section::says_nothing) {
        return Err(Refusal::NothingSaid);
    }
    sections::drop_oldest_done(&mut sections, budgets.prose);
    let text = sections::join(&sections);
    let tokens = Tokens::of_text(&text);
    if tokens >= replaced {
        return Err(Refusal::NotSmaller);
    }
    if tokens > Tokens::new(budgets.prose.get().saturating_mul(FAR_OVER)) {
        return Err(Refusal::TooLong);
    }
    Ok(Prose(text))
}

/// What stands for the messages `covered`: the prose, and below it what is ours. Its estimate is at
/// most [`Budgets::nominal`] and what the prose has beyond its own budget.
pub fn compose(
    prose: &Prose,
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budgets: &Budgets,
) -> String {
    // It may be used much later, when what is behind it now has been cleared.
    let nothing = covered.end..covered.end;
    with_our_parts(prose.0.clone(), conversation, covered, nothing, budgets)
}

/// Of a text that stood for history, the part that is not ours: what an update carries on from. The
/// rest is made afresh from the history.
pub fn own_words(text: &str) -> String {
    let mut sections = Section::parse(text);
    sections.retain(|section| !section.is_ours());
    sections::join(&sections)
}

/// `text` without what is thought aloud; an open thought that never closes is all thought.
pub(super) fn without_thinking(text: &str) -> String {
    let mut rest = text.trim();
    let mut out = String::new();
    while let Some((start, tag)) = first_thought(rest) {
        out.push_str(rest.get(..start).unwrap_or_default());
        let close = format!("</{tag}>");
        rest = rest
            .get(start..)
            .and_then(|open| open.split_once(&close))
            .map_or("", |(_, after)| after);
    }
    // Some servers swallow the opening tag.
    for tag in THINKING {
        if let Some((_, after)) = rest.rsplit_once(&format!("</{tag}>")) {
            rest = after;
            out.clear();
        }
    }
    out.push_str(rest);
    out.trim().to_owned()
}

/// Where the first thought begins, and in which tag. It looks once at what is before it: an answer may
/// be megabytes of thoughts.
fn first_thought(text: &str) -> Option<(usize, &'static str)> {
    text.match_indices('<').find_map(|(at, _)| {
        let name = text.get(at + 1..)?;
        let opens = |tag: &&str| {
            name.strip_prefix(*tag)
                .is_some_and(|rest| rest.starts_with('>'))
        };
        Some((at, THINKING.into_iter().find(opens)?))
    })
}

/// `text` without a code fence around the whole of it.
fn unfenced(text: &str) -> &str {
    let inner = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    match inner {
        Some((_, inner)) if !inner.contains("\n```") => inner.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests;
