//! Explanation of one request: the fate of each message, and the rule and numbers that decided it.
//!
//! An explanation contains no text of a conversation, except the names of tools. The proxy derives words
//! for people from it, so an explanation costs little for a request that nobody looks at.

mod layers;
mod tool_names;

use crate::conversation::tool_arguments::ToolArguments;
use crate::conversation::tool_schemas::ToolSchemas;
use crate::conversation::{Conversation, Message, Role};
use crate::planning::plan::RuleDecisions;
use crate::planning::view::ForwardedView;
use crate::policy::segments::SegmentedText;
use crate::policy::{Policy, PruneTrigger, Thresholds};
use crate::pruning::tool_result::{ClearDecision, ToolResult};
use crate::summary::agreements::left_out_agreements;
use crate::summary::user_messages::shortened_messages;
use crate::units::tokens::Tokens;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;
use tool_names::tool_names;

pub use layers::{LayerKind, RequestLayer};

/// Maximum length of the argument that identifies a call, in characters: half a line of a terminal.
const SUBJECT_CHARS: usize = 38;
/// Maximum calls of one message whose arguments are named.
const MAX_SUBJECTS: usize = 3;

/// Decision about a message.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageDecision {
    /// Kept, but the contents in the arguments of a call are shortened to their beginning and end.
    ArgumentsClipped,
    /// A tool result while clearing is switched off.
    #[serde(rename = "prune-disabled")]
    ClearingDisabled,
    /// Shortened to its beginning and end.
    Clipped,
    /// Part of the head, which is never changed.
    Head,
    /// Kept, but its images are replaced by markers.
    ImagesDropped,
    /// Kept: the words of the user or the assistant, which only compaction replaces.
    Kept,
    /// Replaced by a summary or digest.
    Summarised,
    /// Kept, but without its bound thinking.
    ThinkingRemoved,
    /// A tool result that the clearing rule has judged.
    #[serde(untagged)]
    ToolResult(ClearDecision),
}

impl MessageDecision {
    /// Whether the message is forwarded as it came.
    pub fn is_unchanged(self) -> bool {
        match self {
            Self::ClearingDisabled | Self::Head | Self::Kept => true,
            Self::ArgumentsClipped
            | Self::Clipped
            | Self::ImagesDropped
            | Self::Summarised
            | Self::ThinkingRemoved => false,
            Self::ToolResult(decision) => decision != ClearDecision::Cleared,
        }
    }
}

/// A message, or a run of messages with the same decision.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ExplanationRow {
    /// Index of the message, or of the first message of a run.
    pub number: usize,
    /// Index of the last message of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<usize>,
    /// Author of the messages; `None` for a run of several authors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Tool that produced a result, or tools that an assistant message calls; empty for none.
    pub tool: Arc<str>,
    /// Plain estimate of the messages as they came.
    pub tokens: Tokens,
    /// Plain estimate of the messages as forwarded.
    pub becomes: Tokens,
    /// Decision about the messages.
    #[serde(rename = "verdict")]
    pub decision: MessageDecision,
}

/// When the clearing rule clears, if enough can go.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClearingTime {
    /// At every request.
    Always,
    /// At a request from which on clearing is likely to pay.
    #[serde(rename = "if likely to pay")]
    LikelyToPay,
    /// At the hard threshold.
    Mark,
}

/// The clearing rule's numbers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RuleNumbers {
    /// When the rule clears.
    pub when: ClearingTime,
    /// Size from which on the rule clears, if it waits for one.
    #[serde(default)]
    pub at_tokens: Option<Tokens>,
    /// Tokens of the newest results that it protects.
    pub protect_tokens: Tokens,
    /// Tokens that clearing has to exceed.
    pub minimum_tokens: Tokens,
    /// User messages that it needs.
    pub min_user_turns: u32,
}

