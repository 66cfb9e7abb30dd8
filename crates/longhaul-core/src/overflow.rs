//! Classifies an upstream reply by its text, never by its sender. A reply is one of these:
//!
//! - a context overflow
//! - an output budget that is too large
//! - a byte limit
//! - a text that is too long by itself
//! - images or documents beyond a limit of the API
//! - a refused message list
//! - an error under a success status
//! - anything else, on which longhaul does not act
//!
//! The order of the steps decides the result:
//!
//! ```text
//! decode → error details → status veto → text limit → text veto → media limit → stale thinking → malformed
//!        → path veto → code or text → numbers → floor → arithmetic
//! ```
//!
//! A veto yields [`Verdict::Fine`]. Missing an overflow is harmless, since the client sees
//! the error it would have seen anyway. Mistaking a rate limit for an overflow discards history.
//!
//! An error that no step recognises is fine too, unless its status blames the request. If the
//! status is a success, an error that would be fine is [`Verdict::Failed`]. The patterns and codes
//! are in `data/wordings.tsv`, to be read and extended by people.
//!
//! With facts about the request, [`ReplyClassifier`] also weighs evidence, in `heuristics`, where no rule of the
//! table applies.

pub mod answer_scanner;
pub mod body_format;
mod body_limit;
pub mod classifier;
pub mod error_details;
mod heuristics;
mod numbers;
mod rule_set;
mod rules;
mod stated_error;
mod stated_size;
pub mod stream_head;
mod tail;
#[cfg(test)]
mod tests;
mod vocabulary;

use serde_json::Value;

use crate::dialect::Dialect;
use crate::dialect::reply::{EventKind, FinishReason};
use crate::sse::{Event, for_each_event};
use crate::units::body_limits::BodyLimits;
use crate::units::scope::RecordKey;
use error_details::ErrorDetails;
use heuristics::{Confidence, FAILED, Refusal, RequestSizes};
use rule_set::{PAID_CONTEXT, RuleSet, classify_silence};

pub use classifier::ReplyClassifier;
pub use heuristics::{RequestFacts, RequestText};
pub use rules::{ClassifierRules, MAX_PATTERN_BYTES, MAX_PATTERNS};
pub use stream_head::{ClassifierStep, StreamHead};
pub use tail::{ReplyEnd, ReplyTail, TAIL_BYTES};

/// Maximum bytes of a successful body without an answer that is read as an error. Errors are short.
const MAX_ENVELOPE_BYTES: usize = 4 * 1024;

/// Classification of a reply, which decides the reaction of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A success status without an answer, and with an error that compaction cannot cure: a
    /// throttle in a stream, a login page. The proxy leaves the reply alone. It proves nothing
    /// about what the model accepts.
    Failed,
    /// A limit on the body: drop old images first. The limits are known as far as the reply states them.
    BodyTooLarge(BodyLimits),
    /// An answer, or an error that compaction cannot cure. The proxy leaves the reply alone.
    Fine,
    /// The message list is refused as invalid: wrong order of roles, or a call without its result.
    /// If longhaul rewrote the list, retry with the original.
    Malformed,
    /// The history does not fit the window: compact.
    Overflow(Overflow),
    /// The requested output alone exceeds what the model may write, whatever the prompt: request at most
    /// this many tokens.
    OutputAboveCap(u32),
    /// The history fits, but not together with the requested output: request less output.
    OutputTooLarge {
        /// Size of the window, in tokens as the upstream counts them.
        limit: u32,
        /// Size of the prompt in tokens. `None` if the requested output alone fills the window.
        input: Option<u32>,
        /// Requested output, in tokens.
        output: u32,
    },
    /// Signed thinking no longer matches the bytes before it. If longhaul changed those bytes, retry
    /// the rewrite without the thinking.
    StaleThinking,
    /// One text is longer than the API allows: clip the results that are.
    TextTooLong {
        /// The maximum characters of a text.
        characters: u32,
    },
    /// Images or documents of the request break a limit of the API: their number, their pages, or the size
    /// of one. Leave out old ones.
    TooMuchMedia,
    /// The request is refused for an unknown reason. If longhaul rewrote the request, retry with the
    /// original. The outcome of the retry proves little.
    ///
    /// The suspicion is `None` if the refusal names a cause other than the size. Otherwise, the size is the
    /// likeliest cause once the refusal repeats above everything that was accepted. Under a status of 500, the
    /// server failed, and no rewrite is at fault.
    Unexplained(Option<Suspicion>),
}

