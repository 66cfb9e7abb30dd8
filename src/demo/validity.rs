//! The rules that a chat request must obey, each with the error text of the provider that has it.

mod content;
mod fields;
mod order;
mod pairing;
mod table;

use std::fmt;

use serde_json::json;

use super::refusal::RefusalReply;
use super::request::ChatBody;

pub use table::{RULES, UNCHECKED_RULES};

/// Whether the standard dialect enforces a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Enforced unless switched off.
    Enforced,
    /// Some provider's own, or broken by real sessions: enforced where a test asks for it.
    OnRequest,
}

/// Whose error shape a rule answers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `{"type":"error","error":{…}}`.
    Anthropic,
    /// An array of one `{"error":{…,"status":"INVALID_ARGUMENT"}}`.
    Gemini,
    /// Flat, with `object`, `type` and a numeric `code` in a string.
    Mistral,
    /// `{"error":{"message","type","param","code"}}`.
    OpenAi,
}

/// One rule.
#[derive(Clone, Copy)]
pub struct ValidityRule {
    /// Its name here.
    pub id: &'static str,
    /// Its name in `fixtures/validity.json`; none if it is older than any list of rules.
    pub source: Option<&'static str>,
    /// Whether the standard dialect enforces it.
    pub enforcement: Enforcement,
    /// Whose error shape it answers in.
    pub error_format: ErrorFormat,
    /// Its error text, `<what>` where it names the culprit.
    pub error: &'static str,
    /// What breaks it, if anything does.
    breach: fn(&ChatBody) -> Option<String>,
}

impl fmt::Debug for ValidityRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// There is no rule of that name.
#[derive(Debug, thiserror::Error)]
#[error("no rule is called {0}")]
pub struct UnknownRule(String);

/// The rules that a model enforces, in the order in which it asks them.
#[derive(Clone, Debug)]
pub struct Dialect {
    rules: Vec<&'static ValidityRule>,
}

impl Default for Dialect {
    fn default() -> Self {
        Self::standard()
    }
}

impl Dialect {
    /// What every recorded session obeys, and nothing that one of them does not.
    pub fn standard() -> Self {
        let enforced = |rule: &&ValidityRule| rule.enforcement == Enforcement::Enforced;
        Self {
            rules: RULES.iter().filter(enforced).collect(),
        }
    }

    /// This dialect and one rule more, asked before the others so that its wording is the one seen.
    pub fn with(mut self, id: &str) -> Result<Self, UnknownRule> {
        let rule = find(id)?;
        self.rules.retain(|held| held.id != id);
        self.rules.insert(0, rule);
        Ok(self)
    }

    /// This dialect without a rule.
    pub fn without(mut self, id: &str) -> Result<Self, UnknownRule> {
        find(id)?;
        self.rules.retain(|held| held.id != id);
        Ok(self)
    }

    /// A dialect of one rule.
    pub fn only(id: &str) -> Result<Self, UnknownRule> {
        Ok(Self {
            rules: vec![find(id)?],
        })
    }

    /// The first rule that a body breaks.
    pub fn broken_by(&self, body: &[u8]) -> Option<&'static ValidityRule> {
        match ChatBody::parse(body) {
            Ok(chat) => self.judge(&chat).map(|(rule, _)| rule),
            Err(_) => RULES.first(),
        }
    }

    /// The first rule that a request breaks, and the answer to it.
    pub(crate) fn judge(&self, chat: &ChatBody) -> Option<(&'static ValidityRule, RefusalReply)> {
        self.rules.iter().find_map(|rule| {
            let what = (rule.breach)(chat)?;
            Some((*rule, rule.refusal(&what)))
        })
    }
}

impl ValidityRule {
    /// The answer to a request that breaks this rule: 400 in every provider that has one.
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
    RULES
        .iter()
        .find(|rule| rule.id == id)
        .ok_or_else(|| UnknownRule(id.to_owned()))
}

#[cfg(test)]
mod tests;
