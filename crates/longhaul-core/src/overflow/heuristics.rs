//! Assesses a refusal by its evidence, in words that no rule of the table lists.
//!
//! The evidence, from the strongest on:
//!
//! - *codes*, by their parts (`codes`)
//! - *numbers*: two, of which one is the request's size and another is smaller (`numbers`)
//! - *words* for a prompt near words for too much, in nine languages (`words`); they decide only
//!   together with the size of the request
//!
//! Words that the request contains decide nothing alone (`request_text`). A veto (`vetoes`)
//! outweighs all of it. Vetoes apply to the statement without names, addresses
//! and help (`statement`). `data/heuristics.tsv` lists the words.

mod bytes;
pub(super) mod codes;
mod facts;
mod numbers;
mod request_text;
mod statement;
mod words;

use std::cell::{LazyCell, OnceCell};

use crate::overflow::error_details::{ErrorDetails, normalise};
use crate::overflow::rules::ClassifierRules;
use crate::overflow::vocabulary::matches;
use crate::overflow::{Evidence, LimitKind, Overflow, Suspicion, Verdict};
pub use facts::RequestFacts;
use numbers::StatedSize;
pub use request_text::RequestText;
use statement::Statement;

/// Maximum texts of one error that are assessed. An error states its cause in the first ones.
const MAX_STATEMENTS: usize = 16;

/// A limit stated in words may exceed the estimate of the refused request by at most this factor. No
/// tokenizer is further from the estimate.
const MAX_LIMIT_FACTOR: u32 = 4;

/// Confidence that a refusal is an overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confidence {
    /// The statement is about something else.
    Vetoed,
    /// Nothing suggests an overflow.
    Nothing,
    /// The statement names no cause, or the window alone. Repetition decides.
    Vague,
    /// Only words that the request contains suggest an overflow. The size of the request decides, as
    /// after a refusal that states nothing.
    Quoted,
    /// Words suggest an overflow. The size of the request decides.
    Words,
    /// A code or two numbers state an overflow.
    Strong,
}

/// Evidence of one refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assessment {
    pub(super) confidence: Confidence,
    /// Size that the refusal states.
    stated: StatedSize,
    /// Fingerprint of the statement whose words decide; zero otherwise.
    statement: u64,
    /// Whether the error counts a part of an allowance that is used.
    pub(super) counts_used: bool,
}

impl Assessment {
    fn with_size(confidence: Confidence, stated: StatedSize) -> Self {
        Self {
            confidence,
            stated,
            statement: 0,
            counts_used: false,
        }
    }

    /// Returns the suspicion that a repetition of the refusal confirms, if any.
    pub(super) fn suspicion(self) -> Option<Suspicion> {
        (self.confidence == Confidence::Vague).then_some(Suspicion::Words(self.statement))
    }

    /// Whether the refusal states the size of the prompt and a smaller limit.
    pub(super) fn states_pair(&self) -> bool {
        self.confidence == Confidence::Strong
            && self.stated.limit.is_some()
            && self.stated.input.is_some()
    }

    /// Returns the verdict on a request of this size, or `None` if the evidence does not suffice.
    pub(super) fn verdict(self, facts: &RequestFacts<'_>) -> Option<Verdict> {
        let evidence = match self.confidence {
            Confidence::Strong => Evidence::Stated,
            Confidence::Words if facts.is_large() => {
                Evidence::Suspected(Suspicion::Words(self.statement))
            }
            Confidence::Quoted if facts.explains_silence() => Evidence::EmptyReply,
            Confidence::Vetoed
            | Confidence::Nothing
            | Confidence::Vague
            | Confidence::Quoted
            | Confidence::Words => return None,
        };
        Some(self.stated.verdict(evidence, facts))
    }
}

impl From<Confidence> for Assessment {
    fn from(confidence: Confidence) -> Self {
        Self::with_size(confidence, StatedSize::default())
    }
}

