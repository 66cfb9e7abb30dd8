//! Why a request was forwarded as it was.

use longhaul_console::thousands::with_thousands;
use longhaul_core::planning::explanation::{
    ClearingTime, MarkNumbers, MessageDecision, RequestExplanation, RuleNumbers,
};
use longhaul_core::units::tokens::Tokens;

/// Event that led to the last plan of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PlanCause {
    /// The upstream refused the length of one text.
    ClippedTexts,
    /// The upstream reported a size limit in bytes.
    FewerBytes,
    /// The upstream refused images or documents.
    FewerImages,
    /// The plan exceeded a window that was set, or that the upstream had stated.
    FitWindow,
    /// The client requested a compaction.
    Manual,
    /// The upstream refused the placement of the summary.
    OtherPlacement,
    /// The upstream refused the request as too large.
    Overflow(Refusal),
    /// The rules alone.
    Plan,
    /// The upstream refused the rewrite, so the original was sent.
    RewriteRefused,
    /// The upstream refused the requested output.
    SmallerOutput,
    /// The upstream refused thinking after an edit.
    StaleThinking,
}

/// Refusal of a request that was too large.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    /// Plain estimate of the refused request.
    pub(crate) tokens: Tokens,
    /// Prompt tokens that the upstream counted, if the refusal states them.
    pub(crate) counted: Option<u32>,
    /// Limit in provider tokens, if the refusal states one.
    pub(crate) limit: Option<u32>,
    pub(crate) status: u16,
}

impl Refusal {
    /// Returns the size of the refused request: as the upstream counted it, or else as estimated.
    pub(crate) fn size(&self) -> u32 {
        self.counted.unwrap_or_else(|| self.tokens.get())
    }

    /// Describes the refusal in words, without its subject.
    pub(crate) fn words(&self) -> String {
        let mut words = format!("refused {} tokens", with_thousands(self.size()));
        if self.counted.is_none() {
            words.push_str(" (estimated)");
        }
        if let Some(limit) = self.limit {
            words.push_str(", limit ");
            words.push_str(&with_thousands(limit));
        }
        words
    }
}

impl PlanCause {
    /// Whether longhaul cleared more than its rule allows, to fit the window.
    pub(crate) fn fits_window(self) -> bool {
        matches!(self, Self::FitWindow | Self::Overflow(_))
    }

    /// Explains the request in one sentence. `text` names what stands for history.
    pub(crate) fn sentence(self, explanation: &RequestExplanation, text: &str) -> String {
        let window = with_thousands(explanation.window.get());
        match self {
            Self::ClippedTexts => {
                "the upstream refused the length of one text: longer results were clipped".into()
            }
            Self::FewerBytes => "the upstream refused the size in bytes: old images left".into(),
            Self::FewerImages => {
                "the upstream refused images or documents: old ones were left out".into()
            }
            Self::FitWindow => format!(
                "the request did not fit the window in force ({window} estimated tokens), so it \
                 was reduced before it was sent"
            ),
            Self::Manual => "a compaction was asked for".into(),
            Self::OtherPlacement => {
                format!("the upstream refused the placement of the {text}: the {text} moved")
            }
            Self::Overflow(refusal) => format!(
                "the upstream {}, so the request was reduced and sent again",
                refusal.words()
            ),
            Self::Plan => plan_sentence(explanation, text),
            Self::RewriteRefused => {
                "the upstream refused the rewritten request, so the original was sent".into()
            }
            Self::SmallerOutput => {
                "the upstream refused the requested output: it was lowered".into()
            }
            Self::StaleThinking => {
                "the upstream refused thinking after an edit, so it was left out".into()
            }
        }
    }
}

/// Explains a plan that follows from the rules alone.
fn plan_sentence(explanation: &RequestExplanation, text: &str) -> String {
    let changes =
        |of: fn(MessageDecision) -> bool| explanation.changes().any(|row| of(row.decision));
    let summarised = changes(|decision| decision == MessageDecision::Summarised);
    let cleared = changes(|decision| matches!(decision, MessageDecision::ToolResult(_)));
    let summary = format!(
        "the request reached {} tokens, so a {text} replaces old history",
        with_thousands(explanation.marks.hard.get())
    );
    match explanation.rule.as_ref().filter(|_| cleared).map(|rule| clearing(Some(rule))) {
        Some(clears) if summarised => format!("{summary}; {clears}"),
        Some(clears) => clears,
        None if summarised => summary,
        None if explanation.changes().next().is_some() => {
            "earlier changes of this conversation are repeated".into()
        }
        None => "no message was changed".into(),
    }
}

/// Describes when history is replaced.
pub(crate) fn folding(marks: &MarkNumbers) -> String {
    let [soft, hard] = [marks.soft, marks.hard].map(|mark| with_thousands(mark.get()));
    format!(
        "a summary is prepared from {soft} tokens on; from {hard} on, it or a digest by rules replaces old history"
    )
}

/// Describes the rule that clears old results, if there is one.
pub(crate) fn clearing(rule: Option<&RuleNumbers>) -> String {
    let Some(rule) = rule else {
        return "no result is cleared".into();
    };
    let tokens = |tokens: Tokens| with_thousands(tokens.get());
    let minimum = tokens(rule.minimum_tokens);
    let condition = match rule.when {
        ClearingTime::Always => format!("more than {minimum} tokens of them can go"),
        ClearingTime::LikelyToPay => {
            format!("more than {minimum} tokens of them can go and that is likely to pay")
        }
        ClearingTime::Mark => {
            format!("the request reaches {} tokens", tokens(rule.at_tokens.unwrap_or_default()))
        }
    };
    let turns = match rule.min_user_turns {
        0 | 1 => String::new(),
        turns => format!(", from {turns} user messages on"),
    };
    let protected = tokens(rule.protect_tokens);
    format!("old results are cleared once {condition}{turns}; the newest {protected} tokens stay")
}

/// Names what fills a request that exceeds its window as forwarded, and what can be done. `None` if the request
/// fits.
pub(crate) fn overfull(explanation: &RequestExplanation) -> Option<String> {
    let totals = &explanation.totals;
    let (after, usable) = (totals.after, explanation.marks.usable);
    if after <= usable {
        return None;
    }
    let rows = explanation.rows.iter();
    let head = rows.filter(|row| row.decision == MessageDecision::Head);
    let head: Tokens = head.map(|row| row.becomes).sum();
    let tools = explanation.tool_schemas.tokens;
    let head = head + totals.tools - tools;
    let [after, usable, tools, head, rest] = [after, usable, tools, head, after - tools - head]
        .map(|tokens| with_thousands(tokens.get()));
    Some(format!(
        "{after} tokens go out, and the reply leaves {usable} of the window. Tool schemas ({tools}) and the \
         system prompt with the first message ({head}) always stay; later messages take {rest}. Offer fewer \
         tools, shorten one of these texts, or take a model with a larger window"
    ))
}
