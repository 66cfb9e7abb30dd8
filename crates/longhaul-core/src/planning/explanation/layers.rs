//! Layers of a forwarded request: head, digest, steps and tail.

use super::{ExplanationRow, MessageDecision};
use crate::conversation::Conversation;
use crate::planning::view::ForwardedView;
use crate::pruning::tool_result::ClearDecision;
use crate::units::tokens::Tokens;
use serde::{Deserialize, Serialize};

/// Kind of a layer, oldest first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerKind {
    /// The messages before the replaced history, which are never changed.
    Head,
    /// The replaced history: a summary of rules or of a model stands for it.
    Summary,
    /// The messages after the replaced history, to the end of the last batch with a cleared result.
    Steps,
    /// The newest messages, none of them a cleared result.
    Tail,
}

/// A layer of a forwarded request.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RequestLayer {
    /// Kind of the layer. A request has at most one layer of each.
    #[serde(rename = "layer")]
    pub kind: LayerKind,
    /// Index of the first message.
    pub from: usize,
    /// Index of the last message.
    pub through: usize,
    /// Number of messages.
    pub messages: usize,
    /// Number of cleared results.
    pub cleared: usize,
    /// Number of messages with clipped arguments of calls.
    #[serde(default)]
    pub clipped: usize,
    /// Plain estimate of the layer as forwarded; for a digest, of its text.
    pub tokens: Tokens,
    /// Tokens of its messages that are not forwarded.
    #[serde(default)]
    pub freed: Tokens,
}

/// Returns the layers that have messages, oldest first; none if nothing is replaced or cleared. `rows`
/// explain every message of `conversation`, each in a row of its own.
pub(super) fn layers(
    conversation: &Conversation<'_>,
    view: &ForwardedView,
    rows: &[ExplanationRow],
) -> Vec<RequestLayer> {
    let is_cleared =
        |row: &ExplanationRow| row.decision == MessageDecision::ToolResult(ClearDecision::Cleared);
    let (from, until) = (view.history_from(), view.summarised_until());
    let is_clipped = |row: &ExplanationRow| row.decision == MessageDecision::ArgumentsClipped;
    let last = rows.iter().rposition(|row| is_cleared(row) || is_clipped(row));
    let mut batches = conversation.batches().iter();
    // A call stands before its results.
    let last = last
        .and_then(|at| batches.rfind(|it| (it.results.start..=it.results.end).contains(&(at + 1))));
    let steps_end = last.map_or(until, |batch| batch.results.end.max(until));
    if !view.is_condensed() && steps_end == until {
        return Vec::new();
    }
    let layers = [
        (LayerKind::Head, 0..from),
        (LayerKind::Summary, from..until),
        (LayerKind::Steps, until..steps_end),
        (LayerKind::Tail, steps_end..rows.len()),
    ];
    let layers = layers.into_iter().filter_map(|(kind, range)| {
        let rows = rows.get(range.clone())?;
        // A replaced message has no tokens: the text has them.
        let text = view.summary_tokens();
        let text = text.filter(|_| kind == LayerKind::Summary);
        let tokens = text.unwrap_or_default() + rows.iter().map(|row| row.becomes).sum();
        Some(RequestLayer {
            kind,
            from: range.start,
            through: range.end.checked_sub(1)?,
            messages: rows.len(),
            cleared: rows.iter().filter(|row| is_cleared(row)).count(),
            clipped: rows.iter().filter(|row| is_clipped(row)).count(),
            tokens,
            freed: rows.iter().map(|row| row.tokens).sum::<Tokens>() - tokens,
        })
    });
    layers.filter(|layer| layer.messages > 0).collect()
}
