//! Decoded tool-call arguments, and the one argument that best identifies the call.

use crate::conversation::{Conversation, Message, ToolCall};
use crate::json::scanner::{NotJson, Scanner, has_unicode_escape};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// Arguments that name a file, as spelt by the agents whose sessions were recorded.
static PATH_KEYS: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("path_keys.txt").lines().collect());

/// Arguments that identify a call that names no file.
const MAIN_KEYS: [&str; 9] =
    ["command", "cmd", "pattern", "query", "url", "script", "code", "input", "name"];

/// Members that say what a task of a plan is.
static TASK_KEYS: LazyLock<Vec<&str>> =
    LazyLock::new(|| include_str!("task_keys.txt").lines().collect());

/// Member that says how far a task has come.
const STATUS_KEY: &str = "status";

/// Maximum values in arguments that are decoded: an empty value of two bytes takes about forty times
/// as much memory. Code that searches for words can use the undecoded text.
const MAX_VALUES: usize = 65_536;

/// Maximum members of an object decoded without a tree. The check for duplicates is quadratic.
const MAX_FLAT_MEMBERS: usize = 16;

impl ToolCall {
    /// Returns the tool's name; empty if the call has none.
    pub(crate) fn decoded_name<'a>(&self, conversation: &Conversation<'a>) -> Cow<'a, str> {
        let name = self.name.map(|name| name.decode(conversation.body()));
        name.unwrap_or_default()
    }
}

/// Maximum bytes of arguments, encoded, that are kept decoded: nearly all of a history of 200,000 tokens, and
/// at most 40 MB in memory.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// Messages whose calls are read several times. The arguments of the first calls are decoded once.
pub(crate) struct DecodedCalls<'c, 'a> {
    pub(crate) conversation: &'c Conversation<'a>,
    pub(crate) messages: Range<usize>,
    /// Index of the first call among those of the conversation.
    first: usize,
    /// Arguments of the calls from there on.
    kept: Vec<ToolArguments>,
}

impl<'c, 'a> DecodedCalls<'c, 'a> {
    /// Decodes the arguments of the calls in `messages`, at most [`MAX_KEPT_BYTES`].
    pub(crate) fn new(conversation: &'c Conversation<'a>, messages: Range<usize>) -> Self {
        let of = conversation.messages().get(messages.clone());
        let of = of.unwrap_or_default().iter().map(|it| &it.calls);
        let mut of = of.filter(|calls| !calls.is_empty());
        let first = of.clone().next().map_or(0, |calls| calls.start);
        let calls = first..of.next_back().map_or(0, |calls| calls.end);
        let calls = conversation.pieces.calls.get(calls).unwrap_or_default().iter();
        let mut left = MAX_KEPT_BYTES;
        let kept = calls.map_while(|call| {
            left = left.checked_sub(call.arguments.map_or(0, |it| it.span().len()))?;
            Some(ToolArguments::decode(conversation, call))
        });
        Self { conversation, messages, first, kept: kept.collect() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'c ToolCall, Cow<'_, ToolArguments>)> {
        let messages = self.conversation.messages().get(self.messages.clone());
        let messages = messages.unwrap_or_default().iter();
        messages.flat_map(|message| self.of(message))
    }

    pub(crate) fn of(
        &self,
        message: &Message,
    ) -> impl Iterator<Item = (&'c ToolCall, Cow<'_, ToolArguments>)> {
        let calls = self.conversation.calls(message).iter();
        message.calls.clone().zip(calls).map(|(at, call)| {
            let at = at.checked_sub(self.first);
            let kept = at.and_then(|at| self.kept.get(at));
            let decode = || Cow::Owned(ToolArguments::decode(self.conversation, call));
            (call, kept.map_or_else(decode, Cow::Borrowed))
        })
    }
}

/// The arguments of one call, decoded: distinct names with their values, in order.
#[derive(Clone)]
pub struct ToolArguments(Vec<(String, Value)>);

impl ToolArguments {
    /// Decodes the arguments of `call`. Empty if they are not a JSON object or have too many
    /// values.
    pub fn decode(conversation: &Conversation<'_>, call: &ToolCall) -> Self {
        let text = call
            .arguments
            .map(|literal| literal.decode(conversation.body()))
            .filter(|text| is_within_value_limit(text));
        let members = text.map(|text| read_flat(&text).unwrap_or_else(|| read_tree(&text)));
        Self(members.unwrap_or_default())
    }

