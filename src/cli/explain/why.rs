//! Verdicts in words: what becomes of a message, why, and why a request is left as it is.

use super::super::number::with_thousands;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::policy::{Policy, PruneTrigger};
use crate::rewrite::prune::Fate;
use crate::rewrite::replay::ReplayOutcome;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MessageVerdict {
    /// The newest, the user's or the assistant's own words: only summaries stand for those.
    Kept,
    /// Of the front that is never changed.
    Head,
    /// A tool result, where clearing is switched off.
    ClearingDisabled,
    /// A tool result that the rule has judged.
    ToolResult(Fate),
    /// The digest stands for it.
    Summarised,
}

impl MessageVerdict {
    /// One word for machines, in kebab case.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Kept => "kept",
            Self::Summarised => "summarised",
            Self::ClearingDisabled => "prune-disabled",
            Self::ToolResult(fate) => match fate {
                Fate::Cleared => "cleared",
                Fate::Empty => "empty",
                Fate::Error => "error-kept",
                Fate::Exempt => "exempt",
                Fate::BelowMinimum => "waits",
                Fate::NewestBatch => "newest-batch",
                Fate::Pinned => "pinned",
                Fate::Placeholder => "placeholder-already",
                Fate::Protected => "protected",
                Fate::NotShorter => "short",
                Fate::TooFewTurns => "too-few-user-turns",
            },
        }
    }

    /// What is done with it.
    pub(super) fn action(self) -> &'static str {
        match self {
            Self::ToolResult(Fate::Cleared) => "cleared",
            Self::Summarised => "summarised",
            Self::Head | Self::Kept | Self::ToolResult(_) | Self::ClearingDisabled => "kept",
        }
    }
}

/// What the reasons need to know of a request.
pub(super) struct VerdictReasons<'r> {
    pub(super) policy: &'r Policy,
    pub(super) replay_outcome: &'r ReplayOutcome,
    pub(super) user_messages: u32,
}

impl VerdictReasons<'_> {
    /// Why `verdict` is what it is; empty where there is nothing to say.
    pub(super) fn explain(&self, verdict: MessageVerdict) -> String {
        match verdict {
            MessageVerdict::Head => "the front is never changed".into(),
            MessageVerdict::Kept => String::new(),
            MessageVerdict::Summarised => "the digest stands for it".into(),
            MessageVerdict::ClearingDisabled => "clearing is switched off (DISABLE_PRUNE)".into(),
            MessageVerdict::ToolResult(fate) => self.explain_result(fate),
        }
    }

    fn explain_result(&self, fate: Fate) -> String {
        let rule = self.policy.prune.as_ref().map(|(_, rule)| rule);
        let protect = with_thousands(rule.map_or(0, |rule| rule.protect.get()));
        match fate {
            Fate::Cleared => format!("older than the newest {protect} tokens of results"),
            Fate::Empty => "empty".into(),
            Fate::Error => "reports a failure (prune.keep_errors)".into(),
            Fate::Exempt => "an exempt tool (prune.exempt_tools)".into(),
            Fate::BelowMinimum => self.explain_wait(),
            Fate::NewestBatch => "newest batch".into(),
            Fate::Pinned => "pinned: a later result points at it".into(),
            Fate::Placeholder => "a placeholder already".into(),
            Fate::Protected => format!("protected: among the newest {protect} tokens of results"),
            Fate::NotShorter => "a placeholder would not shorten it".into(),
            Fate::TooFewTurns => format!(
                "too few user turns: {} of {}",
                self.user_messages,
                rule.map_or(0, |rule| rule.user_turns)
            ),
        }
    }

    /// Why a result that is old enough is not cleared yet.
    fn explain_wait(&self) -> String {
        let Some((when, rule)) = &self.policy.prune else {
            return String::new();
        };
        let waiting = self.replay_outcome.prune_state.clearable_text_tokens();
        let marks = &self.policy.prune_thresholds;
        if waiting <= rule.minimum {
            return format!(
                "too little to free yet: {}, not more than {}",
                with_thousands(waiting.get()),
                with_thousands(rule.minimum.get())
            );
        }
        match when {
            PruneTrigger::Always => "not yet asked: the newest message ends no request".into(),
            PruneTrigger::HardMark if self.replay_outcome.size < marks.hard => {
                format!(
                    "waits for the hard mark, {}",
                    with_thousands(marks.hard.get())
                )
            }
            PruneTrigger::HardMark => format!(
                "clearing alone would not come down to {}",
                with_thousands(marks.relief.get())
            ),
            PruneTrigger::Pressure => format!(
                "waits until the request is above {}",
                with_thousands(marks.pressure.get())
            ),
        }
    }
}

/// Why a request passes untouched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum UntouchedReason {
    /// It was read.
    Bypassed(Bypass),
    /// Nothing is read.
    Disabled,
}

impl From<Bypass> for UntouchedReason {
    fn from(bypass: Bypass) -> Self {
        Self::Bypassed(bypass)
    }
}

impl UntouchedReason {
    /// One word for machines, in kebab case.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Bypassed(bypass) => bypass.label(),
            Self::Disabled => "disabled",
        }
    }

    /// The same in words.
    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Bypassed(bypass) => bypass_description(bypass),
            Self::Disabled => "longhaul is switched off (mode, or all three switches)",
        }
    }
}

fn bypass_description(bypass: Bypass) -> &'static str {
    match bypass {
        Bypass::Duplicate => "a key that longhaul acts upon stands twice in one object",
        Bypass::Malformed => "the body is no JSON in UTF-8",
        Bypass::Nothing => "there is nothing to change",
        Bypass::Shape => "it is JSON, but not of the shape of a chat completion",
        Bypass::Signed => "it is signed over its body",
        Bypass::TooLarge => "it is larger than limits.body, or has more messages than are read",
        Bypass::Unsound => "what was made of it is not smaller or not sound; please report this",
    }
}
