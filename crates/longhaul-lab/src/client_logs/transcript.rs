//! A conversation collected from a log, and its request body.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value, json};

use super::LogSource;

/// Places of the token counts of a prompt, as its provider gave them: of Claude Code, Codex, pi and OpenCode.
/// No entry has those of two agents.
const PROMPT_COUNTS: &str = include_str!("prompt_counts.txt");

/// A conversation of a log, as the body of its last request.
#[derive(Debug)]
pub(crate) struct LoggedConversation {
    pub(crate) source: LogSource,
    /// The name of the log, and a number if it holds several conversations.
    pub(crate) name: String,
    /// The name of the provider, if the log has one.
    pub(crate) provider: Option<String>,
    /// A request body in the Chat Completions dialect.
    pub(crate) body: Vec<u8>,
    /// Whether the agent itself compacted the conversation at its end.
    pub(crate) compacted_by_agent: bool,
    /// Requests that the model answered.
    pub(crate) requests: usize,
    /// Tokens of the largest prompt as the provider counted it; 0 if the log states none.
    pub(crate) largest_prompt: u64,
}

/// The messages of a log so far, in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    messages: Vec<Value>,
    /// Calls that have no result yet.
    open_calls: HashSet<String>,
    /// The identity of the newest assistant message, which may be spread over several lines.
    step: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    /// Whether the log is a subagent's, by its first message.
    is_sidechain: Option<bool>,
    /// Tokens of the largest prompt since the last compaction.
    largest_prompt: u64,
    /// Conversations that ended with a compaction by the agent, and their largest prompts.
    finished: Vec<(Vec<Value>, u64)>,
}

impl Transcript {
    pub(super) fn set_model(&mut self, model: Option<&str>, provider: Option<&str>) {
        if let Some(model) = model.filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
        if let Some(provider) = provider {
            self.provider = Some(provider.to_owned());
        }
    }

    /// Notes the size of a prompt if `entry` states one: a line of a log, or the head of a message.
    pub(super) fn note_prompt(&mut self, entry: &Value) {
        let counts = PROMPT_COUNTS.lines().filter_map(|place| entry.pointer(place)?.as_u64());
        self.largest_prompt = self.largest_prompt.max(counts.fold(0, u64::saturating_add));
    }

    /// Whether a message belongs to the same agent as the first one of the log.
    pub(super) fn is_same_chain(&mut self, is_sidechain: bool) -> bool {
        *self.is_sidechain.get_or_insert(is_sidechain) == is_sidechain
    }

    /// Adds a message of the user. Empty ones are left out.
    pub(super) fn add_user(&mut self, text: &str) {
        if !text.is_empty() {
            self.close_step();
            self.messages.push(json!({ "role": "user", "content": text }));
        }
    }

    /// Adds text of the assistant. Lines with the same `step` are one message.
    pub(super) fn add_text(&mut self, step: Option<&str>, text: &str) {
        if text.is_empty() {
            return;
        }
        self.change_assistant(step, |message| match message.get_mut("content") {
            Some(Value::String(before)) if !before.is_empty() => {
                before.push('\n');
                before.push_str(text);
            }
            Some(_) | None => message["content"] = text.into(),
        });
    }

    /// Adds a tool call of the assistant. `arguments` are JSON as text.
    pub(super) fn add_call(&mut self, step: Option<&str>, id: &str, name: &str, arguments: &str) {
        if id.is_empty() {
            return;
        }
        // A request needs an object here, and an interrupted agent may have logged less.
        let is_object = serde_json::from_str::<Map<String, Value>>(arguments).is_ok();
        let arguments = if is_object { arguments } else { "{}" };
        let name = tool_name(name);
        let call = json!({
            "id": id, "type": "function", "function": { "name": name, "arguments": arguments },
        });
        self.change_assistant(step, |message| {
            match message.get_mut("tool_calls").and_then(Value::as_array_mut) {
                Some(calls) => calls.push(call),
                None => message["tool_calls"] = vec![call].into(),
            }
        });
        self.open_calls.insert(id.to_owned());
    }

