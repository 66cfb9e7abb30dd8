//! Verdicts in words: what becomes of a message, why, and why a request is left as it is.

use super::super::number::number;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::policy::{Policy, When};
use crate::rewrite::prune::Fate;
use crate::rewrite::replay::Standing;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// The newest, the user's or the assistant's own words: only summaries stand for those.
    Kept,
    /// Of the front that is never changed.
    Head,
    /// A tool result, where clearing is switched off.
    Unpruned,
    /// A tool result that the rule has judged.
    Result(Fate),
    /// The digest stands for it.
    Summarised,
}

impl Verdict {
    /// One word for machines, in kebab case.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Kept => "kept",
            Self::Summarised => "summarised",
            Self::Unpruned => "prune-disabled",
            Self::Result(fate) => match fate {
                Fate::Cleared => "cleared",
                Fate::Empty => "empty",
                Fate::Error => "error-kept",
                Fate::Exempt => "exempt",
                Fate::Few => "waits",
                Fate::Newest => "newest-batch",
                Fate::Pinned => "pinned",
                Fate::Placeholder => "placeholder-already",
                Fate::Protected => "protected",
                Fate::Short => "short",
                Fate::Turns => "too-few-user-turns",
            },
        }
    }

    /// What is done with it.
    pub(super) fn action(self) -> &'static str {
        match self {
            Self::Result(Fate::Cleared) => "cleared",
            Self::Summarised => "summarised",
            Self::Head | Self::Kept | Self::Result(_) | Self::Unpruned => "kept",
        }
    }
}

/// What the reasons need to know of a request.
pub(super) struct Reasons<'r> {
    pub(super) policy: &'r Policy,
    pub(super) standing: &'r Standing,
    pub(super) user_messages: u32,
}

impl Reasons<'_> {
    /// Why `verdict` is what it is; empty where there is nothing to say.
    pub(super) fn of(&self, verdict: Verdict) -> String {
        match verdict {
            Verdict::Head => "the front is never changed".into(),
            Verdict::Kept => String::new(),
            Verdict::Summarised => "the digest stands for it".into(),
            Verdict::Unpruned => "clearing is switched off (DISABLE_PRUNE)".into(),
            Verdict::Result(fate) => self.of_result(fate),
        }
    }

    fn of_result(&self, fate: Fate) -> String {
        let rule = self.policy.prune.as_ref().map(|(_, rule)| rule);
        let protect = number(rule.map_or(0, |rule| rule.protect.get()));
        match fate {
            Fate::Cleared => format!("older than the newest {protect} tokens of results"),
            Fate::Empty => "empty".into(),
            Fate::Error => "reports a failure (prune.keep_errors)".into(),
            Fate::Exempt => "an exempt tool (prune.exempt_tools)".into(),
            Fate::Few => self.waits(),
            Fate::Newest => "newest batch".into(),
            Fate::Pinned => "pinned: a later result points at it".into(),
            Fate::Placeholder => "a placeholder already".into(),
            Fate::Protected => format!("protected: among the newest {protect} tokens of results"),
            Fate::Short => "a placeholder would not shorten it".into(),
            Fate::Turns => format!(
                "too few user turns: {} of {}",
                self.user_messages,
                rule.map_or(0, |rule| rule.user_turns)
            ),
        }
    }

    /// Why a result that is old enough is not cleared yet.
    fn waits(&self) -> String {
        let Some((when, rule)) = &self.policy.prune else {
            return String::new();
        };
        let waiting = self.standing.fold.waiting_text();
        let marks = &self.policy.rule_marks;
        if waiting <= rule.minimum {
            return format!(
                "too little to free yet: {}, not more than {}",
                number(waiting.get()),
                number(rule.minimum.get())
            );
        }
        match when {
            When::Always => "not yet asked: the newest message ends no request".into(),
            When::Mark if self.standing.size < marks.hard => {
                format!("waits for the hard mark, {}", number(marks.hard.get()))
            }
            When::Mark => format!(
                "clearing alone would not come down to {}",
                number(marks.relief.get())
            ),
            When::Pressure => format!(
                "waits until the request is above {}",
                number(marks.pressure.get())
            ),
        }
    }
}

/// Why a request passes untouched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Untouched {
    /// It was read.
    Bypassed(Bypass),
    /// Nothing is read.
    Disabled,
}

impl From<Bypass> for Untouched {
    fn from(bypass: Bypass) -> Self {
        Self::Bypassed(bypass)
    }
}

impl Untouched {
    /// One word for machines, in kebab case.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Bypassed(bypass) => bypass.label(),
            Self::Disabled => "disabled",
        }
    }

    /// The same in words.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Bypassed(bypass) => reason(bypass),
            Self::Disabled => "longhaul is switched off (mode, or all three switches)",
        }
    }
}

fn reason(bypass: Bypass) -> &'static str {
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
