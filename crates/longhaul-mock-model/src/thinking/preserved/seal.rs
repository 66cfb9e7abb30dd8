//! Signatures of thinking and compactions. A signature covers itself alone: the text may differ.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::{path, refusal};
use crate::answer::ModelAnswer;
use crate::binding::{Part, Prompt};
use crate::refusal::RefusalReply;
use crate::request::{list, member};
use crate::thinking::{FORGED, FORGED_THINKING, REDACTED_EVERY};

/// The key of the hashes.
const KEY: u64 = 0x0c8e_55d1_92af_7b34;
/// The beginning of a signature of this model.
const BEGINNING: &str = "EstrictSig";

/// Returns a signature of the reply with this ordinal.
pub(crate) fn sealed(ordinal: usize) -> String {
    let mut hasher = DefaultHasher::new();
    (KEY, ordinal).hash(&mut hasher);
    format!("{BEGINNING}{ordinal:016x}{:016x}", hasher.finish())
}

/// Whether a signature is as the model issued it. That of another provider is not judged.
fn is_intact(signature: &str) -> bool {
    let Some(rest) = signature.strip_prefix(BEGINNING) else {
        return true;
    };
    let ordinal = rest.get(..16).and_then(|it| usize::from_str_radix(it, 16).ok());
    ordinal.is_some_and(|ordinal| sealed(ordinal) == signature)
}

/// Returns the signature of a compaction with this content, in the reply with this ordinal.
pub(super) fn sealed_block(ordinal: usize, content: &str) -> String {
    format!("{}{:016x}", sealed(ordinal), content_hash(content))
}

fn content_hash(content: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (KEY, content).hash(&mut hasher);
    hasher.finish()
}

/// The judgement on the signature of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockSeal {
    Intact,
    /// The signature belongs to another content.
    OtherContent,
    /// The model never issued the signature.
    Unknown,
}

/// nc-a-seal: judges the signature of a compaction with this content.
pub(super) fn judge_block(signature: &str, content: &str) -> BlockSeal {
    let split = signature.len().checked_sub(16).and_then(|at| signature.split_at_checked(at));
    match split {
        Some((seal, _)) if !seal.starts_with(BEGINNING) || !is_intact(seal) => BlockSeal::Unknown,
        Some((_, hash)) if hash == format!("{:016x}", content_hash(content)) => BlockSeal::Intact,
        Some(_) => BlockSeal::OtherContent,
        None => BlockSeal::Unknown,
    }
}

/// nc-a-chain: returns the refusal of thinking whose signature differs by a byte.
pub(super) fn refuse_forged(prompt: &Prompt) -> Option<(&'static str, RefusalReply)> {
    let forged = prompt.units.iter().find(|unit| match &unit.part {
        Part::Reasoning(signature) => !is_intact(signature),
        Part::Compaction(_) | Part::Other => false,
    })?;
    let message = format!("{}: {FORGED}", path(forged));
    Some((FORGED_THINKING, refusal(&message)))
}

/// Returns the thinking of the reply with this ordinal, as the value of `reasoning_details`.
pub(crate) fn sign(ordinal: usize) -> Value {
    let (format, seal) = ("anthropic-claude-v1", sealed(ordinal));
    if ordinal % REDACTED_EVERY == REDACTED_EVERY - 1 {
        return json!([{"type": "reasoning.encrypted", "data": seal, "format": format, "index": 0}]);
    }
    let text = format!("Considering step {ordinal}, with all that was said before it.");
    json!([{"type": "reasoning.text", "text": text, "signature": seal, "format": format, "index": 0}])
}

/// Returns the names of the thinking in an answer.
pub(crate) fn issued_names(answer: &ModelAnswer<'_>) -> Vec<String> {
    let signed = answer.thinking.as_ref().map(list).unwrap_or_default().iter();
    let names = signed.flat_map(|block| ["data", "signature"].map(|name| member(block, name)));
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
