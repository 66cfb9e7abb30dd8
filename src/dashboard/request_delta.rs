//! Computes what a request adds to its conversation, without holding the lock.

use crate::dashboard::handle::DashboardRequest;
use crate::dashboard::title_words::title_words;
use crate::dashboard::touched_files::TouchedFiles;
use longhaul_core::summary::file_activity::for_each_file_access;
use longhaul_core::text::wording;

/// Maximum characters of a title.
const MAX_TITLE_CHARS: usize = 80;
/// Maximum characters of the text below the title.
const MAX_BODY_CHARS: usize = 400;
/// Maximum characters of a model's name, which the client chooses.
const MAX_MODEL_CHARS: usize = 100;

/// Reading progress in a conversation.
#[derive(Clone, Copy, Default)]
pub(super) struct ReadProgress {
    /// Number of messages read.
    pub(super) messages: usize,
    /// Whether the conversation has a title.
    pub(super) has_title: bool,
}

/// Changes that a request brings to its conversation.
pub(super) struct RequestDelta {
    /// Number of messages read before.
    pub(super) messages_before: usize,
    /// Number of messages now.
    pub(super) messages: usize,
    /// Beginning of the first user message, if there was no title.
    pub(super) title: Option<String>,
    /// Beginning of the last new user message.
    pub(super) body: Option<String>,
    pub(super) model: String,
    pub(super) agent: String,
    pub(super) caller: String,
    pub(super) window: u64,
    /// Files that the new messages touched.
    pub(super) files: TouchedFiles,
}

impl RequestDelta {
    /// Computes what `arrival` adds.
    pub(super) fn from_request(arrival: &DashboardRequest<'_>, known: ReadProgress) -> Self {
        let conversation = arrival.conversation;
        let messages = conversation.messages();
        // A shorter history, rewound or of another branch, is read from the start.
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
        let title = |user| {
            let text = conversation.text(user);
            title_words(&text).map(|words| wording::one_line(words, MAX_TITLE_CHARS))
        };
        let titles = || users(0).find_map(title);
        let mut files = TouchedFiles::default();
        for_each_file_access(conversation, from..messages.len(), |path, touch| {
            files.touch(path, touch);
        });
        Self {
            messages_before: known.messages,
            messages: messages.len(),
            title: if known.has_title { None } else { titles() },
            body: users(from)
                .next_back()
                .map(|last| begins(last, MAX_BODY_CHARS)),
            agent: arrival.agent.clone(),
            caller: arrival.caller.clone(),
            model: conversation.model().chars().take(MAX_MODEL_CHARS).collect(),
            window: u64::from(arrival.window.get()),
            files,
        }
    }
}
