//! Reasoning and the items that it is tied to.

use serde_json::Value;

use super::{items, kind, text};
use crate::request::member;

pub(super) fn without_summary(body: &Value) -> Option<String> {
    let is_wrong = |item: &Value| kind(item) == "reasoning" && !member(item, "summary").is_array();
    items(body).iter().position(is_wrong).map(|at| at.to_string())
}

/// Reasoning with an id is followed by an item of the model.
pub(super) fn without_following(body: &Value) -> Option<String> {
    let all = items(body).iter();
    let mut pairs = all.clone().zip(all.skip(1).map(Some).chain([None]));
    pairs.find_map(|(item, next)| {
        let id = text(item, "id").filter(|_| kind(item) == "reasoning")?;
        let is_model = |item: &Value| {
            let is_client = matches!(text(item, "role"), Some("user" | "developer" | "system"));
            !is_client && !kind(item).ends_with("_output") && kind(item) != "compaction_trigger"
        };
        (!next.is_some_and(is_model)).then(|| id.to_owned())
    })
}

/// Returns the ids of items that the model made after each reasoning in one response. A response ends with the
/// first item that the client made.
fn tied(body: &Value) -> Vec<(&str, &str)> {
    let mut ties = Vec::new();
    let mut reasoning = None;
    for item in items(body) {
        let is_client = matches!(text(item, "role"), Some("user" | "developer" | "system"));
        match (kind(item), text(item, "id")) {
            ("reasoning", id) => reasoning = id,
            _ if is_client => reasoning = None,
            (kind, Some(id)) if !kind.ends_with("_output") => {
                ties.extend(reasoning.map(|reasoning| (id, reasoning)));
            }
            _ => {}
        }
    }
    ties
}

/// Returns an item with an id of `sent` that stands without the reasoning that `original` ties it to.
pub fn torn_from_reasoning(original: &Value, sent: &Value) -> Option<String> {
    let kept: Vec<&str> = items(sent).iter().filter_map(|item| text(item, "id")).collect();
    let mut ties = tied(original).into_iter();
    let torn = ties.find(|(item, reasoning)| kept.contains(item) && !kept.contains(reasoning));
    torn.map(|(item, _)| item.to_owned())
}
