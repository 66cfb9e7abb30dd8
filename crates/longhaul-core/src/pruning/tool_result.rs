//! Tool results of a conversation, and the tokens that clearing each would free.

use crate::clients::shows_result;
use crate::conversation::tool_arguments::ToolArguments;
use crate::conversation::{Batch, Content, Conversation, Message, images};
use crate::pruning::argument_clip;
use crate::pruning::placeholder::{self, PlaceholderText};
use crate::pruning::rule::PruneRule;
use crate::pruning::words_in_results::WordsInResults;
use crate::text::wording;
use crate::units::tokens::Tokens;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Decision on a tool result, with its reason. Explanations show the serialised words.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClearDecision {
    /// The content is replaced by a placeholder.
    Cleared,
    /// The result has no content.
    #[default]
    Empty,
    /// The result reports a failure, and failures are kept.
    #[serde(rename = "error-kept")]
    Error,
    /// The tool is exempt, or the upstream needs the content: never cleared.
    Exempt,
    /// Old enough, but clearing would not free enough yet.
    #[serde(rename = "waits")]
    BelowMinimum,
    /// Rules or a skill that the agent loaded.
    Instructions,
    /// Part of the newest batch.
    NewestBatch,
    /// Referenced by a later result, or a reference to an earlier one.
    Pinned,
    /// Already a placeholder.
    #[serde(rename = "placeholder-already")]
    Placeholder,
    /// Among the newest tokens.
    Protected,
    /// A placeholder would not be shorter.
    #[serde(rename = "short")]
    NotShorter,
    /// Words of the user.
    UserWords,
    /// Old enough, but there are too few user messages.
    #[serde(rename = "too-few-user-turns")]
    TooFewTurns,
}

/// Clip of the overlong contents in the arguments of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallClip {
    /// Index of the call's message.
    pub(crate) message: usize,
    pub(crate) saves: Tokens,
}

/// A tool result, cleared or not.
#[derive(Clone, Debug, Default)]
pub struct ToolResult {
    /// Index of the result's message.
    pub message: usize,
    /// Size of the original text.
    pub tokens: Tokens,
    /// Decision on the result.
    pub decision: ClearDecision,
    /// Tokens that clearing frees, with those of `clip` and `pictures`.
    pub frees: Tokens,
    /// The part of `frees` that is not text of the result: mostly images, `clip` and `pictures`.
    pub(super) non_text: Tokens,
    /// Clip of the call that the result answers, in force once the rule has passed the result.
    pub(crate) clip: Option<CallClip>,
    /// Tokens that markers save in place of the batch's pictures in the next message, where a client shows them. The
    /// markers are in force once the rule has passed the batch.
    pub(crate) pictures: Tokens,
    /// Text that replaces the result if it is cleared.
    pub placeholder: PlaceholderText,
    /// Index of the earlier result that this one refers to.
    pub(super) points_at: Option<usize>,
    /// Index of the first result of the same batch.
    pub(super) batch_first: usize,
}

impl ToolResult {
    /// Returns the tokens that a placeholder frees, without those of the clipped call and of pictures behind.
    pub(crate) fn own_frees(&self) -> Tokens {
        self.frees - self.frees_elsewhere()
    }

    fn frees_elsewhere(&self) -> Tokens {
        self.clip.map(|clip| clip.saves).unwrap_or_default() + self.pictures
    }

    /// Whether the content stays for no reason but its size and age.
    fn may_leave(&self) -> bool {
        use ClearDecision::{Empty, NotShorter, Placeholder, Protected};
        matches!(self.decision, Empty | NotShorter | Placeholder | Protected)
    }
}

/// Lists a conversation's tool results, each with the tokens that clearing it would free.
pub(super) fn list_results(conversation: &Conversation<'_>, rule: &PruneRule) -> Vec<ToolResult> {
    let sizes = conversation.batches().iter().map(|it| it.results.len());
    let mut results: Vec<ToolResult> = Vec::with_capacity(sizes.sum());
    let mut all = conversation.batches().iter().flat_map(|batch| batch.results.clone());
    // Filled only if some result refers to an earlier one.
    let mut reads = all.any(|at| is_pointer(conversation, at)).then(LatestReads::new);
    let mut words = rule.kept_words.as_ref().map(WordsInResults::new);
    for batch in conversation.batches() {
        let batch_first = results.len();
        for message in batch.results.clone() {
            let points_at = reads.as_mut().and_then(|latest| {
                observe_read(latest, conversation, batch, message, results.len())
            });
            let mut result = evaluate_result(conversation, batch, message, rule);
            if let Some(words) = &mut words
                && result.decision == ClearDecision::Protected
                && let Some(decision) = words.keep(conversation, batch, message)
            {
                result.decision = decision;
                (result.frees, result.non_text) = (Tokens::ZERO, Tokens::ZERO);
            }
            result.points_at = points_at;
            result.batch_first = batch_first;
            // Otherwise the forwarded request would not show why the earlier read is kept.
            if points_at.is_some() && result.decision == ClearDecision::Protected {
                result.decision = ClearDecision::Pinned;
                (result.frees, result.non_text) = (Tokens::ZERO, Tokens::ZERO);
            }
            result.clip = call_clip(conversation, batch, &result).filter(|_| rule.clips_calls);
            if message + 1 == batch.results.end && result.may_leave() {
                result.pictures = shown_pictures(conversation, batch.results.end);
            }
            result.frees += result.frees_elsewhere();
            result.non_text += result.frees_elsewhere();
            results.push(result);
        }
    }
    results
}