    /// Returns the text of a call whose tool takes text in place of a JSON object.
    pub(crate) fn free_text<'a>(
        &self,
        conversation: &Conversation<'a>,
        call: &ToolCall,
    ) -> Option<Cow<'a, str>> {
        let literal = call.arguments.filter(|_| self.0.is_empty());
        let text = literal.map(|literal| literal.decode(conversation.body()));
        text.filter(|text| !text.trim_start().starts_with(['{', '[']))
    }

    /// Returns the file that the call names.
    pub fn path(&self) -> Option<&str> {
        self.first_string(PATH_KEYS.iter().copied())
    }

    /// Returns the argument that best identifies the call: its file, else its command, pattern,
    /// query and so on, else its first non-empty string.
    pub fn primary(&self) -> Option<&str> {
        self.path().or_else(|| self.first_string(MAIN_KEYS)).or_else(|| {
            let values = self.0.iter();
            values.filter_map(|(_, value)| value.as_str()).find(|text| !text.is_empty())
        })
    }

    /// Returns the pattern or the query for which a call searches a file or a directory.
    pub(crate) fn pattern(&self) -> Option<&str> {
        self.first_string(["pattern", "query", "regex"])
    }

    pub(crate) fn folder(&self) -> Option<&str> {
        self.first_string(["workdir", "cwd", "working_directory", "directory"])
    }

    pub(crate) fn plan(&self) -> Option<&str> {
        self.first_string(["plan", "summary"])
    }

    /// Returns the tasks of the agent's own plan, each with its status. Empty if no argument is a list of tasks.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (&str, &str)> {
        let lists = self.0.iter().filter_map(|(_, value)| value.as_array());
        lists.flatten().filter_map(|task| {
            let status = task.get(STATUS_KEY)?.as_str()?;
            let mut texts = TASK_KEYS.iter().filter_map(|key| task.get(key)?.as_str());
            texts.find(|text| !text.is_empty()).map(|text| (text, status))
        })
    }

    /// Returns the status that the call gives to something, such as a task.
    pub(crate) fn status(&self) -> Option<&str> {
        self.first_string([STATUS_KEY])
    }

    /// Returns the shell command that the call runs. Agents pass a string or a list of words.
    pub fn command(&self) -> Option<Cow<'_, str>> {
        ["command", "cmd", "script"].iter().find_map(|key| match self.get(key)? {
            Value::String(text) => Some(Cow::Borrowed(text.as_str())),
            Value::Array(words) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                Some(Cow::Owned(words.join(" ")))
            }
            Value::Bool(_) | Value::Null | Value::Number(_) | Value::Object(_) => None,
        })
    }

    /// Returns every name and value, in order, with values as text.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.0.iter().map(|(name, value)| {
            let json = || Cow::Owned(value.to_string());
            (name.as_str(), value.as_str().map_or_else(json, Cow::Borrowed))
        })
    }

    fn get(&self, key: &str) -> Option<&Value> {
        let mut members = self.0.iter();
        members.find_map(|(name, value)| (name == key).then_some(value))
    }

    fn first_string<'k>(&self, keys: impl IntoIterator<Item = &'k str>) -> Option<&str> {
        keys.into_iter().filter_map(|key| self.get(key)?.as_str()).find(|text| !text.is_empty())
    }
}

/// Reads an object whose values hold no others, as most arguments are. Returns `None` for any other text.
fn read_flat(text: &str) -> Option<Vec<(String, Value)>> {
    // The scanner accepts lone surrogates.
    if has_unicode_escape(text) {
        return None;
    }
    let mut members: Vec<(String, Value)> = Vec::new();
    let mut scanner = Scanner::new(text);
    let object = scanner.object(|scanner, key| {
        let value = match scanner.peek() {
            Some(b'"') => Value::String(scanner.string()?.decode(text).into_owned()),
            Some(b'[' | b'{') | None => return Err(NotJson),
            Some(_) => {
                let json = scanner.value()?.slice(text);
                serde_json::from_str(json).map_err(|_| NotJson)?
            }
        };
        let name = key.decode(text);
        if let Some((_, known)) = members.iter_mut().find(|(known, _)| *known == *name) {
            *known = value;
        } else if members.len() < MAX_FLAT_MEMBERS {
            members.push((name.into_owned(), value));
        } else {
            return Err(NotJson);
        }
        Ok(())
    });
    object.and_then(|_| scanner.finish()).ok()?;
    Some(members)
}

/// Reads any JSON. Empty if it is not an object.
fn read_tree(text: &str) -> Vec<(String, Value)> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => members.into_iter().collect(),
        Ok(_) | Err(_) => Vec::new(),
    }
}

