//! Output limits that leave enough space for the prompt.

use crate::chat::attempt::Attempt;
use crate::chat::context::Chat;
use crate::chat::learn::known_window::KnownWindow;
use crate::chat::refusal::RefusedAttempt;
use crate::learned::learned_models::CountedOutput;
use longhaul_core::conversation::Conversation;
use longhaul_core::overflow::{LimitKind, Verdict};
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::token_ratio::CountSample;

/// Upstream tokens per 100 estimated tokens, used without an upstream count. Real tokenizers
/// counted up to 1.3 times the plain estimate on mixed code and prose.
const TOKENIZER_MARGIN_PERCENT: u32 = 130;
/// Tokens left free when an output limit is lowered to fit the window.
const OUTPUT_MARGIN: Tokens = Tokens::new(256);
/// Share of the requested output that stays at least, if only a stated window asks for less. A window may be
/// set too small.
const STATED_OUTPUT_PERCENT: u32 = 75;
/// Share of the window above which an empty reply may be an overflow.
const NEAR_WINDOW_PERCENT: u32 = 75;

/// Returns the output limit that fits with `view`. `None` if the requested limit can stay or
/// too little is left.
///
/// Recovery reserves only part of a large output, and a limit above half the window would be
/// refused again, however short the history. So would any limit that does not fit, if the refusal
/// names the output. All numbers are upstream tokens.
pub(super) fn reduced_output(
    conversation: &Conversation<'_>,
    view: &ForwardedView,
    refused: &RefusedAttempt,
) -> Option<Tokens> {
    let requested = conversation.output_tokens()?;
    let limit = Tokens::new(refused.overflow.limit?);
    let view = view.tokens(conversation);
    let input = match refused.overflow.used {
        None => upper_count(view, None),
        // A count far below the estimate is not a sample, but the upstream compares it with the limit.
        Some(used) => CountSample::new(refused.tokens, used).map_or_else(
            || view.scaled(Tokens::new(used), refused.tokens),
            |sample| sample.upper_count(view),
        ),
    };
    let left = limit - input - OUTPUT_MARGIN;
    let is_enough = left > Tokens::ZERO && !conversation.grants_reasoning_tokens(left);
    let counts_output = refused.overflow.output.is_some() || requested > limit.divided_by(2);
    (counts_output && requested > left && is_enough).then_some(left)
}

/// Output that a view leaves at a server that counts the output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OutputAllowance {
    /// The requested limit fits, or nothing shows that it does not.
    AsRequested,
    /// This limit fits.
    Lower(Tokens),
    /// Too little is left: the history has to shrink first.
    TooLittle,
}

/// Returns the output that fits with a view of `tokens` estimated tokens. Returns `None` if the server
/// refused no output of an earlier request and its window is not stated, or if longhaul changes nothing.
///
/// Claude Code requests 128,000 tokens each time. A server that counts the output refuses 11 to 27
/// requests of a session for that alone.
pub(super) fn remaining_output(chat: &Chat<'_>, tokens: Tokens) -> Option<OutputAllowance> {
    let conversation = chat.request.conversation;
    let requested = conversation.output_tokens()?;
    if !chat.recovery_enabled() || conversation.is_stateful() {
        return None;
    }
    let cap = chat.learned.output_caps.newest(&chat.model).map(|cap| cap.value);
    let is_above = |cap: &Tokens| requested > *cap && !conversation.grants_reasoning_tokens(*cap);
    if let Some(cap) = cap.filter(is_above) {
        return Some(OutputAllowance::Lower(cap));
    }
    let refused = chat.learned.counted_outputs.newest(&chat.model).map(|it| it.value);
    let is_refused = refused.is_some();
    let stated = || KnownWindow::of_model(chat, &chat.model).stated();
    let stated = || stated().map(|limit| CountedOutput { limit, sample: None });
    let refused = refused.or_else(stated)?;
    let store = &chat.state().store;
    let last = store.last_count(&chat.prefix_keys, &chat.model);
    // The conversation's last count is closer.
    let own = last.map(|last| last.sample);
    let input = upper_count(tokens, own.or(refused.sample));
    let left = refused.limit - input - OUTPUT_MARGIN;
    // A larger request that was accepted outweighs the count of another conversation, never the
    // conversation's own: the text of that request may have been sparser.
    let is_outweighed =
        own.is_none() && tokens <= chat.learned.windows.sizes(&chat.model).largest_accepted;
    let least = conversation.least_output();
    // The server may not count the output.
    let is_guess = !is_refused && requested < refused.limit && left >= least;
    let least = if is_guess { requested.percent(STATED_OUTPUT_PERCENT) } else { least };
    Some(if left >= requested {
        OutputAllowance::AsRequested
    } else if left >= least {
        OutputAllowance::Lower(left)
    } else if is_outweighed || is_guess {
        OutputAllowance::AsRequested
    } else {
        OutputAllowance::TooLittle
    })
}