/// Weighs the evidence of an error with this status. `unquoted` are the details without quotations of
/// the request; evidence that needs no large request comes from these alone.
pub(super) fn assess(
    status: u16,
    details: &ErrorDetails,
    unquoted: &LazyCell<ErrorDetails, impl FnOnce() -> ErrorDetails>,
    facts: &RequestFacts<'_>,
    rules: &ClassifierRules,
) -> Assessment {
    let own = clean(unquoted, facts);
    let counts_used = own.iter().any(|one| matches("used", one.text()));
    // Waiting lifts no limit below the size of one request.
    let sizes = RefusedRequestSizes::new(facts);
    let request_limit = own
        .iter()
        .find_map(|one| numbers::request_limit(one, &sizes));
    let request_limit = request_limit.filter(|_| !counts_used);
    let statuses = details.inner_statuses().chain([status]);
    let mut final_ones = statuses.filter(|one| words::is_final_status(*one));
    if final_ones.any(|one| request_limit.is_none() || !matches!(one, 402 | 429)) {
        return Assessment {
            counts_used,
            ..Confidence::Vetoed.into()
        };
    }
    if let Some(stated) = request_limit {
        return Assessment::with_size(Confidence::Strong, stated);
    }
    let assessment = Assessment {
        counts_used,
        ..assess_texts(status, details, unquoted, facts, rules)
    };
    let is_weaker = matches!(
        assessment.confidence,
        Confidence::Nothing | Confidence::Vague
    );
    let needs_advice = is_weaker || assessment.confidence == Confidence::Words;
    if details.advice.is_empty() || !needs_advice {
        return assessment;
    }
    // Some upstreams state the cause, or the numbers, as a hint.
    let (all, own) = (details.with_advice(), unquoted.with_advice());
    let advised = assess_texts(status, &all, &own, facts, rules);
    if is_weaker || advised.confidence == Confidence::Strong {
        advised
    } else {
        assessment
    }
}

/// Weighs the statements of an error.
fn assess_texts(
    status: u16,
    details: &ErrorDetails,
    unquoted: &ErrorDetails,
    facts: &RequestFacts<'_>,
    rules: &ClassifierRules,
) -> Assessment {
    let (statements, own) = (clean(details, facts), clean(unquoted, facts));
    let joined = joined(unquoted).map(|text| Statement::clean(&text, facts.model));
    // Numbers may stand in several texts and in other members.
    let numbered = || own.iter().chain(&joined);
    let sizes = RefusedRequestSizes::new(facts);
    let has_code = |is_one: fn(&str) -> bool| details.stated_codes.iter().any(|code| is_one(code));
    // The size of the whole request in characters is not the size of an item.
    let characters = numbered().find_map(|one| numbers::stated_characters(one, &sizes));
    if let Some(stated) = characters {
        let is_final = statements.iter().any(words::is_final) || has_code(codes::is_about_account);
        return if is_final {
            Confidence::Vetoed.into()
        } else {
            Assessment::with_size(Confidence::Strong, stated)
        };
    }
    let exact = numbered().find_map(|one| numbers::exact_pair(one, &sizes));
    let in_cache = |one| numbers::cache_limit(one, facts.tokens);
    let exact = exact.or_else(|| own.iter().find_map(in_cache));
    let is_coded = has_code(codes::names_overflow);
    let is_vetoed = if is_coded {
        let by_table = |one: &Statement| rules.matches("veto", &normalise(one.text()));
        let mut statements = statements.iter();
        statements.any(|one| by_table(one) || words::is_final(one))
    } else {
        is_vetoed(details, &statements, rules, exact)
    };
    if is_vetoed {
        return Confidence::Vetoed.into();
    }
    let stated = numbered()
        .find_map(|one| numbers::stated_pair(one, &sizes))
        .or(exact);
    if is_coded || stated.is_some() || own.iter().any(Statement::names_overflow_in_code) {
        let single = |one| numbers::stated_single(one, &sizes);
        let stated = stated.or_else(|| own.iter().find_map(single));
        return Assessment::with_size(Confidence::Strong, stated.unwrap_or_default());
    }
    assess_words(status, details, &own, &sizes)
}

