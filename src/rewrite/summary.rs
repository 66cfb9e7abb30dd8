//! Judging what a summariser wrote, and making of it what stands for history.

mod sections;

use super::conversation::Conversation;
use super::digest::append_generated_sections;
use super::policy::SummaryBudgets;
use super::prompts::Prompts;
use super::sse::FinishReason;
use super::tokens::Tokens;
use sections::Section;
use std::ops::Range;

/// Why a summary is not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummaryRejection {
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
    MissingHeadings,
}

/// What a summariser wrote, accepted: no reasoning, no fence, within its bounds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AcceptedSummary(String);

impl AcceptedSummary {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Prose may be so many times its budget once finished items are dropped; beyond, it is refused.
const MAX_OVERRUN: u32 = 3;

/// Tags between which models think aloud.
const REASONING_TAGS: [&str; 4] = ["think", "thinking", "analysis", "reasoning"];

/// Marks of a tool call written as text, in the spellings of several model families. Taken for a
/// summary, such text would go into the order for the next one, and spoil that too.
const TOOL_CALL_MARKERS: [&str; 9] = [
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
    finish: FinishReason,
    prompts: &Prompts,
    budgets: &SummaryBudgets,
    replaced: Tokens,
) -> Result<AcceptedSummary, SummaryRejection> {
    match finish {
        FinishReason::Length | FinishReason::Other | FinishReason::WindowFull => {
            return Err(SummaryRejection::CutOff);
        }
        FinishReason::ToolCalls => return Err(SummaryRejection::ToolCalls),
        FinishReason::Stop => {}
    }
    let text = strip_code_fence(&strip_reasoning(text)).to_owned();
    if text.is_empty() {
        return Err(SummaryRejection::Empty);
    }
    if TOOL_CALL_MARKERS.iter().any(|mark| text.contains(mark)) {
        return Err(SummaryRejection::ToolCalls);
    }
    let mut sections = Section::parse(&text);
    if sections
        .iter()
        .filter(|section| prompts.requests_heading(section.heading))
        .count()
        < prompts.min_headings()
    {
        return Err(SummaryRejection::MissingHeadings);
    }
    // The files are ours to list: from the calls, not from memory. Words before the first heading
    // are a preface where headings were asked for.
    let headed = prompts.min_headings() > 0;
    sections.retain(|section| !(headed && section.heading.is_empty() || section.is_generated()));
    if sections.iter().all(Section::is_blank) {
        return Err(SummaryRejection::NothingSaid);
    }
    sections::drop_finished_items(&mut sections, budgets.prose);
    let text = sections::join(&sections);
    let tokens = Tokens::estimate_text(&text);
    if tokens >= replaced {
        return Err(SummaryRejection::NotSmaller);
    }
    if tokens > Tokens::new(budgets.prose.get().saturating_mul(MAX_OVERRUN)) {
        return Err(SummaryRejection::TooLong);
    }
    Ok(AcceptedSummary(text))
}

/// What stands for the messages `covered`: the prose, and below it what is ours. Its estimate is at
/// most [`Budgets::nominal`] and what the prose has beyond its own budget.
pub fn compose(
    prose: &AcceptedSummary,
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budgets: &SummaryBudgets,
) -> String {
    // It may be used much later, when what is behind it now has been cleared.
    let nothing = covered.end..covered.end;
    append_generated_sections(prose.0.clone(), conversation, covered, nothing, budgets)
}

/// Of a text that stood for history, the part that is not ours: what an update carries on from. The
/// rest is made afresh from the history.
pub fn model_sections(text: &str) -> String {
    let mut sections = Section::parse(text);
    sections.retain(|section| !section.is_generated());
    sections::join(&sections)
}

/// `text` without what is thought aloud; an open thought that never closes is all thought.
pub(super) fn strip_reasoning(text: &str) -> String {
    let mut rest = text.trim();
    let mut out = String::new();
    while let Some((start, tag)) = find_reasoning_tag(rest) {
        out.push_str(rest.get(..start).unwrap_or_default());
        let close = format!("</{tag}>");
        rest = rest
            .get(start..)
            .and_then(|open| open.split_once(&close))
            .map_or("", |(_, after)| after);
    }
    // Some servers swallow the opening tag.
    for tag in REASONING_TAGS {
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
fn find_reasoning_tag(text: &str) -> Option<(usize, &'static str)> {
    text.match_indices('<').find_map(|(at, _)| {
        let name = text.get(at + 1..)?;
        let opens = |tag: &&str| {
            name.strip_prefix(*tag)
                .is_some_and(|rest| rest.starts_with('>'))
        };
        Some((at, REASONING_TAGS.into_iter().find(opens)?))
    })
}

/// `text` without a code fence around the whole of it.
fn strip_code_fence(text: &str) -> &str {
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
