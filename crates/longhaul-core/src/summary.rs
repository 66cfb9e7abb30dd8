//! Validates a summariser's answer, and reads the replacement text.

pub(crate) mod agreements;
pub mod digest;
pub mod file_activity;
mod instructions;
mod plan;
pub mod prompts;
pub mod request;
mod sections;
pub mod segments;
pub(crate) mod steps;
pub mod transcript;
pub mod user_messages;

use crate::conversation::Conversation;
use crate::conversation::tool_arguments::DecodedCalls;
use crate::dialect::reply::FinishReason;
use crate::policy::SummaryBudgets;
use crate::policy::record::RestatedWords;
use crate::policy::segments::SegmentedText;
use crate::text::wording;
use crate::units::tokens::Tokens;
use digest::append_section;
use prompts::Prompts;
use sections::Section;
use user_messages::{RulesAround, render_user_messages};

/// The reason for rejecting a summary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummaryRejection {
    /// The answer was cut off before its end.
    CutOff,
    /// The answer is empty, or contains only reasoning.
    Empty,
    /// The summary is not smaller than the history it would replace.
    NotSmaller,
    /// Every section is "(none)".
    NothingSaid,
    /// The answer calls tools, or contains tool calls as text.
    ToolCalls,
    /// The summary is far over its budget even after finished items are dropped.
    TooLong,
    /// The requested headings are missing; most likely the answer continues the conversation.
    MissingHeadings,
}

/// Maximum size of a summary, in multiples of its budget, after finished items are dropped.
const MAX_OVERRUN: u32 = 3;

/// Names of the tags around a model's reasoning.
const REASONING_TAGS: [&str; 4] = ["think", "thinking", "analysis", "reasoning"];

/// Markers of tool calls written as text, as spelt by several model families. If accepted, such
/// text would enter the prompt for the next summary and spoil that summary too.
const TOOL_CALL_MARKERS: &str = include_str!("summary/tool_call_markers.txt");

/// Validates the summariser's answer to `prompts` as a replacement for `replaced` tokens of
/// history. Returns the summary, without reasoning and code fence.
///
/// # Errors
/// Returns the reason for the rejection. The history then stays unchanged, or the digest is used.
pub fn accept(
    text: &str,
    finish: FinishReason,
    prompts: &Prompts,
    budgets: &SummaryBudgets,
    replaced: Tokens,
) -> Result<String, SummaryRejection> {
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
    if TOOL_CALL_MARKERS.lines().any(|mark| text.contains(mark)) {
        return Err(SummaryRejection::ToolCalls);
    }
    let mut sections = Section::parse(&text);
    if sections.iter().filter(|section| prompts.requests_heading(section.heading)).count()
        < prompts.min_headings()
    {
        return Err(SummaryRejection::MissingHeadings);
    }
    // longhaul lists the files itself, from the calls rather than from the model's memory. If
    // headings were requested, text before the first heading is a preface.
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
    Ok(text)
}

/// Returns the segments of `text`, which covers the messages before `until`, without the generated
/// sections: context for the next segment.
pub(crate) fn model_sections(text: &SegmentedText, until: usize) -> String {
    let segments = text.loose(until).into_iter();
    let segments = segments.map(|segment| {
        let mut sections = Section::parse(&segment.text);
        sections.retain(|section| !section.is_generated());
        let heading = wording::segment_heading_of(&segment.text);
        [heading, &sections::join_escaped(&sections)].concat()
    });
    segments.collect::<Vec<_>>().join("\n\n")
}

/// Returns what the user said and demanded before the end of `text`, for a later message. `text` replaces the
/// messages from `from` on. `None` if the user said nothing, or the provider's item hides no words.
pub fn restated_words(
    conversation: &Conversation<'_>,
    from: usize,
    text: &SegmentedText,
    budgets: &SummaryBudgets,
) -> Option<RestatedWords> {
    if !conversation.dialect().item_stands_first() {
        return None;
    }
    let pinned = DecodedCalls::new(conversation, conversation.head_len()..from);
    let around = RulesAround::default();
    let mut words = render_user_messages(&pinned, &around, budgets.user_messages, budgets.requests);
    for segment in text.loose(0) {
        let mut sections = Section::parse(&segment.text);
        sections.retain(Section::is_of_words);
        append_section(&mut words, &sections::join_escaped(&sections));
    }
    // Anthropic lets nothing stand between the item and the messages that are sent by now.
    let from = conversation.messages().len();
    let text = (!words.is_empty()).then(|| wording::wrap_summary(&words).into());
    text.map(|text| RestatedWords { text, from })
}

/// Returns `text` without reasoning. A reasoning tag that is never closed extends to the end.
fn strip_reasoning(text: &str) -> String {
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
    // Some servers drop the opening tag.
    for tag in REASONING_TAGS {
        if let Some((_, after)) = rest.rsplit_once(&format!("</{tag}>")) {
            rest = after;
            out.clear();
        }
    }
    out.push_str(rest);
    out.trim().to_owned()
}

/// Finds the first opening reasoning tag: its position and name. The text before the tag is scanned
/// once, because an answer may contain megabytes of reasoning.
fn find_reasoning_tag(text: &str) -> Option<(usize, &'static str)> {
    text.match_indices('<').find_map(|(at, _)| {
        let name = text.get(at + 1..)?;
        let opens = |tag: &&str| name.strip_prefix(*tag).is_some_and(|rest| rest.starts_with('>'));
        Some((at, REASONING_TAGS.into_iter().find(opens)?))
    })
}

/// Returns `text` without a code fence that encloses all of it.
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
