//! Decides whether a refused first send is retried, and how.

use http::StatusCode;

use crate::chat::attempt::{Attempt, RetryDecision};
use crate::chat::context::Chat;
use crate::chat::learn::known_window::KnownWindow;
use crate::chat::learn::{placement, thinking, window};
use crate::chat::refusal::{Retry, RewriteRefusal};
use crate::chat::{output_limit, recovery, second_attempt};
use crate::learned::summary_placements::ConversationModelKey;
use longhaul_core::conversation::{Conversation, images};
use longhaul_core::dialect::thinking_binding::ThinkingBinding;
use longhaul_core::overflow::{Overflow, Suspicion, Verdict};
use longhaul_core::planning::plan::{RequestPlan, plan_unmodified, plan_with_digest};
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::thinking_removal::StaleThinking;
use longhaul_core::units::tokens::Tokens;

/// Decides the next step after a reply to `first` with this status and verdict.
pub(crate) async fn next_step(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    verdict: Verdict,
) -> RetryDecision {
    output_limit::learn_counted_output(chat, first, verdict);
    if let Some(second) = retry_without_item(chat, first, status, verdict) {
        return RetryDecision::retry(second);
    }
    let may_be_marks = first.is_marked && status == StatusCode::BAD_REQUEST;
    let original = || retry_original(chat, first, RewriteRefusal::Malformed);
    let second = match verdict {
        Verdict::Failed | Verdict::Fine if !may_be_marks => None,
        // Every change would become part of the history that the provider keeps.
        _ if chat.request.conversation.is_stateful() => {
            if let Verdict::Overflow(overflow) = verdict {
                window::learn_from_stateful_refusal(chat, first, status, overflow);
            }
            None
        }
        Verdict::BodyTooLarge(stated) => {
            return recovery::recover_from_body_limit(chat, first, status, stated).await;
        }
        Verdict::Failed | Verdict::Fine | Verdict::Malformed => original().or_else(|| {
            placement::suspect_attempt(chat, first);
            retry_other_placement(chat, first)
        }),
        Verdict::Overflow(overflow)
            if is_negative_parameter_error(chat.request.conversation, &overflow) =>
        {
            None
        }
        Verdict::Overflow(overflow) => {
            return recovery::recover_from_overflow(chat, first, status, overflow).await;
        }
        Verdict::OutputTooLarge { limit, input, output } => {
            let Some(second) = retry_smaller_output(chat, first, status, limit, input) else {
                // The history must shrink. If the request has no output key, the whole output is
                // reserved; otherwise none is, because the limit can be lowered.
                let requested = chat.request.conversation.output_tokens();
                let stays = requested.map_or(output, |_| 0);
                let overflow = Overflow::stated(Some(limit.saturating_sub(stays)), input);
                return recovery::recover_from_overflow(chat, first, status, overflow).await;
            };
            Some(second)
        }
        Verdict::StaleThinking => retry_without_stale_thinking(chat, first).or_else(original),
        Verdict::TextTooLong { characters } => retry_with_shorter_texts(chat, first, characters),
        Verdict::TooMuchMedia => retry_without_old_media(chat, first),
        Verdict::OutputAboveCap(cap) => retry_below_cap(chat, first, Tokens::new(cap)),
        Verdict::Unexplained(suspicion) => {
            let second = retry_unexplained(chat, first).filter(|_| status.is_client_error());
            let Some(second) = second else {
                return recovery::recover_from_repetition(chat, first, status, suspicion).await;
            };
            Some(second)
        }
    };
    second.map_or(RetryDecision::Relay, RetryDecision::retry)
}

/// Whether an excess reported without a limit refers to a negative number in the client's own
/// request.
fn is_negative_parameter_error(conversation: &Conversation<'_>, overflow: &Overflow) -> bool {
    overflow.excess.is_some()
        && overflow.limit.is_none()
        && conversation.dialect().has_negative_output_limit(conversation.body())
}

/// Retries without the bound thinking after the first edit. Returns `None` if longhaul never edited
/// the conversation, or if nothing more can go: the client's own body is at fault then.
fn retry_without_stale_thinking(chat: &Chat<'_>, first: &Attempt) -> Option<Attempt> {
    let conversation = chat.request.conversation;
    let prior = &first.inputs.prior_records.thinking;
    // Earlier replies may have been made over edits that are lost with their record.
    let is_unknown = !first.inputs.prior_records.seen
        && conversation.thinking_binding() == ThinkingBinding::Possible;
    let may_be_edited = first.plan.has_edits(conversation)
        || !prior.removals.is_empty()
        || thinking::is_learned(chat)
        || is_unknown;
    if prior.stale == StaleThinking::Ignored || !may_be_edited {
        return None;
    }
    let plan = first.plan.without_thinking_behind_edits(conversation, prior)?;
    let inputs = first.inputs.clone();
    Some(Attempt::retry(inputs, plan, Retry::WithoutStaleThinking))
}

/// Retries with the digest in place of the provider's item, and without the thinking that follows. `None` if the
/// request has no item, or the refusal has another cause. No call is paid for: another summary has to wait.
///
/// A host behind a router that knows no item may answer 404, without naming a cause.
fn retry_without_item(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    verdict: Verdict,
) -> Option<Attempt> {
    let is_refused = matches!(verdict, Verdict::Malformed)
        || matches!(verdict, Verdict::Unexplained(_)) && status.is_client_error()
        || status == StatusCode::NOT_FOUND;
    if !first.view().is_by_provider() || !is_refused {
        return None;
    }
    tracing::warn!(
        model = chat.model_in_log(),
        "the provider refused a compaction of its own; a digest takes its place"
    );
    chat.learned.refuted.record_refuted(chat.learned.compaction_of(&chat.model));
    let mut inputs = first.inputs.clone();
    let adopted = first.plan.base.clone();
    let known = PriorRecords { adopted, ready: None, ..inputs.prior_records };
    inputs.prior_records = thinking::for_last_send(chat, &known.with_items_that(|_| false));
    let conversation = chat.request.conversation;
    let plan = plan_with_digest(conversation, &inputs.policy, &inputs.prior_records);
    Some(Attempt::retry(inputs, plan, Retry::RefusedItem))
}

