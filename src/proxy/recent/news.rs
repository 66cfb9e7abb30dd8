//! What is new in a request, found without holding up anybody else.

use super::files::TouchedFiles;
use super::sighting::DashboardRequest;
use crate::rewrite::ledger::for_each_touch;
use crate::rewrite::title::{MAX_BODY_CHARS, MAX_TITLE_CHARS};
use crate::rewrite::wording;

/// A model's name is a client's to choose.
const MAX_MODEL_CHARS: usize = 100;

/// How far a conversation was looked at.
#[derive(Clone, Copy, Default)]
pub(super) struct ReadProgress {
    /// So many of its messages were.
    pub(super) messages: usize,
    /// It is called something.
    pub(super) has_title: bool,
}

/// What a request adds to what was known of its conversation.
pub(super) struct RequestDelta {
    /// Of so many messages it was known.
    pub(super) messages_before: usize,
    /// How many it has now.
    pub(super) messages: usize,
    /// How its first user message begins, where it was called nothing.
    pub(super) title: Option<String>,
    /// How the last user message begins that is new.
    pub(super) body: Option<String>,
    pub(super) model: String,
    pub(super) window: u64,
    /// What the new messages touched.
    pub(super) files: TouchedFiles,
}

impl RequestDelta {
    /// What `arrival` adds.
    pub(super) fn from_request(arrival: &DashboardRequest<'_>, known: ReadProgress) -> Self {
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
        let mut files = TouchedFiles::default();
        for_each_touch(conversation, from..messages.len(), |path, touch| {
            files.touch(path, touch);
        });
        Self {
            messages_before: known.messages,
            messages: messages.len(),
            title: first.map(|first| begins(first, MAX_TITLE_CHARS)),
            body: users(from)
                .next_back()
                .map(|last| begins(last, MAX_BODY_CHARS)),
            model: conversation.model().chars().take(MAX_MODEL_CHARS).collect(),
            window: u64::from(arrival.window.get()),
            files,
        }
    }
}
