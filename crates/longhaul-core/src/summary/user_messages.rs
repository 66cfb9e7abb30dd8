//! The user's words in replaced history, verbatim as far as possible.

mod condense;
mod corrections;
mod entries;

use crate::clients::{self, ResultWords};
use crate::conversation::images;
use crate::conversation::tool_arguments::DecodedCalls;
use crate::conversation::{Content, Conversation, Message, PartKind};
use crate::text::labels::escape_labels;
use crate::text::wording;
use crate::units::tokens::Tokens;
use entries::Entry;
use std::borrow::Cow;
use std::ops::Range;

/// Heading of the section with user messages.
pub(crate) const HEADING: &str = "## What the User Said";
/// Characters before each message: an empty line and the label's punctuation.
const LABEL_CHARS: usize = "\n\n[]: ".len();
/// The user's label.
const USER_LABEL: &str = "User";

/// Renders what the user says in the messages of `calls`, in order: in messages, and in results of tools
/// that carry the user's words alone.
///
/// - `budget` is the room for all. `requests` is added to the budget: the room that the first and the newest
///   request take.
/// - A note names each older rule that a newer rule certainly replaces, wherever the two stand. `around`
///   has the texts outside these messages.
///
/// Empty without words of the user, or if none fit.
pub(crate) fn render_user_messages(
    calls: &DecodedCalls<'_, '_>,
    around: &RulesAround<'_>,
    budget: Tokens,
    requests: Tokens,
) -> String {
    let (conversation, covered) = (calls.conversation, calls.messages.clone());
    let first = includes_first_request(conversation, &covered);
    let said: Vec<String> = words_of_user(calls).collect();
    let mut entries: Vec<Entry> = said.iter().cloned().map(Entry::Whole).collect();
    let notes = corrections::notes(&said, around);
    entries.extend(notes.into_iter().map(Entry::Replaced));
    entries::render(&entries, (budget + requests).to_chars(), first)
}

/// Rules outside the messages that a section covers.
#[derive(Default)]
pub(crate) struct RulesAround<'t> {
    /// Messages of the user before all sections.
    pub(crate) head: Vec<String>,
    /// Text of earlier sections.
    pub(crate) earlier: &'t str,
    /// Messages of the user after the covered ones.
    pub(crate) later: Vec<String>,
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
    let entries = sections.iter().flat_map(|section| Entry::parse_section(section));
    let entries: Vec<Entry> = entries.collect();
    let has_first = first == FirstRequest::Included
        && entries.first().is_some_and(|entry| entry.words().is_some());
    entries::render(&entries, (budget + requests).to_chars(), has_first)
}

/// Shortens a text to `room` characters: its rules stay whole, then its beginning and its end. `None` if
/// nothing fits.
pub(crate) fn within(text: &str, room: usize) -> Option<String> {
    condense::DividedMessage::new(text).within(room)
}

/// Counts the messages of the user that a rendered section does not hold whole: clipped, left out.
pub(crate) fn shortened_messages(section: &str) -> (usize, usize) {
    let entries = Entry::parse_section(section).into_iter();
    entries.fold((0, 0), |(clipped, left_out), entry| match entry {
        Entry::Clipped(_) => (clipped + 1, left_out),
        Entry::Gap(gap) => (clipped, left_out.saturating_add(gap.count)),
        Entry::Replaced(_) | Entry::Whole(_) => (clipped, left_out),
    })
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
        let first = self.first_chars.filter(|_| includes_first_request(conversation, &covered));
        let newest = self.newest_chars.unwrap_or_default();
        let chars = first.unwrap_or_default().saturating_add(newest);
        self.covered = covered;
        Tokens::new(chars.div_ceil(4))
    }
}

/// Returns what the user says in the messages of `calls`, in order.
fn words_of_user(calls: &DecodedCalls<'_, '_>) -> impl Iterator<Item = String> {
    let conversation = calls.conversation;
    let of = conversation.messages().get(calls.messages.clone());
    let of = of.unwrap_or_default().iter().zip(calls.messages.clone());
    of.flat_map(move |(message, at)| {
        let typed = user_text(conversation, message).map(Cow::into_owned);
        let answered = calls.of(message).enumerate();
        let answered = answered.filter_map(move |(number, (call, arguments))| {
            let tool = call.decoded_name(conversation);
            if !clients::answers_user(&tool) {
                return None;
            }
            let result = conversation.result_of(at, number)?;
            let text = conversation.text(result);
            match clients::in_result(&tool, arguments.plan(), &text)? {
                ResultWords::Answer(words) | ResultWords::Rejected(words) => {
                    Some(escape_labels(words).into_owned())
                }
                ResultWords::Approved(_) => None,
            }
        });
        typed.into_iter().chain(answered).collect::<Vec<_>>()
    })
}

/// Returns what the user says in one message. `None` for other messages, and for texts that longhaul or the
/// client's program wrote.
pub(crate) fn user_text<'a>(
    conversation: &Conversation<'a>,
    message: &Message,
) -> Option<Cow<'a, str>> {
    if !message.role.is_user() {
        return None;
    }
    let typed = match message.content {
        // The agent's own summary stands for what was said before.
        _ if conversation.is_agent_summary(message) => conversation.text(message),
        Content::Parts(_) => Cow::Owned(words_of_parts(conversation, message)),
        Content::Absent | Content::Text(_) => own_words(conversation.text(message)),
    };
    let said = with_markers(typed, conversation, message);
    (!said.trim().is_empty()).then(|| escape_labels(said))
}

/// Returns the user's words in the text parts of a message, a line each.
fn words_of_parts(conversation: &Conversation<'_>, message: &Message) -> String {
    let parts = conversation.parts(message).iter();
    let texts = parts.filter(|part| part.kind == PartKind::Text);
    let mut words: Vec<String> = Vec::new();
    let mut is_result = false;
    for text in texts.filter_map(|part| part.text) {
        let text = text.decode(conversation.body());
        // A client without native calls puts a result into the part after its line.
        if std::mem::take(&mut is_result) {
            continue;
        }
        is_result = clients::announces_result(&text) && text.trim().lines().count() == 1;
        let own = own_words(text);
        if !own.trim().is_empty() {
            words.push(own.into_owned());
        }
    }
    words.join("\n")
}

/// Returns the user's words in a text. Empty for a text of longhaul's.
pub(crate) fn own_words(text: Cow<'_, str>) -> Cow<'_, str> {
    if wording::is_wrapped_summary(&text) {
        return Cow::Borrowed("");
    }
    let words = clients::own_words(&text);
    if matches!(&*words, [only] if only.len() == text.len()) {
        text
    } else {
        Cow::Owned(words.join("\n").trim().to_owned())
    }
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

/// Returns the characters of `text` with its label.
pub(super) fn rendered_chars(text: &str, label: &str) -> usize {
    text.chars().count() + LABEL_CHARS + label.len()
}

/// Returns a message's text with a marker for each image, file, recording and video.
pub(crate) fn text_with_markers<'a>(
    conversation: &Conversation<'a>,
    message: &Message,
) -> Cow<'a, str> {
    with_markers(conversation.text(message), conversation, message)
}

fn with_markers<'a>(
    mut text: Cow<'a, str>,
    conversation: &Conversation<'_>,
    message: &Message,
) -> Cow<'a, str> {
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
    parts.filter_map(|part| images::media_marker(part.kind))
}

#[cfg(test)]
mod tests;
