//! What is new in a request, found without holding up anybody else.

use super::files::Files;
use super::sighting::Arrival;
use crate::rewrite::ledger::touched;
use crate::rewrite::title::{BODY, TITLE};
use crate::rewrite::wording;

/// A model's name is a client's to choose.
const MODEL: usize = 100;

/// How far a conversation was looked at.
#[derive(Clone, Copy, Default)]
pub(super) struct LookedAt {
    /// So many of its messages were.
    pub(super) messages: usize,
    /// It is called something.
    pub(super) has_title: bool,
}

/// What a request adds to what was known of its conversation.
pub(super) struct News {
    /// Of so many messages it was known.
    pub(super) since: usize,
    /// How many it has now.
    pub(super) messages: usize,
    /// How its first user message begins, where it was called nothing.
    pub(super) title: Option<String>,
    /// How the last user message begins that is new.
    pub(super) body: Option<String>,
    pub(super) model: String,
    pub(super) window: u64,
    /// What the new messages touched.
    pub(super) files: Files,
}

impl News {
    /// What `arrival` adds.
    pub(super) fn of(arrival: &Arrival<'_>, known: LookedAt) -> Self {
        let conversation = arrival.conversation;
        let messages = conversation.messages();
        // A history that was taken back, or another branch of it, is looked at anew.
        let from = if messages.len() < known.messages {
            0
        } else {
            known.messages
        };
        let users = |from: usize| {
            let new = messages.iter().skip(from);
            new.filter(|message| message.role.is_user())
        };
        let begins = |message, chars| wording::one_line(&conversation.text(message), chars);
        let first = users(0).next().filter(|_| !known.has_title);
        let mut files = Files::default();
        touched(conversation, from..messages.len(), |path, touch| {
            files.touch(path, touch);
        });
        Self {
            since: known.messages,
            messages: messages.len(),
            title: first.map(|first| begins(first, TITLE)),
            body: users(from).next_back().map(|last| begins(last, BODY)),
            model: conversation.model().chars().take(MODEL).collect(),
            window: u64::from(arrival.window.get()),
            files,
        }
    }
}