/// Returns the clip of the call that `result` answers; `None` in these cases:
///
/// - The result stays because of its content.
/// - The round is open.
/// - The results have another order than the calls, so two results may answer one call.
fn call_clip(
    conversation: &Conversation<'_>,
    batch: &Batch,
    result: &ToolResult,
) -> Option<CallClip> {
    let number = batch.call_index(result.message)?;
    let is_in_order = batch.results.start + number == result.message;
    if !result.may_leave() || !is_in_order || batch.complete_at.is_none() {
        return None;
    }
    let at = batch.results.start.checked_sub(1)?;
    let message = conversation.message(at)?;
    let saves = argument_clip::saved_tokens(conversation, message, number);
    let signature = conversation.dialect().facts().call_signature;
    // A search of the message, so only for a call that would be clipped.
    let is_signed =
        || signature.is_some_and(|key| message.span.slice(conversation.body()).contains(key));
    (saves > Tokens::ZERO && !is_signed()).then_some(CallClip { message: at, saves })
}

/// Returns the tokens that markers save in place of the pictures of results that a client shows in the user
/// message at `at`. Zero if the message is the user's own.
fn shown_pictures(conversation: &Conversation<'_>, at: usize) -> Tokens {
    let message = conversation.message(at).filter(|it| it.role.is_user());
    let shown = message.filter(|it| shows_result(&conversation.text(it)));
    let pictures = shown.map(|it| images::image_parts(conversation, it));
    pictures.into_iter().flatten().map(|(_, saves)| saves).sum()
}

/// Computes how much clearing one result would free, or why it is never cleared.
fn evaluate_result(
    conversation: &Conversation<'_>,
    batch: &Batch,
    at: usize,
    rule: &PruneRule,
) -> ToolResult {
    let mut result = ToolResult { message: at, ..ToolResult::default() };
    let Some(message) = conversation.message(at) else {
        return result;
    };
    result.tokens = message.text_tokens;
    if matches!(message.content, Content::Absent) {
        return result;
    }
    let call = conversation.call_for_result(batch, at);
    let tool = call.and_then(|call| call.name).or(message.name);
    let tool = tool.map(|name| name.decode(conversation.body())).unwrap_or_default();
    result.placeholder = rule.placeholder.text_for(
        conversation,
        call,
        &tool,
        message.text_tokens,
        rule.recall.as_ref(),
    );
    let parts = conversation.parts(message).iter();
    let non_text = parts.map(|part| part.tokens).sum();
    // A picture leaves with its result, however short the text beside it.
    let has_picture = images::image_parts(conversation, message).next().is_some();
    let counted = if has_picture { result.tokens + non_text } else { result.tokens };
    let is_empty = result.tokens == Tokens::ZERO && conversation.text(message).is_empty();
    let gain = counted - result.placeholder.max_tokens();
    result.decision = if is_empty && !has_picture {
        ClearDecision::Empty
    } else if message.is_fixed || rule.exempt_tools.iter().any(|exempt| *exempt == tool) {
        ClearDecision::Exempt
    } else if placeholder::is_placeholder(conversation, message) {
        ClearDecision::Placeholder
    } else if gain == Tokens::ZERO || !result.placeholder.shortens(conversation, message) {
        ClearDecision::NotShorter
    } else if rule.keep_errors && conversation.reports_failure(message) {
        ClearDecision::Error
    } else {
        result.non_text = non_text;
        result.frees = result.tokens + non_text - result.placeholder.max_tokens();
        ClearDecision::Protected
    };
    result
}

/// Latest full read of each file or resource, by the tool and the thing that the tool reads.
type LatestReads = HashMap<(String, String), usize>;

/// Adds result number `index`, at message `at`, to `latest`. Returns the result that it refers to, if any.
fn observe_read(
    latest: &mut LatestReads,
    conversation: &Conversation<'_>,
    batch: &Batch,
    at: usize,
    index: usize,
) -> Option<usize> {
    let call = conversation.call_for_result(batch, at)?;
    let tool = call.name?.decode(conversation.body()).into_owned();
    let thing = ToolArguments::decode(conversation, call).primary()?.to_owned();
    if is_pointer(conversation, at) {
        return latest.get(&(tool, thing)).copied();
    }
    latest.insert((tool, thing), index);
    None
}

/// Whether a result only refers to an earlier one; cached in the message's notes.
fn is_pointer(conversation: &Conversation<'_>, at: usize) -> bool {
    conversation.message(at).is_some_and(|message| {
        let look = || points_at_earlier_read(conversation, message);
        let notes = message.memo();
        notes.map_or_else(look, |notes| *notes.is_reference.get_or_init(look))
    })
}

fn points_at_earlier_read(conversation: &Conversation<'_>, message: &Message) -> bool {
    let may = match message.content {
        Content::Absent => false,
        Content::Parts(_) => true,
        Content::Text(text) => {
            let raw = text.raw(conversation.body());
            wording::may_point_at_earlier_read(message.text_tokens, raw)
        }
    };
    may && wording::points_at_earlier_read(message.text_tokens, || conversation.text(message))
}
