//! Verdicts in words: the action on a message, its reason, and the reason a request is unchanged.

use crate::cli::thousands::with_thousands;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::replay::ReplayOutcome;
use longhaul_core::policy::{Policy, PruneTrigger};
use longhaul_core::pruning::rule::Fate;

/// The verdict on a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MessageVerdict {
    /// Kept: among the newest, or the user's or the assistant's own words. Only summaries replace
    /// those.
    Kept,
    /// Part of the head, which is never changed.
    Head,
    /// A tool result while clearing is switched off.
    ClearingDisabled,
    /// A tool result that the clearing rule has judged.
    ToolResult(Fate),
    /// Replaced by the digest.
    Summarised,
}

impl MessageVerdict {
    /// Returns the verdict as one kebab-case word, for machines.
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

    /// Returns the action taken on the message, as one word.
    pub(super) fn action(self) -> &'static str {
        match self {
            Self::ToolResult(Fate::Cleared) => "cleared",
            Self::Summarised => "summarised",
            Self::Head | Self::Kept | Self::ToolResult(_) | Self::ClearingDisabled => "kept",
        }
    }
}

/// The facts about a request that the reasons depend on.
pub(super) struct VerdictReasons<'r> {
    pub(super) policy: &'r Policy,
    pub(super) replay_outcome: &'r ReplayOutcome,
    pub(super) user_messages: u32,
}

impl VerdictReasons<'_> {
    /// Explains `verdict` in words; empty if there is nothing to explain.
    pub(super) fn explain(&self, verdict: MessageVerdict) -> String {
        match verdict {
            MessageVerdict::Head => "the head is never changed".into(),
            MessageVerdict::Kept => String::new(),
            MessageVerdict::Summarised => "replaced by the digest".into(),
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
            Fate::Error => "reports an error (prune.keep_errors)".into(),
            Fate::Exempt => "exempt tool (prune.exempt_tools)".into(),
            Fate::BelowMinimum => self.explain_wait(),
            Fate::NewestBatch => "in the newest batch".into(),
            Fate::Pinned => "pinned: a later result refers to it".into(),
            Fate::Placeholder => "already a placeholder".into(),
            Fate::Protected => format!("protected: among the newest {protect} tokens of results"),
            Fate::NotShorter => "a placeholder would not be shorter".into(),
            Fate::TooFewTurns => format!(
                "too few user turns: {} of {}",
                self.user_messages,
                rule.map_or(0, |rule| rule.user_turns)
            ),
        }
    }

    /// Explains why a result that is old enough is not cleared yet.
    fn explain_wait(&self) -> String {
        let Some((when, rule)) = &self.policy.prune else {
            return String::new();
        };
        let waiting = self.replay_outcome.prune_state.clearable_text_tokens();
        let marks = &self.policy.prune_thresholds;
        if waiting <= rule.minimum {
            return format!(
                "too little to free yet: {}, needs more than {}",
                with_thousands(waiting.get()),
                with_thousands(rule.minimum.get())
            );
        }
        match when {
            PruneTrigger::Always if self.policy.weighs_clearing => {
                "waits until clearing is likely to pay: each clearing makes the provider read the \
                 rest again"
                    .into()
            }
            PruneTrigger::Always => "not due yet: the newest message does not end a request".into(),
            PruneTrigger::HardMark if self.replay_outcome.size < marks.hard => {
                format!(
                    "waits for the hard mark, {}",
                    with_thousands(marks.hard.get())
                )
            }
            PruneTrigger::HardMark => format!(
                "clearing alone would not reach {}",
                with_thousands(marks.relief.get())
            ),
            PruneTrigger::Pressure => format!(
                "waits until the request exceeds {}",
                with_thousands(marks.pressure.get())
            ),
        }
    }
}

/// The reason a request passes untouched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum UntouchedReason {
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
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Bypassed(bypass) => bypass.label(),
            Self::Disabled => "disabled",
        }
    }

    /// Returns the reason in words.
    pub(super) fn description(self) -> &'static str {
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
        Bypass::Nothing => "there is nothing to change",
        Bypass::Shape => "the body is JSON, but not a chat",
        Bypass::Signed => "the request is signed over its body",
        Bypass::Stateful => "the provider keeps or compacts the history",
        Bypass::TooLarge => "the body exceeds limits.body, or has more messages than are read",
        Bypass::Unsound => "the rewritten body is not smaller or not valid; please report this",
    }
}
