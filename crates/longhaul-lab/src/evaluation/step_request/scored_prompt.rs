//! Requests that score a recorded step, and the log-probabilities in a reply, in the form of vLLM.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{MemberEdit, edit_members};
use longhaul_core::dialect::Dialect;

/// The dialect of the requests.
pub(crate) const DIALECT: Dialect = Dialect::ChatCompletions;
/// Maximum tokens of a step.
const MAX_STEP: usize = 16_384;

/// The last tokens of a prompt, each with its log-probability in nats.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ScoredPrompt {
    /// Number of tokens before them.
    pub(crate) before: usize,
    pub(crate) tokens: Vec<(String, f64)>,
}

/// Returns a request that scores `body` with `step` behind its messages. An empty step stands for the place where
/// the model's turn begins. `None` if `body` is not a JSON object.
pub(crate) fn scoring_request(body: &[u8], step: &str) -> Option<Bytes> {
    let mut edited = edit_members(str::from_utf8(body).ok()?, |name, value| match name {
        "messages" if !step.is_empty() => {
            let before = value.strip_suffix(']').unwrap_or(value);
            MemberEdit::Value(format!("{before},{step}]"))
        }
        "tool_choice" => MemberEdit::Remove,
        _ => MemberEdit::Keep,
    })?;
    // A server without a parser of calls refuses tools of which the model may choose.
    let choice = edited.has("tools").then(|| "\"tool_choice\":\"none\"".to_owned());
    let turn = format!("\"add_generation_prompt\":{}", step.is_empty());
    edited.members.extend(["\"prompt_logprobs\":0".to_owned(), turn].into_iter().chain(choice));
    Some(edited.finish().into())
}

/// Returns the shortest body for `model`.
pub(crate) fn shortest(model: &str) -> Bytes {
    json!({ "model": model, "messages": [{ "role": "user", "content": "." }] }).to_string().into()
}

impl ScoredPrompt {
    /// Reads a reply. `None` if a token has no log-probability; the first one cannot have any.
    pub(crate) fn read(reply: &[u8]) -> Option<Self> {
        let reply: Value = serde_json::from_slice(reply).ok()?;
        let all = reply.get("prompt_logprobs")?.as_array()?;
        let before = all.len().saturating_sub(MAX_STEP).max(1);
        let token = |place: &Value| {
            let (id, score) = place.as_object()?.iter().next()?;
            Some((id.clone(), score.get("logprob")?.as_f64()?))
        };
        let tokens = all.get(before..)?.iter().map(token).collect::<Option<_>>()?;
        Some(Self { before, tokens })
    }

    /// Returns the tokens of the step at the end: as many as `with` has more than `without`. `None` if they are not
    /// those of `with`.
    pub(crate) fn step(mut self, with: &Self, without: &Self) -> Option<Self> {
        let count =
            (with.before + with.tokens.len()).checked_sub(without.before + without.tokens.len())?;
        let last = |of: &Self| of.tokens.len().checked_sub(count);
        let expected = with.tokens.get(last(with)?..)?;
        self.before += last(&self)?;
        self.tokens.drain(..last(&self)?);
        let ids =
            |tokens: &[(String, f64)]| tokens.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
        (count > 0 && ids(expected) == ids(&self.tokens)).then_some(self)
    }
}

#[cfg(test)]
mod tests;
