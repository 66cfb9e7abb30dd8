//! Signed thinking: a keyed hash binds each block to every byte before it.
//!
//! A signature names the prefix that the block was made over, and the block that preceded it. So
//! the kept blocks must be an unbroken run: blocks may go at the front, at the end, or all.

pub mod chain;
pub(crate) mod preserved;

use serde_json::{Value, json};

use crate::refusal::RefusalReply;
use crate::request::{ChatBody, list, member, role};
use chain::{Chain, SignatureError, SignedPrefix};
pub use preserved::{AccountAge, PreservedThinking};

/// Members that carry thinking next to the content, in the shapes of `OpenRouter` and `LiteLLM`.
const MEMBERS: [&str; 4] =
    ["reasoning", "reasoning_content", "reasoning_details", "thinking_blocks"];
/// Types of blocks of thinking within the content.
const BLOCKS: [&str; 2] = ["thinking", "redacted_thinking"];

/// One block in so many is redacted: its text stands in its signature alone.
const REDACTED_EVERY: usize = 5;

const STALE: &str = "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".";
const DIFFERS: &str = " The messages before this block differ from those it was created with.";
const GAP: &str = " The `thinking` block that preceded this one when it was created is missing from this request.";
const FORGED: &str = "Invalid `signature` in `thinking` block";
const LEFT_OUT: &str = "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.";

/// Rules for the thinking in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingRules {
    /// The models from 5.1 on, for an account that enforces the binding: another prefix is refused.
    Bound,
    /// The rules of the model that the request names.
    ByModel(PreservedThinking),
    /// The models up to 4.5 with a thinking budget: the turn that is under way must start with
    /// thinking.
    Manual,
    /// No thinking: answers carry none, and none is examined.
    #[default]
    Off,
    /// The models from 5.1 on, for an older account: thinking is signed, and no prefix is examined.
    Unenforced,
}

/// Broken rules about thinking, by the names that records of requests give.
pub(crate) const STALE_THINKING: &str = "stale-thinking";
const FORGED_THINKING: &str = "forged-thinking";
const THINKING_LEFT_OUT: &str = "thinking-left-out";

impl ThinkingRules {
    /// Returns the rule that a request breaks, and the refusal for it.
    pub(crate) fn judge(self, chat: &ChatBody) -> Option<(&'static str, RefusalReply)> {
        let (rule, at, text) = match self {
            // The model needs what it issued to judge: see [`preserved::read`].
            Self::ByModel(_) | Self::Off => return None,
            Self::Bound | Self::Unenforced => {
                let (at, breach) = broken_binding(chat)?;
                match breach {
                    SignatureError::Forged => (FORGED_THINKING, at, FORGED.to_owned()),
                    SignatureError::Gap | SignatureError::Prefix if drops_stale_blocks(chat) => {
                        return None;
                    }
                    SignatureError::Gap | SignatureError::Prefix if self == Self::Unenforced => {
                        return None;
                    }
                    SignatureError::Gap => (STALE_THINKING, at, format!("{STALE}{GAP}")),
                    SignatureError::Prefix => (STALE_THINKING, at, format!("{STALE}{DIFFERS}")),
                }
            }
            Self::Manual => (THINKING_LEFT_OUT, turn_without_thinking(chat)?, LEFT_OUT.to_owned()),
        };
        let message = format!("messages.{at}.content.0: {text}");
        let error = json!({"type": "invalid_request_error", "message": message});
        let body = json!({"type": "error", "error": error}).to_string();
        Some((rule, RefusalReply::new(400, "application/json", body)))
    }

