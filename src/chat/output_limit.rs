//! Output limits that leave enough space for the prompt.

use crate::chat::attempt::Attempt;
use crate::chat::retry::SuspectedOverflow;
use crate::learned::counted_outputs::CountedOutput;
use longhaul_core::conversation::Conversation;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::units::tokens::Tokens;

/// Upstream tokens per 100 estimated tokens, used without an upstream count. Real tokenizers
/// counted up to 1.3 times the plain estimate on mixed code and prose.
const TOKENIZER_MARGIN_PERCENT: u32 = 130;
/// Tokens left free when an output limit is lowered to fit the window.
const OUTPUT_MARGIN: Tokens = Tokens::new(256);
/// Share of the window above which an empty reply may be an overflow.
const NEAR_WINDOW_PERCENT: u32 = 75;

/// Returns the output limit that fits beside `view`. `None` if the requested limit can stay or
/// too little is left.
///
/// Recovery reserves only part of a large output, and a limit above half the window would be
/// refused again, however short the history. All numbers are upstream tokens, scaled by the
/// upstream's count of the refused request.
pub(super) fn reduced_output(
    conversation: &Conversation<'_>,
    view: &ForwardedView,
    refused: &SuspectedOverflow,
) -> Option<Tokens> {
    let asked = conversation.output_tokens()?;
    let limit = Tokens::new(refused.overflow.limit?);
    let view = view.tokens(conversation);
    let input = refused.overflow.used.map_or_else(
        || view.percent(TOKENIZER_MARGIN_PERCENT),
        |used| view.scaled(Tokens::new(used), refused.tokens),
    );
    let left = limit - input - OUTPUT_MARGIN;
    let is_enough = left > Tokens::ZERO && !conversation.grants_reasoning_tokens(left);
    (asked > limit.divided_by(2) && asked > left && is_enough).then_some(left)
}

/// Returns the output limit to send with `view` from the start, for a server that refused the output
/// of an earlier request. Returns `None` if the requested limit fits, or if too little is left.
///
/// Claude Code asks for 128,000 tokens each time. A server that counts the output refuses 11 to 27
/// requests of a session for that alone.
pub(super) fn output_in_advance(
    conversation: &Conversation<'_>,
    view: &ForwardedView,
    refused: CountedOutput,
) -> Option<Tokens> {
    let asked = conversation.output_tokens()?;
    let tokens = view.tokens(conversation);
    // The refused request may have held images or documents, which the estimate does not count.
    let least = refused.estimate.divided_by(2);
    let input = refused.input.clamp(least, refused.estimate.percent(200));
    let left = refused.limit - tokens.scaled(input, refused.estimate) - OUTPUT_MARGIN;
    let is_enough = left >= conversation.dialect().min_output();
    let is_starved = conversation.grants_reasoning_tokens(left);
    (left < asked && is_enough && !is_starved).then_some(left)
}

/// Returns the numbers of a request that was refused for its output.
pub(super) fn counted_output(
    conversation: &Conversation<'_>,
    first: &Attempt,
    limit: u32,
    input: Option<u32>,
) -> CountedOutput {
    let estimate = first.tokens(conversation);
    let guess = || estimate.percent(TOKENIZER_MARGIN_PERCENT);
    CountedOutput {
        limit: Tokens::new(limit),
        input: input.map_or_else(guess, Tokens::new),
        estimate,
    }
}

/// Lowers the output limit when the upstream did not count the whole prompt and the plain
/// estimate shows that a lower limit suffices.
pub(super) fn lower_output_by_estimate(
    conversation: &Conversation<'_>,
    first: &Attempt,
    refused: &SuspectedOverflow,
) -> Option<ForwardedView> {
    let SuspectedOverflow {
        tokens, overflow, ..
    } = refused;
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
    let asked = conversation.output_tokens()?;
    let input =
        input.unwrap_or_else(|| first.tokens(conversation).percent(TOKENIZER_MARGIN_PERCENT));
    let left = limit - input - OUTPUT_MARGIN;
    // Reasoning uses the output first, and no provider allows a reasoning budget of the whole
    // output.
    let min_output = conversation.dialect().min_output();
    let starved = conversation.grants_reasoning_tokens(left - min_output);
    // A client that asks for little accepts a quarter of it.
    if left >= asked || left < asked.divided_by(4).min(min_output) || starved {
        return None;
    }
    let mut view = first.view().clone();
    view.set_output_limit(left);
    Some(view)
}