/// The replacement text.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DigestNumbers {
    /// First message replaced.
    pub from: usize,
    /// Last message replaced.
    pub through: usize,
    /// Plain estimate of the text.
    pub tokens: Tokens,
    /// Segments of the text, oldest first.
    #[serde(default)]
    pub segments: Vec<SegmentNumbers>,
    /// Words of the user that the text does not hold whole.
    #[serde(default)]
    pub shortened: ShortenedWords,
    /// Whether the user's words and rules stand in the provider's block alone, until the user's next request.
    #[serde(default)]
    pub words_wait: bool,
}

/// Words of the user, and agreements, that a replacement text does not hold whole.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ShortenedWords {
    /// Messages of the user of which parts stand.
    pub clipped_messages: usize,
    /// Messages of the user that are only counted.
    pub left_out_messages: usize,
    /// Agreements, files of rules and rejections that are only counted.
    pub left_out_agreements: usize,
}

impl ShortenedWords {
    /// Counts the shortened words of a replacement text.
    pub fn of(text: &str) -> Self {
        let (clipped_messages, left_out_messages) = shortened_messages(text);
        Self { clipped_messages, left_out_messages, left_out_agreements: left_out_agreements(text) }
    }
}

/// A segment of the replacement text. Each begins at the end of the segment before.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SegmentNumbers {
    /// Last message that the segment covers.
    pub through: usize,
    /// Compactions that the segment stands for: more than one after a merge.
    pub compactions: u32,
    /// Plain estimate of the segment.
    pub tokens: Tokens,
}

/// The thresholds of a request, in estimated tokens.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MarkNumbers {
    /// The window without the reserve for the reply.
    pub usable: Tokens,
    /// Size from which on a record is prepared.
    pub soft: Tokens,
    /// Size from which on a record is used.
    pub hard: Tokens,
}

/// Totals of a request, as plain estimates unless they count messages.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RequestTotals {
    /// The request as it came.
    pub before: Tokens,
    /// The request as forwarded.
    pub after: Tokens,
    /// The tool schemas and the instructions outside the messages, part of both.
    pub tools: Tokens,
    /// Number of messages.
    pub messages: usize,
    /// Number of user messages.
    pub user_messages: u32,
}

/// Explanation of one request. Numbers that are not serialised are for the words only.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RequestExplanation {
    /// Policy window, in estimated tokens.
    #[serde(skip)]
    pub window: Tokens,
    /// The thresholds.
    pub marks: MarkNumbers,
    /// The clearing rule; `None` if clearing is switched off.
    #[serde(rename = "prune")]
    pub rule: Option<RuleNumbers>,
    /// Size that clearing at the threshold has to reach.
    #[serde(skip)]
    pub prune_target: Tokens,
    /// Tokens of text that the rule could clear, but does not clear yet.
    #[serde(skip)]
    pub waiting: Tokens,
    /// Size of the conversation as the rule measures it.
    #[serde(skip)]
    pub measured: Tokens,
    /// The sizes of the request.
    pub totals: RequestTotals,
    /// The tool schemas.
    #[serde(default)]
    pub tool_schemas: Arc<ToolSchemas>,
    /// The replacement text, if any.
    pub digest: Option<DigestNumbers>,
    /// The layers that have messages, oldest first; none if nothing is replaced or cleared.
    #[serde(default)]
    pub layers: Vec<RequestLayer>,
    /// Every message once, in order. The proxy serialises each with its reason.
    #[serde(skip)]
    pub rows: Vec<ExplanationRow>,
    /// Rows left out because there were too many, the oldest ones.
    #[serde(default)]
    pub omitted: usize,
}

