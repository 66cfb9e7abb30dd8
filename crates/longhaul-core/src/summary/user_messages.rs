//! Verbatim user messages and system instructions of replaced history.

mod entries;

use crate::conversation::{Conversation, Message, PartKind};
use crate::text::labels::{clip_escaped, escape_labels};
use crate::text::wording;
use crate::units::tokens::Tokens;
use entries::Entry;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// Heading of the section with user messages.
pub(crate) const HEADING: &str = "## What the User Said";
/// Heading of the section with system and developer messages.
pub(crate) const INSTRUCTIONS_HEADING: &str = "## Instructions from the System";

/// Minimum characters of a clipped message; with less space the message is left out.
const MIN_CLIPPED_CHARS: usize = 120;
/// Characters reserved around each message and each clipping: the clip note, the label and the
/// count of omitted messages. The value is more than they need. Forwarded bytes depend on this
/// number.
const OVERHEAD_CHARS: usize = 80;

/// Characters before each message: an empty line and the label's punctuation.
const LABEL_CHARS: usize = "\n\n[]: ".len();
/// The user's label.
const USER_LABEL: &str = "User";

/// Renders the user messages of `covered`, in order, without those that longhaul wrote.
///
/// - The first and the newest request have the separate budget `requests`, and are kept whole if
///   they fit.
/// - The others share `budget`: as many as possible are kept whole, the newest first. The rest are a
///   line each, and beyond that counted.
///
/// Empty without user messages, or if none fits.
pub fn render_user_messages(
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budget: Tokens,
    requests: Tokens,
) -> String {
    let first = includes_first_request(conversation, &covered);
    let texts: Vec<String> = user_texts(conversation, covered)
        .map(Cow::into_owned)
        .collect();
    // If `budget` cannot cover the heading and the overhead, the requests pay for both.
    let around = (HEADING.len() + OVERHEAD_CHARS).saturating_sub(budget.to_chars());
    let own = ReservedChars::allocate(&texts, first, requests.to_chars().saturating_sub(around));
    let entries: Vec<Entry> = texts.into_iter().map(Entry::Whole).collect();
    entries::render(&entries, budget, own)
}

/// Place of the first request of a conversation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FirstRequest {
    /// Somewhere else.
    Elsewhere,
    /// In the merged sections.
    Included,
}

/// Merges rendered sections of user messages, oldest first, each without its heading. Budgets are those
/// of [`render_user_messages`].
pub(crate) fn merge_user_messages(
    sections: &[&str],
    budget: Tokens,
    requests: Tokens,
    first: FirstRequest,
) -> String {
    let entries: Vec<Entry> = sections
        .iter()
        .flat_map(|section| Entry::parse_section(section))
        .collect();
    let texts: Vec<String> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Whole(text) => Some(text.clone()),
            Entry::Line(_) | Entry::Gap(_) => None,
        })
        .collect();
    let starts_whole =
        first == FirstRequest::Included && matches!(entries.first(), Some(Entry::Whole(_)));
    let own = ReservedChars::allocate(&texts, starts_whole, requests.to_chars());
    entries::render(&entries, budget, own)
}

/// Rendered size of the first and the newest request of a growing history. Updates read only the
/// messages that are new.
#[derive(Debug, Default)]
pub struct UserRequestSizes {
    /// The history of the latest update.
    covered: Range<usize>,
    /// Characters of the first request, if a later one is the newest.
    first_chars: Option<u32>,
    newest_chars: Option<u32>,
}

impl UserRequestSizes {
    /// Returns the size for the history `covered`.
    pub fn measure(&mut self, conversation: &Conversation<'_>, covered: Range<usize>) -> Tokens {
        if self.covered.start != covered.start || self.covered.end > covered.end {
            *self = Self::default();
            self.covered.end = covered.start;
        }
        let new = conversation.messages().get(self.covered.end..covered.end);
        let mut new = new
            .unwrap_or_default()
            .iter()
            .filter_map(|message| request_chars(conversation, message));
        if let Some(newest) = new.next_back() {
            if self.first_chars.is_none() {
                self.first_chars = self.newest_chars.or_else(|| new.next());
            }
            self.newest_chars = Some(newest);
        }
        let first = self
            .first_chars
            .filter(|_| includes_first_request(conversation, &covered));
        let newest = self.newest_chars.unwrap_or_default();
        let chars = first.unwrap_or_default().saturating_add(newest);
        self.covered = covered;
        Tokens::new(chars.div_ceil(4))
    }
}