/// Retries with the original instead of the rewrite, if the original is estimated to fit or the
/// window is unknown.
fn retry_original(chat: &Chat<'_>, first: &Attempt, why: RewriteRefusal) -> Option<Attempt> {
    let conversation = chat.request.conversation;
    let marks = &first.inputs.policy.thresholds;
    let max_input = marks.max_input(conversation.output_tokens());
    // Refusals of this kind do not concern a lowered output limit or removed thinking.
    let rewritten = first.plan.has_edits(conversation);
    let fits = !rewritten
        || conversation.tokens() <= max_input
        || KnownWindow::of_chat(chat, first.inputs.adopted()).is_assumed();
    if !(rewritten || first.is_marked) || !fits {
        return None;
    }
    let why = if first.is_marked { RewriteRefusal::CacheMarks } else { why };
    let policy = &first.inputs.policy;
    let summarised = first.view().is_condensed();
    let suspected = summarised.then_some(policy.settings.placement);
    let plan = plan_unmodified(conversation, policy);
    let why = Retry::Original { why, suspected };
    Some(second_attempt::with_plan(chat, first, plan, why))
}

/// Retries with the summary in the other placement, unless that was refused too. If the retry
/// is accepted, the placement was the cause.
fn retry_other_placement(chat: &Chat<'_>, first: &Attempt) -> Option<Attempt> {
    let forms = &chat.learned.placements;
    let refusals = forms.refusals_in_conversation(&chat.model, chat.prefix_keys.first_key());
    if !placement::has_other_placement(chat, refusals) {
        return None;
    }
    let plan = RequestPlan {
        view: first.view().merged_into_neighbours(chat.request.conversation)?,
        ..first.plan.clone()
    };
    let mut second = second_attempt::with_plan(chat, first, plan, Retry::OtherPlacement);
    second.inputs.policy.settings.placement = Placement::Merged;
    Some(second)
}

/// Retries with the original after an unexplained refusal of the rewrite. Returns `None` if the
/// original of this conversation was refused too and none of its rewrites was accepted since:
/// the conversation itself is at fault.
fn retry_unexplained(chat: &Chat<'_>, first: &Attempt) -> Option<Attempt> {
    let key = chat.prefix_keys.first_key()?;
    let suspicions = &chat.learned.placements.suspicions;
    if suspicions.was_original_refused(&ConversationModelKey::new(key, &chat.model)) {
        return None;
    }
    retry_original(chat, first, RewriteRefusal::Unexplained)
}

/// Retries with the results clipped that have more than `characters` characters. Returns `None` if none has:
/// the refused text is the client's own.
fn retry_with_shorter_texts(chat: &Chat<'_>, first: &Attempt, characters: u32) -> Option<Attempt> {
    let mut view = first.view().clone();
    let is_shorter = view.clip_texts_above(chat.request.conversation, characters);
    is_shorter.then(|| second_attempt::with_view(chat, first, view, Retry::ClippedTexts))
}

/// Retries with the largest output that the model writes. Later requests ask for no more. Returns `None` if
/// the granted reasoning needs more.
fn retry_below_cap(chat: &Chat<'_>, first: &Attempt, cap: Tokens) -> Option<Attempt> {
    let conversation = chat.request.conversation;
    if conversation.output_tokens()? <= cap || conversation.grants_reasoning_tokens(cap) {
        return None;
    }
    chat.learned.output_caps.record(&chat.model, cap);
    let mut view = first.view().clone();
    view.set_output_limit(cap);
    let why = Retry::SmallerOutput { refused: None };
    Some(second_attempt::with_view(chat, first, view, why))
}

/// Retries with the output limit lowered to the rest of `limit`, if the history leaves enough.
fn retry_smaller_output(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    limit: u32,
    input: Option<u32>,
) -> Option<Attempt> {
    let tokens = Tokens::new(limit);
    let view = output_limit::lower_output(
        chat.request.conversation,
        first,
        tokens,
        input.map(Tokens::new),
    )?;
    // Learn the smaller window even though the history still fits: otherwise the next request
    // would be refused for the same reason.
    let is_news = input.is_some() && tokens < first.inputs.policy.prune_thresholds.window;
    let overflow = Overflow::stated(Some(limit), input);
    let refused = is_news.then(|| first.refused(chat.request.conversation, status, overflow));
    let why = Retry::SmallerOutput { refused };
    Some(second_attempt::with_view(chat, first, view, why))
}

/// Retries with markers in place of the old images and documents. Returns `None` if there are none, or if
/// each such retry was refused within the last hour: the newest ones are at fault then.
fn retry_without_old_media(chat: &Chat<'_>, first: &Attempt) -> Option<Attempt> {
    let conversation = chat.request.conversation;
    let first_key = chat.prefix_keys.first_key()?;
    images::droppable_if_refused(conversation).find_map(|before| {
        let suspicion = Suspicion::MediaBefore { conversation: first_key, message: before };
        if chat.learned.refuted.is_refuted(suspicion) {
            return None;
        }
        let mut view = first.view().clone();
        view.drop_images_before(before);
        // Never resend a refused body.
        let fewer = view.replacements(conversation) != first.view().replacements(conversation);
        let why = Retry::FewerImages { suspicion };
        fewer.then(|| second_attempt::with_view(chat, first, view, why))
    })
}
