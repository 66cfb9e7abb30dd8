//! A recorded session of the Responses API: its items, and the points at which its client sent requests.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{RecordedMessage, Role};

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    input: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(rename = "type", default)]
    kind: Option<Cow<'a, str>>,
    role: Option<Cow<'a, str>>,
    call_id: Option<String>,
}

impl Item<'_> {
    fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("message")
    }

    fn role(&self) -> Role {
        match (self.kind(), self.role.as_deref()) {
            ("message", Some("assistant")) => Role::Assistant,
            ("message", Some("user")) => Role::User,
            ("message", _) => Role::Other,
            (kind, _) if kind.ends_with("_output") => Role::Tool,
            ("additional_tools" | "compaction", _) => Role::Other,
            _ => Role::Assistant,
        }
    }
}

/// Returns the items of a body, and the number of items of each request.
pub(super) fn read(body: &str) -> serde_json::Result<(Vec<RecordedMessage>, Vec<usize>)> {
    // Raw values borrow from the body, so their addresses give their positions.
    let position = |raw: &RawValue| raw.get().as_ptr().addr() - body.as_ptr().addr();
    let Body { input } = serde_json::from_str(body)?;
    let mut recorded = Vec::with_capacity(input.len());
    let mut first = 0;
    for (at, raw) in input.into_iter().enumerate() {
        let item: Item<'_> = serde_json::from_str(raw.get())?;
        if item.kind() == "compaction" {
            first = at;
        }
        let role = item.role();
        let is_call = role == Role::Assistant && item.kind().ends_with("_call");
        recorded.push(RecordedMessage {
            start: position(raw),
            end: position(raw) + raw.get().len(),
            role,
            words: None,
            calls: item.call_id.iter().filter(|_| is_call).cloned().collect(),
            answers: item.call_id.filter(|_| role == Role::Tool),
        });
    }
    let points = points(&recorded, first);
    Ok((recorded, points))
}

/// A request ends with an item of the client before an item of the model, and leaves no call open.
/// Requests before a compaction had another history.
fn points(items: &[RecordedMessage], first: usize) -> Vec<usize> {
    let mut open: HashSet<&str> = HashSet::new();
    let mut points = Vec::new();
    for (at, item) in items.iter().enumerate() {
        open.extend(item.calls.iter().map(String::as_str));
        if let Some(answered) = &item.answers {
            open.remove(answered.as_str());
        }
        let is_next = items.get(at + 1).is_none_or(|next| next.role == Role::Assistant);
        if at >= first && item.role != Role::Assistant && is_next && open.is_empty() {
            points.push(at + 1);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_follow_user_messages_and_complete_batches() {
        let body = r#"{"input":[{"role":"developer","content":"d"},{"role":"user","content":"a"},
            {"type":"reasoning"},{"type":"function_call","call_id":"1"},
            {"type":"custom_tool_call","call_id":"2"},
            {"type":"function_call_output","call_id":"1"},
            {"type":"custom_tool_call_output","call_id":"2"},
            {"type":"message","role":"assistant","content":[]},{"role":"user","content":"b"}]}"#;
        let (items, points) = read(body).unwrap();
        assert_eq!(items.len(), 9);
        assert_eq!(points, [2, 7, 9]);
        let compacted = body.replace(r#"{"type":"reasoning"}"#, r#"{"type":"compaction"}"#);
        assert_eq!(read(&compacted).unwrap().1, [3, 7, 9]);
    }
}
