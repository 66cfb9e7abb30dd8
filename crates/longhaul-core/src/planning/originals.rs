//! The originals of a request: the history that its forwarded text replaces, as text that an agent can
//! read.
//!
//! The history is kept once, unit by unit. A result is a range of its unit, and a segment a range of
//! units. Merged segments and cleared results therefore take no room of their own.

use crate::conversation::tool_arguments::DecodedCalls;
use crate::conversation::{Conversation, Role};
use crate::planning::view::Recallable;
use crate::recall::RecallLink;
use crate::summary::steps::StepRenderer;
use crate::summary::user_messages::{media_markers, own_words};
use crate::text::wording;
use crate::units::recall_id::RecallId;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

/// Maximum bytes of the texts of one unit. A text beyond is kept in part. JSON escapes take at most six
/// times as much, which a store accepts.
pub const MAX_UNIT_BYTES: usize = 1 << 20;
/// Maximum characters of a unit's title, and of the text or argument in it.
const MAX_TITLE_CHARS: usize = 160;
const MAX_WORDS_CHARS: usize = 80;
/// Digits of the outline's ID that begin each heading. No author of a tool result can guess them.
const MARK_DIGITS: Range<usize> = 20..28;

/// A unit of the history: user messages, or an assistant step with its results.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginalUnit {
    /// ID of the text.
    pub id: RecallId,
    /// One line that summarises the unit.
    pub title: String,
    /// The messages in full, each below a heading.
    pub text: String,
}

/// The originals of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Originals {
    /// ID of the outline, which lists the units.
    pub outline: RecallId,
    /// The units up to the last one that the forwarded request replaces, in order.
    pub units: Vec<OriginalUnit>,
    /// Each cleared or clipped result: its ID, its unit and its bytes in the text of the unit.
    pub results: Vec<(RecallId, usize, Range<usize>)>,
    /// The history that each segment replaces: its ID and its units.
    pub segments: Vec<(RecallId, Range<usize>)>,
}

impl Originals {
    /// Collects the originals that `wanted` names, and all history before the last of them.
    pub fn new(
        conversation: &Conversation<'_>,
        link: &RecallLink,
        wanted: &[(RecallId, Recallable)],
    ) -> Self {
        let end = wanted.iter().map(|(_, what)| match what {
            Recallable::History(messages) => messages.end,
            Recallable::Result(at) => at + 1,
        });
        let ends = unit_ends(conversation, end.max().unwrap_or_default());
        let outline = link.outline_id();
        let mark = outline.to_string();
        let mark = mark.get(MARK_DIGITS).unwrap_or_default();
        let mut originals = Self {
            outline,
            units: Vec::with_capacity(ends.len()),
            results: Vec::new(),
            segments: Vec::new(),
        };
        let named: HashMap<usize, RecallId> = wanted
            .iter()
            .filter_map(|(id, what)| match what {
                Recallable::History(_) => None,
                Recallable::Result(at) => Some((*at, *id)),
            })
            .collect();
        let mut start = conversation.instructions_len();
        for &end in &ends {
            let mut text = String::new();
            for at in start..end {
                let range = render_message(&mut text, conversation, at, mark);
                let (unit, id) = (originals.units.len(), named.get(&at));
                originals.results.extend(id.map(|id| (*id, unit, range)));
            }
            originals.units.push(OriginalUnit {
                id: link.unit_id(&text),
                title: title(conversation, start..end),
                text,
            });
            start = end;
        }
        for (id, what) in wanted {
            if let Recallable::History(messages) = what {
                let unit = |message: usize| ends.partition_point(|&end| end <= message);
                let units = unit(messages.start)..unit(messages.end.saturating_sub(1)) + 1;
                originals.segments.push((*id, units));
            }
        }
        originals
    }
}

/// Returns the ends of the units that hold the messages before `end`. The messages after the last
/// boundary are a unit too.
fn unit_ends(conversation: &Conversation<'_>, end: usize) -> Vec<usize> {
    let start = conversation.instructions_len();
    let boundaries = conversation.boundaries().iter().copied();
    let mut ends: Vec<usize> = Vec::new();
    for boundary in boundaries.filter(|&boundary| boundary > start) {
        if ends.last().is_some_and(|&last| last >= end) {
            return ends;
        }
        ends.push(boundary);
    }
    if ends.last().is_none_or(|&last| last < end) && end > start {
        ends.push(end);
    }
    ends
}

