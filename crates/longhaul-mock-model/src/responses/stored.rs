//! Responses and items that the server keeps, for requests that continue by id.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::answer::{output, response_id};
use crate::answer::ModelAnswer;
use crate::request::{list, member};

/// The maximum number of responses kept. Beyond it, all are forgotten.
const RESPONSES: usize = 1_024;

/// Conversations up to each stored response, and the items that they contain.
#[derive(Debug, Default)]
pub(crate) struct StoredResponses {
    conversations: HashMap<String, Vec<Value>>,
    items: HashMap<String, Value>,
}

impl StoredResponses {
    /// Keeps an answer, unless the client forbade it.
    pub(crate) fn keep(&mut self, answer: &ModelAnswer<'_>) {
        let sent = answer.chat.original();
        if member(sent, "store").as_bool() == Some(false) {
            return;
        }
        if self.conversations.len() >= RESPONSES {
            *self = Self::default();
        }
        let made = output(answer);
        for item in list(&made) {
            let id = member(item, "id").as_str().unwrap_or_default();
            self.items.insert(id.to_owned(), item.clone());
        }
        let mut conversation = input_items(sent);
        conversation.extend(list(&made).iter().cloned());
        self.conversations.insert(response_id(answer), conversation);
    }

    /// Returns a body with everything in place that it names by id. Returns `None` if it names nothing
    /// that is kept here.
    pub(crate) fn resolve(&self, sent: &Value) -> Option<Value> {
        let previous = member(sent, "previous_response_id").as_str();
        let before = previous.and_then(|id| self.conversations.get(id));
        let mut items = input_items(sent);
        let mut is_resolved = before.is_some();
        for item in &mut items {
            let is_reference =
                matches!(member(item, "type").as_str(), None | Some("item_reference"))
                    && member(item, "role").is_null();
            let id = member(item, "id").as_str().filter(|_| is_reference);
            if let Some(kept) = id.and_then(|id| self.items.get(id)) {
                *item = kept.clone();
                is_resolved = true;
            }
        }
        let mut resolved = sent.clone();
        let members = resolved.as_object_mut().filter(|_| is_resolved)?;
        if let Some(before) = before {
            members.remove("previous_response_id");
            items.splice(0..0, before.iter().cloned());
        }
        members.insert("input".to_owned(), Value::Array(items));
        Some(resolved)
    }
}

/// Returns the items of an input. A string is one message of the user.
fn input_items(sent: &Value) -> Vec<Value> {
    let input = member(sent, "input");
    match input.as_str() {
        Some(text) => vec![json!({"role": "user", "content": text})],
        None => list(input).to_vec(),
    }
}
