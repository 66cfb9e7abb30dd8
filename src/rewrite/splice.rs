//! The new bytes: replacements spliced in, all outside the cuts copied.

use super::conversation::{Content, Conversation, Message};
use super::plan::{Cut, Plan};
use super::span::Span;
use super::wording;

/// One replacement of bytes.
#[derive(Debug)]
struct Edit {
    delete: Span,
    insert: String,
}

/// Replacements in one body.
///
/// Invariant: sorted, disjoint, on token boundaries of the body; no edit is longer than what it
/// replaces.
#[derive(Debug)]
pub struct Splice<'a> {
    body: &'a str,
    edits: Vec<Edit>,
    length: usize,
}

impl<'a> Splice<'a> {
    /// What `plan` makes of a conversation's bytes. `None` if that would not be smaller, or not
    /// sound: then the plan is at fault, and the original is what goes on.
    pub fn of(conversation: &Conversation<'a>, plan: &Plan) -> Option<Self> {
        let edits: Vec<Edit> = plan
            .cuts()
            .iter()
            .map(|cut| edit(conversation, cut))
            .collect::<Option<_>>()?;
        let ordered = edits.windows(2).all(|pair| match pair {
            [one, next] => one.delete.end() <= next.delete.start(),
            _ => true,
        });
        let no_longer = edits
            .iter()
            .all(|edit| edit.insert.len() <= edit.delete.len());
        if edits.is_empty() || !ordered || !no_longer {
            return None;
        }
        let length = edits
            .iter()
            .fold(conversation.body().len(), |length, edit| {
                length - edit.delete.len() + edit.insert.len()
            });
        Some(Self {
            body: conversation.body(),
            edits,
            length,
        })
    }

    /// Copies the body with the replacements made.
    pub fn apply(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.length);
        let mut kept_from = 0;
        for edit in &self.edits {
            out.extend_from_slice(self.between(kept_from, edit.delete.start()));
            out.extend_from_slice(edit.insert.as_bytes());
            kept_from = edit.delete.end();
        }
        out.extend_from_slice(self.between(kept_from, self.body.len()));
        debug_assert_eq!(out.len(), self.length, "a splice is as long as it said");
        out
    }

    fn between(&self, start: usize, end: usize) -> &[u8] {
        self.body.as_bytes().get(start..end).unwrap_or_default()
    }
}

fn edit(conversation: &Conversation<'_>, cut: &Cut) -> Option<Edit> {
    match cut {
        Cut::History { from, to, text } => {
            // Whole units go, so no call loses its result.
            conversation.boundaries().binary_search(to).ok()?;
            let first = conversation.message(*from)?;
            let last = conversation.message(to.checked_sub(1)?)?;
            if first.role.answers() {
                return None;
            }
            let text = quote(text)?;
            Some(Edit {
                delete: first.span.through(last.span),
                insert: format!("{{\"role\":\"user\",\"content\":{text}}}"),
            })
        }
        Cut::Image { at, part } => {
            let part = *conversation.parts(conversation.message(*at)?).get(*part)?;
            let text = quote(wording::IMAGE)?;
            let mark = cache_mark(conversation, part.cache_control);
            Some(Edit {
                delete: part.span,
                insert: format!("{{\"type\":\"text\",\"text\":{text}{mark}}}"),
            })
        }
        Cut::Output { tokens } => Some(Edit {
            delete: conversation.envelope().output?.span,
            insert: tokens.to_string(),
        }),
        Cut::Result { at, text } => {
            let message = conversation.message(*at)?;
            if !message.role.answers() {
                return None;
            }
            Some(Edit {
                delete: message.content.span()?,
                insert: in_shape_of(conversation, message, text)?,
            })
        }
    }
}

/// `text` as the content of `message`: a string where there was a string; where there was an
/// array, one text part that carries the last cache mark found.
fn in_shape_of(conversation: &Conversation<'_>, message: &Message, text: &str) -> Option<String> {
    let text = quote(text)?;
    match message.content {
        Content::Absent | Content::Null => None,
        Content::Text(_) => Some(text),
        Content::Parts(_) => {
            let mut marks = conversation
                .parts(message)
                .iter()
                .filter_map(|part| part.cache_control);
            let mark = cache_mark(conversation, marks.next_back());
            Some(format!("[{{\"type\":\"text\",\"text\":{text}{mark}}}]"))
        }
    }
}

/// A `cache_control` member with the value at `mark`, to stand behind another member.
fn cache_mark(conversation: &Conversation<'_>, mark: Option<Span>) -> String {
    mark.map(|mark| format!(",\"cache_control\":{}", mark.slice(conversation.body())))
        .unwrap_or_default()
}

/// `text` as a JSON string literal.
fn quote(text: &str) -> Option<String> {
    serde_json::to_string(text).ok()
}
