//! System and developer messages of replaced history, verbatim.

use crate::conversation::{Conversation, Message, PartKind};
use crate::summary::user_messages::{rendered_chars, text_with_markers};
use crate::text::labels::{clip_escaped, escape_labels};
use crate::text::wording;
use crate::units::tokens::Tokens;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// The section's heading.
pub(crate) const HEADING: &str = "## Instructions from the System";
/// Label of system and developer messages.
const LABEL: &str = "System";
/// Minimum characters of a clipped message; with less space the message is left out.
const MIN_CLIPPED_CHARS: usize = 120;
/// Characters reserved around each clipping, and for the count of omitted messages. The value is more than
/// they need.
const OVERHEAD_CHARS: usize = 80;

/// Renders the system and developer messages of `covered`. Agents repeat their reminders, so each
/// distinct text is kept once, at its last position.
pub(crate) fn render_instructions(
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budget: Tokens,
) -> String {
    let messages = conversation.messages().get(covered).unwrap_or_default();
    let texts = messages.iter().filter_map(|message| {
        if message.role.is_instruction() {
            Some(escape_labels(text_with_markers(conversation, message)).into_owned())
        } else {
            searched_tools(conversation, message)
        }
    });
    render(texts.collect(), budget)
}

/// Merges rendered sections, oldest first, each without its heading.
pub(crate) fn merge_instructions(sections: &[&str], budget: Tokens) -> String {
    let start = ["\n\n[", LABEL, "]: "].concat();
    let texts = sections.iter().flat_map(|section| section.split(&*start).skip(1));
    render(texts.map(str::to_owned).collect(), budget)
}

/// Returns the instruction to search again for the tools that a result of a search names. Without that
/// result, the provider lacks the tools.
fn searched_tools(conversation: &Conversation<'_>, message: &Message) -> Option<String> {
    let parts = conversation.parts(message).iter();
    let opaque = parts.filter(|part| part.kind == PartKind::Other);
    let names: Vec<&str> = opaque
        .flat_map(|part| {
            let part = part.span.slice(conversation.body());
            conversation.dialect().searched_tools(part)
        })
        .collect();
    (!names.is_empty()).then(|| wording::searched_tools(&names))
}

/// Renders instructions under their heading. If all fit, all are whole. Otherwise the newest stands for all
/// that begin alike. Starting from the newest, each is kept whole or clipped in the middle. Once that fails,
/// all older ones are omitted and counted.
fn render(mut texts: Vec<String>, budget: Tokens) -> String {
    let mut met = HashSet::new();
    texts.reverse();
    texts.retain(|text| !text.trim().is_empty() && met.insert(text.trim().to_owned()));
    let everything: usize = texts.iter().map(|text| rendered_chars(text, LABEL)).sum();
    let fits_all = everything <= budget.to_chars();
    let count = texts.len();
    if !fits_all {
        met.clear();
        texts.retain(|text| met.insert(first_words(text).to_owned()));
    }
    let mut left = budget.to_chars().saturating_sub(HEADING.len() + OVERHEAD_CHARS);
    let kept = texts.iter().map_while(|text| {
        let kept = fit(text, left, fits_all)?;
        left = left.checked_sub(rendered_chars(&kept, LABEL))?;
        Some(kept)
    });
    let kept: Vec<Cow<'_, str>> = kept.collect();
    if kept.is_empty() {
        return String::new();
    }
    let mut out = String::from(HEADING);
    if kept.len() < count {
        let left_out = (count - kept.len()).to_string();
        out.extend(["\n\n[", &left_out, " earlier system messages left out]"]);
    }
    for text in kept.iter().rev() {
        out.extend(["\n\n[", LABEL, "]: ", text]);
    }
    out
}

/// Returns the first line of words, rather than of markup alone.
fn first_words(text: &str) -> &str {
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|line| line.contains(' '));
    lines.next().unwrap_or(text)
}

/// Returns `text`, whole or clipped. A long text gets half of the `left` characters, so that older ones have
/// room. `None` if the text does not fit.
fn fit(text: &str, left: usize, fits_all: bool) -> Option<Cow<'_, str>> {
    let least = MIN_CLIPPED_CHARS + OVERHEAD_CHARS;
    let share = if fits_all { left } else { (left / 2).max(least).min(left) };
    if rendered_chars(text, LABEL) <= share {
        return Some(Cow::Borrowed(text));
    }
    let room = share.saturating_sub(OVERHEAD_CHARS);
    (left >= least).then(|| clip_escaped(text, room * 2 / 3, room / 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    #[test]
    fn repeated_system_messages_are_listed_once_at_their_last_position() {
        let message =
            |(role, text): (&str, &str)| serde_json::json!({"role": role, "content": text});
        let reminder = ("system", "mind the budget");
        let all = [
            reminder,
            ("developer", "never run a delete"),
            ("user", "go on"),
            ("system", " "),
            reminder,
        ];
        let body = serde_json::json!({"messages": all.map(message)}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let told =
            |covered, budget| render_instructions(&conversation, covered, Tokens::new(budget));
        let both = "[System]: never run a delete\n\n[System]: mind the budget";
        assert_eq!(told(0..5, 100), format!("{HEADING}\n\n{both}"));
        let one = "[1 earlier system messages left out]\n\n[System]: mind the budget";
        assert_eq!(told(0..5, 36), format!("{HEADING}\n\n{one}"));
        assert_eq!(told(2..4, 100), "");
    }
}
