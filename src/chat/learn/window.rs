//! Learns windows from refusals.

use http::StatusCode;

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::learn::known_window::{CountedRefusals, KnownWindow, policy};
use crate::chat::notices;
use crate::chat::refusal::RefusedAttempt;
use crate::summaries::CallOverflow;
use longhaul_core::overflow::Overflow;
use longhaul_core::planning::splice::body_len;
use longhaul_core::units::body_limits::BodyLimits;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::credible_limit::{is_credible_given_hidden_history, is_credible_limit};

/// Learns the window that a refusal reveals: for the caller if the stated limit is credible, else
/// for this conversation alone. A body that lacks a part of its history has an unknown size, so its
/// refusal counts for this conversation alone.
pub(in crate::chat) fn learn_from_refusal(chat: &Chat<'_>, refused: &RefusedAttempt) {
    let windows = &chat.learned.windows;
    let sources = KnownWindow::of_chat(chat, None).sources(CountedRefusals::Model);
    let is_partial = chat.request.conversation.params().is_partial;
    if !is_partial && is_credible_limit(refused.tokens, &refused.overflow, sources.stated()) {
        learn_for_caller(chat, refused);
    } else {
        windows.learn_for_conversation(&chat.prefix_keys, refused.tokens, &refused.overflow);
    }
}

/// Learns the window that a refusal reveals for all conversations of the caller with the model.
fn learn_for_caller(chat: &Chat<'_>, refused: &RefusedAttempt) {
    let windows = &chat.learned.windows;
    let before = windows.sizes(&chat.model).learned_window();
    let was = KnownWindow::of_chat(chat, None).sourced();
    windows.learn_from_refusal(&chat.model, refused.tokens, &refused.overflow);
    notices::log_learned_window(chat, refused, before, was);
}

/// Learns the window that a refusal states, for a request whose history the provider keeps.
///
/// The request itself stays as it is. Other conversations of the caller with the model hold their history, and
/// fit the window before they are sent.
pub(in crate::chat) fn learn_from_stateful_refusal(
    chat: &Chat<'_>,
    first: &Attempt,
    status: StatusCode,
    overflow: Overflow,
) {
    let visible = first.refused(chat.request.conversation, status, overflow);
    if !is_credible_given_hidden_history(visible.tokens, &overflow) {
        return;
    }
    let refused = RefusedAttempt {
        // Only the upstream sees the size. At this size, the window in estimated tokens is the stated one.
        tokens: Tokens::new(overflow.prompt_size().unwrap_or_default()),
        ..visible
    };
    learn_for_caller(chat, &refused);
}

/// Learns the window that the refusal of a summary call reveals, of the model that was called. A
/// separate endpoint for summaries reveals nothing about the upstream.
pub(in crate::chat) fn learn_from_summary_call(chat: &Chat<'_>, refused: CallOverflow) {
    let state = chat.state();
    if state.summary_endpoint.is_some() {
        return;
    }
    let CallOverflow { tokens, status, overflow } = refused;
    if let Some(name) = state.config.summary.model.name().filter(|name| **name != *chat.model) {
        let sources = KnownWindow::of_model(chat, name).sources(CountedRefusals::Model);
        if is_credible_limit(tokens, &overflow, sources.stated()) {
            chat.learned.windows.learn_from_refusal(name, tokens, &overflow);
        }
        return;
    }
    let refused = RefusedAttempt {
        tokens,
        window: policy(chat, None).thresholds.window,
        status,
        overflow,
        body: BodyLimits::UNKNOWN,
    };
    learn_from_refusal(chat, &refused);
}

/// Returns the limits on the body that a refusal of `attempt` shows, beside the `stated` ones. Without a number, the
/// limit is as far below the body as the largest accepted text is below this text, or a tenth below.
pub(in crate::chat) fn body_limits(
    chat: &Chat<'_>,
    attempt: &Attempt,
    stated: BodyLimits,
) -> BodyLimits {
    if stated != BodyLimits::UNKNOWN {
        return stated;
    }
    let conversation = chat.request.conversation;
    let refused = body_len(conversation, attempt.view());
    let limits = BodyLimits::of_bytes(refused / 100 * 90);
    let tokens = attempt.tokens(conversation);
    let accepted = chat.learned.windows.sizes(&chat.model).largest_accepted;
    let share = u64::from(accepted.get()) * 100 / u64::from(tokens.get().max(1));
    match usize::try_from(share) {
        Ok(share @ 90..100) if conversation.is_text_only() => {
            BodyLimits::of_bytes(refused / 100 * share)
        }
        Ok(50..90) if conversation.is_text_only() => limits,
        // The limit may be far below.
        _ => BodyLimits { goal: refused / 2, ..limits },
    }
}

/// Learns the largest request that the account may send: for the caller if the stated limit is
/// credible, else for this conversation alone.
pub(in crate::chat) fn learn_request_limit(chat: &Chat<'_>, refused: &RefusedAttempt) {
    let (windows, overflow) = (&chat.learned.windows, &refused.overflow);
    let is_partial = chat.request.conversation.params().is_partial;
    if !is_partial && is_credible_limit(refused.tokens, overflow, []) {
        windows.learn_request_limit(&chat.model, refused.tokens, overflow);
        notices::log_request_limit(chat, refused);
    } else {
        windows.learn_for_conversation(&chat.prefix_keys, refused.tokens, overflow);
    }
}
