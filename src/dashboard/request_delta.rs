//! Computes what a request adds to its conversation, without holding the lock.

use crate::dashboard::handle::DashboardRequest;
use longhaul_core::clients::own_words;
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

/// Returns the title of a conversation: the beginning of the first user message with words of a person.
pub(super) fn title(conversation: &Conversation<'_>) -> Option<String> {
    user_messages(conversation).find_map(|user| {
        let words = own_words(&conversation.text(user)).join(" ");
        let title = wording::one_line(words.trim_start_matches(['#', ' ']), MAX_TITLE_CHARS);
        (!title.is_empty()).then_some(title)
    })
}

fn user_messages<'c>(
    conversation: &'c Conversation<'_>,
) -> impl DoubleEndedIterator<Item = &'c Message> {
    let messages = conversation.messages().iter();
    messages.filter(|message| message.role.is_user())
}

#[cfg(test)]
mod tests {
    use longhaul_core::dialect::Dialect;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(texts: &[&str], expect: Option<&str>) {
        let messages = texts
            .iter()
            .map(|text| json!({"role": "user", "content": text}));
        let body = json!({"model": "m", "messages": messages.collect::<Vec<_>>()}).to_string();
        let conversation = Dialect::ChatCompletions.read(body.as_bytes()).unwrap();
        assert_eq!(title(&conversation).as_deref(), expect, "{texts:?}");
    }

    #[test]
    fn wrappers_of_agents_are_no_title() {
        check(&["# Fix the build"], Some("Fix the build"));
        let reminder = "<system-reminder>\nx\n</system-reminder>\nFix it";
        check(&[reminder], Some("Fix it"));
        let instructions = "# AGENTS.md instructions for /home/x\n<INSTRUCTIONS>y</INSTRUCTIONS>";
        check(&[instructions, "Fix it"], Some("Fix it"));
        check(&["<b> is not closed"], Some("<b> is not closed"));
        check(&["  "], None);
    }
}
