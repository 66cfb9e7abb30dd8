//! Placement of the replacement text next to messages that share an object: as a text block among theirs.

use crate::conversation::Conversation;
use crate::json::quote::quote;
use crate::json::span::Span;
use crate::policy::placement::{ContentJson, Placement, parts_of};
use crate::policy::segments::{SegmentForm, SegmentedText};

/// Returns the span of the body to replace, and its replacement, when `text` replaces the messages
/// from `from` up to `to`. The text block carries `mark`, the value of a cache mark.
///
/// If a cut falls within an object, the text joins the part of the object that stays. Merged, the
/// text also joins the adjacent user messages.
pub(super) fn edit(
    conversation: &Conversation<'_>,
    from: usize,
    to: usize,
    text: &SegmentedText,
    mark: Option<&str>,
    placement: Placement,
) -> Option<(Span, String)> {
    let last = to.checked_sub(1)?;
    let find = |at, removed| Neighbour::find(conversation, at, removed, placement);
    let before = from.checked_sub(1).and_then(|at| find(at, from));
    let after = find(to, last);
    let start = match &before {
        Some(before) => before.edge_before,
        None => conversation.object_span(from)?.start(),
    };
    let end = match &after {
        Some(after) => after.edge_behind,
        None => conversation.object_end(last)?.0,
    };
    let dialect = conversation.dialect();
    let block = parts_of(conversation, text, mark);
    let is_string = mark.is_none() && text.form() == SegmentForm::Text;
    let insert = match (before, after) {
        (None, None) if is_string => dialect.user_message(&quote(text)),
        (None, None) => dialect.user_message(&["[", &block, "]"].concat()),
        (Some(before), None) => before.blocks_before + &block + &before.close,
        (None, Some(after)) => after.open + &block + &after.blocks_behind,
        (Some(before), Some(after)) if before.joins(&after) => {
            before.blocks_before + &block + &after.blocks_behind
        }
        // The keys next to the blocks stand in different orders, so both objects stay.
        (Some(before), Some(after)) => [
            before.blocks_before.trim_end_matches(','),
            &before.close,
            ",",
            &after.open,
            &block,
            &after.blocks_behind,
        ]
        .concat(),
    };
    Some((Span::new(start, end)?, insert))
}

/// A user message next to the replaced history that takes the text.
struct Neighbour {
    /// Offset of the object, which identifies it.
    object: usize,
    /// End of the bytes that stay before the text.
    edge_before: usize,
    /// Start of the bytes that stay after the text.
    edge_behind: usize,
    /// Inserted between the bytes that stay and the text.
    blocks_before: String,
    /// Inserted between the text and the bytes that stay.
    blocks_behind: String,
    /// The object up to its first block.
    open: String,
    /// The object from the end of its last block.
    close: String,
}

impl Neighbour {
    /// Returns the message at `at` if it takes the text in place of its neighbour at `removed`.
    fn find(
        conversation: &Conversation<'_>,
        at: usize,
        removed: usize,
        placement: Placement,
    ) -> Option<Self> {
        let (body, message) = (conversation.body(), conversation.message(at)?);
        let is_merged = placement == Placement::Merged;
        if let Some(container) = conversation.container(at) {
            let takes = is_merged || container.messages.contains(&removed);
            return takes.then(|| Self {
                object: container.span.start(),
                edge_before: message.span.end(),
                edge_behind: message.span.start(),
                blocks_before: ",".to_owned(),
                blocks_behind: ",".to_owned(),
                open: conversation.container_start(container).to_owned(),
                close: conversation.container_end(container).to_owned(),
            });
        }
        if !is_merged || !message.role.is_user() {
            return None;
        }
        let content = message.content.span()?;
        let blocks = ContentJson::from_message(body, message)?.into_parts(conversation.dialect());
        let comma = if blocks.is_empty() { "" } else { "," };
        let between = |start: usize, end: usize| body.get(start..end).unwrap_or_default();
        Some(Self {
            object: message.span.start(),
            edge_before: content.start(),
            edge_behind: content.end(),
            blocks_before: ["[", &blocks, comma].concat(),
            blocks_behind: [comma, &blocks, "]"].concat(),
            open: between(message.span.start(), content.start()).to_owned() + "[",
            close: "]".to_owned() + between(content.end(), message.span.end()),
        })
    }

    /// Whether this object can begin with its own bytes and end with those of `after`.
    fn joins(&self, after: &Self) -> bool {
        let only_closes = |it: &Self| {
            it.close.split_ascii_whitespace().eq(["]}"])
                || it.close.split_ascii_whitespace().eq(["]", "}"])
        };
        self.object == after.object || only_closes(self) && only_closes(after)
    }
}

#[cfg(test)]
mod tests;
