//! Log messages for the operator about a conversation, never with its content.

use crate::chat::context::Chat;
use crate::chat::refusal::RefusedAttempt;
use crate::explanation::Refusal;
use crate::learned::windows::REFUSAL_TTL_MS;
use crate::metrics::{Label as _, LostBy};
use longhaul_console::word::Word;
use longhaul_core::overflow::Evidence;
use longhaul_core::planning::explanation::ShortenedWords;
use longhaul_core::planning::plan::RequestPlan;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::learned_window::LearnedWindow;
use longhaul_core::window::source::SourcedWindow;

/// Logs an event of a chat, with the model and the conversation.
macro_rules! log_chat {
    ($level:ident, $chat:expr, $($rest:tt)+) => {
        tracing::$level!(
            model = $chat.model_in_log(),
            conversation = $chat.conversation_id().map(tracing::field::display),
            $($rest)+
        )
    };
}
pub(super) use log_chat;

pub(super) fn log_placement_refused(chat: &Chat<'_>) {
    log_chat!(
        info,
        chat,
        "the upstream refused a summary because of its placement; using the other placement from \
         now on"
    );
}

/// Logs, once an hour for each model, that the conversation's own model writes in place of the provider.
pub(super) fn log_no_compaction_by_provider(chat: &Chat<'_>) {
    let (refuted, expected) = (&chat.learned.refuted, chat.learned.compaction_of(&chat.model));
    if !refuted.is_refuted(expected) {
        refuted.record_refuted(expected);
        tracing::info!(
            model = chat.model_in_log(),
            path = chat.request.route.mapped.path(),
            "the provider compacts no history of this model and API, or the request forbids it; the \
             conversation's own model writes the summaries"
        );
    }
}

/// Logs that `calls` new calls repeat the note of a clipped call. Does nothing for zero.
pub(super) fn log_imitated_clips(chat: &Chat<'_>, calls: usize) {
    if calls > 0 {
        log_chat!(
            warn,
            chat,
            calls,
            "the model repeated the note of a clipped call in a new one; the profile 'standard' \
             clips no call"
        );
    }
}

/// Counts and logs `items` of reasoning behind new edits. Does nothing for zero.
pub(super) fn count_lost_reasoning(chat: &Chat<'_>, items: usize, by: LostBy) {
    if items == 0 {
        return;
    }
    let lost = &chat.state().metrics.lost_reasoning;
    lost.add_many(by, items as u64);
    if let Some(dashboard) = &chat.dashboard {
        dashboard.record_lost_reasoning(items);
    }
    log_chat!(
        info,
        chat,
        items,
        by = by.label(),
        "reasoning behind an edit of the history is lost to the model"
    );
}

/// Logs that nothing would fit `window`, learned from the refusal of a request of `tokens`.
pub(super) fn log_gave_up(chat: &Chat<'_>, tokens: Tokens, window: Tokens) {
    log_chat!(
        warn,
        chat,
        tokens = tokens.get(),
        window = window.get(),
        "Context too large. Compaction failed. Use 'longhaul compact' or the header \
         'x-longhaul-compact: now' to retry manually. Neither helps if one message, or all that \
         must be kept, fills the window."
    );
}

/// Logs how much of what the user said the replacement text does not hold whole.
pub(super) fn log_shortened_words(chat: &Chat<'_>, view: &ForwardedView) {
    let shortened = view.summary().map(|text| ShortenedWords::of(text));
    let Some(shortened) = shortened.filter(|it| *it != ShortenedWords::default()) else {
        return;
    };
    log_chat!(
        info,
        chat,
        clipped_messages = shortened.clipped_messages,
        left_out_messages = shortened.left_out_messages,
        left_out_agreements = shortened.left_out_agreements,
        "words of the user do not all fit their share of the compacted history"
    );
}

/// Logs that the upstream refused a request as too large, whatever follows.
pub(super) fn log_refusal(chat: &Chat<'_>, refusal: &Refusal, evidence: Evidence) {
    log_chat!(
        debug,
        chat,
        tokens = refusal.tokens.get(),
        counted = refusal.counted,
        limit = refusal.limit,
        status = refusal.status,
        evidence = match evidence {
            Evidence::EmptyReply => "empty reply",
            Evidence::Stated => "stated",
            Evidence::Suspected(_) => "suspected",
        },
        "the upstream refused a request as too large"
    );
}

/// Logs the window that was learned from a refusal, for the caller's chats with the model. `was` is the window
/// before. Counts a window below the one in force.
pub(super) fn log_learned_window(
    chat: &Chat<'_>,
    refused: &RefusedAttempt,
    before: Option<LearnedWindow>,
    was: SourcedWindow,
) {
    let sizes = chat.learned.windows.sizes(&chat.model);
    let Some(learned) = sizes.learned_window().filter(|_| sizes.learned_window() != before) else {
        return;
    };
    if sizes.window().is_some_and(|after| after < refused.window) {
        chat.state().metrics.windows_lowered.add(1_u64);
    }
    log_chat!(
        info,
        chat,
        window = learned.stated.map_or_else(|| learned.window.get(), Tokens::get),
        was = was.tokens.get(),
        was_source = %Word(was.source),
        refused_tokens = refused.tokens.get(),
        status = refused.status.as_u16(),
        hours = REFUSAL_TTL_MS / (60 * 60 * 1_000),
        "learned a window from a refusal; it holds for these hours, unless a larger request is accepted"
    );
}

/// Logs that an account limits single requests.
pub(super) fn log_request_limit(chat: &Chat<'_>, refused: &RefusedAttempt) {
    log_chat!(
        warn,
        chat,
        limit = refused.overflow.limit,
        path = chat.request.route.mapped.path(),
        "the upstream limits the tokens of one request of this account; this caller's chats with \
         the model stay below the limit for an hour"
    );
}

/// Logs the kind and size of the largest message of a conversation that thrashes: one that
/// fills its window again right after each compaction. Logged once per run of such compactions.
pub(super) fn log_thrash(chat: &Chat<'_>, view: &ForwardedView) {
    if !view.thrash().starts_thrashing() {
        return;
    }
    let standing = chat.request.conversation.messages().iter().skip(view.summarised_until());
    let Some(largest) = standing.max_by_key(|message| message.tokens) else {
        return;
    };
    log_chat!(
        warn,
        chat,
        kind = largest.role.label(),
        tokens = largest.tokens.get(),
        "a conversation fills its window again right after each compaction; from now on half \
         as much of it is kept, and all old tool results are cleared. Reported here is its \
         largest message"
    );
}

/// Logs, once per conversation, that too few user messages prevent clearing.
pub(super) fn log_too_few_user_messages(chat: &Chat<'_>, plan: &RequestPlan) {
    if plan.blocked_by_turns
        && let Some(key) = chat.prefix_keys.first_key()
        && chat.state().store.mark_notified(key)
    {
        log_chat!(
            info,
            chat,
            "a conversation has too few user messages to clear its old tool results; \
             for unattended agents set LONGHAUL_PRUNE_MIN_USER_TURNS=1"
        );
    }
}

/// Logs, once per caller, that the upstream keeps the history of a conversation.
pub(super) fn log_stateful(chat: &Chat<'_>) {
    let key = chat.request.scope.named_key("stateful");
    if chat.state().store.mark_notified(key) {
        log_chat!(
            info,
            chat,
            "the upstream keeps the history of a conversation, so longhaul changes nothing in it; \
             send the whole history with each request, or let the upstream compact it with \
             context_management or truncation"
        );
    }
}
