//! A conversation as this measurement reads it: plainly, and with none of the product's code.

use crate::identifiers;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// Who wrote a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    Assistant,
    Head,
    Tool,
    User,
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) role: Role,
    /// What it says.
    pub(crate) text: String,
    /// What its calls say: their names and the strings among their arguments.
    pub(crate) calls: String,
}

impl Message {
    /// Characters over four.
    pub(crate) fn tokens(&self) -> usize {
        tokens(&self.text) + tokens(&self.calls)
    }

    /// Calls `found` for each identifier in it.
    pub(crate) fn identifiers<'m>(&'m self, found: &mut impl FnMut(&'m str)) {
        identifiers::each(&self.text, found);
        identifiers::each(&self.calls, found);
    }
}

/// Characters over four.
pub(crate) fn tokens(text: &str) -> usize {
    text.chars().count() / 4
}

/// The messages of a request body.
pub(crate) fn messages(body: &[u8]) -> Result<Vec<Message>, serde_json::Error> {
    let body: Value = serde_json::from_slice(body)?;
    let messages = body.get("messages").and_then(Value::as_array);
    Ok(messages.into_iter().flatten().map(message).collect())
}

fn message(message: &Value) -> Message {
    let role = message.get("role").and_then(Value::as_str);
    let mut text = String::new();
    match message.get("content") {
        Some(Value::String(content)) => text.push_str(content),
        Some(Value::Array(parts)) => {
            for part in parts.iter().filter_map(|part| part.get("text")?.as_str()) {
                text.push_str(part);
                text.push('\n');
            }
        }
        _ => {}
    }
    let mut said = String::new();
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
            Some("user") => Role::User,
            _ => Role::Head,
        },
        text,
        calls: said,
    }
}

/// All values in arguments, a line each. The keys are the tool's, not the agent's.
fn strings(value: &Value, out: &mut String) {
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

/// How many replies there are from `cut` on.
pub(crate) fn replies_from(messages: &[Message], cut: usize) -> usize {
    replies(messages, cut).count()
}

fn replies(messages: &[Message], cut: usize) -> impl Iterator<Item = &Message> {
    let rest = messages.iter().skip(cut);
    rest.filter(|message| message.role == Role::Assistant)
}

/// What the next replies use of the history before a cut.
pub(crate) struct Wanted<'h> {
    /// All of it.
    pub(crate) all: HashSet<&'h str>,
    /// What was last seen far back, and in tool results only.
    pub(crate) far: HashSet<&'h str>,
}

/// So many replies are looked at.
pub(crate) const REPLIES: usize = 10;
/// An identifier is far if it was last seen more than so many tokens back.
const FAR: usize = 20_000;

impl<'h> Wanted<'h> {
    /// What the ten replies from `cut` on use of what is before it.
    pub(crate) fn of(messages: &'h [Message], cut: usize) -> Self {
        let history = messages.get(..cut).unwrap_or_default();
        let mut used = HashSet::new();
        for reply in replies(messages, cut).take(REPLIES) {
            reply.identifiers(&mut |found| _ = used.insert(found));
        }
        // How far back each was last seen, and whether anything but a tool ever said it.
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
