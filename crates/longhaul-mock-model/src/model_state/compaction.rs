//! Compactions that a request orders.

#[cfg(feature = "validity")]
use bytes::Bytes;

#[cfg(feature = "validity")]
use super::{ModelState, refuse, refuse_bound};
use super::{RequestHistory, answer};
use crate::answer::AnswerContent;
use crate::binding::models::claude_rules;
use crate::bound_request::BoundRequest;
#[cfg(feature = "validity")]
use crate::cache::CountedMessages;
#[cfg(feature = "validity")]
use crate::judged_request::JudgedRequest;
use crate::judged_request::ModelReply;
use crate::options::{ChatBehaviour, ModelOptions};
use crate::record::SeenRequest;
#[cfg(feature = "validity")]
use crate::record::{RequestKind, Verdict};
#[cfg(feature = "validity")]
use crate::request::{Api, Caller};
use crate::request::{ChatBody, member};
use crate::responses;
use crate::responses::compaction::COMPACTION_TOKENS;
#[cfg(feature = "validity")]
use crate::responses::compaction::window;
#[cfg(feature = "validity")]
use crate::server_rules::ModelServer;
use crate::thinking::preserved;
use crate::thinking::preserved::compaction::CompactionAnswer;

#[cfg(feature = "validity")]
impl ModelState {
    /// Compacts a window of the Responses API; `None` for a model or a server that cannot.
    pub(crate) fn compact(&self, body: &Bytes, caller: Caller) -> Option<JudgedRequest> {
        let options = self.options.lock().clone();
        let chat = ChatBody::parse_as(Api::Responses, body).ok()?.with_caller(caller);
        let is_served = options.server != ModelServer::ChatGpt;
        if !is_served || !responses::compaction::compacts(&chat) {
            return None;
        }
        let mut memory = self.history.lock();
        let bound = BoundRequest::read(&memory.reasoning, &chat, options.thinking);
        let rendered = bound.as_ref().and_then(|bound| bound.rendered(&chat));
        let rendered = rendered.as_ref().unwrap_or(&chat);
        memory.requests += 1;
        let mut turn =
            JudgedRequest::new(RequestKind::Other, Verdict::Accepted, ModelReply::Silence);
        turn.seen.prompt_tokens = CountedMessages::count(rendered, options.density).tokens();
        let updates = window::refuse(&chat, options.compacts_updates);
        let refused = updates
            .map(|refusal| (Verdict::Broken("nc-o-compact-window"), refusal))
            .or_else(|| refuse_bound(&chat, &options, &memory.reasoning, bound.as_ref()))
            .or_else(|| refuse(&chat, rendered, &options, &turn.seen));
        if let Some((verdict, refusal)) = refused {
            turn.seen.verdict = verdict;
            return Some(turn.with_reply(ModelReply::Refusal(refusal)));
        }
        let item = responses::compaction::item(&chat, memory.requests);
        let empty = AnswerContent::Text(String::new());
        let mut answer = answer(&chat, &options, &turn.seen, memory.requests, empty);
        answer.completion_tokens = COMPACTION_TOKENS;
        let reply = window::reply(&answer, &item);
        if let Some(bound) = bound {
            let name = member(&item, "encrypted_content").as_str().unwrap_or_default();
            memory.reasoning.cover(&bound.prompt, &bound.judged, name, true);
            turn.seen.dropped = bound.dropped;
        }
        Some(turn.with_reply(ModelReply::Refusal(reply)))
    }
}

/// Whether a request orders a compaction that the model can make.
pub(super) fn is_ordered(chat: &ChatBody, bound: Option<&BoundRequest>) -> bool {
    responses::compaction::is_ordered(chat)
        || bound.is_some() && preserved::compaction::is_ordered(chat)
}

/// Returns the reply to an order to compact.
pub(super) fn reply(
    chat: &ChatBody,
    options: &ModelOptions,
    seen: &SeenRequest,
    bound: Option<BoundRequest>,
    memory: &mut RequestHistory,
) -> ModelReply {
    let (block, name) = if chat.is_messages() {
        (preserved::compaction::signed(chat, memory.requests), "signature")
    } else {
        (responses::compaction::item(chat, memory.requests), "encrypted_content")
    };
    let empty = AnswerContent::Text(String::new());
    let mut answer = answer(chat, options, seen, memory.requests, empty);
    answer.completion_tokens = COMPACTION_TOKENS;
    answer.counts_iterations = chat.is_messages();
    if let Some(bound) = bound {
        let name = member(&block, name).as_str().unwrap_or_default();
        // nc-a-swap: only a model that preserves thinking keeps the thinking behind its block.
        let keeps = !chat.is_messages() || claude_rules(chat.model()).is_some();
        memory.reasoning.cover(&bound.prompt, &bound.judged, name, keeps);
        answer.transformations = bound.transformations;
    }
    let output_tokens = COMPACTION_TOKENS;
    answer.compaction = Some(CompactionAnswer { block, is_whole: true, output_tokens });
    answer.reply(&ChatBehaviour::Steady)
}