/// Weighs the words of an error whose `own` statements have neither a code nor two numbers.
fn assess_words(
    status: u16,
    details: &ErrorDetails,
    own: &[Statement],
    sizes: &RefusedRequestSizes<'_>,
) -> Assessment {
    let mut statuses = details.inner_statuses().chain([status]);
    let is_denied = statuses.any(|status| matches!(status, 401 | 403));
    let speaks =
        |one: &&Statement| words::name_overflow(one) && (!is_denied || words::name_window(one));
    let Some(statement) = own.iter().find(speaks) else {
        // The request's own words leave the size and the status as evidence. The name of a key, such as
        // `context_length_exceeded`, leaves nothing.
        let is_quoted = matches!(status, 400 | 413) && {
            let texts = details.statements.iter().take(MAX_STATEMENTS);
            let mut texts = texts.map(|text| statement::without_overflow_identifiers(text));
            texts.any(|text| speaks(&&Statement::clean(&text, sizes.facts.model)))
        };
        if is_quoted {
            return Confidence::Quoted.into();
        }
        let names_window = |one: &&Statement| {
            words::name_window(one) && !numbers::counts_something_else(one, sizes)
        };
        let vague = own.iter().find(names_window).map(Statement::fingerprint);
        let vague = vague.or_else(|| names_no_cause(status, details).then_some(0));
        return vague.map_or_else(
            || Confidence::Nothing.into(),
            |statement| Assessment {
                statement,
                ..Confidence::Vague.into()
            },
        );
    };
    let stated = numbers::stated_single(statement, sizes).unwrap_or_default();
    // A limit far above the request is the range of a parameter.
    let is_above = |limit: u32| limit > sizes.facts.tokens.saturating_mul(MAX_LIMIT_FACTOR);
    if numbers::counts_something_else(statement, sizes) || stated.limit.is_some_and(is_above) {
        return Confidence::Nothing.into();
    }
    Assessment {
        statement: statement.fingerprint(),
        ..Assessment::with_size(Confidence::Words, stated)
    }
}

/// Whether the texts and the codes of an error say only that there is one.
fn names_no_cause(status: u16, details: &ErrorDetails) -> bool {
    let status = status.to_string();
    let is_vague = |text: &str| matches("vague", text.to_lowercase());
    let texts = details.statements.iter().chain(&details.stated_codes);
    let mut numbers = details
        .codes
        .iter()
        .filter(|code| code.parse::<u64>().is_ok());
    details.params.iter().all(Vec::is_empty)
        && texts.map(String::as_str).all(is_vague)
        && numbers.all(|code| *code == status)
}

/// Returns the verdict on a requested output above what the model may write, if an error states the cap.
pub(super) fn output_cap(
    status: u16,
    details: &ErrorDetails,
    facts: &RequestFacts<'_>,
) -> Option<Verdict> {
    let requested = facts.output?;
    let mut statuses = details.inner_statuses().chain([status]);
    let statements = clean(details, facts);
    let is_other = statements.iter().any(words::is_final)
        || statuses.any(|status| words::is_final_status(status) || matches!(status, 401 | 403));
    let cap = |one| numbers::output_cap(one, requested, facts.tokens);
    let stated = statements.iter().find_map(cap);
    stated.filter(|_| !is_other).map(Verdict::OutputAboveCap)
}

/// Whether an error states a size far above the whole body: the error is about another request.
pub(super) fn counts_larger_body(details: &ErrorDetails, facts: &RequestFacts<'_>) -> bool {
    let sizes = RefusedRequestSizes::new(facts);
    let is_larger = |one: &Statement| bytes::counts_larger_body(one.text(), &sizes);
    !facts.is_partial && facts.text.bytes() > 0 && clean(details, facts).iter().any(is_larger)
}

/// Whether an overflow states counts that are too far below the request to count the request, such as those
/// of a text to embed.
pub(super) fn counts_other_text(overflow: &Overflow, facts: &RequestFacts<'_>) -> bool {
    let counts = overflow.limit.zip(overflow.used);
    counts.is_some_and(|(limit, used)| {
        numbers::is_other_text(u64::from(limit), u64::from(used), facts.tokens)
    })
}

