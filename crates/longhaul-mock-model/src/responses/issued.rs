//! Ids and encrypted reasoning that the model issued, so that a request can be checked without memory.
//!
//! The ids of one response share its ordinal. Encrypted reasoning names its model and ordinal after
//! a keyed hash, and no other bytes are its own.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The key of the hashes.
const KEY: u64 = 0x3c91_d20b_88e4_57a6;
/// The beginning of an id after its prefix, which no recorded id has.
const OWN: &str = "strict";
/// The beginning of encrypted reasoning of this model.
const BEGINNING: &str = "gAAAAABstrict";
/// The length of encrypted reasoning, in bytes.
const LENGTH: usize = 400;

/// Returns the id of an item of the response with this ordinal.
pub(super) fn id(prefix: &str, ordinal: usize) -> String {
    format!("{prefix}_{OWN}{ordinal}")
}

/// Returns the ordinal of an id with this prefix; `None` for the id of another provider.
#[cfg(feature = "validity")]
pub(super) fn ordinal(prefix: &str, id: &str) -> Option<usize> {
    let rest = id.strip_prefix(prefix)?.strip_prefix('_')?;
    rest.strip_prefix(OWN)?.parse().ok()
}

/// Returns the encrypted reasoning of a response to this caller.
pub(super) fn encrypted(model: &str, credential: &str, ordinal: usize) -> String {
    sealed(number(model), number(credential), ordinal)
}

fn sealed(model: u64, caller: u64, ordinal: usize) -> String {
    let mut hasher = DefaultHasher::new();
    (KEY, model, caller, ordinal).hash(&mut hasher);
    let text = format!("{BEGINNING}{ordinal:08x}{caller:016x}{model:016x}{:016x}", hasher.finish());
    format!("{text:A<LENGTH$}")
}

/// Returns the number of a caller or a model in encrypted reasoning.
fn number(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (KEY, name).hash(&mut hasher);
    hasher.finish()
}

/// The ordinal, the caller and the model that encrypted reasoning names.
#[cfg(feature = "validity")]
struct Named {
    ordinal: usize,
    caller: u64,
    model: u64,
}

/// Returns what encrypted reasoning names; `None` for damaged reasoning.
#[cfg(feature = "validity")]
fn named(rest: &str) -> Option<Named> {
    let number = |at: usize| u64::from_str_radix(rest.get(at..at + 16)?, 16).ok();
    let ordinal = usize::from_str_radix(rest.get(..8)?, 16).ok()?;
    Some(Named { ordinal, caller: number(8)?, model: number(24)? })
}

/// Whether encrypted reasoning is as the model issued it. That of another provider is not judged.
#[cfg(feature = "validity")]
pub(super) fn is_intact(encrypted_content: &str) -> bool {
    let Some(rest) = encrypted_content.strip_prefix(BEGINNING) else {
        return true;
    };
    named(rest).is_some_and(|it| sealed(it.model, it.caller, it.ordinal) == encrypted_content)
}

/// Whether a model could decrypt encrypted reasoning. That of another provider is not judged.
#[cfg(feature = "validity")]
pub(super) fn is_readable(model: &str, encrypted_content: &str) -> bool {
    let named = encrypted_content.strip_prefix(BEGINNING).map(named);
    let is_own = named.is_none_or(|named| named.is_some_and(|it| it.model == number(model)));
    is_own && is_intact(encrypted_content)
}

/// Whether encrypted reasoning was issued to another caller.
#[cfg(feature = "validity")]
pub(super) fn is_foreign(credential: &str, encrypted_content: &str) -> bool {
    let rest = encrypted_content.strip_prefix(BEGINNING);
    let named = rest.and_then(named);
    named.is_some_and(|named| named.caller != number(credential))
}
