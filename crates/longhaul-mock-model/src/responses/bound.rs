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

use serde_json::Value;

use crate::binding::models::{PREFIX_RULE, UPDATES, gpt_reads, is_gpt_from};
use crate::binding::{BindingRules, Mismatch, ReasoningBook};
use crate::bound_request::BoundRequest;
use crate::request::{Api, ChatBody};

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

/// Reads a request; `None` where the model binds no reasoning.
///
/// nc-o-model: GPT-6 checks no prefix, and drops the reasoning of a newer model without a report.
pub(crate) fn read(book: &ReasoningBook, chat: &ChatBody) -> Option<BoundRequest> {
    let judges = chat.api() == Api::Responses && is_gpt_from(chat.model(), UPDATES);
    let prompt = judges.then(|| rendered::prompt(chat))?;
    let mut judged = book.judge(&prompt, &RULES);
    let binds = is_gpt_from(chat.model(), PREFIX_RULE);
    if !binds {
        judged.breaches.retain(|(_, mismatch)| *mismatch == Mismatch::Model);
    }
    let dropped = judged.dropped(report::reason);
    Some(BoundRequest {
        gone: dropped.iter().map(|it| it.place).collect(),
        transformations: if binds { report::transformations(&dropped) } else { Value::Null },
        flags: Vec::new(),
        refusal: None,
        binds,
        prompt,
        judged,
        dropped,
    })
}
