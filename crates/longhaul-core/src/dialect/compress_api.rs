//! `POST /v1/compress`: a gateway sends the messages of a chat and gets them back smaller.
//!
//! The form is that of headroom's service, which several gateways call. The messages have the form of any
//! dialect, and come without instructions and tools.

#[cfg(test)]
mod tests;

use crate::dialect::Dialect;
use crate::dialect::body_reader::MAX_PIECES;
use crate::dialect::messages::has_own_blocks;
use crate::json::lenient::{Lenient, parse_object};
use crate::json::scanner::{NotJson, Scanner, elements, members};
use crate::units::tokens::Tokens;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Path of the requests.
pub const PATH: &str = "/v1/compress";
/// Header that leaves the messages as they are, if its value is `true`.
pub const BYPASS_HEADER: &str = "x-headroom-bypass";
/// Members of a message that only chat completions have.
const CHAT_KEYS: [&str; 4] =
    ["reasoning_content", "reasoning_details", "thinking_blocks", "tool_calls"];
/// Role of a result in chat completions, as JSON.
const RESULT: &str = r#""tool""#;

/// The part of a chat that a gateway sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SentPart {
    /// All messages.
    Messages,
    /// The results of tools, without the calls. `LiteLLM` withholds what the model said, and takes back as
    /// many messages as it sent.
    Results,
}

/// A request of a gateway.
#[derive(Debug)]
pub struct CompressRequest<'a> {
    /// JSON of the list of messages.
    messages: &'a str,
    /// JSON of the model's name.
    model: &'a str,
    /// Dialect of the messages.
    pub dialect: Dialect,
    /// Part of the chat that the messages are.
    pub part: SentPart,
    /// Tokens that the messages may take. `None`: what the model's window is expected to leave.
    pub budget: Option<Tokens>,
    /// Name that parts sessions with the same messages. Empty if none is given.
    pub session: String,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(default)]
    token_budget: Lenient<u32>,
    #[serde(default)]
    config: Lenient<Options>,
}

#[derive(Deserialize)]
struct Options {
    session_id: Option<String>,
}

impl<'a> CompressRequest<'a> {
    /// Reads a request. Unknown fields count for nothing.
    ///
    /// # Errors
    /// The reason why the request is invalid.
    pub fn parse(body: &'a [u8]) -> Result<Self, &'static str> {
        let body: Body<'_> =
            parse_object(body).ok_or("the body is no JSON object, or has a field twice")?;
        let json = |value: Option<&'a RawValue>, start: char| {
            value.map(RawValue::get).filter(|json| json.starts_with(start))
        };
        let messages = json(body.messages.or(body.input), '[')
            .ok_or("the field messages is missing, or no list")?;
        let model = json(body.model, '"').ok_or("the field model is missing, or no string")?;
        let (dialect, part) = form(messages, body.messages.is_none());
        let budget = body.token_budget.0.filter(|tokens| *tokens > 0).map(Tokens::new);
        let session = body.config.0.and_then(|options| options.session_id).unwrap_or_default();
        Ok(Self { messages, model, dialect, part, budget, session })
    }

    /// Returns the body of a chat with the messages. Results without their calls each follow a call that
    /// stands in for the withheld one.
    pub fn chat_body(&self) -> String {
        let list = match self.part {
            SentPart::Messages => Cow::Borrowed(self.messages),
            SentPart::Results => {
                let results = elements(self.messages).filter(|item| is_result(item));
                let steps: Vec<String> = results.map(step_of_result).collect();
                Cow::Owned(format!("[{}]", steps.join(",")))
            }
        };
        let key = self.dialect.facts().list_key;
        format!(r#"{{"model":{},"{key}":{list}}}"#, self.model)
    }

    /// Returns the reply with the messages as they came.
    pub fn unchanged(&self) -> String {
        reply(self.messages, (Tokens::ZERO, Tokens::ZERO), &[])
    }

    /// Returns the reply with the messages of `body`, an edited [`chat_body`](Self::chat_body), their sizes
    /// before and after, and the actions. `None` if messages are missing.
    pub fn changed(&self, body: &str, sizes: (Tokens, Tokens), actions: &[&str]) -> Option<String> {
        let list = member(body, self.dialect.facts().list_key)?;
        let list = match self.part {
            SentPart::Messages => Cow::Borrowed(list),
            SentPart::Results => {
                let mut results = elements(list).filter(|item| is_result(item));
                let items = elements(self.messages);
                let items = items.map(|it| if is_result(it) { results.next() } else { Some(it) });
                Cow::Owned(format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(",")))
            }
        };
        Some(reply(&list, sizes, actions))
    }
}

/// Returns the body of a refusal.
pub fn error_body(message: &str) -> String {
    json!({"error": {"type": "invalid_request", "message": message}}).to_string()
}

fn reply(messages: &str, (before, after): (Tokens, Tokens), actions: &[&str]) -> String {
    let saved = (before - after).get();
    let (before, after) = (before.get(), after.get());
    let ratio = if before == 0 { 1.0 } else { f64::from(after) / f64::from(before) };
    let sizes =
        format!(r#""tokens_before":{before},"tokens_after":{after},"tokens_saved":{saved}"#);
    let actions = json!(actions);
    format!(
        r#"{{"messages":{messages},{sizes},"compression_ratio":{ratio:?},"transforms_applied":{actions}}}"#
    )
}

/// Tells the dialect of a list by its shape, and whether the list is all of a chat. The reader of the
/// dialect refuses a list that is neither.
fn form(list: &str, is_input: bool) -> (Dialect, SentPart) {
    let (mut count, mut is_chat, mut is_responses) = (0, false, is_input);
    let (mut has_results, mut has_answers) = (false, false);
    let read = Scanner::new(list).array(|scanner| {
        count += 1;
        let mut role = None;
        for (key, value) in members(scanner.value()?.slice(list)) {
            role = if key == "role" { Some(value) } else { role };
            is_chat |= CHAT_KEYS.contains(&&*key);
        }
        is_responses |= role.is_none();
        has_answers |= role == Some(r#""assistant""#);
        has_results |= role == Some(RESULT);
        if count > MAX_PIECES { Err(NotJson) } else { Ok(()) }
    });
    if read.is_ok() && is_responses {
        (Dialect::Responses, SentPart::Messages)
    } else if read.is_ok() && has_results && !has_answers {
        (Dialect::ChatCompletions, SentPart::Results)
    } else if !is_chat && !has_results && has_own_blocks(list) {
        (Dialect::Messages, SentPart::Messages)
    } else {
        (Dialect::ChatCompletions, SentPart::Messages)
    }
}

fn member<'j>(item: &'j str, key: &str) -> Option<&'j str> {
    members(item).find_map(|(name, value)| (name == key).then_some(value))
}

fn is_result(item: &str) -> bool {
    member(item, "role") == Some(RESULT)
}

/// Returns a result after a call that it answers.
fn step_of_result(result: &str) -> String {
    let id = member(result, "tool_call_id").unwrap_or(r#""""#);
    let call = r#""type":"function","function":{"name":"withheld","arguments":"{}"}"#;
    let calls = format!(r#""tool_calls":[{{"id":{id},{call}}}]"#);
    format!(r#"{{"role":"assistant","content":null,{calls}}},{result}"#)
}
