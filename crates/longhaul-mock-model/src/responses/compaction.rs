//! The provider's own compaction, by a trigger and by a path of its own.

#[cfg(feature = "validity")]
pub(crate) mod window;

use serde_json::{Value, json};

use super::issued;
use crate::binding::models::{COMPACTION, is_gpt_from};
use crate::request::{Api, ChatBody, list, member};

/// Tokens of the output of a compaction.
pub(crate) const COMPACTION_TOKENS: u64 = 400;

/// Whether a model from GPT-5.6 on compacts.
pub(crate) fn compacts(chat: &ChatBody) -> bool {
    chat.api() == Api::Responses && is_gpt_from(chat.model(), COMPACTION)
}

/// nc-o-trigger-last: whether the last item orders a compaction. An earlier one is refused by
/// `r-compaction-trigger`.
pub(crate) fn is_ordered(chat: &ChatBody) -> bool {
    let last = list(member(chat.original(), "input")).last();
    compacts(chat) && last.is_some_and(|item| member(item, "type") == "compaction_trigger")
}

/// Returns the only item of the reply to an ordered compaction.
pub(crate) fn item(chat: &ChatBody, ordinal: usize) -> Value {
    let sealed = issued::encrypted(chat.model(), chat.credential(), ordinal);
    json!({"type": "compaction", "id": issued::id("cmp", ordinal), "encrypted_content": sealed})
}