/// Appends the message at `at` below its heading. Returns the bytes of its text.
fn render_message(
    out: &mut String,
    conversation: &Conversation<'_>,
    at: usize,
    mark: &str,
) -> Range<usize> {
    let Some(message) = conversation.message(at) else {
        return 0..0;
    };
    let number = at + 1 - conversation.instructions_len().min(at);
    let text = conversation.text(message);
    let chars = text.chars().count();
    let name = role_name(message.role);
    _ = writeln!(out, "=== {mark} message {number}, {name}, {chars} characters");
    let start = out.len();
    let kept = kept_of(&text, start);
    out.push_str(kept);
    let range = start..out.len();
    if !out.ends_with('\n') {
        out.push('\n');
    }
    if kept.len() < text.len() {
        let lost = text.len() - kept.len();
        _ = writeln!(out, "=== {mark} {lost} bytes more, which are not kept");
    }
    for marker in media_markers(conversation, message) {
        _ = writeln!(out, "{marker}");
    }
    for call in conversation.calls(message) {
        let name = call.decoded_name(conversation);
        let arguments = call.arguments.map(|it| it.decode(conversation.body()));
        let arguments = arguments.unwrap_or_default();
        let kept = kept_of(&arguments, out.len());
        _ = writeln!(out, "=== {mark} call of {name}\n{kept}");
    }
    range
}

/// Returns what the user and the agent say in the text of a unit, without calls, results, and the words of
/// clients. `outline` is the ID of the outline. `None` if nobody says anything, or the unit may be cut.
///
/// Headings count the characters of each message, so no text passes for a heading.
pub fn spoken_words(unit: &str, outline: RecallId) -> Option<String> {
    if unit.len() >= MAX_UNIT_BYTES {
        return None;
    }
    let mark = outline.to_string();
    let heading = format!("=== {} message ", mark.get(MARK_DIGITS)?);
    let next = format!("\n{heading}");
    let mut words = Vec::new();
    let mut rest = unit.strip_prefix(&*heading);
    while let Some(message) = rest {
        let (line, text) = message.split_once('\n')?;
        let (role, chars) = line.split_once(", ")?.1.split_once(", ")?;
        let chars: usize = chars.strip_suffix(" characters")?.parse().ok()?;
        let end = text.char_indices().nth(chars);
        let (text, after) = text.split_at(end.map_or(text.len(), |(end, _)| end));
        if role == role_name(Role::User) {
            words.push(own_words(text.into()));
        } else if role == role_name(Role::Assistant) {
            words.push(text.into());
        }
        let behind_calls = || after.split_once(&*next).map(|(_, message)| message);
        rest = after.strip_prefix(&*heading).or_else(behind_calls);
    }
    let words = words.join("\n");
    let words = words.trim();
    (!words.is_empty()).then(|| words.to_owned())
}

/// Returns the beginning of `text` for which a unit of `taken` bytes has room.
fn kept_of(text: &str, taken: usize) -> &str {
    let room = MAX_UNIT_BYTES.saturating_sub(taken);
    text.get(..text.floor_char_boundary(room)).unwrap_or_default()
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Assistant => "assistant",
        Role::Developer | Role::Other | Role::System => "instruction",
        Role::Function | Role::Tool => "tool result",
        Role::User => "user",
    }
}

/// Returns the title of a unit: the words of the user or the assistant, and the calls with their
/// main arguments.
fn title(conversation: &Conversation<'_>, messages: Range<usize>) -> String {
    let mut parts = Vec::new();
    let calls = DecodedCalls::new(conversation, messages.clone());
    let renderer = StepRenderer::without_root(&calls);
    for message in conversation.messages().get(messages).unwrap_or_default() {
        if !message.role.is_tool_result() {
            let text = wording::one_line(&conversation.text(message), MAX_WORDS_CHARS);
            if !text.is_empty() {
                parts.push(format!("{}: {text}", role_name(message.role)));
            }
        }
        let calls = calls.of(message);
        parts.extend(calls.map(|(call, it)| renderer.call(call, &it, MAX_WORDS_CHARS)));
    }
    let title = parts.join("; ");
    wording::one_line(&wording::without_marks(&title), MAX_TITLE_CHARS)
}

#[cfg(test)]
mod tests;
