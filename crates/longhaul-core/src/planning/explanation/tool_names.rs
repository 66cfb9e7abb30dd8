//! Names of the tools of each message, each text stored once.

use std::sync::Arc;

use crate::conversation::{Conversation, Message};

/// Maximum length of the names of a message's tools, in characters. Clients choose these names.
const TOOL_CHARS: usize = 40;
/// Maximum texts that are searched for an equal one. Agents have few tools; further texts are stored each.
const MAX_KNOWN: usize = 32;

/// Finds the names of the tools of messages.
pub(super) struct ToolNames<'c, 'a> {
    conversation: &'c Conversation<'a>,
    known: Vec<Arc<str>>,
    /// The names of the current message, joined.
    joined: String,
}

impl<'c, 'a> ToolNames<'c, 'a> {
    pub(super) fn new(conversation: &'c Conversation<'a>) -> Self {
        Self { conversation, known: Vec::new(), joined: String::new() }
    }

    /// Returns the tool that the result at `at` comes from, or the tools that the message there calls.
    pub(super) fn of_message(&mut self, at: usize, message: &Message) -> Option<Arc<str>> {
        let conversation = self.conversation;
        let calls = conversation.calls(message);
        let called = if message.role.is_tool_result() {
            let call = conversation.answered_call(at);
            call.and_then(|call| call.name).or(message.name)
        } else {
            None
        };
        let names = called.into_iter().chain(calls.iter().filter_map(|call| call.name));
        self.joined.clear();
        for (index, name) in names.enumerate() {
            if self.joined.len() > 4 * TOOL_CHARS {
                break;
            }
            if index > 0 {
                self.joined.push_str(", ");
            }
            self.joined.push_str(&name.decode(conversation.body()));
        }
        self.intern()
    }

    /// Returns the stored text that equals the joined names, shortened; `None` if there are none.
    fn intern(&mut self) -> Option<Arc<str>> {
        if self.joined.is_empty() {
            return None;
        }
        if self.joined.len() > TOOL_CHARS
            && let Some((end, _)) = self.joined.char_indices().nth(TOOL_CHARS)
        {
            self.joined.truncate(end);
            self.joined.push('…');
        }
        let known = self.known.iter().find(|known| ***known == *self.joined);
        known.cloned().or_else(|| {
            let name: Arc<str> = self.joined.as_str().into();
            if self.known.len() < MAX_KNOWN {
                self.known.push(Arc::clone(&name));
            }
            Some(name)
        })
    }
}
