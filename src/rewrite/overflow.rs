//! Judges what a reply is: a context overflow, an output budget that is too large, a byte limit,
//! a message list refused, an error under the status of an answer, or nothing for us.
//!
//! It asks what the reply says, never who sent it. The order is the whole of its judgement:
//!
//! ```text
//! decode → error nodes → status veto → text veto → malformed → path veto → code or text
//!        → numbers → floor → arithmetic
//! ```
//!
//! A veto ends in [`Verdict::Fine`]: an overflow that we miss costs what it would have cost
//! without us, a throttle that we take for one costs a conversation its history. What no step knows
//! is fine as well, unless its status says that the request is at fault. Under the status of an
//! answer, an error that is fine by that is [`Verdict::Failed`]. What the steps ask for is in `table`,
//! to be read and extended by people.

mod answer;
mod form;
mod head;
mod nodes;
mod numbers;
mod reading;
mod rules;
mod table;
mod tail;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::nodes::ErrorDetails;
use super::sse::{self, Event, EventKind, Splitter};

pub use head::{ClassifierStep, StreamHead};
pub use reading::ReplyClassifier;
pub use rules::{ClassifierRules, MAX_PATTERN_BYTES, MAX_PATTERNS, PatternError};
pub use tail::{ReplyEnd, ReplyTail, TAIL_BYTES};

/// What a reply is, and so what may be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No answer, under the status of one, and nothing that compaction cures: a throttle in a
    /// stream, a page to sign in at. Leave it alone; it shows nothing of what the model accepts.
    Failed,
    /// A limit on bytes: make the request smaller in bytes, images first.
    TooManyBytes,
    /// Leave it alone. It is an answer, or an error that compaction does not cure.
    Fine,
    /// The message list is refused as invalid: wrong order of roles, a call without its result.
    /// If the list was of our making, the original deserves its chance.
    Malformed,
    /// The history does not fit the window: compact.
    Overflow(Overflow),
    /// The history fits, and only the sum with the requested output does not: ask for less.
    OutputTooLarge {
        /// The window, in tokens as upstream counts them.
        limit: u32,
        /// The prompt; `None` where the requested output alone fills the window.
        input: Option<u32>,
        /// The output that was asked for.
        output: u32,
    },
    /// The request is refused as it stands, and why is not known here. If it was of our making, the
    /// original deserves a chance, but what becomes of it proves little.
    Unexplained,
}

/// What an overflow tells, in tokens as upstream counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// Whether the reply says so, or only looks like it.
    pub evidence: Evidence,
    /// By how much the request is too large, where that is said and `used` is not.
    pub excess: Option<u32>,
    /// The window.
    pub limit: Option<u32>,
    /// The output that was asked for. Known while `used` is not, it means that the prompt was not
    /// measured to its end, and that a smaller output may be all it takes: the caller's own
    /// estimate decides.
    pub output: Option<u32>,
    /// The prompt. `None` where it is unknown, or where the number reported is only a floor.
    pub used: Option<u32>,
}

/// How sure an [`Overflow`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The reply is what some servers give on an overflow, and says nothing: an empty 400, a stream
    /// that ends without a delta. Act only where the request is near the window by one's own
    /// estimate.
    EmptyReply,
    /// The reply names it.
    Stated,
}

impl Overflow {
    /// One that is not stated, without a number.
    pub fn from_empty_reply() -> Self {
        Self {
            evidence: Evidence::EmptyReply,
            ..Self::stated(None, None)
        }
    }

    /// One that is stated, with so many numbers at the most.
    pub fn stated(limit: Option<u32>, used: Option<u32>) -> Self {
        Self {
            evidence: Evidence::Stated,
            excess: None,
            limit,
            output: None,
            used,
        }
    }
}

