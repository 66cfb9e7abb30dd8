//! History cut into parts that a summariser can hold.

use crate::rewrite::conversation::Conversation;
use crate::rewrite::digest::digest;
use crate::rewrite::policy::Budgets;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::transcript;
use crate::rewrite::wording;
use std::ops::Range;

/// With less room than this, in tokens, a summariser is told too little to be asked.
const LEAST_ROOM: Tokens = Tokens::new(256);
/// What a clipping adds at most.
const NOTE: usize = 80;

/// The messages `covered` as at most `calls` parts of at most `room` each, in order. What is older
/// than fits stands as its digest at the head of the first.
pub(super) fn of(
    conversation: &Conversation<'_>,
    covered: Range<usize>,
    budgets: &Budgets,
    room: Tokens,
    calls: usize,
) -> Vec<String> {
    if room < LEAST_ROOM {
        return Vec::new();
    }
    // Newest first: if not all fits, it is the older history that is condensed already.
    let mut newest_first: Vec<Part> = Vec::new();
    let mut part = Part::default();
    let mut from = covered.end;
    for at in covered.clone().rev() {
        let entry = clipped(transcript::entry(conversation, at), room);
        let weight = weigh(&entry);
        let last = newest_first.len() + 1 == calls;
        // The first part, which is the last to be filled, leaves room for a digest.
        let limit = if last && at > covered.start {
            room - digest_room(room)
        } else {
            room
        };
        if part.weight + weight > limit && !part.entries.is_empty() {
            if last {
                break;
            }
            newest_first.push(std::mem::take(&mut part));
        }
        part.weight += weight;
        part.entries.push(entry);
        from = at;
    }
    if !part.entries.is_empty() {
        newest_first.push(part);
    }
    let mut parts: Vec<String> = newest_first
        .into_iter()
        .rev()
        .map(|part| part.entries.into_iter().rev().collect())
        .filter(|text: &String| !text.trim().is_empty())
        .collect();
    if from > covered.start
        && let Some(first) = parts.first_mut()
    {
        let older = digest(
            conversation,
            covered.start..from,
            &within(budgets, digest_room(room)),
        );
        let older = clipped(older, digest_room(room) - Tokens::new(40));
        *first =
            format!("[Older history, condensed by rule]:\n{older}\n\n[What follows it]:\n{first}");
    }
    parts
}

/// One part in the making, newest entry first.
#[derive(Default)]
struct Part {
    weight: Tokens,
    entries: Vec<String>,
}

/// What a digest of older history may take.
fn digest_room(room: Tokens) -> Tokens {
    room.over(4)
}

/// `budgets`, all made smaller alike until they fit `room`.
fn within(budgets: &Budgets, room: Tokens) -> Budgets {
    let nominal = budgets.nominal().get().max(1);
    let percent = (u64::from(room.get()) * 100 / u64::from(nominal)).min(100);
    let percent = u32::try_from(percent).unwrap_or(100);
    Budgets {
        prose: budgets.prose.percent(percent),
        ledger: budgets.ledger.percent(percent),
        index: budgets.index.percent(percent),
        said: budgets.said.percent(percent),
    }
}

/// `text`, cut in its middle if it weighs more than `room`.
fn clipped(text: String, room: Tokens) -> String {
    let weight = weigh(&text);
    if weight <= room {
        return text;
    }
    // As many characters as fit if all of them were of the heaviest sort that the text shows.
    let chars = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let fit = chars.saturating_mul(u64::from(room.get())) / u64::from(weight.get().max(1));
    let fit = usize::try_from(fit)
        .unwrap_or(usize::MAX)
        .saturating_sub(NOTE);
    let clipped = wording::clip_chars(&text, fit / 2, fit / 2).into_owned();
    if weigh(&clipped) <= room {
        return clipped;
    }
    let fit = (room.get() as usize).saturating_sub(NOTE);
    wording::clip_chars(&text, fit / 2, fit / 2).into_owned()
}

/// What `text` weighs where too little counted would break the call: four ASCII characters a token,
/// but one token for every other character. Han, Kana and Hangul measure 0.6 to 1 token each with
/// `o200k`, four times the plain estimate.
pub(super) fn weigh(text: &str) -> Tokens {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().count() - ascii;
    Tokens::new(u32::try_from(ascii.div_ceil(4) + others).unwrap_or(u32::MAX))
}
