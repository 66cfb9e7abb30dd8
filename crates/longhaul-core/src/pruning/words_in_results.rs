//! Results that hold words of the user, or instructions that the agent loaded.

use crate::clients;
use crate::conversation::rule_files::RuleFiles;
use crate::conversation::tool_arguments::ToolArguments;
use crate::conversation::{Batch, Conversation, Message, ToolCall};
use crate::pruning::rule::KeptWords;
use crate::pruning::tool_result::ClearDecision;
use crate::units::tokens::Tokens;
use std::collections::HashSet;

/// Finds such results, in order.
pub(super) struct WordsInResults<'r> {
    files: RuleFiles<'r>,
    /// Room for further instructions.
    left: Tokens,
    /// Hashes of the instructions that stay.
    kept: HashSet<[u8; 32]>,
}

impl<'r> WordsInResults<'r> {
    pub(super) fn new(kept: &'r KeptWords) -> Self {
        Self {
            files: RuleFiles::new(&kept.rule_files),
            left: kept.instructions,
            kept: HashSet::new(),
        }
    }

    /// Returns the decision on the result at `at` if the result holds such words.
    pub(super) fn keep(
        &mut self,
        conversation: &Conversation<'_>,
        batch: &Batch,
        at: usize,
    ) -> Option<ClearDecision> {
        let number = batch.call_index(at)?;
        let asks = conversation.message(batch.results.start.checked_sub(1)?)?;
        let call = conversation.calls(asks).get(number)?;
        let result = conversation.message(at)?;
        let is_rejected = conversation.may_be_rejected(result);
        if !is_rejected && !self.may_hold_words(conversation, asks, number) {
            return None;
        }
        let tool = call.decoded_name(conversation);
        if is_rejected || clients::answers_user(&tool) {
            return Some(ClearDecision::UserWords);
        }
        let loads = || {
            let arguments = ToolArguments::decode(conversation, call);
            clients::loads_skill(&tool, arguments.path())
                || self.files.label(conversation, &tool, &arguments).is_some()
        };
        let is_kept = result.text_tokens <= self.left
            && loads()
            && self.kept.insert(conversation.text_hash(result));
        if !is_kept {
            return None;
        }
        self.left -= result.text_tokens;
        Some(ClearDecision::Instructions)
    }

    /// Whether the result of call `number` of a message may hold such words; nearly none may. Cached in the
    /// message's notes.
    fn may_hold_words(
        &self,
        conversation: &Conversation<'_>,
        asks: &Message,
        number: usize,
    ) -> bool {
        let calls = conversation.calls(asks);
        let raw = |call: &ToolCall| call.arguments.map(|it| it.raw(conversation.body()));
        let look = |call: &ToolCall| {
            let tool = call.decoded_name(conversation);
            clients::answers_user(&tool)
                || clients::loads_skill(&tool, None)
                || raw(call).is_some_and(RuleFiles::may_name_usual)
        };
        let call = || calls.get(number);
        let may = asks.memo().map_or_else(
            || call().is_some_and(look),
            |memo| {
                let all = memo.may_hold_words.get_or_init(|| calls.iter().map(look).collect());
                all.get(number).is_some_and(|may| *may)
            },
        );
        may || call().and_then(raw).is_some_and(|raw| self.files.may_name_added(raw))
    }
}