    /// Returns the thinking of the answer to a request, as the value of `reasoning_details`; `None`
    /// without thinking.
    pub(crate) fn sign(self, chat: &ChatBody, ordinal: usize) -> Option<Value> {
        match self {
            Self::Off => return None,
            Self::ByModel(_) => {
                let is_off = member(chat.field("thinking"), "type") == "disabled";
                return (chat.is_messages() && !is_off).then(|| preserved::sign(ordinal));
            }
            Self::Bound | Self::Manual | Self::Unenforced => {}
        }
        let text = format!("Considering step {ordinal}, with all that was said before it.");
        let mut chain = Chain::new(chat.model());
        let mut prefix = start(chat);
        for message in chat.messages() {
            for block in blocks(message) {
                // Without enforcement, a stale block is as good as a valid one.
                _ = chain.check(&prefix, block);
            }
            prefix.add(&without_thinking(message));
        }
        if ordinal % REDACTED_EVERY == REDACTED_EVERY - 1 {
            let data = chain.sign(&prefix, "");
            return Some(json!([{"type": "reasoning.encrypted", "data": data,
                "format": "anthropic-claude-v1", "index": 0}]));
        }
        let signature = chain.sign(&prefix, &text);
        Some(json!([{"type": "reasoning.text", "text": text, "signature": signature,
            "format": "anthropic-claude-v1", "index": 0}]))
    }
}

/// Whether the client lets the provider drop blocks that no longer fit.
fn drops_stale_blocks(chat: &ChatBody) -> bool {
    let binding = member(chat.field("thinking"), "block_binding");
    member(binding, "prefix_mismatch_behavior") == "drop_block"
}

/// Returns the first message whose thinking breaks the chain, and how.
fn broken_binding(chat: &ChatBody) -> Option<(usize, SignatureError)> {
    let mut chain = Chain::new(chat.model());
    let mut prefix = start(chat);
    for (at, message) in chat.messages().iter().enumerate() {
        for block in blocks(message) {
            if let Err(breach) = chain.check(&prefix, block) {
                return Some((at, breach));
            }
        }
        prefix.add(&without_thinking(message));
    }
    None
}

/// Returns the first assistant message of the turn under way, if it lacks thinking and the turn is
/// one of tool calls.
fn turn_without_thinking(chat: &ChatBody) -> Option<usize> {
    let messages = chat.messages();
    let is_open = messages.last().is_some_and(|last| role(last) == "tool");
    let user = messages.iter().rposition(|it| role(it) == "user")?;
    let first = user + 1;
    let begins = messages.get(first)?;
    (is_open && role(begins) == "assistant" && blocks(begins).is_empty()).then_some(first)
}

/// Begins the prefix of a request: its tools, and the system prompt outside its messages.
fn start(chat: &ChatBody) -> SignedPrefix {
    let mut prefix = SignedPrefix::default();
    prefix.add(chat.field("tools"));
    prefix.add(chat.system());
    prefix
}

/// Returns the text and the signature of each block of thinking, in order.
fn blocks(message: &Value) -> Vec<(&str, &str)> {
    let beside = ["reasoning_details", "thinking_blocks"]
        .into_iter()
        .flat_map(|name| list(member(message, name)));
    let within = list(member(message, "content")).iter().filter(|part| is_thinking(part));
    beside
        .chain(within)
        .filter_map(|block| {
            let thought = block.get("thinking").or_else(|| block.get("text"));
            let thought = thought.and_then(Value::as_str).unwrap_or_default();
            let proof = block.get("signature").or_else(|| block.get("data"));
            Some((thought, proof?.as_str()?))
        })
        .collect()
}

fn is_thinking(part: &Value) -> bool {
    BLOCKS.contains(&member(part, "type").as_str().unwrap_or_default())
}

/// Returns a message without its thinking. A string counts as one block of text: the API joins both.
fn without_thinking(message: &Value) -> Value {
    let mut message = message.clone();
    if let Some(members) = message.as_object_mut() {
        for name in MEMBERS {
            members.remove(name);
        }
        match members.get_mut("content") {
            Some(Value::Array(parts)) => parts.retain(|part| !is_thinking(part)),
            Some(content @ Value::String(_)) => {
                let block = json!({"type": "text", "text": content});
                *content = json!([block]);
            }
            _ => {}
        }
    }
    message
}

#[cfg(test)]
mod tests;
