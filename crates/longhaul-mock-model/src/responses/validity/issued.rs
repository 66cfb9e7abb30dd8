//! Items that the strict model issued itself: their reasoning, and its encrypted bytes.

use std::collections::HashSet;

use serde_json::Value;

use super::{items, kind, text};
use crate::request::member;
use crate::responses::issued::{is_readable, ordinal};

/// Prefixes of ids of items that come with reasoning.
const TIED: [&str; 2] = ["fc", "msg"];

/// An item with an id of this model stands without the reasoning of the same response.
pub(super) fn without_reasoning(body: &Value) -> Option<String> {
    let ids = || items(body).iter().filter_map(|item| text(item, "id"));
    let reasoned: HashSet<usize> = ids().filter_map(|id| ordinal("rs", id)).collect();
    let is_torn = |id: &str| {
        let mut ordinals = TIED.iter().filter_map(|prefix| ordinal(prefix, id));
        ordinals.any(|ordinal| !reasoned.contains(&ordinal))
    };
    ids().find(|id| is_torn(id)).map(str::to_owned)
}

/// Encrypted reasoning of this model differs from what it issued, or came from another model.
pub(super) fn unreadable(body: &Value) -> Option<String> {
    let model = text(body, "model").unwrap_or("model");
    let mut contents = items(body).iter().filter_map(|item| text(item, "encrypted_content"));
    let damaged = contents.find(|content| !is_readable(model, content))?;
    Some(damaged.chars().take(4).collect())
}

/// Nothing is stored, and reasoning is named by its id alone.
pub(super) fn not_stored(body: &Value) -> Option<String> {
    if member(body, "store").as_bool() != Some(false) {
        return None;
    }
    let is_empty = |item: &Value| {
        kind(item) == "reasoning"
            && text(item, "encrypted_content").is_none()
            && text(item, "id").is_some_and(|id| ordinal("rs", id).is_some())
    };
    let found = items(body).iter().find(|item| is_empty(item))?;
    text(found, "id").map(str::to_owned)
}
