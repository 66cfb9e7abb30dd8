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

pub(super) mod bytes;
pub(super) mod codes;
mod facts;
mod numbers;
mod request_text;
mod statement;
mod words;

use std::cell::OnceCell;

use crate::overflow::error_details::{ErrorDetails, normalise};
use crate::overflow::rules::ClassifierRules;
use crate::overflow::stated_size::StatedSize;
use crate::overflow::vocabulary::matches;
use crate::overflow::{Evidence, Overflow, Suspicion, Verdict};
pub use facts::RequestFacts;
use numbers::Number;
pub use request_text::RequestText;
use statement::Statement;

/// Maximum texts of one error that are assessed. An error states its cause in the first ones.
const MAX_STATEMENTS: usize = 16;

/// A limit stated in words may exceed the estimate of the refused request by at most this factor. No
/// tokenizer is further from the estimate.
const MAX_LIMIT_FACTOR: u64 = 4;

/// Status of a server that failed, as some servers answer a prompt that is too large.
pub(super) const FAILED: u16 = 500;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assessment {
    pub(super) confidence: Confidence,
    stated: StatedSize,
    /// Fingerprint of the statement whose words decide; zero otherwise.
    statement: u64,
    /// Whether the error counts a part of an allowance that is used.
    pub(super) counts_used: bool,
}

impl Assessment {
    fn with_size(confidence: Confidence, stated: StatedSize) -> Self {
        Self { confidence, stated, statement: 0, counts_used: false }
    }

    /// Returns the suspicion that a repetition of the refusal confirms, if any.
    pub(super) fn suspicion(self) -> Option<Suspicion> {
        (self.confidence == Confidence::Vague).then_some(Suspicion::Words(self.statement))
    }

    /// Whether the refusal states the size of the prompt, or the excess, and a smaller limit.
    pub(super) fn states_pair(&self) -> bool {
        self.confidence == Confidence::Strong
            && self.stated.limit.is_some()
            && (self.stated.input.is_some() || self.stated.excess.is_some())
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
        Some(self.stated.verdict(evidence))
    }
}

impl From<Confidence> for Assessment {
    fn from(confidence: Confidence) -> Self {
        Self::with_size(confidence, StatedSize::default())
    }
}

/// An error, and the request that it refuses.
#[derive(Clone, Copy)]
pub(super) struct Refusal<'a> {
    pub(super) status: u16,
    pub(super) details: &'a ErrorDetails,
    /// The details without quotations of the request. Evidence that needs no large request comes from
    /// these alone.
    pub(super) unquoted: &'a ErrorDetails,
    pub(super) sizes: &'a RequestSizes<'a>,
    pub(super) rules: &'a ClassifierRules,
}