/// Facts about an overflow, in tokens as the upstream counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// Whether the reply names an overflow or only looks like one.
    pub evidence: Evidence,
    /// Quantity that the limit bounds.
    pub kind: LimitKind,
    /// Tokens by which the request is too large, if the reply states them but not `used`.
    pub excess: Option<u32>,
    /// Size of the window; `None` if unknown.
    pub limit: Option<u32>,
    /// Requested output; `None` if unknown. If `output` is known but `used` is not, the upstream
    /// did not measure the whole prompt, and a smaller output may suffice. The caller then decides
    /// by its own estimate.
    pub output: Option<u32>,
    /// Size of the prompt. `None` if unknown, or if the reported number is only a lower bound.
    pub used: Option<u32>,
}

/// Quantity that a stated limit bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitKind {
    /// The characters of the input. Limit and prompt are converted to estimated tokens.
    Characters,
    /// The tokens of one request of this account. A smaller request satisfies the limit, and the limit
    /// is not a window.
    Request,
    /// The tokens of the window.
    #[default]
    Window,
}

/// Certainty of an [`Overflow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The reply carries no explanation, but some servers answer an overflow like this: an empty
    /// 400, or a stream that ends without a delta. Act on it only if the request is near the window
    /// by the proxy's own estimate.
    EmptyReply,
    /// The reply names an overflow.
    Stated,
    /// The reply describes a prompt that is too large, in words that no rule lists, and the request is
    /// large. Learn nothing before a smaller request was accepted.
    Suspected(Suspicion),
}

/// Suspected cause of a refusal. If no smaller request satisfies the refusal, the cause is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suspicion {
    /// Unknown words, by their fingerprint without digits.
    Words(u64),
    /// The API accepts cache marks that longhaul adds. A refusal of marks refutes this.
    CacheMarks,
    /// A limit on bytes. Such refusals have few words of their own.
    ByteLimit,
    /// The provider compacts conversations with the model of this key. No refusal suggests it, and a failed
    /// compaction refutes it.
    Compacts(RecordKey),
    /// The API refuses the images or documents before a message of one conversation.
    MediaBefore {
        /// Key of the conversation's first prefix.
        conversation: RecordKey,
        /// Index of the first message whose images stay.
        message: usize,
    },
}

impl Overflow {
    /// Returns the prompt size that the reply states, or that follows from its limit and excess.
    pub fn prompt_size(&self) -> Option<u32> {
        self.used.or_else(|| Some(self.limit?.saturating_add(self.excess?)))
    }

    /// Creates an overflow inferred from an empty reply, without numbers.
    pub fn from_empty_reply() -> Self {
        Self { evidence: Evidence::EmptyReply, ..Self::stated(None, None) }
    }

    /// Creates an overflow that the reply names, with the given window and prompt size.
    pub fn stated(limit: Option<u32>, used: Option<u32>) -> Self {
        Self {
            evidence: Evidence::Stated,
            kind: LimitKind::Window,
            excess: None,
            limit,
            output: None,
            used,
        }
    }
}

