//! Requests for a model's next step, and the step in a reply.
//!
//! `longhaul eval` sends a recorded request once more. The answer is whole instead of streamed,
//! and short.

mod chat_completions;
mod messages;
mod responses;
pub(crate) mod scored_prompt;

use std::fmt::{self, Formatter};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::reasoning_option::reduces_reasoning;
use longhaul_core::dialect::reply::FinishReason;
use longhaul_core::dialect::usage::Usage;
use longhaul_core::units::tokens::Tokens;

/// Key of the output limit in an API that renamed the key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum OutputKey {
    /// The key of the recorded request, or else the older one, which most servers read.
    #[default]
    Recorded,
    /// The newer key, which some models require.
    Newer,
}

/// A reply to a request for the next step.
#[derive(Debug)]
pub(crate) struct StepReply {
    /// A request body whose only messages are those of the reply, so that the reader of requests reads
    /// text and calls.
    pub(crate) history: String,
    /// The words of a refusal, if the API marks one.
    pub(crate) refusal: Option<String>,
    /// Reason why the reply ended, if stated.
    pub(crate) finish: Option<FinishReason>,
    /// Token counts, if reported.
    pub(crate) usage: Option<Usage>,
}

/// Returns `body` for `model`, with a whole reply instead of a stream. Returns `None` if `body` is not
/// a JSON object.
pub(crate) fn body_for_model(dialect: Dialect, body: &str, model: &str) -> Option<String> {
    let edited = edit_members(body, |name, _| match name {
        "model" => MemberEdit::Value(Value::from(model).to_string()),
        // A list of models to fall back to would override the model.
        "models" | "stream" => MemberEdit::Remove,
        _ if needs_stream(dialect, name) => MemberEdit::Remove,
        _ => MemberEdit::Keep,
    })?;
    Some(edited.with_missing("model", &Value::from(model).to_string()).finish())
}

/// Returns `body` with an output of at most `output` tokens, and without options that add reasoning or
/// store the reply. Returns `None` if `body` is not a JSON object.
pub(crate) fn step_request(
    dialect: Dialect,
    body: &str,
    output: Tokens,
    key: OutputKey,
) -> Option<String> {
    match dialect {
        Dialect::ChatCompletions => chat_completions::request(body, output, key),
        Dialect::Messages => messages::request(body, output),
        Dialect::Responses => responses::request(body, output),
    }
}

/// Whether an error demands the newer key of the output limit.
pub(crate) fn asks_for_newer_output_key(dialect: Dialect, error: &[u8]) -> bool {
    match dialect {
        Dialect::ChatCompletions => chat_completions::asks_for_newer_key(error),
        Dialect::Messages | Dialect::Responses => false,
    }
}

/// Reads a whole reply. Returns `None` for anything but an answer.
pub(crate) fn read_step(dialect: Dialect, reply: &[u8]) -> Option<StepReply> {
    let part = dialect.read_completion(reply)?;
    if part.error.is_some() {
        return None;
    }
    let (history, refusal) = match dialect {
        Dialect::ChatCompletions => chat_completions::history(reply),
        Dialect::Messages => messages::history(reply),
        Dialect::Responses => responses::history(reply),
    }?;
    Some(StepReply { history, refusal, finish: part.finish, usage: part.usage })
}

/// Whether a request body requests a stream.
pub(crate) fn asks_for_stream(body: &str) -> bool {
    let members: Option<Members<'_>> = serde_json::from_str(body).ok();
    let is_true = |(name, value): &(String, &RawValue)| name == "stream" && value.get() == "true";
    members.is_some_and(|members| members.0.iter().any(is_true))
}

/// Whether a request without a stream may not have the member `name`.
fn needs_stream(dialect: Dialect, name: &str) -> bool {
    match dialect {
        Dialect::ChatCompletions | Dialect::Responses => name == chat_completions::STREAM_OPTIONS,
        Dialect::Messages => false,
    }
}

/// Treatment of one member of a body.
enum MemberEdit {
    Keep,
    Remove,
    Value(String),
}

/// A body whose members have been edited.
struct EditedBody {
    members: Vec<String>,
    names: Vec<String>,
}

impl EditedBody {
    /// Adds the member `name` with this JSON value at the end unless the body has one.
    fn with_missing(mut self, name: &str, json: &str) -> Self {
        if !self.has(name) {
            self.members.push(format!("\"{name}\":{json}"));
        }
        self
    }

    /// Whether the body has a member `name`.
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    fn finish(self) -> String {
        format!("{{{}}}", self.members.join(","))
    }
}

/// The members of a JSON object, each with the bytes of its value.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, wanted: &mut Formatter<'_>) -> fmt::Result {
                wanted.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = object.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Edits the members of a JSON object by their name and value. Members that stay keep their bytes.
fn edit_members(body: &str, edit: impl Fn(&str, &str) -> MemberEdit) -> Option<EditedBody> {
    let (mut members, mut names) = (Vec::new(), Vec::new());
    for (name, value) in serde_json::from_str::<Members<'_>>(body).ok()?.0 {
        let json = match edit(&name, value.get()) {
            MemberEdit::Keep => value.get().to_owned(),
            MemberEdit::Remove => continue,
            MemberEdit::Value(json) => json,
        };
        members.push(format!("{}:{json}", Value::from(&*name)));
        names.push(name);
    }
    Some(EditedBody { members, names })
}

/// Keeps an option that reduces the model's reasoning, and removes one that adds to it: a short output
/// would hold nothing else.
fn without_reasoning(name: &str, value: &str) -> MemberEdit {
    if reduces_reasoning(name, value) { MemberEdit::Keep } else { MemberEdit::Remove }
}

#[cfg(test)]
mod tests;
