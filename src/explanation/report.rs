//! Report of an explanation as one value, rendered as a table or as JSON.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::config::ChoiceSetting;
use crate::explanation::stored::{ExplanationContext, StoredExplanation};
use crate::explanation::verdict::{self, UntouchedReason};
pub(crate) use longhaul_console::printable::printable_name;
use longhaul_console::thousands::with_thousands;
use longhaul_core::conversation::{Conversation, Role};
use longhaul_core::planning::explanation::{
    ExplanationRow, RequestExplanation, RuleNumbers, SegmentNumbers, call_subject,
};
use longhaul_core::planning::replay::{HardMarkMode, replay};
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::{Policy, PruneTrigger};
use longhaul_core::pruning::rule::PruneRule;
use longhaul_core::units::tokens::Tokens;

/// A name out of a fixed set.
type Name = Cow<'static, str>;

/// The explanation of one request.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ExplanationReport {
    /// The request that was explained, if it passed through a running longhaul.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<RequestReport>,
    /// Why the request was forwarded as it was, if it passed through a running longhaul.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// The reason the request is forwarded unchanged, if it is.
    pub(crate) untouched: Option<ReasonReport>,
    pub(crate) mode: Name,
    pub(crate) profile: Name,
    pub(crate) window: WindowReport,
    pub(crate) marks: MarksReport,
    /// The clearing rule, or `None` if clearing is switched off.
    pub(crate) prune: Option<PruneReport>,
    pub(crate) totals: RequestTotals,
    /// The text that replaces history, if any.
    pub(crate) digest: Option<DigestReport>,
    /// A setting to change so that more is cleared, if one would help.
    pub(crate) hint: Option<String>,
    /// Rows of old changes that are not kept.
    #[serde(default)]
    pub(crate) omitted: usize,
    /// Failures after this request, if it was asked for as the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) newer: Option<NewerFailures>,
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
    pub(crate) actions: Vec<Name>,
    /// Prompt tokens that the provider counted.
    pub(crate) prompt_tokens: Option<u32>,
    /// Those of them that came from the provider's cache.
    pub(crate) cached_tokens: Option<u32>,
    /// Cost in billionths of a dollar; `None` if unknown.
    pub(crate) cost: Option<i64>,
}

/// Requests that ended later, with an error and without an explanation.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct NewerFailures {
    pub(crate) count: usize,
    /// Identifier of the newest.
    pub(crate) id: String,
    pub(crate) status: Option<u16>,
    /// Code of longhaul's own fault, if the newest ended with one.
    pub(crate) fault: Option<Name>,
}

/// The reason a request is forwarded unchanged.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct ReasonReport {
    pub(crate) label: Name,
    pub(crate) reason: Name,
}

/// The assumed window.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct WindowReport {
    pub(crate) tokens: u32,
    /// The source of the number of tokens.
    pub(crate) source: String,
}

/// The marks, in tokens.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct MarksReport {
    pub(crate) usable: u32,
    pub(crate) soft: u32,
    pub(crate) hard: u32,
}

/// The clearing rule.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct PruneReport {
    pub(crate) when: Name,
    /// Size from which the rule clears, if it waits for one.
    #[serde(default)]
    pub(crate) at_tokens: Option<u32>,
    pub(crate) protect_tokens: u32,
    pub(crate) minimum_tokens: u32,
    pub(crate) min_user_turns: u32,
}

/// Totals, in tokens unless they count messages.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct RequestTotals {
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// Tokens of the tool schemas, included in `before` and `after`.
    pub(crate) tools: u32,
    pub(crate) messages: usize,
    pub(crate) user_messages: u32,
}

/// The text that replaces history.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct DigestReport {
    /// The first message it replaces.
    pub(crate) from: usize,
    /// The last message it replaces.
    pub(crate) through: usize,
    pub(crate) tokens: u32,
    /// The segments of the text, oldest first.
    #[serde(default)]
    pub(crate) segments: Vec<SegmentReport>,
}

/// A segment of the text that replaces history.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct SegmentReport {
    /// The last message that the segment covers. The segment begins behind the one before.
    pub(crate) through: usize,
    /// Compactions that the segment stands for: more than one after a merge.
    pub(crate) compactions: u32,
    pub(crate) tokens: u32,
}

/// A message, or a run of messages with the same verdict.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct MessageRow {
    /// The message's index, from 0.
    pub(crate) number: usize,
    /// Index of the last message of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) through: Option<usize>,
    pub(crate) role: Name,
    /// The tool that produced a result, or the tools that an assistant message calls.
    pub(crate) tool: String,
    /// The file or other argument that identifies the call, if text may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    pub(crate) tokens: u32,
    /// The message's tokens as forwarded.
    pub(crate) becomes: u32,
    pub(crate) action: Name,
    pub(crate) verdict: Name,
    pub(crate) reason: String,
    /// Number of the request that first changed the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<u64>,
    /// Beginning of the text before and after the change, if text may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<TextReport>,
}

/// Beginning of a changed result.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct TextReport {
    pub(crate) before: String,
    pub(crate) after: String,
}