/// Classifies a body with an error status.
fn classify_refusal(status: u16, bytes: &[u8], rules: RuleSet<'_>) -> Verdict {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let bytes = bytes.trim_ascii();
    let has_compaction = rules.facts.is_some_and(|facts| facts.has_compaction);
    if has_compaction && memchr::memmem::find(bytes, rule_set::COMPACTION).is_some() {
        return Verdict::Malformed;
    }
    if bytes.is_empty() {
        return classify_silence(status);
    }
    let mut details = ErrorDetails::default();
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        details.add_value(&value);
        // An empty JSON error is treated like an empty body.
        if details.is_silent(status) && matches!(status, 400 | FAILED) {
            return classify_silence(status);
        }
    } else if is_event_stream(bytes) {
        for_each_event(bytes, |it| details.add_text(&String::from_utf8_lossy(it.data)));
    } else if !bytes.starts_with(b"<") {
        details.add_text(&String::from_utf8_lossy(bytes));
    } else if !is_web_page(bytes) {
        details.add_text(&without_tags(&String::from_utf8_lossy(bytes)));
    }
    classify_details(status, &details, rules)
}

/// Classifies a complete JSON body with a success status in which no answer was found so far.
fn classify_unanswered(dialect: Dialect, body: &[u8], rules: RuleSet<'_>) -> Verdict {
    let info = dialect.classify_event(Event::unnamed(body));
    if info.kind == EventKind::Content {
        return Verdict::Fine;
    }
    if info.finish == Some(FinishReason::WindowFull) {
        return Verdict::Overflow(Overflow::stated(None, None));
    }
    // There was no room for a text.
    if (info.kind, info.finish) == (EventKind::Usage, Some(FinishReason::Length))
        && info.output.is_some_and(|tokens| tokens <= tail::END_MARK)
    {
        return Verdict::Overflow(Overflow {
            limit: info.input.filter(|input| *input > 0),
            ..Overflow::from_empty_reply()
        });
    }
    let key = dialect.facts().answer_key;
    let has_output = info.output.is_some_and(|tokens| tokens > 0);
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if stated_error::states_error(&value, key) => {
            classify_failure(|details| details.add_value(&value), rules)
        }
        Ok(value) if !has_output && stated_error::has_empty_answer(&value, key) => Verdict::Failed,
        Ok(value) if is_unknown_envelope(&value, body, rules) => {
            classify_unknown_envelope(&value, rules)
        }
        Ok(_) | Err(_) => Verdict::Fine,
    }
}

/// Whether `value`, read from `bytes`, may be an error in an unknown envelope.
fn is_unknown_envelope(value: &Value, bytes: &[u8], rules: RuleSet<'_>) -> bool {
    rules.facts.is_some()
        && bytes.len() <= MAX_ENVELOPE_BYTES
        && stated_error::is_unknown_failure(value)
}

/// Classifies an event that holds a message in words and no answer. `None` if the event holds no message.
fn classify_message(event: Event<'_>, rules: RuleSet<'_>) -> Option<Verdict> {
    let value = serde_json::from_slice::<Value>(event.data).ok();
    let value = value.filter(|value| {
        is_unknown_envelope(value, event.data, rules)
            || (rules.facts.is_some() && stated_error::is_message(value))
    });
    value.map(|value| classify_unknown_envelope(&value, rules))
}

/// Classifies an error in an unknown envelope, which may as well be an answer of another API. Only an
/// overflow counts.
fn classify_unknown_envelope(value: &Value, rules: RuleSet<'_>) -> Verdict {
    if_overflow(classify_failure(|details| details.add_value(value), rules))
}

/// Returns an overflow, and leaves every other reply alone.
fn if_overflow(verdict: Verdict) -> Verdict {
    let is_overflow = matches!(verdict, Verdict::Overflow(_));
    if is_overflow { verdict } else { Verdict::Fine }
}

