//! Requests for a model's next step, and the step in a reply.
//!
//! `longhaul eval` sends a recorded request once more. The answer is whole instead of streamed,
//! and short.

use crate::dialect::chat_completions::step as chat_completions;
use crate::dialect::messages::step as messages;
use crate::dialect::reasoning_option::reduces_reasoning;
use crate::dialect::reply::FinishReason;
use crate::dialect::responses::step as responses;
use crate::dialect::usage::Usage;
use crate::dialect::{Dialect, dispatch};
use crate::json::quote::quote;
use crate::json::scanner::{NotJson, Scanner};
use crate::units::tokens::Tokens;

/// Key of the output limit in an API that renamed the key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OutputKey {
    /// The key of the recorded request, or else the older one, which most servers read.
    #[default]
    Recorded,
    /// The newer key, which some models require.
    Newer,
}

/// A reply to a request for the next step.
#[derive(Debug)]
pub struct StepReply {
    /// A request body whose only messages are those of the reply, so that the reader of requests reads
    /// text and calls.
    pub history: String,
    /// The words of a refusal, if the API marks one.
    pub refusal: Option<String>,
    /// Reason why the reply ended, if stated.
    pub finish: Option<FinishReason>,
    /// Token counts, if reported.
    pub usage: Option<Usage>,
}

impl Dialect {
    /// Returns `body` for `model`, with a whole reply instead of a stream. Returns `None` if `body` is not
    /// a JSON object.
    pub fn body_for_model(self, body: &str, model: &str) -> Option<String> {
        edit_members(body, |name, _| match name {
            "model" => MemberEdit::Value(quote(model)),
            // A list of models to fall back to would override the model.
            "models" | "stream" => MemberEdit::Remove,
            _ if self.needs_stream(name) => MemberEdit::Remove,
            _ => MemberEdit::Keep,
        })
        .map(|edited| edited.with_missing("model", &quote(model)))
    }

    /// Returns `body` with an output of at most `output` tokens, and without options that add reasoning or
    /// store the reply. Returns `None` if `body` is not a JSON object.
    pub fn step_request(self, body: &str, output: Tokens, key: OutputKey) -> Option<String> {
        match self {
            Self::ChatCompletions => chat_completions::request(body, output, key),
            Self::Messages => messages::request(body, output),
            Self::Responses => responses::request(body, output),
        }
    }

    /// Whether an error asks for the newer key of the output limit.
    pub fn asks_for_newer_output_key(self, error: &[u8]) -> bool {
        match self {
            Self::ChatCompletions => chat_completions::asks_for_newer_key(error),
            Self::Messages | Self::Responses => false,
        }
    }

    /// Reads a whole reply. Returns `None` for anything but an answer.
    pub fn read_step(self, reply: &[u8]) -> Option<StepReply> {
        let part = self.read_completion(reply)?;
        if part.error.is_some() {
            return None;
        }
        let (history, refusal) = dispatch!(self, step::history(reply))?;
        Some(StepReply {
            history,
            refusal,
            finish: part.finish,
            usage: part.usage,
        })
    }

    /// Whether a request body asks for a stream.
    pub fn asks_for_stream(self, body: &str) -> bool {
        let mut streams = false;
        let read = Scanner::new(body).object(|scanner, key| {
            let value = scanner.value()?;
            streams |= key.decode(body) == "stream" && value.slice(body) == "true";
            Ok::<(), NotJson>(())
        });
        read.is_ok() && streams
    }

    /// Whether a request without a stream may not have the member `name`.
    fn needs_stream(self, name: &str) -> bool {
        match self {
            Self::ChatCompletions | Self::Responses => name == chat_completions::STREAM_OPTIONS,
            Self::Messages => false,
        }
    }
}

/// Treatment of one member of a body.
pub(super) enum MemberEdit {
    Keep,
    Remove,
    Value(String),
}

/// A body whose members have been edited.
pub(super) struct EditedBody {
    members: Vec<String>,
    names: Vec<String>,
}

impl EditedBody {
    /// Returns the body. Adds the member `name` with this JSON value at its end unless the body has one.
    pub(super) fn with_missing(mut self, name: &str, json: &str) -> String {
        if !self.names.iter().any(|known| known == name) {
            self.members.push(format!("\"{name}\":{json}"));
        }
        self.finish()
    }

    /// Whether the body has a member `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    pub(super) fn finish(self) -> String {
        format!("{{{}}}", self.members.join(","))
    }
}

/// Edits the members of a JSON object by their name and value. Members that stay keep their bytes.
pub(super) fn edit_members(
    body: &str,
    edit: impl Fn(&str, &str) -> MemberEdit,
) -> Option<EditedBody> {
    let (mut members, mut names) = (Vec::new(), Vec::new());
    let read = Scanner::new(body).object(|scanner, key| {
        let value = scanner.value()?.slice(body);
        let name = key.decode(body);
        let spelt = key.span().slice(body);
        let written = match edit(&name, value) {
            MemberEdit::Keep => format!("{spelt}:{value}"),
            MemberEdit::Remove => return Ok(()),
            MemberEdit::Value(json) => format!("{spelt}:{json}"),
        };
        members.push(written);
        names.push(name.into_owned());
        Ok::<(), NotJson>(())
    });
    read.ok()?;
    Some(EditedBody { members, names })
}

/// Keeps an option that reduces the model's reasoning, and removes one that adds to it: a short output
/// would hold nothing else.
pub(super) fn without_reasoning(name: &str, value: &str) -> MemberEdit {
    if reduces_reasoning(name, value) {
        MemberEdit::Keep
    } else {
        MemberEdit::Remove
    }
}

#[cfg(test)]
mod tests;
