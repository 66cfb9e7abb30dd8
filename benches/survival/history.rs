//! A plain reader of conversations for this benchmark, independent of the product's code.

use crate::identifiers;
use crate::other_apis;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Role of a message's author.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    Assistant,
    Head,
    Tool,
    User,
}

/// A message of the history.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) role: Role,
    /// Text content.
    pub(crate) text: String,
    /// Text of the tool calls: their names and the strings in their arguments.
    pub(crate) calls: String,
}

impl Message {
    /// Estimated tokens: characters divided by four.
    pub(crate) fn tokens(&self) -> usize {
        tokens(&self.text) + tokens(&self.calls)
    }

    /// Calls `found` for each identifier in the message.
    pub(crate) fn identifiers<'m>(&'m self, found: &mut impl FnMut(&'m str)) {
        identifiers::each(&self.text, found);
        identifiers::each(&self.calls, found);
    }
}

/// Estimated tokens: characters divided by four.
pub(crate) fn tokens(text: &str) -> usize {
    text.chars().count() / 4
}

/// Reads the messages of a request body, whatever its API.
pub(crate) fn messages(body: &[u8]) -> Result<Vec<Message>, serde_json::Error> {
    let body: Value = serde_json::from_slice(body)?;
    if let Some(items) = body.get("input").and_then(Value::as_array) {
        return Ok(items.iter().map(other_apis::item).collect());
    }
    let messages = body.get("messages").and_then(Value::as_array);
    Ok(messages.into_iter().flatten().map(message).collect())
}

fn message(message: &Value) -> Message {
    let role = message.get("role").and_then(Value::as_str);
    let mut text = String::new();
    let mut said = String::new();
    match message.get("content") {
        Some(Value::String(content)) => text.push_str(content),
        Some(Value::Array(parts)) => {
            for part in parts.iter().filter_map(|part| part.get("text")?.as_str()) {
                text.push_str(part);
                text.push('\n');
            }
            other_apis::blocks(parts, &mut text, &mut said);
        }
        _ => {}
    }
    let calls = message.get("tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        let Some(function) = call.get("function") else {
            continue;
        };
        let member = |name: &str| function.get(name).and_then(Value::as_str);
        said.push_str(member("name").unwrap_or_default());
        said.push('\n');
        let arguments = member("arguments").unwrap_or_default();
        match arguments.parse() {
            Ok(arguments) => strings(&arguments, &mut said),
            Err(_) => said.push_str(arguments),
        }
    }
    Message {
        role: match role {
            Some("assistant") => Role::Assistant,
            Some("tool") => Role::Tool,
            Some("user") if other_apis::has_result(message) => Role::Tool,
            Some("user") => Role::User,
            _ => Role::Head,
        },
        text,
        calls: said,
    }
}

/// Appends all values in arguments, one per line. Keys are left out: the tool defines them, not the
/// agent.
pub(crate) fn strings(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(members) => members.values().for_each(|item| strings(item, out)),
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Number(number) => {
            out.push_str(&number.to_string());
            out.push('\n');
        }
        Value::Bool(_) | Value::Null => {}
    }
}

/// Counts the replies from `cut` on.
pub(crate) fn replies_from(messages: &[Message], cut: usize) -> usize {
    replies(messages, cut).count()
}

fn replies(messages: &[Message], cut: usize) -> impl Iterator<Item = &Message> {
    let rest = messages.iter().skip(cut);
    rest.filter(|message| message.role == Role::Assistant)
}

/// Identifiers from before a cut that the next replies use.
pub(crate) struct Wanted<'h> {
    /// All of these identifiers.
    pub(crate) all: HashSet<&'h str>,
    /// Identifiers last seen far back, and only in tool results.
    pub(crate) far: HashSet<&'h str>,
}

/// Number of replies examined.
pub(crate) const REPLIES: usize = 10;
/// Distance in tokens beyond which an identifier counts as far back.
const FAR: usize = 20_000;

impl<'h> Wanted<'h> {
    /// Collects the identifiers from before `cut` that the ten replies after it use.
    pub(crate) fn of(messages: &'h [Message], cut: usize) -> Self {
        let history = messages.get(..cut).unwrap_or_default();
        let mut used = HashSet::new();
        for reply in replies(messages, cut).take(REPLIES) {
            reply.identifiers(&mut |found| _ = used.insert(found));
        }
        // For each identifier: the distance of its last use, and whether it appears outside tool
        // results.
        let mut seen: HashMap<&str, (usize, bool)> = HashMap::new();
        let mut back = 0;
        for message in history.iter().rev() {
            message.identifiers(&mut |found| {
                let sighting = seen.entry(found).or_insert((back, true));
                sighting.1 &= message.role == Role::Tool;
            });
            back += message.tokens();
        }
        let all: HashSet<&str> = used
            .iter()
            .copied()
            .filter(|it| seen.contains_key(it))
            .collect();
        let is_far = |it: &&str| {
            seen.get(it)
                .is_some_and(|(back, only_tools)| *back > FAR && *only_tools)
        };
        let far = all.iter().copied().filter(is_far).collect();
        Self { all, far }
    }
}
