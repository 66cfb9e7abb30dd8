//! Preserved thinking of the Claude models, by the model's name.
//!
//! Rules of the mock:
//! - nc-a-bind: [`rendered`]. nc-a-chain, nc-a-swap, nc-a-after and nc-a-insert: [`crate::binding`].
//! - nc-a-outcome and nc-a-account: [`outcome`]. nc-a-silent: [`read`].
//! - nc-a-stream and nc-a-usage: [`crate::answer`]. nc-a-count: [`crate::model_state`].
//! - nc-a-threshold, nc-a-header, nc-a-first, nc-a-one, nc-a-seal, nc-a-excludes and nc-a-open: [`compaction`].
//! - nc-a-empty and nc-a-529: [`crate::model_state`], by a switch.

pub(crate) mod compaction;
mod outcome;
mod rendered;
mod seal;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::binding::models::claude_rules;
use crate::binding::{BindingRules, Mismatch, Part, ReasoningBook, Unit};
use crate::bound_request::BoundRequest;
use crate::refusal::RefusalReply;
use crate::request::{Api, ChatBody, list, member};
use outcome::Outcome;

pub(crate) use seal::{issued_names, sign};

/// The settings of models that preserve thinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreservedThinking {
    /// The age of the caller's account.
    pub account: AccountAge,
    /// Whether a reply reports that thinking of another account was dropped. The pages say so; measured
    /// replies do not.
    pub reports_account: bool,
}

/// The age of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccountAge {
    /// Created since 2026-08-31: the binding is enforced.
    #[default]
    New,
    /// Created before: the binding is enforced only for requests with `block_binding`.
    Old,
}

/// nc-a-silent: the request holds a compaction and what the compaction stands for.
const COVERED_LEFT: &str = "nc-a-silent-covered-left";
/// nc-a-silent: the request holds what a compaction stands for, and no compaction.
const BLOCK_LEFT_OUT: &str = "nc-a-silent-block-left-out";

/// Reads a request to a Claude model; `None` for any other request.
pub(crate) fn read(
    book: &ReasoningBook,
    chat: &ChatBody,
    settings: PreservedThinking,
) -> Option<BoundRequest> {
    let is_claude = chat.api() == Api::Messages && chat.model().contains("claude-");
    let mut prompt = is_claude.then(|| rendered::prompt(chat))?;
    // nc-a-threshold: the API ignores all before the last block.
    let is_block = |unit: &Unit| unit.part == Part::Compaction(None);
    let ignored = prompt.units.iter().rposition(is_block).unwrap_or_default();
    let mut gone: Vec<(usize, usize)> =
        prompt.units.drain(..ignored).map(|unit| unit.place).collect();
    let model = claude_rules(chat.model());
    let outcome = Outcome::of(chat, model, settings);
    let rules = BindingRules {
        is_chained: true,
        takes_all_later: outcome == Outcome::Drop,
        counts_reasoning: false,
        reads_failing: matches!(outcome, Outcome::Allow | Outcome::Unchecked),
        is_bound_to_caller: model.is_some_and(|model| model.is_bound_to_account),
        reads: |maker, reader| maker == reader,
    };
    let mut judged = book.judge(&prompt, &rules);
    if outcome == Outcome::Unchecked {
        judged.breaches.retain(|(_, mismatch)| is_silent(*mismatch));
    }
    let refusal = seal::refuse_forged(&prompt)
        .or_else(|| compaction::refuse(chat))
        .or_else(|| outcome::refuse(chat, &judged, outcome));
    let reason: fn(Mismatch) -> &'static str = outcome::reason;
    let mut dropped = judged.dropped(reason);
    if outcome != Outcome::Drop {
        let fits = judged.breaches.iter().map(|(_, mismatch)| is_silent(*mismatch));
        let fits: Vec<bool> = fits.collect();
        let mut fits = fits.into_iter();
        dropped.retain(|_| fits.next().unwrap_or_default());
    }
    gone.extend(dropped.iter().map(|it| it.place));
    let silent = [
        (COVERED_LEFT, book.repeats_covered(&prompt)),
        (BLOCK_LEFT_OUT, book.lacks_compaction(&prompt, &judged)),
    ];
    let flags = silent.into_iter().filter(|(_, is_broken)| *is_broken).map(|(flag, _)| flag);
    Some(BoundRequest {
        transformations: outcome::transformations(chat, &judged, outcome, settings),
        flags: flags.collect(),
        prompt,
        judged,
        dropped,
        gone,
        refusal,
        binds: true,
    })
}

/// Whether a mismatch never leads to a refusal: the thinking is dropped.
fn is_silent(mismatch: Mismatch) -> bool {
    matches!(mismatch, Mismatch::Caller | Mismatch::Model)
}

/// Returns the path of a block in a request.
fn path(unit: &Unit) -> String {
    format!("messages.{}.content.{}", unit.place.0, unit.place.1)
}

/// Returns a refusal with this text.
fn refusal(message: &str) -> RefusalReply {
    let error = json!({"type": "invalid_request_error", "message": message});
    let body = json!({"type": "error", "error": error}).to_string();
    RefusalReply::new(400, "application/json", body)
}

/// Returns the edits that a request orders of the provider.
fn edits(chat: &ChatBody) -> &[Value] {
    list(member(member(chat.original(), "context_management"), "edits"))
}
