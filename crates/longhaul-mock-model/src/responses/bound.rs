//! Reasoning of the Responses API that a model from GPT-6.2 on drops behind an edit.
//!
//! Rules of the mock:
//! - nc-o-prefix, nc-o-instructions, nc-o-append and nc-o-compaction-exempt: [`rendered`] and
//!   [`crate::binding`].
//! - nc-o-owner, nc-o-opaque, nc-o-update-adjacent and nc-o-login: [`refused`]. nc-o-ids: [`refused::waived`].
//! - nc-o-model: [`crate::binding::models::gpt_reads`].
//! - nc-o-report: [`report`]. nc-o-usage: the model counts what [`crate::request::ChatBody::without`] leaves.
//! - nc-o-trigger-last and nc-o-compact-window: [`crate::responses::compaction`].

#[cfg(feature = "validity")]
pub(crate) mod refused;
mod rendered;
mod report;
#[cfg(test)]
mod tests;

use crate::binding::models::{PREFIX_RULE, gpt_reads, is_gpt_from};
use crate::binding::{BindingRules, JudgedPrompt, Prompt, ReasoningBook};
use crate::request::{Api, ChatBody};

pub(crate) use rendered::prompt;
pub(crate) use report::{reason, transformations};

/// The rules of every model from GPT-6.2 on.
///
/// The first mismatch takes all later reasoning with it: the later items were made over what stood there
/// before. Reasoning made since was made without the dropped items, so it holds.
const RULES: BindingRules = BindingRules {
    is_chained: false,
    takes_all_later: false,
    counts_reasoning: true,
    reads_failing: false,
    is_bound_to_caller: true,
    reads: gpt_reads,
};

/// Judges the reasoning of a request; `None` where the model binds none.
pub(crate) fn judge(book: &ReasoningBook, chat: &ChatBody) -> Option<(Prompt, JudgedPrompt)> {
    let binds = chat.api() == Api::Responses && is_gpt_from(chat.model(), PREFIX_RULE);
    let prompt = binds.then(|| prompt(chat))?;
    let judged = book.judge(&prompt, &RULES);
    Some((prompt, judged))
}
