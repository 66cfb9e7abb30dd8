//! Decoded tool-call arguments, and the one argument that best identifies the call.

use crate::conversation::{Conversation, ToolCall};
use serde_json::Value;

/// Arguments that name a file, as spelt by the agents whose sessions were recorded.
const PATH_KEYS: [&str; 10] = [
    "path",
    "file_path",
    "filePath",
    "filepath",
    "filename",
    "file",
    "target_file",
    "absolute_path",
    "notebook_path",
    "relative_path",
];

/// Arguments that identify a call that names no file.
const MAIN_KEYS: [&str; 9] = [
    "command", "cmd", "pattern", "query", "url", "script", "code", "input", "name",
];

/// Most values in arguments that are decoded: an empty value of two bytes takes about forty times
/// as much memory. Code that searches for words can use the undecoded text.
const MAX_VALUES: usize = 65_536;

/// The arguments of one call, decoded.
pub(crate) struct ToolArguments(Value);

impl ToolArguments {
    /// Decodes the arguments of `call`. Empty if they are not a JSON object or have too many
    /// values.
    pub(crate) fn decode(conversation: &Conversation<'_>, call: &ToolCall) -> Self {
        let text = call
            .arguments
            .map(|literal| literal.decode(conversation.body()))
            .filter(|text| is_within_value_limit(text));
        Self(
            text.and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
        )
    }

    /// Returns the file that the call names.
    pub(crate) fn path(&self) -> Option<&str> {
        self.first_string(&PATH_KEYS)
    }

    /// Returns the argument that best identifies the call: its file, else its command, pattern,
    /// query and so on, else its first non-empty string.
    pub(crate) fn primary(&self) -> Option<&str> {
        self.path()
            .or_else(|| self.first_string(&MAIN_KEYS))
            .or_else(|| {
                self.0
                    .as_object()?
                    .values()
                    .filter_map(Value::as_str)
                    .find(|text| !text.is_empty())
            })
    }

    /// Returns the shell command that the call runs. Agents pass a string or a list of words.
    pub(crate) fn command(&self) -> Option<String> {
        ["command", "cmd", "script"]
            .iter()
            .find_map(|key| match self.0.get(key)? {
                Value::String(text) => Some(text.clone()),
                Value::Array(words) => {
                    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                    Some(words.join(" "))
                }
                Value::Bool(_) | Value::Null | Value::Number(_) | Value::Object(_) => None,
            })
    }

    /// Returns every name and value, in order, with values as text.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, String)> {
        self.0
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                (name.as_str(), text)
            })
    }

    fn first_string(&self, keys: &[&str]) -> Option<&str> {
        keys.iter()
            .filter_map(|key| self.0.get(key)?.as_str())
            .find(|text| !text.is_empty())
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
            assert_eq!(ToolArguments(arguments).primary(), main);
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
        ToolArguments::decode(&conversation, call)
            .path()
            .map(str::to_owned)
    }

    #[test]
    fn arguments_of_too_many_values_are_not_read() {
        // The object, the list and the comma between the members count as three.
        let list = |commas: usize| format!(r#"{{"path":"a.rs","x":[0{}]}}"#, ",0".repeat(commas));
        assert_eq!(path(&list(MAX_VALUES - 3)).as_deref(), Some("a.rs"));
        assert_eq!(path(&list(MAX_VALUES - 2)), None);
        let nested = format!(
            r#"{{"path":"a.rs","x":[{}0]}}"#,
            "{},".repeat(MAX_VALUES / 2)
        );
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
