//! The rules for a valid chat request, each with the error text of the provider that enforces it.

mod content;
mod fields;
mod order;
mod pairing;
mod table;

use std::fmt;

use serde_json::{Value, json};

use crate::refusal::RefusalReply;
use crate::request::{ChatBody, list, member};

pub use table::{RULES, UNCHECKED_RULES};

/// Whether the standard set enforces a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Enforced unless switched off.
    Enforced,
    /// Specific to some provider, or broken by real sessions: enforced only if a test requests it.
    OnRequest,
}

/// The error format of a rule, by provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `{"type":"error","error":{…}}`.
    Anthropic,
    /// An array with one `{"error":{…,"status":"INVALID_ARGUMENT"}}`.
    Gemini,
    /// Flat, with `object`, `type` and a numeric `code` in a string.
    Mistral,
    /// `{"error":{"message","type","param","code"}}`.
    OpenAi,
}

/// A rule for a chat request.
#[derive(Clone, Copy)]
pub struct ValidityRule {
    /// The rule's name in longhaul.
    pub id: &'static str,
    /// The rule's name in `fixtures/validity.json`; `None` if the rule predates all such lists.
    pub source: Option<&'static str>,
    /// Whether the standard set enforces the rule.
    pub enforcement: Enforcement,
    /// The format of the error.
    pub error_format: ErrorFormat,
    /// The error text, with `<what>` in place of the offending item.
    pub error: &'static str,
    /// Returns the item that breaks the rule, if any.
    breach: fn(&ChatBody) -> Option<String>,
}

impl fmt::Debug for ValidityRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// The error for an unknown rule name.
#[derive(Debug, thiserror::Error)]
#[error("no rule is called {0}")]
pub struct UnknownRule(String);

/// The rules that a model enforces, in order of evaluation.
#[derive(Clone, Debug)]
pub struct ValidityRules {
    rules: Vec<&'static ValidityRule>,
}

impl Default for ValidityRules {
    fn default() -> Self {
        Self::standard()
    }
}

impl ValidityRules {
    /// Returns the rules that every recorded session obeys.
    pub fn standard() -> Self {
        let enforced = |rule: &&ValidityRule| rule.enforcement == Enforcement::Enforced;
        Self { rules: RULES.iter().filter(enforced).collect() }
    }

    /// Adds a rule, evaluated first so that its error text takes precedence.
    pub fn with(mut self, id: &str) -> Result<Self, UnknownRule> {
        let rule = find(id)?;
        self.rules.retain(|held| held.id != id);
        self.rules.insert(0, rule);
        Ok(self)
    }

    /// Removes a rule.
    pub fn without(mut self, id: &str) -> Result<Self, UnknownRule> {
        find(id)?;
        self.rules.retain(|held| held.id != id);
        Ok(self)
    }

    /// Creates a set with a single rule.
    pub fn only(id: &str) -> Result<Self, UnknownRule> {
        Ok(Self { rules: vec![find(id)?] })
    }

    /// Returns the first rule that a body breaks.
    pub fn broken_by(&self, body: &[u8]) -> Option<&'static ValidityRule> {
        match ChatBody::parse(body) {
            Ok(chat) => self.judge(&chat).map(|(rule, _)| rule),
            Err(_) => RULES.first(),
        }
    }

    /// Returns the first rule that a request breaks, and the refusal for it.
    pub(crate) fn judge(&self, chat: &ChatBody) -> Option<(&'static ValidityRule, RefusalReply)> {
        self.rules.iter().find_map(|rule| {
            let what = (rule.breach)(chat)?;
            Some((*rule, rule.refusal(&what)))
        })
    }
}

impl ValidityRule {
    /// Builds the refusal of a request that breaks this rule: 400 at every provider that has one.
    pub(crate) fn refusal(&self, what: &str) -> RefusalReply {
        let message = self.error.replace("<what>", what);
        let body = match self.error_format {
            ErrorFormat::Anthropic => json!({"type": "error", "error":
                {"type": "invalid_request_error", "message": message}}),
            ErrorFormat::Gemini => json!([{"error":
                {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]),
            ErrorFormat::Mistral => json!({"object": "error", "message": message,
                "type": "invalid_request_message_order", "param": null,
                "code": if self.id.starts_with("tool-id") { "3280" } else { "3230" }}),
            ErrorFormat::OpenAi => json!({"error": {"message": message,
                "type": "invalid_request_error", "param": "messages", "code": null}}),
        };
        RefusalReply::new(400, "application/json", body.to_string())
    }
}

fn find(id: &str) -> Result<&'static ValidityRule, UnknownRule> {
    RULES.iter().find(|rule| rule.id == id).ok_or_else(|| UnknownRule(id.to_owned()))
}

fn tool_calls(message: &Value) -> &[Value] {
    list(member(message, "tool_calls"))
}

fn id(call: &Value) -> &str {
    member(call, "id").as_str().unwrap_or_default()
}

fn tool_call_id(message: &Value) -> &str {
    member(message, "tool_call_id").as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