/// Whether an error states the size of this body in bytes and a smaller limit, in words that no rule of
/// the table lists.
pub(super) fn states_byte_limit(
    status: u16,
    details: &ErrorDetails,
    unquoted: &ErrorDetails,
    facts: &RequestFacts<'_>,
    rules: &ClassifierRules,
) -> bool {
    let mut statuses = details.inner_statuses().chain([status]);
    // No allowance outweighs the size of the body.
    let is_other = |status: u16| words::is_final_status(status) && !matches!(status, 402 | 429);
    if status < 400 || statuses.any(is_other) {
        return false;
    }
    let sizes = RefusedRequestSizes::new(facts);
    let states = |one: &Statement| bytes::states_limit(one.text(), sizes.bytes());
    let is_other = |one: &Statement| {
        rules.matches("veto", &normalise(one.text()))
            || words::is_vetoed(one, Some(StatedSize::default()))
    };
    let codes = &details.stated_codes;
    !codes.iter().any(|code| codes::is_about_account(code))
        && clean(unquoted, facts).iter().any(states)
        && !clean(details, facts).iter().any(is_other)
}

/// Returns the statements of an error.
fn clean(details: &ErrorDetails, facts: &RequestFacts<'_>) -> Vec<Statement> {
    let texts = details.statements.iter().take(MAX_STATEMENTS);
    texts
        .map(|text| Statement::clean(text, facts.model))
        .collect()
}

/// Joins all texts and figures. `None` if there is one text alone.
fn joined(details: &ErrorDetails) -> Option<String> {
    let texts = details.statements.iter().take(MAX_STATEMENTS);
    let parts = texts.chain(details.figures.iter().take(MAX_STATEMENTS));
    let parts: Vec<&str> = parts.map(String::as_str).collect();
    (parts.len() >= 2).then(|| parts.join("\n"))
}

/// Whether a code or a statement is about something other than the window.
fn is_vetoed(
    details: &ErrorDetails,
    statements: &[Statement],
    rules: &ClassifierRules,
    measured: Option<StatedSize>,
) -> bool {
    let by_code = |code: &String| {
        rules.matches("veto", code.as_bytes()) || codes::is_vetoed(code, measured.is_some())
    };
    let by_table = |statement: &Statement| {
        let text = normalise(statement.text());
        rules.matches("veto", &text) || rules.matches("malformed", &text)
    };
    let is_malformed = |code: &String| rules.matches("malformed", code.as_bytes());
    let is_other = |one: &Statement| by_table(one) || words::is_vetoed(one, measured);
    details.stated_codes.iter().any(by_code)
        || details.codes.iter().any(is_malformed)
        || rules.points_into_message(details)
        || statements.iter().any(is_other)
}

impl StatedSize {
    fn verdict(self, evidence: Evidence, facts: &RequestFacts<'_>) -> Verdict {
        if let Self {
            limit: Some(limit),
            input,
            output: Some(output),
            kind: LimitKind::Window,
            ..
        } = self
            && input.is_some_and(|input| input < limit && input.saturating_add(output) > limit)
        {
            return Verdict::OutputTooLarge {
                limit,
                input,
                output,
            };
        }
        Verdict::Overflow(Overflow {
            evidence,
            kind: self.kind,
            excess: self.excess,
            limit: self.limit,
            output: None,
            used: match self.kind {
                LimitKind::Characters => Some(facts.tokens),
                LimitKind::Request | LimitKind::Window => self.input,
            },
        })
    }
}

/// Sizes of the request by longhaul's own counts.
pub(super) struct RefusedRequestSizes<'a> {
    pub(super) facts: &'a RequestFacts<'a>,
    /// Counted once per refusal: the count reads the whole body.
    characters: OnceCell<u64>,
}

impl<'a> RefusedRequestSizes<'a> {
    pub(super) fn new(facts: &'a RequestFacts<'a>) -> Self {
        Self {
            facts,
            characters: OnceCell::new(),
        }
    }

    /// Returns the characters that were sent.
    pub(super) fn characters(&self) -> u64 {
        *self
            .characters
            .get_or_init(|| self.sent_share(self.facts.text.characters()))
    }

    /// Returns the bytes that were sent.
    pub(super) fn bytes(&self) -> u64 {
        self.sent_share(self.facts.text.bytes())
    }

    /// Returns the sent part of a size of the body in the facts. A rewritten request is shorter by the share
    /// of its tokens.
    fn sent_share(&self, size: u64) -> u64 {
        let sent = size.saturating_mul(u64::from(self.facts.tokens));
        sent.checked_div(u64::from(self.facts.body_tokens))
            .unwrap_or(size)
    }
}

#[cfg(test)]
mod tests;