/// Judges a body that came with an error status.
fn classify_refusal(status: u16, bytes: &[u8], rules: &ClassifierRules) -> Verdict {
    let bytes = bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii();
    if bytes.is_empty() {
        return match status {
            400 | 413 => Verdict::Overflow(Overflow::from_empty_reply()),
            _ => Verdict::Fine,
        };
    }
    let mut nodes = ErrorDetails::default();
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        nodes.add_value(&value);
    } else if is_event_stream(bytes) {
        let mut splitter = Splitter::default();
        let mut add = |event: Event<'_>| nodes.add_text(&String::from_utf8_lossy(event.data));
        splitter.push(bytes, &mut add);
        splitter.finish(&mut add);
    } else if !bytes.starts_with(b"<") {
        nodes.add_text(&String::from_utf8_lossy(bytes));
    }
    classify_details(status, &nodes, rules)
}

/// Judges a JSON body that came with a 200 and in which no answer was seen.
fn classify_unanswered(body: &[u8], rules: &ClassifierRules) -> Verdict {
    if sse::classify_event(Event::unnamed(body)).kind == EventKind::Content {
        return Verdict::Fine;
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if nodes::states_error(&value) => {
            classify_failure(|nodes| nodes.add_value(&value), rules)
        }
        Ok(value) if nodes::lacks_choices(&value) => Verdict::Failed,
        // Of another interface, perhaps, and an answer there.
        Ok(_) | Err(_) => Verdict::Fine,
    }
}

/// Judges an event, or a JSON body, that came with a 200: only what states an error is read.
fn classify_stated_error(event: Event<'_>, rules: &ClassifierRules) -> Verdict {
    let named = event.name == b"error";
    if !named && sse::classify_event(event).kind == EventKind::Content {
        return Verdict::Fine;
    }
    match serde_json::from_slice::<Value>(event.data) {
        Ok(value) if named || nodes::states_error(&value) => {
            classify_failure(|nodes| nodes.add_value(&value), rules)
        }
        Err(_) if named => {
            let text = String::from_utf8_lossy(event.data);
            classify_failure(|nodes| nodes.add_text(&text), rules)
        }
        Ok(_) | Err(_) => Verdict::Fine,
    }
}

/// Judges an error that came with a 200.
fn classify_failure(says: impl FnOnce(&mut ErrorDetails), rules: &ClassifierRules) -> Verdict {
    let mut nodes = ErrorDetails::default();
    says(&mut nodes);
    match classify_details(200, &nodes, rules) {
        Verdict::Fine => Verdict::Failed,
        verdict @ (Verdict::Failed
        | Verdict::TooManyBytes
        | Verdict::Malformed
        | Verdict::Overflow(_)
        | Verdict::OutputTooLarge { .. }
        | Verdict::Unexplained) => verdict,
    }
}

fn is_event_stream(bytes: &[u8]) -> bool {
    [&b":"[..], b"data:", b"event:", b"id:", b"retry:"]
        .iter()
        .any(|start| bytes.starts_with(start))
}

/// The judgement itself, in the order that the head of this file names.
fn classify_details(status: u16, nodes: &ErrorDetails, rules: &ClassifierRules) -> Verdict {
    let vetoed = |code: &String| {
        code.parse()
            .is_ok_and(|inner| rules.is_vetoed_status(inner))
    };
    if nodes.codes.iter().any(vetoed) || nodes.texts_and_codes().any(|text| rules.is_vetoed(text)) {
        return Verdict::Fine;
    }
    if nodes.texts_and_codes().any(|text| rules.is_malformed(text)) {
        return Verdict::Malformed;
    }
    let unexplained = match status {
        400 | 422 => Verdict::Unexplained,
        _ => Verdict::Fine,
    };
    if nodes.params.iter().any(|path| rules.is_message_path(path)) {
        return unexplained;
    }
    if rules.names_overflow(status, nodes) {
        return numbers::verdict_from_counts(nodes, rules);
    }
    if status < 500 && (status == 413 || rules.names_byte_limit(nodes)) {
        Verdict::TooManyBytes
    } else {
        unexplained
    }
}