/// Whether at most [`MAX_VALUES`] values begin in a JSON text, not counting the first.
fn is_within_value_limit(text: &str) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    let begins = |byte: &u8| {
        let was_escaped = std::mem::take(&mut escaped);
        match *byte {
            b'"' if !was_escaped => quoted = !quoted,
            b'\\' => escaped = quoted && !was_escaped,
            b',' | b'[' | b'{' => return !quoted,
            _ => {}
        }
        false
    };
    // Most texts are too short to exceed the limit and are not scanned.
    text.len() <= MAX_VALUES || text.bytes().filter(begins).nth(MAX_VALUES).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use serde_json::json;

    #[test]
    fn primary_argument_prefers_known_keys_then_any_non_empty_string() {
        for (arguments, main) in [
            (json!({"query": "x", "path": "a.rs"}), Some("a.rs")),
            (json!({"path": "", "file": "b.rs"}), Some("b.rs")),
            (json!({"other": "y", "query": "x"}), Some("x")),
            (json!({"n": 1, "empty": "", "other": "y"}), Some("y")),
            (json!({"n": 1, "empty": ""}), None),
            (json!(["x"]), None),
        ] {
            let members = read_tree(&arguments.to_string());
            assert_eq!(ToolArguments(members).primary(), main);
        }
    }

    #[test]
    fn a_flat_object_reads_like_a_tree() {
        for text in [
            "{}",
            r#" { "path" : "a.rs" , "n" : 1.50, "all":true,"x":null } "#,
            r#"{"path":"a.rs","n":1,"path":"b\n\"c\"\\.rs"}"#,
            r#"{"n":-0,"big":123456789012345678901234567890,"e":1E2}"#,
        ] {
            assert_eq!(read_flat(text), Some(read_tree(text)), "{text}");
        }
        let many: Vec<String> = (0..=MAX_FLAT_MEMBERS).map(|at| format!(r#""{at}":0"#)).collect();
        for text in [
            r#"{"path":"\u0061"}"#,
            r#"{"path":"\ud800"}"#,
            r#"{"path":["a.rs"]}"#,
            r#"{"path":{}}"#,
            r#"{"n":1e999}"#,
            r#"{"path":"a.rs"} x"#,
            r#"{"path":"a.rs""#,
            "[]",
            "",
            &format!("{{{}}}", many.join(",")),
        ] {
            assert_eq!(read_flat(text), None, "{text}");
        }
    }

    /// Returns the file that a call with these arguments names.
    fn path(arguments: &str) -> Option<String> {
        let call = json!({"id": "a", "function": {"name": "write", "arguments": arguments}});
        let asks = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let body = json!({"messages": [asks]}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let message = conversation.message(0).unwrap();
        let call = conversation.calls(message).first().unwrap();
        ToolArguments::decode(&conversation, call).path().map(str::to_owned)
    }

    #[test]
    fn arguments_are_the_same_whether_or_not_they_are_kept() {
        let call = |at: usize, length: usize| {
            let arguments = json!({"n": at, "x": "x".repeat(length)}).to_string();
            json!({"id": at.to_string(), "function": {"name": "f", "arguments": arguments}})
        };
        let asks =
            |calls: Value| json!({"role": "assistant", "content": null, "tool_calls": calls});
        let long = MAX_KEPT_BYTES / 2 + 1;
        let messages = json!([
            asks(json!([call(0, 1), call(1, 1)])),
            {"role": "user", "content": "go on"},
            asks(json!([call(2, 1), call(3, long)])),
            asks(json!([call(4, long), call(5, 1)])),
        ]);
        let body = json!({"messages": messages}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let calls = DecodedCalls::new(&conversation, 1..4);
        assert_eq!(calls.kept.len(), 2);
        assert_eq!(calls.iter().count(), 4);
        for message in conversation.messages() {
            for (call, arguments) in calls.of(message) {
                let decoded = ToolArguments::decode(&conversation, call);
                assert_eq!(arguments.0, decoded.0);
            }
            assert_eq!(calls.of(message).count(), conversation.calls(message).len());
        }
    }

    #[test]
    fn arguments_of_too_many_values_are_not_read() {
        // The object, the list and the comma between the members count as three.
        let list = |commas: usize| format!(r#"{{"path":"a.rs","x":[0{}]}}"#, ",0".repeat(commas));
        assert_eq!(path(&list(MAX_VALUES - 3)).as_deref(), Some("a.rs"));
        assert_eq!(path(&list(MAX_VALUES - 2)), None);
        let nested = format!(r#"{{"path":"a.rs","x":[{}0]}}"#, "{},".repeat(MAX_VALUES / 2));
        assert_eq!(path(&nested), None);
    }

    #[test]
    fn brackets_and_commas_in_a_string_do_not_count_as_values() {
        let text = r#"[{,\\\"{"#.repeat(MAX_VALUES);
        let arguments = format!(r#"{{"content":"{text}","path":"a.rs"}}"#);
        assert_eq!(path(&arguments).as_deref(), Some("a.rs"));
        // The string ends with an escaped backslash; the quote after it is not escaped.
        let many = ",0".repeat(MAX_VALUES);
        let arguments = format!(r#"{{"root":"C:\\","path":"a.rs","x":[0{many}]}}"#);
        assert_eq!(path(&arguments), None);
    }
}