/// Stores that a server counts the output, if the refusal of `attempt` states it.
pub(super) fn learn_counted_output(chat: &Chat<'_>, attempt: &Attempt, verdict: Verdict) {
    let (limit, input) = if let Verdict::OutputTooLarge { limit, input, .. } = verdict {
        (Some(limit), input)
    } else if let Verdict::Overflow(overflow) = verdict
        && overflow.output.is_some()
        && overflow.kind == LimitKind::Window
    {
        (overflow.limit, overflow.used)
    } else {
        return;
    };
    // A partial body does not show the size of the refused prompt.
    let is_partial = chat.request.conversation.params().is_partial;
    let Some(limit) = limit.filter(|_| !is_partial) else {
        return;
    };
    let estimate = attempt.tokens(chat.request.conversation);
    let refused = CountedOutput {
        limit: Tokens::new(limit),
        // A count far above the estimate is that of documents, which other requests lack.
        sample: input
            .filter(|input| *input <= estimate.percent(200).get())
            .and_then(|input| CountSample::new(estimate, input)),
    };
    chat.learned.counted_outputs.record(&chat.model, refused);
}

/// Returns at least as many tokens as the upstream will count of `view` estimated tokens.
fn upper_count(view: Tokens, sample: Option<CountSample>) -> Tokens {
    sample.map_or_else(|| view.percent(TOKENIZER_MARGIN_PERCENT), |sample| sample.upper_count(view))
}

/// Lowers the output limit when the upstream did not count the whole prompt and the plain
/// estimate shows that a lower limit suffices.
pub(super) fn lower_output_by_estimate(
    conversation: &Conversation<'_>,
    first: &Attempt,
    refused: &RefusedAttempt,
) -> Option<ForwardedView> {
    let RefusedAttempt { tokens, overflow, .. } = refused;
    let (Some(limit), None, Some(_)) = (overflow.limit, overflow.used, overflow.output) else {
        return None;
    };
    let limit = Tokens::new(limit);
    if tokens.percent(TOKENIZER_MARGIN_PERCENT) >= limit.percent(NEAR_WINDOW_PERCENT) {
        return None;
    }
    lower_output(conversation, first, limit, None)
}

/// Lowers the output limit to what the window leaves, in the key that the client used. Returns
/// `None` if that would not help or would leave too little.
pub(super) fn lower_output(
    conversation: &Conversation<'_>,
    first: &Attempt,
    limit: Tokens,
    input: Option<Tokens>,
) -> Option<ForwardedView> {
    let requested = conversation.output_tokens()?;
    let input =
        input.unwrap_or_else(|| first.tokens(conversation).percent(TOKENIZER_MARGIN_PERCENT));
    let left = limit - input - OUTPUT_MARGIN;
    // Reasoning uses the output first, and no provider allows a reasoning budget of the whole
    // output.
    let min_output = conversation.dialect().facts().min_output;
    let starved = conversation.grants_reasoning_tokens(left - min_output);
    // A client that requests little accepts a quarter of it.
    if left >= requested || left < requested.divided_by(4).min(min_output) || starved {
        return None;
    }
    let mut view = first.view().clone();
    view.set_output_limit(left);
    Some(view)
}