/// Returns the texts of the user messages in `covered`.
fn user_texts<'c>(
    conversation: &'c Conversation<'_>,
    covered: Range<usize>,
) -> impl DoubleEndedIterator<Item = Cow<'c, str>> {
    let messages = conversation.messages().get(covered).unwrap_or_default();
    messages
        .iter()
        .filter_map(|message| user_text(conversation, message))
}

/// Returns the text of a user message. `None` for other messages, and for texts by longhaul.
fn user_text<'c>(conversation: &'c Conversation<'_>, message: &'c Message) -> Option<Cow<'c, str>> {
    let is_user = message.role.is_user();
    let text = is_user.then(|| text_with_markers(conversation, message))?;
    let is_left_out = text.trim().is_empty() || wording::is_wrapped_summary(&text);
    (!is_left_out).then(|| escape_labels(text))
}

/// Returns the characters that a user message takes in its section, in full. `None` if the section leaves
/// the message out.
fn request_chars(conversation: &Conversation<'_>, message: &Message) -> Option<u32> {
    let compute = || {
        let text = user_text(conversation, message)?;
        // A body has fewer bytes.
        Some(u32::try_from(rendered_chars(&text, USER_LABEL)).unwrap_or(u32::MAX))
    };
    let memo = message.memo().filter(|_| message.role.is_user());
    memo.map_or_else(compute, |memo| *memo.request_chars.get_or_init(compute))
}

/// Whether `covered` includes the first request; otherwise the request is still forwarded before
/// it.
pub(crate) fn includes_first_request(
    conversation: &Conversation<'_>,
    covered: &Range<usize>,
) -> bool {
    let before = conversation.messages().get(..covered.start);
    let mut before = before.unwrap_or_default().iter();
    !before.any(|message| message.role.is_user())
}

/// Renders the system and developer messages of `covered`. Agents repeat their reminders, so each
/// distinct text is kept once, at its last position.
pub(crate) fn render_instructions(
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budget: Tokens,
) -> String {
    let messages = conversation.messages().get(covered).unwrap_or_default();
    let mut met = HashSet::new();
    let mut texts: Vec<String> = messages
        .iter()
        .rev()
        .filter_map(|message| {
            if message.role.is_instruction() {
                Some(text_with_markers(conversation, message))
            } else {
                searched_tools(conversation, message).map(Cow::Owned)
            }
        })
        .filter(|text| !text.trim().is_empty() && met.insert(text.trim().to_owned()))
        .map(|text| escape_labels(text).into_owned())
        .collect();
    texts.reverse();
    render_instruction_texts(&texts, budget)
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

/// Merges rendered sections of instructions, oldest first, each without its heading.
pub(crate) fn merge_instructions(sections: &[&str], budget: Tokens) -> String {
    let start = ["\n\n[", SYSTEM_LABEL, "]: "].concat();
    let texts = sections
        .iter()
        .flat_map(|section| section.split(&*start).skip(1));
    let mut texts: Vec<String> = texts.map(str::to_owned).collect();
    let mut met = HashSet::new();
    texts.reverse();
    texts.retain(|text| met.insert(text.trim().to_owned()));
    texts.reverse();
    render_instruction_texts(&texts, budget)
}

/// Characters reserved for the first and the newest request.
#[derive(Clone, Copy, Debug, Default)]
struct ReservedChars {
    first: usize,
    newest: usize,
}

impl ReservedChars {
    /// Divides `room` between the first and the newest of `texts`. Each gets at least half, plus
    /// the space that the other does not need.
    fn allocate(texts: &[String], first: bool, room: usize) -> Self {
        let takes = |text: Option<&String>| {
            text.map(|text| rendered_chars(text, USER_LABEL))
                .unwrap_or_default()
        };
        let first = takes(texts.first().filter(|_| first && texts.len() > 1));
        let newest = takes(texts.last()).min((room / 2).max(room.saturating_sub(first)));
        Self {
            first: first.min(room.saturating_sub(newest)),
            newest,
        }
    }
}

/// Returns the characters of `text` with its label.
fn rendered_chars(text: &str, label: &str) -> usize {
    text.chars().count() + LABEL_CHARS + label.len()
}

/// Remaining space for messages.
struct RemainingRoom<'l> {
    /// The speaker's label.
    label: &'l str,
    /// Whether all messages fit without clipping.
    fits_all: bool,
    /// Remaining characters.
    chars_left: usize,
}

