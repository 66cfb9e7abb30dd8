//! The bound reasoning of a request, whatever the API, and what the model does about it.

use serde_json::Value;

use crate::binding::{JudgedPrompt, Prompt, ReasoningBook};
use crate::record::DroppedReasoning;
use crate::refusal::RefusalReply;
use crate::request::ChatBody;
use crate::responses;
use crate::thinking::{ThinkingRules, preserved};

/// A request whose reasoning the model binds.
#[derive(Debug)]
pub(crate) struct BoundRequest {
    pub(crate) prompt: Prompt,
    pub(crate) judged: JudgedPrompt,
    /// Reasoning that does not hold.
    pub(crate) dropped: Vec<DroppedReasoning>,
    /// Places of what the model does not read.
    pub(crate) gone: Vec<(usize, usize)>,
    /// The value of `input_transformations`; null without one.
    pub(crate) transformations: Value,
    /// Rules that the request breaks in silence.
    pub(crate) flags: Vec<&'static str>,
    /// Whether the model binds the reasoning of its reply.
    pub(crate) binds: bool,
    /// The rule of bound reasoning that the request breaks, and the refusal for it.
    pub(crate) refusal: Option<(&'static str, RefusalReply)>,
}

impl BoundRequest {
    /// Reads a request; `None` where the model binds no reasoning.
    pub(crate) fn read(
        book: &ReasoningBook,
        chat: &ChatBody,
        rules: ThinkingRules,
    ) -> Option<Self> {
        if let ThinkingRules::ByModel(settings) = rules
            && chat.is_messages()
        {
            return preserved::read(book, chat, settings);
        }
        responses::bound::read(book, chat)
    }

    /// Returns the request without what the model does not read; `None` if the model reads all.
    pub(crate) fn rendered(&self, chat: &ChatBody) -> Option<ChatBody> {
        (!self.gone.is_empty()).then(|| chat.without(&self.gone))
    }
}

#[cfg(test)]
mod tests;
