//! What a tool call is about: the one argument that a reader would name it by.

use super::conversation::{Call, Conversation};
use serde_json::Value;

/// Arguments that name a file, in the spelling of the agents whose sessions we have.
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

/// Arguments that a call is known by when it names no file.
const MAIN_KEYS: [&str; 9] = [
    "command", "cmd", "pattern", "query", "url", "script", "code", "input", "name",
];

/// The arguments of one call, decoded.
pub(super) struct Arguments(Value);

impl Arguments {
    /// Those of `call`; what is no JSON object has none.
    pub(super) fn of(conversation: &Conversation<'_>, call: &Call) -> Self {
        let text = call
            .arguments
            .map(|literal| literal.decode(conversation.body()));
        Self(
            text.and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
        )
    }

    /// The file it is about.
    pub(super) fn path(&self) -> Option<&str> {
        self.first_of(&PATH_KEYS)
    }

    /// What a reader would name the call by: its file, else its command, pattern, query …, else
    /// its first string.
    pub(super) fn main(&self) -> Option<&str> {
        self.path()
            .or_else(|| self.first_of(&MAIN_KEYS))
            .or_else(|| {
                self.0
                    .as_object()?
                    .values()
                    .filter_map(Value::as_str)
                    .find(|text| !text.is_empty())
            })
    }

    /// The shell command it runs; agents give a list of words as well as a string.
    pub(super) fn command(&self) -> Option<String> {
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

    /// Every name and value, in their order, values as text.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, String)> {
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

    fn first_of(&self, keys: &[&str]) -> Option<&str> {
        keys.iter()
            .filter_map(|key| self.0.get(key)?.as_str())
            .find(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_call_is_named_by_its_first_argument_that_says_something() {
        for (arguments, main) in [
            (json!({"query": "x", "path": "a.rs"}), Some("a.rs")),
            (json!({"path": "", "file": "b.rs"}), Some("b.rs")),
            (json!({"other": "y", "query": "x"}), Some("x")),
            (json!({"n": 1, "empty": "", "other": "y"}), Some("y")),
            (json!({"n": 1, "empty": ""}), None),
            (json!(["x"]), None),
        ] {
            assert_eq!(Arguments(arguments).main(), main);
        }
    }
}
