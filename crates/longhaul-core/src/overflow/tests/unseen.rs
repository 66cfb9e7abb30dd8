//! Recorded and unseen replies for the heuristics, and how replies are classified.

use serde::Deserialize;

use crate::dialect::Dialect;
use crate::overflow::tests::finish;
use crate::overflow::{ClassifierRules, ReplyClassifier, RequestFacts, RequestText, Verdict};

/// Facts about the request that the unseen refusals answer: near the assumed window.
pub(in crate::overflow) const LARGE: RequestFacts<'static> = RequestFacts {
    has_compaction: false,
    tokens: 150_000,
    text: RequestText::new(&[b' '; 600_000], ""),
    body_tokens: 150_000,
    window: Some(180_000),
    largest_accepted: 100_000,
    model: "acme/nova-2.1",
    output: None,
    is_partial: false,
};

/// Facts about a request whose size explains nothing.
pub(super) const SMALL: RequestFacts<'static> =
    RequestFacts { largest_accepted: 150_000, window: Some(1_000_000), ..LARGE };

/// A line of `fixtures/unseen` or of `fixtures/reports`.
#[derive(Debug, Deserialize)]
pub(super) struct Reply {
    #[serde(alias = "provider")]
    pub(super) who: String,
    #[serde(default)]
    pub(super) family: String,
    #[serde(default)]
    pub(super) language: String,
    #[serde(alias = "is_overflow")]
    pub(super) overflow: bool,
    pub(super) status: u16,
    pub(super) body: Option<String>,
    #[serde(alias = "limit")]
    pub(super) limit_tokens: Option<u32>,
    #[serde(alias = "used")]
    pub(super) requested_tokens: Option<u32>,
    #[serde(default)]
    pub(super) action: String,
}

pub(super) fn lines(file: &str) -> Vec<Reply> {
    let lines = file.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

macro_rules! fixture {
    ($path:literal) => {
        crate::overflow::tests::unseen::lines(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/",
            $path
        )))
    };
}
pub(super) use fixture;

impl Reply {
    pub(super) fn body(&self) -> &str {
        self.body.as_deref().unwrap_or_default()
    }

    pub(super) fn judge(&self, facts: RequestFacts<'_>) -> Verdict {
        judge(self.status, self.body(), facts)
    }

    /// Classifies the reply by the rules of the table alone.
    pub(super) fn judge_by_table(&self) -> Verdict {
        crate::overflow::tests::judged(self.status, [self.body().as_bytes()])
    }
}

/// Judges a reply as the proxy does.
pub(super) fn judge(status: u16, body: &str, facts: RequestFacts<'_>) -> Verdict {
    judge_by(ClassifierRules::standard(), status, body, facts)
}

/// Judges a reply by these rules and by its evidence.
pub(super) fn judge_by(
    rules: &ClassifierRules,
    status: u16,
    body: &str,
    facts: RequestFacts<'_>,
) -> Verdict {
    let reading = ReplyClassifier::new(Dialect::ChatCompletions, status, rules, Some(facts));
    finish(reading, [body.as_bytes()])
}

/// Judges a reply of a dialect as the proxy does, in chunks of `size` bytes.
pub(super) fn judge_in(
    dialect: Dialect,
    status: u16,
    body: &str,
    facts: RequestFacts<'_>,
    size: usize,
) -> Verdict {
    let rules = ClassifierRules::standard();
    let reading = ReplyClassifier::new(dialect, status, rules, Some(facts));
    finish(reading, body.as_bytes().chunks(size))
}

/// Whether a verdict makes the proxy rewrite the history.
pub(super) fn is_overflow(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Overflow(_) | Verdict::OutputTooLarge { .. })
}