impl Refusal<'_> {
    pub(super) fn assess(&self) -> Assessment {
        let own = self.clean(self.unquoted);
        let counts_used = own.iter().any(|one| matches("used", &one.text));
        // Waiting lifts no limit below the size of one request.
        let request_limit = own.iter().find_map(|one| one.request_limit(self.sizes));
        let request_limit = request_limit.filter(|_| !counts_used);
        let mut final_ones = self.statuses().filter(|one| words::is_final_status(*one));
        if final_ones.any(|one| request_limit.is_none() || !matches!(one, 402 | 429)) {
            return Assessment { counts_used, ..Confidence::Vetoed.into() };
        }
        if let Some(stated) = request_limit {
            return Assessment::with_size(Confidence::Strong, stated);
        }
        let assessment = Assessment { counts_used, ..self.assess_texts() };
        let is_weaker = matches!(assessment.confidence, Confidence::Nothing | Confidence::Vague);
        let needs_advice = is_weaker || assessment.confidence == Confidence::Words;
        if self.details.advice.is_empty() || !needs_advice {
            return assessment;
        }
        // Some upstreams state the cause, or the numbers, as a hint.
        let advised = Refusal {
            details: &self.details.with_advice(),
            unquoted: &self.unquoted.with_advice(),
            ..*self
        };
        let advised = advised.assess_texts();
        if is_weaker || advised.confidence == Confidence::Strong { advised } else { assessment }
    }

    fn assess_texts(&self) -> Assessment {
        let (statements, own) = (self.clean(self.details), self.clean(self.unquoted));
        let joined = joined(self.unquoted).map(|text| self.clean_text(&text));
        // Numbers may stand in several texts and in other members.
        let numbered = || own.iter().chain(&joined);
        // The size of the whole request in characters is not the size of an item.
        if let Some(stated) = numbered().find_map(|one| one.stated_characters(self.sizes)) {
            return if statements.iter().any(words::is_final)
                || self.has_code(codes::is_about_account)
            {
                Confidence::Vetoed.into()
            } else {
                Assessment::with_size(Confidence::Strong, stated)
            };
        }
        let exact = numbered().find_map(|one| one.exact_pair(self.sizes));
        let in_cache = |one: &Statement| one.cache_limit(self.sizes);
        let exact = exact.or_else(|| own.iter().find_map(in_cache));
        let is_coded = self.has_code(codes::names_overflow);
        let is_vetoed = if is_coded {
            let mut statements = statements.iter();
            statements.any(|one| self.is_listed(one, "veto") || words::is_final(one))
        } else {
            self.is_vetoed(&statements, exact)
        };
        if is_vetoed {
            return Confidence::Vetoed.into();
        }
        let pair = numbered().find_map(|one| one.stated_pair(self.sizes));
        let stated = pair.or(exact);
        if is_coded || stated.is_some() || own.iter().any(|one| one.has_code) {
            let single = |one: &Statement| one.stated_single(self.sizes);
            let stated = stated.or_else(|| own.iter().find_map(single));
            return Assessment::with_size(Confidence::Strong, stated.unwrap_or_default());
        }
        self.assess_words(&own)
    }

    /// Weighs the words of an error whose `own` statements have neither a code nor two numbers.
    fn assess_words(&self, own: &[Statement]) -> Assessment {
        let is_denied = self.statuses().any(|status| matches!(status, 401 | 403));
        let speaks = |one: &&Statement| {
            one.sentences().any(words::sentence_names_overflow)
                && (!is_denied || words::name_window(one))
        };
        let Some(statement) = own.iter().find(speaks) else {
            // The request's own words leave the size and the status as evidence. The name of a key, such as
            // `context_length_exceeded`, leaves nothing.
            let is_quoted = matches!(self.status, 400 | 413) && {
                let texts = self.details.statements.iter().take(MAX_STATEMENTS);
                let mut texts = texts.map(|text| statement::without_overflow_identifiers(text));
                texts.any(|text| speaks(&&self.clean_text(&text)))
            };
            if is_quoted {
                return Confidence::Quoted.into();
            }
            let names_window = |one: &&Statement| {
                words::name_window(one) && !one.counts_something_else(self.sizes)
            };
            let vague = own.iter().find(names_window).or_else(|| own.first());
            let names_window = self.status != FAILED && own.iter().any(|one| names_window(&one));
            let is_vague = names_window || self.names_no_cause();
            let vague = is_vague.then(|| vague.map_or(0, Statement::fingerprint));
            return vague.map_or_else(
                || Confidence::Nothing.into(),
                |statement| Assessment { statement, ..Confidence::Vague.into() },
            );
        };
        let stated = statement.stated_single(self.sizes).unwrap_or_default();
        // A limit far above the request is the range of a parameter, one far below bounds another text.
        let size = self.sizes.tokens();
        let limits = size / bytes::MAX_FACTOR..=size * MAX_LIMIT_FACTOR;
        let is_other = stated.limit.is_some_and(|it| !limits.contains(&u64::from(it)));
        if is_other || statement.counts_something_else(self.sizes) {
            return Confidence::Nothing.into();
        }
        Assessment {
            statement: statement.fingerprint(),
            ..Assessment::with_size(Confidence::Words, stated)
        }
    }

    /// Whether the texts and the codes of an error say only that there is one. A text in a language that is not
    /// read says as much; that of a server that failed has to be one.
    fn names_no_cause(&self) -> bool {
        let ErrorDetails { statements, stated_codes, codes, params, .. } = self.details;
        let status = self.status.to_string();
        let is_vague = |text: &String| matches("vague", text.to_lowercase());
        let is_unread = |text: &String| !matches("read", self.clean_text(text).text);
        let is_own = |code: &String| *code == status || code.parse::<u64>().is_err();
        let is_failed = self.status == FAILED;
        params.iter().all(Vec::is_empty)
            && !(is_failed && statements.is_empty())
            && statements.iter().all(|text| is_unread(text) || (!is_failed && is_vague(text)))
            && stated_codes.iter().all(is_vague)
            && codes.iter().all(is_own)
    }

    /// Returns the verdict on a requested output above what the model may write, if an error states the cap.
    pub(super) fn output_cap(&self) -> Option<Verdict> {
        let requested = self.sizes.facts.output?;
        let statements = self.clean(self.unquoted);
        let mut statuses = self.statuses();
        let is_other = statements.iter().any(words::is_final)
            || statuses.any(|status| words::is_final_status(status) || matches!(status, 401 | 403));
        let cap = |one: &Statement| one.output_cap(requested, self.sizes);
        let stated = statements.iter().find_map(cap);
        stated.filter(|_| !is_other).map(Verdict::OutputAboveCap)
    }

    /// Whether an error states a size far above the whole body: the error is about another request.
    pub(super) fn counts_larger_body(&self) -> bool {
        let is_larger = |one: &Statement| bytes::counts_larger_body(&one.text, self.sizes);
        let facts = self.sizes.facts;
        let is_whole = !facts.is_partial && facts.text.bytes() > 0;
        is_whole && self.clean(self.unquoted).iter().any(is_larger)
    }

    /// Whether an overflow states counts that are too far below the request to count the request, such as
    /// those of a text to embed.
    pub(super) fn counts_other_text(&self, overflow: &Overflow) -> bool {
        let counts = overflow.limit.zip(overflow.used);
        counts.is_some_and(|(limit, used)| {
            numbers::is_other_text(u64::from(limit), u64::from(used), self.sizes.facts.tokens)
        })
    }

    /// Whether an error states the size of this body in bytes and a smaller limit, in words that no rule of
    /// the table lists.
    pub(super) fn states_byte_limit(&self) -> bool {
        // No allowance outweighs the size of the body.
        let is_other = |status: u16| words::is_final_status(status) && !matches!(status, 402 | 429);
        if self.status < 400 || self.statuses().any(is_other) {
            return false;
        }
        let states = |one: &Statement| bytes::states_limit(&one.text, self.sizes.bytes());
        let measured = Some(StatedSize::default());
        let is_other =
            |one: &Statement| self.is_listed(one, "veto") || words::is_vetoed(one, measured);
        !self.has_code(codes::is_about_account)
            && self.clean(self.unquoted).iter().any(states)
            && !self.clean(self.details).iter().any(is_other)
    }

    /// Whether a code or a statement is about something other than the window.
    fn is_vetoed(&self, statements: &[Statement], measured: Option<StatedSize>) -> bool {
        let details = self.details;
        let is_listed = |list: &str, code: &String| self.rules.matches(list, code.as_bytes());
        let mut stated = details.stated_codes.iter();
        let mut codes = details.codes.iter();
        let is_other = |one: &Statement| {
            let is_listed = self.is_listed(one, "veto") || self.is_listed(one, "malformed");
            is_listed || words::is_vetoed(one, measured)
        };
        stated.any(|one| is_listed("veto", one) || codes::is_vetoed(one, measured.is_some()))
            || codes.any(|one| is_listed("malformed", one))
            || self.rules.points_into_message(details)
            || statements.iter().any(is_other)
    }

    fn is_listed(&self, statement: &Statement, list: &str) -> bool {
        self.rules.matches(list, &normalise(&statement.text))
    }

    fn has_code(&self, is_one: fn(&str) -> bool) -> bool {
        self.details.stated_codes.iter().any(|code| is_one(code))
    }

    /// Returns the status, and those inside the body.
    fn statuses(&self) -> impl Iterator<Item = u16> {
        self.details.inner_statuses().chain([self.status])
    }

    /// Returns the statements of an error.
    fn clean(&self, details: &ErrorDetails) -> Vec<Statement> {
        let texts = details.statements.iter().take(MAX_STATEMENTS);
        texts.map(|text| self.clean_text(text)).collect()
    }

    fn clean_text(&self, text: &str) -> Statement {
        Statement::clean(text, self.sizes.facts.model)
    }
}

