//! The report of `explain` as one value, rendered as a table or as JSON.

use serde::Serialize;

use crate::cli::explain::verdict;
use crate::cli::explain::verdict::{MessageVerdict, VerdictReasons};
use crate::cli::json::pretty_json;
use crate::cli::printable::is_printable;
use crate::cli::thousands::with_thousands;
use crate::config::{Config, Mode};
use longhaul_core::conversation::{Conversation, Role};
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::planning::replay::{HardMarkMode, replay};
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::{Policy, Profile, PruneTrigger};
use longhaul_core::pruning::rule::{PruneRule, ToolResult};
use longhaul_core::units::tokens::Tokens;

/// The maximum length of a tool name, in characters. Clients choose these names and a terminal
/// shows them, so only printable characters are kept.
const TOOL_CHARS: usize = 40;

/// The result for one request.
#[derive(Debug, Serialize)]
pub(super) struct ExplainReport {
    /// The reason the request is forwarded unchanged, if it is.
    pub(super) untouched: Option<ReasonReport>,
    pub(super) mode: &'static str,
    pub(super) profile: &'static str,
    pub(super) window: WindowReport,
    pub(super) marks: MarksReport,
    /// The clearing rule, or `None` if clearing is switched off.
    pub(super) prune: Option<PruneReport>,
    pub(super) totals: ExplainTotals,
    /// The digest that replaces history, if any.
    pub(super) digest: Option<DigestReport>,
    /// A setting to change so that more is cleared, if one would help.
    pub(super) hint: Option<String>,
    pub(super) messages: Vec<MessageRow>,
}

/// The reason a request is forwarded unchanged.
#[derive(Debug, Serialize)]
pub(super) struct ReasonReport {
    pub(super) label: &'static str,
    pub(super) reason: &'static str,
}

/// The assumed window.
#[derive(Debug, Serialize)]
pub(super) struct WindowReport {
    pub(super) tokens: u32,
    /// The source of the number of tokens.
    pub(super) source: String,
}

/// The marks, in tokens.
#[derive(Debug, Serialize)]
pub(super) struct MarksReport {
    pub(super) usable: u32,
    pub(super) soft: u32,
    pub(super) hard: u32,
}

/// The clearing rule.
#[derive(Debug, Serialize)]
pub(super) struct PruneReport {
    pub(super) when: &'static str,
    pub(super) protect_tokens: u32,
    pub(super) minimum_tokens: u32,
    pub(super) min_user_turns: u32,
}

/// Totals, in tokens unless they count messages.
#[derive(Debug, Serialize)]
pub(super) struct ExplainTotals {
    pub(super) before: u32,
    pub(super) after: u32,
    /// Tokens of the tool schemas, included in `before` and `after`.
    pub(super) tools: u32,
    pub(super) messages: usize,
    pub(super) user_messages: u32,
}

/// The digest that replaces history.
#[derive(Debug, Serialize)]
pub(super) struct DigestReport {
    /// The first message it replaces.
    pub(super) from: usize,
    /// The last message it replaces.
    pub(super) through: usize,
    pub(super) tokens: u32,
    /// The segments of the digest, oldest first.
    pub(super) segments: Vec<SegmentReport>,
}

/// A segment of the digest.
#[derive(Debug, Serialize)]
pub(super) struct SegmentReport {
    /// The last message that the segment covers. The segment begins behind the one before.
    pub(super) through: usize,
    /// Compactions that the segment stands for: more than one after a merge.
    pub(super) compactions: u32,
    pub(super) tokens: u32,
}

/// A message and the verdict on it.
#[derive(Debug, Serialize)]
pub(super) struct MessageRow {
    /// The message's index, from 0.
    pub(super) number: usize,
    pub(super) role: &'static str,
    /// The tool that produced a result, or the tools that an assistant message calls.
    pub(super) tool: String,
    pub(super) tokens: u32,
    /// The message's tokens as forwarded.
    pub(super) becomes: u32,
    pub(super) action: &'static str,
    pub(super) verdict: &'static str,
    pub(super) reason: String,
}

impl ExplainReport {
    /// Builds the report of `view` for a conversation's first request. `source` is the window's
    /// source.
    pub(super) fn new(
        config: &Config,
        source: String,
        conversation: &Conversation<'_>,
        policy: &Policy,
        view: &ForwardedView,
        untouched: Option<Bypass>,
    ) -> Self {
        let kept = PinnedHead::new(conversation, policy, None);
        // Repeats the plan's own replay to obtain its reasons.
        let standing = replay(conversation, policy, kept, None, HardMarkMode::Cut);
        let messages = conversation.messages();
        let users = messages.iter().filter(|message| message.role.is_user());
        let user_messages = u32::try_from(users.count()).unwrap_or(u32::MAX);
        let reasons = VerdictReasons {
            policy,
            replay_outcome: &standing,
            user_messages,
        };
        let rows = RowBuilder {
            conversation,
            policy,
            view,
            head: kept,
            reasons: &reasons,
        };
        let marks = &policy.thresholds;
        let before = conversation.tokens();
        let after = if untouched.is_some() {
            before
        } else {
            view.tokens(conversation)
        };
        Self {
            untouched: untouched.map(|bypass| ReasonReport::new(bypass.into())),
            mode: mode_name(config.mode),
            profile: profile_name(
                config
                    .settings_for(&conversation.model())
                    .compaction
                    .profile,
            ),
            window: WindowReport {
                tokens: policy.prune_thresholds.window.get(),
                source,
            },
            marks: MarksReport {
                usable: marks.usable.get(),
                soft: marks.soft.get(),
                hard: marks.hard.get(),
            },
            prune: policy.prune.as_ref().map(|(when, rule)| PruneReport {
                when: when_name(*when),
                protect_tokens: rule.protect.get(),
                minimum_tokens: rule.minimum.get(),
                min_user_turns: rule.user_turns,
            }),
            totals: ExplainTotals {
                before: before.get(),
                after: after.get(),
                tools: conversation.params().tool_tokens.get(),
                messages: messages.len(),
                user_messages,
            },
            digest: rows.digest(),
            hint: clearing_hint(conversation, policy, kept, user_messages),
            messages: (0..messages.len()).filter_map(|at| rows.row(at)).collect(),
        }
    }