    /// Adds the result of a call. A result without its call is left out: no request holds such a result.
    pub(super) fn add_result(&mut self, id: &str, text: &str) {
        if self.open_calls.remove(id) {
            let content = if text.is_empty() { "(no output)" } else { text };
            self.messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
        }
    }

    /// Ends a conversation that the agent compacted. The log goes on with another conversation.
    pub(super) fn end_with_compaction(&mut self) {
        self.close_step();
        if !self.messages.is_empty() {
            let messages = std::mem::take(&mut self.messages);
            self.finished.push((messages, std::mem::take(&mut self.largest_prompt)));
        }
    }

    /// Changes the newest assistant message if it belongs to `step`, or else a new message.
    fn change_assistant(&mut self, step: Option<&str>, change: impl FnOnce(&mut Value)) {
        let is_last = self.messages.last().is_some_and(|last| last["role"] == "assistant");
        let is_same = is_last && step.is_none_or(|step| self.step.as_deref() == Some(step));
        if !is_same {
            self.close_step();
            self.messages.push(json!({ "role": "assistant", "content": null }));
            self.step = step.map(str::to_owned);
        }
        if let Some(message) = self.messages.last_mut() {
            change(message);
        }
    }

    /// Answers every open call: an interrupted agent sends a result for each all the same.
    fn close_step(&mut self) {
        let mut open: Vec<String> = self.open_calls.drain().collect();
        open.sort_unstable();
        for id in open {
            let content = "(interrupted)";
            self.messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
        }
        self.step = None;
    }

    /// Returns the conversations. One without a user message had no request, and is left out.
    pub(super) fn finish(mut self, source: LogSource, name: &str) -> Vec<LoggedConversation> {
        self.close_step();
        let compactions = self.finished.len();
        let last = (std::mem::take(&mut self.messages), self.largest_prompt);
        let model = self.model.unwrap_or_else(|| "unknown".to_owned());
        let all = self.finished.into_iter().chain([last]).enumerate();
        let spoken = all.filter(|(_, (all, _))| all.iter().any(|one| one["role"] == "user"));
        let made = spoken.map(|(at, (messages, largest_prompt))| LoggedConversation {
            source,
            name: if compactions == 0 { name.to_owned() } else { format!("{name} ({})", at + 1) },
            provider: self.provider.clone(),
            body: request_body(&model, &messages),
            compacted_by_agent: at < compactions,
            requests: messages.iter().filter(|one| one["role"] == "assistant").count(),
            largest_prompt,
        });
        made.collect()
    }
}

/// Maximum characters of a tool's name in a request.
const NAME_CHARS: usize = 64;

/// Returns `name` with the characters that a request allows in a tool's name.
fn tool_name(name: &str) -> String {
    let letter = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
    };
    let allowed: String = name.chars().map(letter).take(NAME_CHARS).collect();
    if allowed.is_empty() { "tool".to_owned() } else { allowed }
}

/// Returns the body of a request with all `messages`. A history with calls needs the tools; a log
/// names them without their schemas.
fn request_body(model: &str, messages: &[Value]) -> Vec<u8> {
    let calls = messages.iter().filter_map(|message| message.get("tool_calls")?.as_array());
    let names = calls.flatten().filter_map(|call| call.pointer("/function/name")?.as_str());
    let names: BTreeSet<&str> = names.collect();
    let tools = names.into_iter().map(|name| {
        json!({ "type": "function", "function": {
            "name": name, "parameters": { "type": "object" }
        } })
    });
    let tools: Vec<Value> = tools.collect();
    let body = if tools.is_empty() {
        json!({ "model": model, "messages": messages })
    } else {
        json!({ "model": model, "messages": messages, "tools": tools })
    };
    body.to_string().into_bytes()
}