/// Classifies an event, or a JSON body, with a success status. Only an explicit error is read.
fn classify_stated_error(dialect: Dialect, event: Event<'_>, rules: RuleSet<'_>) -> Verdict {
    let named = event.name == b"error";
    if !named && dialect.classify_event(event).kind == EventKind::Content {
        return Verdict::Fine;
    }
    match serde_json::from_slice::<Value>(event.data) {
        Ok(value) if named || stated_error::states_error(&value, dialect.facts().answer_key) => {
            classify_failure(|details| details.add_value(&value), rules)
        }
        Ok(value) if is_unknown_envelope(&value, event.data, rules) => {
            classify_unknown_envelope(&value, rules)
        }
        Err(_) if named || rules.facts.is_some() => {
            let text = String::from_utf8_lossy(event.data);
            let verdict = classify_failure(|details| details.add_text(&text), rules);
            // Bare text may as well begin an answer.
            if named { verdict } else { if_overflow(verdict) }
        }
        Ok(_) | Err(_) => Verdict::Fine,
    }
}

/// Classifies an error with a success status.
fn classify_failure(add: impl FnOnce(&mut ErrorDetails), rules: RuleSet<'_>) -> Verdict {
    let mut details = ErrorDetails::default();
    add(&mut details);
    let verdict = classify_details(200, &details, rules);
    let is_fine = verdict == Verdict::Fine;
    if is_fine { Verdict::Failed } else { verdict }
}

/// Whether a body in markup is a web page, which names no cause that longhaul could cure.
fn is_web_page(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(256)).unwrap_or_default();
    let head = head.to_ascii_lowercase();
    [&b"<html"[..], b"<!doctype html"]
        .iter()
        .any(|mark| head.windows(mark.len()).any(|part| part == *mark))
}

