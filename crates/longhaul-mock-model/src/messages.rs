//! The strict model's side of Anthropic's Messages API.

mod body;
mod validity;

use serde_json::json;

use crate::refusal::RefusalReply;
use crate::request::{Api, ChatBody, list, member};

pub use validity::{
    MESSAGES_RULES, MESSAGES_RULES_BEYOND_BODIES, MessagesRule, UNCHECKED_MESSAGES_RULES,
    broken_messages_rules,
};

/// The beginning of a credential that a login issues.
const LOGIN: &str = "Bearer sk-ant-oat";
/// The beginnings of the system prompt of Claude Code, and of the recorded sessions, whose prompts are
/// replaced.
const OWN_PROMPTS: [&str; 4] = [
    "You are Claude Code",
    "You are a coding agent",
    "You are a sub-agent",
    "x-anthropic-billing-header:",
];
/// The rule that [`judge_login`] checks.
pub(crate) const LOGIN_RULE: &str = "m-system-oauth";

/// Returns the refusal of a request whose login serves Claude Code alone, and which is not like one of
/// Claude Code.
pub(crate) fn judge_login(chat: &ChatBody) -> Option<(&'static str, RefusalReply)> {
    let first = list(chat.system()).first();
    let text = first.and_then(|block| member(block, "text").as_str());
    let is_own =
        OWN_PROMPTS.iter().any(|beginning| text.is_some_and(|text| text.starts_with(beginning)));
    let is_login = chat.api() == Api::Messages && chat.credential().starts_with(LOGIN);
    let error = json!({"type": "error",
        "error": {"type": "rate_limit_error", "message": "Error"}});
    let refusal = || RefusalReply::new(429, "application/json", error.to_string());
    (is_login && !is_own).then(|| (LOGIN_RULE, refusal()))
}