impl ExplanationReport {
    /// Reports `explanation`. `source` names the source of the policy window.
    pub(crate) fn new(
        explanation: &RequestExplanation,
        context: &ExplanationContext,
        source: String,
    ) -> Self {
        let rule = explanation.rule.as_ref();
        Self {
            request: None,
            why: None,
            untouched: context.untouched.map(|why| ReasonReport::new(why.into())),
            mode: context.mode.name().into(),
            profile: context.profile.name().into(),
            window: WindowReport {
                tokens: explanation.window.get(),
                source,
            },
            marks: MarksReport {
                usable: explanation.usable.get(),
                soft: explanation.soft.get(),
                hard: explanation.hard.get(),
            },
            prune: rule.map(|rule| PruneReport {
                when: when_name(rule).into(),
                at_tokens: match rule.trigger {
                    PruneTrigger::Always => None,
                    PruneTrigger::HardMark => Some(explanation.prune_hard.get()),
                },
                protect_tokens: rule.protect.get(),
                minimum_tokens: rule.minimum.get(),
                min_user_turns: rule.user_turns,
            }),
            totals: RequestTotals {
                before: explanation.before.get(),
                after: explanation.after.get(),
                tools: explanation.tools.get(),
                messages: explanation.messages,
                user_messages: explanation.user_messages,
            },
            digest: explanation.summary.as_ref().map(|summary| DigestReport {
                from: summary.from,
                through: summary.to.saturating_sub(1),
                tokens: summary.tokens.get(),
                segments: summary.segments.iter().map(SegmentReport::new).collect(),
            }),
            hint: None,
            newer: None,
            omitted: explanation.omitted,
            messages: explanation
                .rows
                .iter()
                .map(|row| message_row(explanation, row))
                .collect(),
        }
    }

    /// Adds the argument that identifies the calls of each message. It is text of the conversation: only
    /// the user's own terminal shows it.
    pub(crate) fn add_subjects(&mut self, conversation: &Conversation<'_>) {
        for row in &mut self.messages {
            if row.through.is_none() {
                let subject = call_subject(conversation, row.number);
                row.subject = subject.map(|subject| printable_name(&subject));
            }
        }
    }

    /// Reports the explanation of a request that passed through.
    pub(crate) fn of_request(stored: &StoredExplanation, request: RequestReport) -> Self {
        let context = &stored.context;
        let explanation = &stored.numbers;
        let window = &context.window;
        let mut report = Self::new(explanation, context, window.source.words().into());
        // The source's own number is the one that people know.
        report.window.tokens = window.tokens.get();
        report.why = Some(context.cause.sentence(explanation));
        for row in &mut report.messages {
            row.since = stored.since.get(&row.number).copied();
            let is_new = row.since == Some(request.number);
            if is_new && row.verdict == "cleared" && context.cause.fits_window() {
                row.reason = "old results go first when a request does not fit".into();
            }
            if row.verdict == "summarised" {
                row.reason = "replaced by the summary or digest in use".into();
            }
            let subject = stored.subjects.get(&row.number);
            row.subject = subject.map(|subject| printable_name(subject));
            let text = stored.texts.get(&row.number);
            row.text = text.map(|text| TextReport {
                before: text.before.to_string(),
                after: text.after.to_string(),
            });
        }
        report.request = Some(request);
        report
    }
}

impl SegmentReport {
    fn new(segment: &SegmentNumbers) -> Self {
        Self {
            through: segment.to.saturating_sub(1),
            compactions: segment.compactions,
            tokens: segment.tokens.get(),
        }
    }
}

impl ReasonReport {
    /// Reports why a request is forwarded unchanged.
    pub(crate) fn new(why: UntouchedReason) -> Self {
        Self {
            label: why.label().into(),
            reason: why.description().into(),
        }
    }
}

fn message_row(explanation: &RequestExplanation, row: &ExplanationRow) -> MessageRow {
    MessageRow {
        number: row.from,
        through: (row.to > row.from + 1).then_some(row.to - 1),
        role: row.role.map_or("", role_name).into(),
        tool: printable_name(row.tool.as_deref().unwrap_or_default()),
        subject: None,
        tokens: row.before.get(),
        becomes: row.after.get(),
        action: verdict::action(row.decision).into(),
        verdict: verdict::label(row.decision).into(),
        reason: verdict::explain(explanation, row.decision),
        since: None,
        text: None,
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
        prune: Some((
            *when,
            PruneRule {
                user_turns: 1,
                ..rule.clone()
            },
        )),
        ..policy.clone()
    };
    let standing = replay(conversation, &unattended, kept, None, HardMarkMode::Cut);
    let results = standing.prune_state.cleared().count();
    let frees: Tokens = standing
        .prune_state
        .cleared()
        .map(|result| result.frees)
        .sum();
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

fn when_name(rule: &RuleNumbers) -> &'static str {
    match rule.trigger {
        PruneTrigger::Always if rule.weighs_clearing => "if likely to pay",
        PruneTrigger::Always => "always",
        PruneTrigger::HardMark => "mark",
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Assistant => "assistant",
        Role::Developer => "developer",
        Role::Function => "function",
        Role::Other => "other",
        Role::System => "system",
        Role::Tool => "tool",
        Role::User => "user",
    }
}
