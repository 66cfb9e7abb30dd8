//! Names of the tools of each message, each text stored once.

use crate::collections::CacheHashState;
use crate::conversation::{Conversation, Message};
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum length of the names of a message's tools, in characters. Clients choose these names.
const TOOL_CHARS: usize = 38;

/// Returns the tool that the result at `at` comes from, or the tools that the message there calls; empty
/// for none. `known` has the names of other messages.
pub(super) fn tool_names(
    conversation: &Conversation<'_>,
    (at, message): (usize, &Message),
    known: &mut HashSet<Arc<str>, CacheHashState>,
) -> Arc<str> {
    let called = message.role.is_tool_result().then(|| {
        let call = conversation.answered_call(at);
        call.and_then(|call| call.name).or(message.name)
    });
    let calls = conversation.calls(message).iter().map(|call| call.name);
    let names = called.into_iter().chain(calls).flatten().take(TOOL_CHARS);
    let names: Vec<_> = names.map(|name| name.decode(conversation.body())).collect();
    if names.is_empty() {
        return Arc::default();
    }
    let mut joined = names.join(", ");
    if let Some((end, _)) = joined.char_indices().nth(TOOL_CHARS) {
        joined.truncate(end);
        joined.push('…');
    }
    known.get(&*joined).cloned().unwrap_or_else(|| {
        let name: Arc<str> = joined.into();
        known.insert(Arc::clone(&name));
        name
    })
}