/// Joins all texts and figures. `None` if there is one text alone.
fn joined(details: &ErrorDetails) -> Option<String> {
    let texts = details.statements.iter().take(MAX_STATEMENTS);
    let parts = texts.chain(details.figures.iter().take(MAX_STATEMENTS));
    let parts: Vec<&str> = parts.map(String::as_str).collect();
    (parts.len() >= 2).then(|| parts.join("\n"))
}

/// Sizes of the request by longhaul's own counts.
pub(super) struct RequestSizes<'a> {
    pub(super) facts: &'a RequestFacts<'a>,
    /// Counted once per refusal: the count reads the whole body.
    characters: OnceCell<u64>,
}

impl<'a> RequestSizes<'a> {
    pub(super) fn new(facts: &'a RequestFacts<'a>) -> Self {
        Self { facts, characters: OnceCell::new() }
    }

    pub(super) fn tokens(&self) -> u64 {
        u64::from(self.facts.tokens)
    }

    /// Whether a number may count the tokens of the request by another tokenizer.
    fn is_like(&self, number: &Number) -> bool {
        self.is_within(number, (1, 2), (3, 1))
    }

    /// Whether a number lies between two fractions of the request's tokens.
    fn is_within(&self, number: &Number, least: (u64, u64), most: (u64, u64)) -> bool {
        let size = self.tokens();
        size > 0 && (size * least.0 / least.1..=size * most.0 / most.1).contains(&number.value)
    }

    pub(super) fn characters(&self) -> u64 {
        let count = || self.sent_share(self.facts.text.characters());
        *self.characters.get_or_init(count)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sent_share(self.facts.text.bytes())
    }

    /// Returns the sent part of a size of the body in the facts. A rewritten request is shorter by the share
    /// of its tokens.
    fn sent_share(&self, size: u64) -> u64 {
        let sent = size.saturating_mul(self.tokens());
        let share = sent.checked_div(u64::from(self.facts.body_tokens));
        share.unwrap_or(size)
    }
}

#[cfg(test)]
mod tests;
