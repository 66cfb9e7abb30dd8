//! Report of an explanation as one value, rendered as a table or as JSON.

use std::borrow::Cow;
use std::mem;

use serde::{Deserialize, Serialize};

use crate::config::{ChoiceSetting, Mode};
use crate::explanation::cause::{PlanCause, overfull};
use crate::explanation::stored::{ChangedText, ExplanationContext, StoredExplanation};
use crate::explanation::verdict::{self, UntouchedReason};
use crate::metrics::{Action, Label};
use longhaul_console::amounts::percent;
use longhaul_console::printable::printable_name;
use longhaul_console::thousands::with_thousands;
use longhaul_console::word::Word;
use longhaul_core::conversation::Conversation;
use longhaul_core::planning::explanation::{
    ExplanationRow, MessageDecision, RequestExplanation, call_subject,
};
use longhaul_core::planning::history_fold::{HardThresholdMode, fold};
use longhaul_core::policy::Policy;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::pruning::rule::PruneRule;
use longhaul_core::pruning::tool_result::ClearDecision;
use longhaul_core::units::tokens::Tokens;

/// Names the text that stands for history: a digest by rules, or a model's summary.
pub(crate) const fn history_text(is_digest: bool) -> &'static str {
    if is_digest { "digest" } else { "summary" }
}

/// A name out of a fixed set.
type Name = Cow<'static, str>;

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ExplanationReport {
    /// The request that was explained, if it passed through a running longhaul.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<RequestReport>,
    /// Why the request is forwarded as it is.
    #[serde(default)]
    pub(crate) why: String,
    /// The reason the request is forwarded unchanged, if it is.
    pub(crate) untouched: Option<ReasonReport>,
    pub(crate) mode: Mode,
    pub(crate) profile: Name,
    pub(crate) window: WindowReport,
    /// The numbers; their rows are in `messages`.
    #[serde(flatten)]
    pub(crate) numbers: RequestExplanation,
    /// Share of the window that the tool schemas take, in percent.
    #[serde(default)]
    pub(crate) tool_share: Option<u64>,
    /// A setting to change so that more is cleared, if one would help.
    pub(crate) hint: Option<String>,
    /// Failures after this request, if the reader asked for the last request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) newer: Option<String>,
    /// Beginning of the provider's text that stands for history, if text may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<Box<str>>,
    pub(crate) messages: Vec<MessageRow>,
}

/// A request that passed through.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct RequestReport {
    /// Identifier in the log, in the reply's header and in the trace.
    pub(crate) id: String,
    pub(crate) conversation: String,
    /// Number of the request in its conversation, from 1.
    pub(crate) number: u64,
    pub(crate) model: String,
    /// Time of the request's end, in milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) duration_ms: u64,
    pub(crate) status: Option<u16>,
    /// Class and code with which the provider named its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) actions: Vec<Name>,
    /// Prompt tokens that the provider counted.
    pub(crate) prompt_tokens: Option<u32>,
    /// Prompt tokens that came from the provider's cache.
    pub(crate) cached_tokens: Option<u32>,
    /// Cost in billionths of a dollar; `None` if unknown.
    pub(crate) cost: Option<i64>,
    /// Items of reasoning behind edits of the conversation so far, lost to the model.
    pub(crate) lost_reasoning: u64,
    /// Largest number of items that one reply of the conversation reports as dropped.
    pub(crate) dropped_reasoning: u64,
}

/// The reason a request is forwarded unchanged.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ReasonReport {
    pub(crate) label: Name,
    pub(crate) reason: Name,
}

/// The window, in the unit of its source.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct WindowReport {
    pub(crate) tokens: Tokens,
    pub(crate) source: String,
}

/// A row of the explanation in words.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct MessageRow {
    #[serde(flatten)]
    pub(crate) row: ExplanationRow,
    /// The file or other argument that identifies the call, if text may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    pub(crate) action: Name,
    pub(crate) reason: String,
    /// Number of the request that first changed the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<u64>,
    /// Number of the request in which the agent asked for the removed result again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked_again: Option<u64>,
    /// Beginning of the text before and after the change, if text may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<ChangedText>,
}