impl RequestExplanation {
    /// Explains the forwarding of `conversation` as `view`, under `policy`. `decisions` give the reasons
    /// for retained results.
    pub fn new(
        conversation: &Conversation<'_>,
        policy: &Policy,
        view: &ForwardedView,
        decisions: Option<&RuleDecisions>,
    ) -> Self {
        let messages = conversation.messages();
        let users = messages.iter().filter(|message| message.role.is_user());
        let rows = rows(conversation, policy, view, decisions);
        Self {
            window: policy.prune_thresholds.window,
            marks: (&policy.thresholds).into(),
            rule: RuleNumbers::of_policy(policy),
            prune_target: policy.prune_thresholds.prune_target,
            waiting: decisions
                .map(|made| made.prune_state.clearable_text_tokens())
                .unwrap_or_default(),
            measured: decisions.map(|made| made.size).unwrap_or_default(),
            totals: RequestTotals {
                before: conversation.tokens(),
                after: view.tokens(conversation),
                tools: conversation.params().tool_tokens,
                messages: messages.len(),
                user_messages: u32::try_from(users.count()).unwrap_or(u32::MAX),
            },
            tool_schemas: conversation.params().tool_schemas.clone().unwrap_or_default(),
            digest: view.summary_tokens().map(|tokens| DigestNumbers {
                from: view.history_from(),
                through: view.summarised_until().saturating_sub(1),
                tokens,
                segments: segments(view),
                shortened: view.summary().map(|text| ShortenedWords::of(text)).unwrap_or_default(),
                words_wait: matches!(view.restated_words(conversation), Some((None, _))),
            }),
            layers: layers::layers(conversation, view, &rows),
            rows,
            omitted: 0,
        }
    }

    /// Explains a request that is forwarded unchanged in spite of its plan.
    #[must_use]
    pub fn unchanged(mut self) -> Self {
        self.totals.after = self.totals.before;
        self.digest = None;
        self.layers.clear();
        for row in &mut self.rows {
            row.becomes = row.tokens;
            if !row.decision.is_unchanged() {
                row.decision = MessageDecision::Kept;
            }
        }
        self
    }

    /// Joins adjacent rows of replaced history to one row, and with `kept` also those of
    /// unchanged messages that have the same decision.
    #[must_use]
    pub fn folded(mut self, kept: bool) -> Self {
        self.rows.dedup_by(|row, last| {
            let is_joined =
                row.decision == MessageDecision::Summarised || kept && row.decision.is_unchanged();
            let joins = is_joined && last.decision == row.decision;
            if joins {
                last.append(row);
            }
            joins
        });
        self
    }

    /// Leaves out the oldest rows beyond `most`.
    #[must_use]
    pub fn limited_to(mut self, most: usize) -> Self {
        let excess = self.rows.len().saturating_sub(most);
        self.rows.drain(..excess);
        self.rows.shrink_to_fit();
        self.omitted += excess;
        self
    }

    /// Returns the rows of messages that are not forwarded unchanged.
    pub fn changes(&self) -> impl Iterator<Item = &ExplanationRow> {
        self.rows.iter().filter(|row| !row.decision.is_unchanged())
    }
}

impl From<&Thresholds> for MarkNumbers {
    fn from(thresholds: &Thresholds) -> Self {
        let &Thresholds { usable, soft, hard, .. } = thresholds;
        Self { usable, soft, hard }
    }
}

impl RuleNumbers {
    /// Returns the rule of `policy`; `None` if it clears nothing.
    pub fn of_policy(policy: &Policy) -> Option<Self> {
        let (trigger, rule) = policy.prune.as_ref()?;
        let marks = &policy.prune_thresholds;
        let (when, at_tokens) = match trigger {
            PruneTrigger::Always if policy.weighs_clearing => (ClearingTime::LikelyToPay, None),
            PruneTrigger::Always => (ClearingTime::Always, None),
            PruneTrigger::HardThreshold => (ClearingTime::Mark, Some(marks.hard)),
        };
        Some(Self {
            when,
            at_tokens,
            protect_tokens: rule.protect,
            minimum_tokens: rule.minimum,
            min_user_turns: rule.user_turns,
        })
    }
}

