//! Output limits that leave enough space for the prompt.

use crate::chat::Chat;
use crate::chat::attempt::Attempt;
use crate::chat::retry::SuspectedOverflow;
use crate::learned::counted_outputs::CountedOutput;
use longhaul_core::conversation::Conversation;
use longhaul_core::overflow::{LimitKind, Overflow, Verdict};
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::units::tokens::Tokens;

/// Upstream tokens per 100 estimated tokens, used without an upstream count. Real tokenizers
/// counted up to 1.3 times the plain estimate on mixed code and prose.
const TOKENIZER_MARGIN_PERCENT: u32 = 130;
/// Tokens left free when an output limit is lowered to fit the window.
const OUTPUT_MARGIN: Tokens = Tokens::new(256);
/// Share of an expected input that is left free beside an output, in percent. A rewritten request has more
/// calls and fewer results, and its count was up to 27% above the scaled one.
const INPUT_MARGIN_PERCENT: u32 = 15;
/// Divisor of the limit for the margin that does not depend on the input: short prompts are mostly frames.
const LIMIT_MARGIN_PARTS: u32 = 32;
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
    let left = output_beside(limit, input, conversation.least_output());
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
    counted: CountedOutput,
) -> Option<Tokens> {
    let asked = conversation.output_tokens()?;
    let input = counted.input_of(view.tokens(conversation));
    let least = conversation.least_output();
    let left = output_beside(counted.limit, input, least);
    (left < asked && left >= least).then_some(left)
}

/// Returns the largest input, in estimated tokens, that leaves room for an output on a server that
/// counts the output.
pub(super) fn max_input_beside_output(
    conversation: &Conversation<'_>,
    counted: CountedOutput,
) -> Tokens {
    let room = counted.limit - conversation.least_output() - OUTPUT_MARGIN;
    room.percent(100 - INPUT_MARGIN_PERCENT)
        .scaled(counted.estimate, counted.input_of(counted.estimate))
}

/// Returns the output that `limit` leaves beside `input`. The margin is [`INPUT_MARGIN_PERCENT`] of the
/// input and a part of the limit, unless `least` fits only with a smaller one.
fn output_beside(limit: Tokens, input: Tokens, least: Tokens) -> Tokens {
    let room = limit - input;
    let careful = room - input.percent(INPUT_MARGIN_PERCENT) - limit.divided_by(LIMIT_MARGIN_PARTS);
    careful.max(least.min(room - OUTPUT_MARGIN))
}

/// Records that the server counts the output, if a refusal of `attempt` states a requested output.
pub(super) fn record_counted_output(chat: &Chat<'_>, attempt: &Attempt, verdict: Verdict) {
    let (limit, input) = match verdict {
        Verdict::OutputTooLarge { limit, input, .. } => (limit, input),
        Verdict::Overflow(Overflow {
            kind: LimitKind::Window,
            limit: Some(limit),
            output: Some(_),
            used,
            ..
        }) => (limit, used),
        Verdict::Failed
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::Overflow(_)
        | Verdict::StaleThinking
        | Verdict::TooManyBytes
        | Verdict::Unexplained => return,
    };
    let conversation = chat.request.conversation;
    // Of a partial body, the prompt that was refused is unknown.
    if conversation.params().is_partial {
        return;
    }
    let estimate = attempt.tokens(conversation);
    let guess = || estimate.percent(TOKENIZER_MARGIN_PERCENT);
    let counted = CountedOutput {
        limit: Tokens::new(limit),
        input: input.map_or_else(guess, Tokens::new),
        estimate,
    };
    chat.knowledge.counted_outputs.record(&chat.model, counted);
}

/// Returns how the model's server counts the output, with the newest count of this conversation. `None` if
/// the server refused no output within the last day.
pub(super) fn counted_output(chat: &Chat<'_>) -> Option<CountedOutput> {
    let refused = chat.knowledge.counted_outputs.newest(&chat.model)?;
    let services = chat.services();
    let last = services.store.last_count(&chat.prefix_keys, &chat.model);
    Some(last.map_or(refused, |counted| CountedOutput {
        input: counted.sample.counted(),
        estimate: counted.sample.estimate(),
        ..refused
    }))
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
