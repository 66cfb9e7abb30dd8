//! Verdicts in words: the action on a message, its reason, and the reason a request is unchanged.

use longhaul_console::thousands::with_thousands;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::explanation::{ClearingTime, MessageDecision, RequestExplanation};
use longhaul_core::pruning::tool_result::ClearDecision;

/// Returns the action taken on the message, as one word.
pub(crate) fn action(decision: MessageDecision) -> &'static str {
    match decision {
        MessageDecision::ToolResult(ClearDecision::Cleared) => "cleared",
        MessageDecision::ArgumentsClipped | MessageDecision::Clipped => "clipped",
        MessageDecision::Summarised => "summarised",
        MessageDecision::ImagesDropped | MessageDecision::ThinkingRemoved => "reduced",
        MessageDecision::ClearingDisabled
        | MessageDecision::Head
        | MessageDecision::Kept
        | MessageDecision::ToolResult(_) => "kept",
    }
}

/// Explains what became of a message; empty if there is nothing to explain. `text` names what stands for history.
pub(crate) fn explain(
    explanation: &RequestExplanation,
    decision: MessageDecision,
    text: &str,
) -> String {
    match decision {
        MessageDecision::ArgumentsClipped => "long arguments of calls whose results are old".into(),
        MessageDecision::ClearingDisabled => "clearing is switched off (DISABLE_PRUNE)".into(),
        MessageDecision::Clipped => {
            "the largest result of a conversation that fills up at once".into()
        }
        MessageDecision::Head => "the head is never changed".into(),
        MessageDecision::ImagesDropped => {
            "old images or documents exceed a limit of the upstream".into()
        }
        MessageDecision::Kept => String::new(),
        MessageDecision::Summarised => format!("replaced by the {text}"),
        MessageDecision::ThinkingRemoved => "its thinking is bound to text that was changed".into(),
        MessageDecision::ToolResult(decision) => explain_result(explanation, decision),
    }
}

fn explain_result(explanation: &RequestExplanation, decision: ClearDecision) -> String {
    let rule = explanation.rule.as_ref();
    let protect = with_thousands(rule.map_or(0, |rule| rule.protect_tokens.get()));
    match decision {
        ClearDecision::Cleared => format!("older than the newest {protect} tokens of results"),
        ClearDecision::Empty => "empty".into(),
        ClearDecision::Error => "reports an error (prune.keep_errors)".into(),
        ClearDecision::Exempt => "exempt tool (prune.exempt_tools)".into(),
        ClearDecision::BelowMinimum => explain_wait(explanation),
        ClearDecision::Instructions => "rules or a skill that the agent loaded".into(),
        ClearDecision::UserWords => "words of the user".into(),
        ClearDecision::NewestBatch => "in the newest batch".into(),
        ClearDecision::Pinned => "pinned: a later result refers to it".into(),
        ClearDecision::Placeholder => "already a placeholder".into(),
        ClearDecision::Protected => {
            format!("protected: among the newest {protect} tokens of results")
        }
        ClearDecision::NotShorter => "a placeholder would not be shorter".into(),
        ClearDecision::TooFewTurns => format!(
            "too few user turns: {} of {}",
            explanation.totals.user_messages,
            rule.map_or(0, |rule| rule.min_user_turns)
        ),
    }
}

/// Explains why a result that is old enough is not cleared yet.
fn explain_wait(explanation: &RequestExplanation) -> String {
    let Some(rule) = &explanation.rule else {
        return String::new();
    };
    if explanation.waiting <= rule.minimum_tokens {
        return format!(
            "too little to free yet: {}, needs more than {}",
            with_thousands(explanation.waiting.get()),
            with_thousands(rule.minimum_tokens.get())
        );
    }
    let at = rule.at_tokens.unwrap_or_default();
    match rule.when {
        ClearingTime::LikelyToPay => {
            "waits until clearing is likely to pay: each clearing makes the provider read the rest \
             again"
                .into()
        }
        ClearingTime::Always => "not due yet: the newest message does not end a request".into(),
        ClearingTime::Mark if explanation.measured < at => {
            format!("waits until the forwarded request reaches {}", with_thousands(at.get()))
        }
        ClearingTime::Mark => format!(
            "clearing alone would not reach {}",
            with_thousands(explanation.prune_target.get())
        ),
    }
}

/// The reason a request passes untouched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UntouchedReason {
    /// The request was read.
    Bypassed(Bypass),
    /// longhaul is switched off and reads nothing.
    Disabled,
}

impl From<Bypass> for UntouchedReason {
    fn from(bypass: Bypass) -> Self {
        Self::Bypassed(bypass)
    }
}

impl UntouchedReason {
    /// Returns the reason as one kebab-case word, for machines.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Bypassed(bypass) => bypass.label(),
            Self::Disabled => "disabled",
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Bypassed(bypass) => bypass_description(bypass),
            Self::Disabled => "longhaul is switched off (by mode, or by all three switches)",
        }
    }
}

fn bypass_description(bypass: Bypass) -> &'static str {
    match bypass {
        Bypass::Duplicate => "a key that longhaul uses appears twice in one object",
        Bypass::Malformed => "the body is not JSON in UTF-8",
        Bypass::Nothing => "no rule applies",
        Bypass::Shape => "the body is JSON, but not a chat",
        Bypass::Signed => "the request is signed over its body",
        Bypass::Stateful => "the provider keeps or compacts the history",
        Bypass::TooLarge => "the body exceeds limits.body, or has more messages than are read",
        Bypass::Unsound => "the rewritten body is not smaller or not valid; please report this",
    }
}
