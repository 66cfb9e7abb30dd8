//! Members of the body next to its items, and marks of the provider's cache.

use serde_json::Value;

use super::{items, kind, text};
use crate::request::{list, member};

/// The minimum threshold of the provider's own compaction, in tokens.
const MIN_THRESHOLD: u64 = 1_000;

pub(super) fn small_threshold(body: &Value) -> Option<String> {
    let edits = list(member(body, "context_management")).iter();
    let mut thresholds = edits.filter_map(|edit| member(edit, "compact_threshold").as_u64());
    thresholds.any(|threshold| threshold < MIN_THRESHOLD).then(String::new)
}

pub(super) fn wrong_instructions(body: &Value) -> Option<String> {
    let instructions = member(body, "instructions");
    (!instructions.is_null() && !instructions.is_string()).then(String::new)
}

/// A mark of the cache stands on a part that cannot carry one, or has another mode.
pub(super) fn wrong_breakpoint(body: &Value) -> Option<String> {
    const CARRIERS: [&str; 3] = ["input_file", "input_image", "input_text"];
    let parts = items(body).iter().flat_map(|item| {
        let holders = ["content", "output"].map(|key| list(member(item, key)));
        holders.into_iter().flatten()
    });
    let mut marked = parts.filter(|part| part.get("prompt_cache_breakpoint").is_some());
    let wrong = marked.find(|part| {
        let mark = member(part, "prompt_cache_breakpoint");
        !CARRIERS.contains(&kind(part)) || text(mark, "mode") != Some("explicit")
    })?;
    Some(kind(wrong).to_owned())
}
