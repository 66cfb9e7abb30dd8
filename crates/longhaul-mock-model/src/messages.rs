//! The strict model's side of Anthropic's Messages API.

mod body;
mod validity;

pub use validity::{MESSAGES_RULES, MessagesRule, UNCHECKED_MESSAGES_RULES, broken_messages_rules};