impl RemainingRoom<'_> {
    /// Returns `text`, whole or clipped, and charges its size. `own` is the number of characters
    /// reserved for this text alone. Returns `None` if the text does not fit.
    fn fit<'t>(&mut self, text: &'t str, own: usize) -> Option<Cow<'t, str>> {
        // A long message gets half of the remaining space, so that it does not displace all older
        // ones.
        let share = if self.fits_all {
            self.chars_left
        } else {
            (self.chars_left / 2)
                .max(MIN_CLIPPED_CHARS + OVERHEAD_CHARS)
                .min(self.chars_left)
        };
        let kept = if rendered_chars(text, self.label) <= share + own {
            Cow::Borrowed(text)
        } else if self.chars_left.max(own) >= MIN_CLIPPED_CHARS + OVERHEAD_CHARS {
            let room = share.max(own).saturating_sub(OVERHEAD_CHARS);
            clip_escaped(text, room * 2 / 3, room / 3)
        } else {
            return None;
        };
        let beside = rendered_chars(&kept, self.label).saturating_sub(own);
        self.chars_left = self.chars_left.checked_sub(beside)?;
        Some(kept)
    }
}

/// Label of system and developer messages.
const SYSTEM_LABEL: &str = "System";

/// Renders instructions under their heading. Starting from the newest, each is kept whole or clipped in
/// the middle. Once that fails, all older ones are omitted and counted.
fn render_instruction_texts(texts: &[String], budget: Tokens) -> String {
    let everything: usize = texts
        .iter()
        .map(|text| rendered_chars(text, SYSTEM_LABEL))
        .sum();
    let mut room = RemainingRoom {
        label: SYSTEM_LABEL,
        fits_all: everything <= budget.to_chars(),
        chars_left: budget
            .to_chars()
            .saturating_sub(INSTRUCTIONS_HEADING.len() + OVERHEAD_CHARS),
    };
    let newest_first = texts.iter().rev();
    let kept: Vec<Cow<'_, str>> = newest_first.map_while(|text| room.fit(text, 0)).collect();
    if kept.is_empty() {
        return String::new();
    }
    let mut out = String::from(INSTRUCTIONS_HEADING);
    if kept.len() < texts.len() {
        let left_out = (texts.len() - kept.len()).to_string();
        out.extend(["\n\n[", &left_out, " earlier system messages left out]"]);
    }
    for text in kept.iter().rev() {
        out.extend(["\n\n[", SYSTEM_LABEL, "]: ", text]);
    }
    out
}

/// Returns a message's text with a marker for each image, file, recording and video.
pub(crate) fn text_with_markers<'a>(
    conversation: &Conversation<'a>,
    message: &Message,
) -> Cow<'a, str> {
    let mut text = conversation.text(message);
    for marker in media_markers(conversation, message) {
        let text = text.to_mut();
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(marker);
    }
    text
}

/// Returns a marker for each image, file, recording and video of a message.
pub(crate) fn media_markers(
    conversation: &Conversation<'_>,
    message: &Message,
) -> impl Iterator<Item = &'static str> {
    let parts = conversation.parts(message).iter();
    parts.filter_map(|part| media_marker(part.kind))
}

/// Returns the marker for a part that is not text, or `None` if the part needs none.
fn media_marker(kind: PartKind) -> Option<&'static str> {
    match kind {
        PartKind::Audio => Some(wording::AUDIO_MARKER),
        PartKind::File => Some(wording::FILE_MARKER),
        PartKind::Image => Some(wording::IMAGE_MARKER),
        PartKind::Video => Some(wording::VIDEO_MARKER),
        PartKind::Other | PartKind::Text | PartKind::Thinking => None,
    }
}

#[cfg(test)]
mod tests;
