//! nc-a-outcome: the consequence of thinking that does not hold.

use serde_json::{Value, json};

use super::{AccountAge, PreservedThinking, is_silent, path, refusal};
use crate::binding::models::{ClaudeOutcome, ClaudeRules};
use crate::binding::{JudgedPrompt, Mismatch};
use crate::refusal::RefusalReply;
use crate::request::{ChatBody, member};
use crate::thinking::{DIFFERS, GAP, STALE, STALE_THINKING};

/// The beta value that goes with `thinking.block_binding`.
const BETA: &str = "thinking-binding-controls-2026-08-01";
const NEEDS_BETA: &str = " That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header.";
const EXTRA: &str = "thinking.block_binding: Extra inputs are not permitted";

/// The consequence of thinking that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The model reads the thinking.
    Allow,
    /// The failing thinking and all later thinking are dropped.
    Drop,
    /// A refusal.
    Error,
    /// The model checks nothing.
    Unchecked,
}

impl Outcome {
    /// Returns the outcome for a request. The request decides, then the model, for accounts that enforce.
    pub(super) fn of(
        chat: &ChatBody,
        model: Option<ClaudeRules>,
        settings: PreservedThinking,
    ) -> Self {
        let Some(model) = model else {
            return Self::Unchecked;
        };
        let binding = member(chat.field("thinking"), "block_binding");
        match member(binding, "prefix_mismatch_behavior").as_str() {
            Some("drop_block") => Self::Drop,
            Some("error") => Self::Error,
            _ if binding.is_null() && settings.account == AccountAge::Old => Self::Allow,
            _ => match model.outcome {
                ClaudeOutcome::Drop => Self::Drop,
                ClaudeOutcome::Error => Self::Error,
            },
        }
    }
}

/// Returns the refusal of a request, if its thinking leads to one.
pub(super) fn refuse(
    chat: &ChatBody,
    judged: &JudgedPrompt,
    outcome: Outcome,
) -> Option<(&'static str, RefusalReply)> {
    let binding = member(chat.field("thinking"), "block_binding");
    if !binding.is_null() && !chat.has_beta(BETA) {
        return Some(("nc-a-outcome", refusal(EXTRA)));
    }
    let mut breaches = judged.breaches.iter().filter(|_| outcome == Outcome::Error);
    let (unit, mismatch) = breaches.find(|(_, mismatch)| !is_silent(*mismatch))?;
    let needed = if chat.has_beta(BETA) { "" } else { NEEDS_BETA };
    let change = if *mismatch == Mismatch::Gap { GAP } else { DIFFERS };
    let message = format!("{}: {STALE}{needed}{change}", path(unit));
    Some((STALE_THINKING, refusal(&message)))
}

/// Returns the word of the API for a mismatch.
pub(super) fn reason(mismatch: Mismatch) -> &'static str {
    match mismatch {
        Mismatch::Caller => "organization_binding_mismatch",
        Mismatch::Model => "model_binding_mismatch",
        Mismatch::Gap | Mismatch::Prefix => "prefix_binding_mismatch",
    }
}

/// Returns the value of `input_transformations`: a list for callers with the beta value, else null.
pub(super) fn transformations(
    chat: &ChatBody,
    judged: &JudgedPrompt,
    outcome: Outcome,
    settings: PreservedThinking,
) -> Value {
    if !chat.has_beta(BETA) {
        return Value::Null;
    }
    // nc-a-account: the entry is optional.
    let is_reported = |mismatch| mismatch != Mismatch::Caller || settings.reports_account;
    let breaches = judged.breaches.iter().filter(|(_, mismatch)| is_reported(*mismatch));
    let entries = breaches.map(|(unit, mismatch)| {
        let is_allowed = outcome == Outcome::Allow && !is_silent(*mismatch);
        let kind = if is_allowed { "thinking_mismatch_allowed" } else { "thinking_dropped" };
        json!({"type": kind, "path": path(unit), "reason": reason(*mismatch)})
    });
    entries.collect()
}