impl ExplanationReport {
    /// Reports `explanation`, the result of `cause`. `source` names the source of the policy window, `text` what
    /// stands for history.
    pub(crate) fn new(
        mut explanation: RequestExplanation,
        context: ExplanationContext,
        cause: PlanCause,
        source: String,
        text: &str,
    ) -> Self {
        let untouched = context.untouched.map(|why| ReasonReport::new(why.into()));
        let mut why = match &untouched {
            Some(untouched) => format!("the request passes unchanged: {}", untouched.reason),
            None => cause.sentence(&explanation, text),
        };
        if let Some(text) = overfull(&explanation) {
            why = format!("{why}. {text}");
        }
        let rows = mem::take(&mut explanation.rows).into_iter();
        let messages = rows.map(|row| MessageRow::new(&explanation, row, text)).collect();
        let [tools, window] = [explanation.tool_schemas.tokens, explanation.window];
        let tool_share = percent(tools.get().into(), window.get().into());
        Self {
            request: None,
            why,
            untouched,
            mode: context.mode,
            profile: context.profile.name().into(),
            window: WindowReport { tokens: explanation.window, source },
            tool_share,
            numbers: explanation,
            hint: None,
            newer: None,
            block: None,
            messages,
        }
    }

    /// Adds the argument that identifies the calls of each message. It is text of the conversation: only
    /// the user's own terminal shows it.
    pub(crate) fn add_subjects(&mut self, conversation: &Conversation<'_>) {
        for message in &mut self.messages {
            if message.row.through.is_none() {
                let subject = call_subject(conversation, message.row.number);
                message.subject = subject.map(|subject| printable_name(&subject));
            }
        }
    }

    pub(crate) fn of_request(stored: &StoredExplanation, request: RequestReport) -> Self {
        let source = Word(stored.window.source).to_string();
        let is_digest = request.actions.iter().any(|act| *act == Action::Digest.label());
        let (numbers, text) = (stored.numbers.clone(), history_text(is_digest));
        let mut report = Self::new(numbers, stored.context, stored.cause, source, text);
        // The source's own number is the one that people know.
        report.window.tokens = stored.window.tokens;
        if let Some(status) = request.status.filter(|status| *status >= 400) {
            report.why = format!(
                "the provider answered with the error {status}{}; {}",
                request.error.as_deref().map_or_else(String::new, |name| format!(" {name}")),
                report.why
            );
        }
        for message in &mut report.messages {
            let (number, decision) = (message.row.number, message.row.decision);
            message.since = stored.since.get(&number).copied();
            let is_new = message.since == Some(request.number);
            let cleared = MessageDecision::ToolResult(ClearDecision::Cleared);
            if is_new && decision == cleared && stored.cause.fits_window() {
                message.reason = "old results go first when a request does not fit".into();
            }
            let subject = stored.subjects.get(&number);
            message.subject = subject.map(|subject| printable_name(subject));
            message.text = stored.texts.get(&number).cloned();
        }
        report.block.clone_from(&stored.block);
        report.request = Some(request);
        report
    }
}

impl ReasonReport {
    /// Reports why a request is forwarded unchanged.
    pub(crate) fn new(why: UntouchedReason) -> Self {
        Self { label: why.label().into(), reason: why.description().into() }
    }
}

impl MessageRow {
    fn new(explanation: &RequestExplanation, mut row: ExplanationRow, text: &str) -> Self {
        row.tool = printable_name(&row.tool).into();
        Self {
            subject: None,
            action: verdict::action(row.decision).into(),
            reason: verdict::explain(explanation, row.decision, text),
            since: None,
            asked_again: None,
            text: None,
            row,
        }
    }
}

/// Suggests a setting if the conversation has too few user messages for clearing. Replays the
/// conversation under that setting to see what it would clear.
pub(crate) fn clearing_hint(conversation: &Conversation<'_>, policy: &Policy) -> Option<String> {
    let users = conversation.messages().iter();
    let user_messages = users.filter(|message| message.role.is_user()).count();
    let user_messages = u32::try_from(user_messages).unwrap_or(u32::MAX);
    let kept = PinnedHead::new(conversation, policy, None);
    let (when, rule) = policy.prune.as_ref()?;
    if user_messages >= rule.user_turns {
        return None;
    }
    let unattended = Policy {
        prune: Some((*when, PruneRule { user_turns: 1, ..rule.clone() })),
        ..policy.clone()
    };
    let standing = fold(conversation, &unattended, kept, None, HardThresholdMode::Cut, &[]);
    let results = standing.prune_state.cleared().count();
    let frees: Tokens = standing.prune_state.cleared().map(|result| result.frees).sum();
    (results > 0).then(|| {
        format!(
            "nothing is cleared before {} user messages, and this conversation has {user_messages}; \
             for an unattended agent set LONGHAUL_PRUNE_MIN_USER_TURNS=1, which would clear \
             {results} results here and free {} tokens",
            rule.user_turns,
            with_thousands(frees.get())
        )
    })
}
