//! The rules for a valid Messages request.

mod cache;
mod content;
mod pairs;
mod table;
mod thinking;
mod turns;

use std::fmt;

use serde_json::{Value, json};

use crate::messages::body::MessagesBody;
use crate::refusal::RefusalReply;

pub use table::{MESSAGES_RULES, MESSAGES_RULES_BEYOND_BODIES, UNCHECKED_MESSAGES_RULES};

/// A rule for a Messages request.
#[derive(Clone, Copy)]
pub struct MessagesRule {
    /// The rule's name in `fixtures/messages/validity.json`.
    pub id: &'static str,
    /// The error text of the API; longhaul's own words where none was seen.
    pub error: &'static str,
    /// Whether a body breaks the rule.
    is_broken: fn(&MessagesBody<'_>) -> bool,
}

impl fmt::Debug for MessagesRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

impl MessagesRule {
    /// Returns the reply to a body that breaks the rule.
    pub(crate) fn refusal(&self) -> RefusalReply {
        let error = json!({"type": "invalid_request_error", "message": self.error});
        let body = json!({"type": "error", "error": error}).to_string();
        RefusalReply::new(400, "application/json", body)
    }
}

/// Returns the rules that a body breaks, in the order of the table.
pub fn broken_messages_rules(body: &Value) -> Vec<&'static MessagesRule> {
    let body = MessagesBody::new(body);
    let rules = MESSAGES_RULES.iter();
    rules.filter(|rule| (rule.is_broken)(&body)).collect()
}