/// Returns the texts of an XML document, one per line.
fn without_tags(xml: &str) -> String {
    let parts = xml.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
    let texts = parts.map(str::trim).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

fn is_event_stream(bytes: &[u8]) -> bool {
    [&b":"[..], b"data:", b"event:", b"id:", b"retry:"].iter().any(|start| bytes.starts_with(start))
}

/// A limit on the body without a number.
const BODY_TOO_LARGE: Verdict = Verdict::BodyTooLarge(BodyLimits::UNKNOWN);

/// Classifies an error by the rules of the table, then by its evidence. Adds the stated limits on the body.
fn classify_details(status: u16, details: &ErrorDetails, rules: RuleSet<'_>) -> Verdict {
    let cause = || classify_cause(status, details, rules);
    let Some(text) = rules.facts.map(|facts| facts.text) else {
        return cause();
    };
    body_limit::stated(status, details, &text, cause)
}

fn classify_cause(status: u16, details: &ErrorDetails, rules: RuleSet<'_>) -> Verdict {
    if rules.refuses_long_context(status, details) {
        return Verdict::Overflow(Overflow::stated(Some(PAID_CONTEXT), None));
    }
    let by_table = |details: &ErrorDetails| rules.classify_by_table(status, details);
    let Some(facts) = rules.facts else {
        return by_table(details);
    };
    let mut verdict = by_table(details);
    let is_large = |verdict| {
        matches!(
            verdict,
            Verdict::Overflow(_) | Verdict::BodyTooLarge(_) | Verdict::OutputTooLarge { .. }
        )
    };
    let unquoted = &details.without_quotations(facts.text);
    // A wording counts only if the error itself states it. Without thinking or old images no history is lost.
    // Agents write refusals of images into the history.
    if is_large(verdict) || matches!(verdict, Verdict::TextTooLong { .. }) {
        verdict = by_table(unquoted);
    }
    let refusal = Refusal {
        status,
        details,
        unquoted,
        sizes: &RequestSizes::new(&facts),
        rules: rules.table,
    };
    // A code is about the request, whatever the words count.
    let has_code = rules.table.states_overflow(status, details);
    let is_open = matches!(verdict, Verdict::Failed | Verdict::Fine | Verdict::Unexplained(_));
    if (is_open || is_large(verdict)) && !has_code && refusal.counts_larger_body() {
        return if is_open { verdict } else { Verdict::Fine };
    }
    if is_open {
        return judge_by_evidence(&refusal, verdict);
    }
    if let Verdict::BodyTooLarge(_) = verdict {
        // Only strong evidence distinguishes tokens from bytes.
        let assessment = refusal.assess();
        let may_outweigh = || !rules.table.names_byte_limit(details) || details.names_tokens();
        let outweighs = assessment.confidence == Confidence::Strong
            || assessment.confidence == Confidence::Words && may_outweigh();
        let judged = assessment.verdict(&facts).filter(|_| outweighs);
        return judged.unwrap_or(verdict);
    }
    let Verdict::Overflow(overflow) = verdict else {
        return verdict;
    };
    // A known wording without numbers: the heuristics may read them, or find that the statement is about
    // something else. So may one whose counts are far below the request.
    if overflow == Overflow::stated(None, None) {
        let assessment = refusal.assess();
        if assessment.states_pair() {
            return assessment.verdict(&facts).unwrap_or(verdict);
        }
        if assessment.confidence == Confidence::Vetoed && !has_code {
            return refusal.output_cap().unwrap_or(Verdict::Fine);
        }
    } else if refusal.counts_other_text(&overflow)
        && refusal.assess().confidence == Confidence::Vetoed
    {
        return Verdict::Fine;
    }
    verdict
}

/// Judges an error that no rule of the table explains: `verdict` stands if no evidence does either.
fn judge_by_evidence(refusal: &Refusal<'_>, verdict: Verdict) -> Verdict {
    let assessment = refusal.assess();
    let limits_bytes = || refusal.states_byte_limit().then_some(BODY_TOO_LARGE);
    let judged = assessment.verdict(refusal.sizes.facts);
    let judged = judged.or_else(limits_bytes);
    let suspicion = assessment.suspicion();
    let is_silent = refusal.status == FAILED && suspicion.is_some();
    // The status states the cause, unless the words count a used allowance.
    let otherwise = if refusal.status == 413 && !assessment.counts_used {
        BODY_TOO_LARGE
    } else if verdict == Verdict::Unexplained(None) || is_silent {
        Verdict::Unexplained(suspicion)
    } else {
        verdict
    };
    judged.or_else(|| refusal.output_cap()).unwrap_or(otherwise)
}

/// Minimum limit of an item's text, in characters. Ids, names and instructions have smaller limits.
const LEAST_TEXT_LIMIT: u32 = 1_000_000;

/// Applies the steps in the order given in the module documentation.
fn classify_by_table(status: u16, details: &ErrorDetails, rules: &ClassifierRules) -> Verdict {
    let mut statuses = details.inner_statuses();
    if statuses.any(|inner| inner != status && rules.is_vetoed_status(inner)) {
        return Verdict::Fine;
    }
    let mut limits = details.texts.iter().filter_map(|text| rules.text_limit(text));
    if let Some(characters) = limits.find(|limit| *limit >= LEAST_TEXT_LIMIT) {
        return Verdict::TextTooLong { characters };
    }
    let states = |list| details.texts_and_codes().any(|text| rules.matches(list, text));
    if states("veto") {
        return Verdict::Fine;
    }
    let is_media = |text: &Vec<u8>| rules.matches("media-limit", text);
    if status < 500 && details.texts.iter().any(is_media) {
        return Verdict::TooMuchMedia;
    }
    // The bytes of the thinking are right, and leaving it out helps. A signature that is wrong in itself is
    // another fault.
    let is_bound =
        |text| vocabulary::matches("signed", text) && vocabulary::matches("bound-elsewhere", text);
    if details.texts_and_codes().any(is_bound) {
        return Verdict::StaleThinking;
    }
    if states("malformed") {
        return Verdict::Malformed;
    }
    let unexplained = match status {
        400 | 422 => Verdict::Unexplained(None),
        _ => Verdict::Fine,
    };
    if rules.points_into_message(details) {
        unexplained
    } else if rules.names_overflow(status, details) {
        numbers::stated(details, rules).verdict(Evidence::Stated)
    } else if status == 413 || rules.names_byte_limit(details) {
        BODY_TOO_LARGE
    } else {
        unexplained
    }
}