    /// Renders the report as JSON with a trailing line break.
    pub(super) fn json(&self) -> String {
        pretty_json(self)
    }
}

impl ReasonReport {
    fn new(why: verdict::UntouchedReason) -> Self {
        Self {
            label: why.label(),
            reason: why.description(),
        }
    }
}

/// Renders a request that was not read as JSON.
pub(super) fn untouched_json(why: verdict::UntouchedReason) -> String {
    #[derive(Serialize)]
    struct Unread {
        untouched: ReasonReport,
    }
    pretty_json(&Unread {
        untouched: ReasonReport::new(why),
    })
}

/// The inputs from which the rows are built.
struct RowBuilder<'r, 'a> {
    conversation: &'r Conversation<'a>,
    policy: &'r Policy,
    view: &'r ForwardedView,
    head: PinnedHead,
    reasons: &'r VerdictReasons<'r>,
}

impl RowBuilder<'_, '_> {
    fn digest(&self) -> Option<DigestReport> {
        let covers = self.view.summarised_until();
        let text = self.view.summary()?;
        let segments = text.segments().iter().zip(text.tokens_by_segment());
        let segments = segments.map(|(segment, tokens)| SegmentReport {
            through: segment.until.saturating_sub(1),
            compactions: segment.compactions,
            tokens: tokens.get(),
        });
        Some(DigestReport {
            from: self.head.end,
            through: covers.saturating_sub(1),
            tokens: self.view.summary_tokens()?.get(),
            segments: segments.collect(),
        })
    }

    fn row(&self, at: usize) -> Option<MessageRow> {
        let message = self.conversation.message(at)?;
        let result = self.result(at);
        let verdict = self.verdict(at, result);
        let frees = result.map_or(Tokens::ZERO, |result| result.frees);
        let becomes = match verdict.action() {
            "cleared" => message.tokens - frees,
            "summarised" => Tokens::ZERO,
            _ => message.tokens,
        };
        Some(MessageRow {
            number: at,
            role: role_name(message.role),
            tool: self.tool_names(at),
            tokens: message.tokens.get(),
            becomes: becomes.get(),
            action: verdict.action(),
            verdict: verdict.label(),
            reason: self.reasons.explain(verdict),
        })
    }

    fn result(&self, at: usize) -> Option<&ToolResult> {
        let results = self.reasons.replay_outcome.prune_state.results();
        let found = results.binary_search_by_key(&at, |result| result.message);
        results.get(found.ok()?)
    }

    fn verdict(&self, at: usize, result: Option<&ToolResult>) -> MessageVerdict {
        let answers = self
            .conversation
            .message(at)
            .is_some_and(|message| message.role.is_tool_result());
        if at < self.head.end {
            MessageVerdict::Head
        } else if self.view.is_summarised() && at < self.view.summarised_until() {
            MessageVerdict::Summarised
        } else if let Some(result) = result {
            MessageVerdict::ToolResult(result.fate)
        } else if answers && self.policy.prune.is_none() {
            MessageVerdict::ClearingDisabled
        } else {
            MessageVerdict::Kept
        }
    }

    /// Returns the names of a message's tools, safe for a terminal.
    fn tool_names(&self, at: usize) -> String {
        let Some(message) = self.conversation.message(at) else {
            return String::new();
        };
        let body = self.conversation.body();
        let batches = self.conversation.batches();
        let batch = batches.partition_point(|batch| batch.results.end <= at);
        let called = batches
            .get(batch)
            .filter(|batch| batch.results.contains(&at))
            .and_then(|batch| self.conversation.call_for_result(batch, at))
            .and_then(|call| call.name)
            .or_else(|| message.name.filter(|_| message.role.is_tool_result()));
        let calls = self.conversation.calls(message).iter();
        let names: Vec<_> = called
            .into_iter()
            .chain(calls.filter_map(|call| call.name))
            .map(|name| name.decode(body))
            .collect();
        let joined = names.join(", ");
        let mut shown: String = joined
            .chars()
            .map(|c| if is_printable(c) { c } else { '\u{fffd}' })
            .take(TOOL_CHARS)
            .collect();
        if joined.chars().nth(TOOL_CHARS).is_some() {
            shown.push('…');
        }
        shown
    }
}

/// Suggests a setting if the conversation has too few user messages for clearing. Replays the
/// conversation under that setting to see what it would clear.
fn clearing_hint(
    conversation: &Conversation<'_>,
    policy: &Policy,
    kept: PinnedHead,
    user_messages: u32,
) -> Option<String> {
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

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::On => "on",
        Mode::Shadow => "shadow",
    }
}

fn profile_name(profile: Profile) -> &'static str {
    match profile {
        Profile::Auto => "auto",
        Profile::Frugal => "frugal",
        Profile::Local => "local",
        Profile::Standard => "standard",
    }
}

fn when_name(when: PruneTrigger) -> &'static str {
    match when {
        PruneTrigger::Always => "always",
        PruneTrigger::HardMark => "mark",
        PruneTrigger::Pressure => "pressure",
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
