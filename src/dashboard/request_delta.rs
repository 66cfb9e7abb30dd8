//! Computes what a request adds to its conversation, without holding the lock.

use crate::dashboard::handle::DashboardRequest;
use crate::dashboard::title_words::title_words;
use longhaul_core::conversation::{Conversation, Message};
use longhaul_core::text::wording;

/// Maximum characters of a title.
const MAX_TITLE_CHARS: usize = 80;
/// Maximum characters of the text below the title.
const MAX_BODY_CHARS: usize = 400;
/// Maximum characters of a model's name, which the client chooses.
const MAX_MODEL_CHARS: usize = 100;

/// Changes that a request brings to its conversation.
pub(super) struct RequestDelta {
    /// Title of a conversation that had none.
    pub(super) title: Option<String>,
    /// Beginning of the last user message.
    pub(super) body: Option<String>,
    pub(super) model: String,
    pub(super) agent: String,
    pub(super) caller: String,
    pub(super) window: u64,
}

impl RequestDelta {
    /// Computes what `arrival` adds to its conversation, without the title.
    pub(super) fn from_request(arrival: &DashboardRequest<'_>) -> Self {
        let conversation = arrival.conversation;
        let begins = |last| wording::one_line(&conversation.text(last), MAX_BODY_CHARS);
        Self {
            title: None,
            body: user_messages(conversation).next_back().map(begins),
            agent: arrival.agent.clone(),
            caller: arrival.caller.clone(),
            model: conversation.model().chars().take(MAX_MODEL_CHARS).collect(),
            window: u64::from(arrival.window.get()),
        }
    }
}

/// Returns the title of a conversation: the beginning of the first user message with words.
pub(super) fn title(conversation: &Conversation<'_>) -> Option<String> {
    user_messages(conversation).find_map(|user| {
        let text = conversation.text(user);
        title_words(&text).map(|words| wording::one_line(words, MAX_TITLE_CHARS))
    })
}

fn user_messages<'c>(
    conversation: &'c Conversation<'_>,
) -> impl DoubleEndedIterator<Item = &'c Message> {
    let messages = conversation.messages().iter();
    messages.filter(|message| message.role.is_user())
}