impl ExplanationRow {
    fn append(&mut self, next: &Self) {
        self.through = Some(next.through.unwrap_or(next.number));
        self.tokens += next.tokens;
        self.becomes += next.becomes;
        self.role = self.role.filter(|role| next.role == Some(*role));
        if self.tool != next.tool {
            self.tool = Arc::default();
        }
    }
}

fn segments(view: &ForwardedView) -> Vec<SegmentNumbers> {
    let segments = view.summary().into_iter().flat_map(SegmentedText::pieces_of_segments);
    let numbers = segments.map(|(text, segment)| SegmentNumbers {
        through: segment.until.saturating_sub(1),
        compactions: segment.compactions,
        tokens: Tokens::estimate_text(text),
    });
    numbers.collect()
}

fn rows(
    conversation: &Conversation<'_>,
    policy: &Policy,
    view: &ForwardedView,
    decisions: Option<&RuleDecisions>,
) -> Vec<ExplanationRow> {
    let results = decisions.map_or(&[][..], |made| made.prune_state.results());
    let mut results = results.iter().peekable();
    let changes = view.savings_by_message(conversation);
    let mut changes = changes.into_iter().peekable();
    let mut names = HashSet::default();
    let messages = conversation.messages().iter().enumerate();
    messages
        .map(|(at, message)| {
            let result = results.next_if(|result| result.message == at);
            let change = changes.next_if(|(message, _)| *message == at);
            let change = change.map(|(_, change)| change);
            let changed = change.map(|(decision, _)| decision);
            let decision = decision(policy, view, changed, result, (at, message));
            let saves = if decision == MessageDecision::Summarised {
                message.tokens
            } else {
                change.map(|(_, saves)| saves).unwrap_or_default()
            };
            ExplanationRow {
                number: at,
                through: None,
                role: Some(message.role),
                tool: tool_names(conversation, (at, message), &mut names),
                tokens: message.tokens,
                becomes: message.tokens - saves,
                decision,
            }
        })
        .collect()
}

/// Returns the fate of a message. The view decides; the rule's decisions explain what it keeps.
fn decision(
    policy: &Policy,
    view: &ForwardedView,
    change: Option<MessageDecision>,
    result: Option<&ToolResult>,
    (at, message): (usize, &Message),
) -> MessageDecision {
    if view.is_condensed() && (view.history_from()..view.summarised_until()).contains(&at) {
        return MessageDecision::Summarised;
    }
    if let Some(change) = change {
        return change;
    }
    if at < view.history_from() {
        return MessageDecision::Head;
    }
    match result.map(|result| result.decision) {
        // The rule cleared the result, and the plan was given up.
        Some(ClearDecision::Cleared) => MessageDecision::Kept,
        Some(decision) => MessageDecision::ToolResult(decision),
        None if message.role.is_tool_result() && policy.prune.is_none() => {
            MessageDecision::ClearingDisabled
        }
        None => MessageDecision::Kept,
    }
}

/// Returns the argument that best identifies the tool calls of message `at`, or the call that it answers.
/// This is the file, else the command and so on, on one line. Unlike an explanation, the argument is text of
/// a conversation.
pub fn call_subject(conversation: &Conversation<'_>, at: usize) -> Option<Box<str>> {
    let message = conversation.message(at)?;
    let answered = conversation.answered_call(at);
    let calls = answered.into_iter().chain(conversation.calls(message));
    let subjects = calls.filter_map(|call| {
        let arguments = ToolArguments::decode(conversation, call);
        let primary = arguments.primary()?;
        let line = primary.split_whitespace().take(SUBJECT_CHARS);
        Some(shortened(&line.collect::<Vec<_>>().join(" "), SUBJECT_CHARS))
    });
    let subjects: Vec<String> = subjects.take(MAX_SUBJECTS).collect();
    (!subjects.is_empty()).then(|| subjects.join(", ").into_boxed_str())
}

/// Returns `text`, or its end after an ellipsis if it exceeds `most` characters. The end of a path
/// distinguishes the path.
fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let end: String = text.chars().skip(length - most + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests;
