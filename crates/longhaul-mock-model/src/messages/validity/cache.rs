//! Cache marks.

use serde_json::Value;

use crate::messages::body::{MessagesBody, kind, string};
use crate::request::{list, member};

/// Maximum cache marks of a request.
const MAX_MARKS: usize = 4;

/// Returns the elements that may carry a mark, in the order of the prompt: tools, system, and blocks,
/// each after its own elements.
fn carriers<'a>(body: &'a MessagesBody<'_>) -> impl Iterator<Item = &'a Value> {
    let blocks = body.blocks().flat_map(|(_, block)| {
        let inner = list(member(block, "content")).iter();
        inner.chain(std::iter::once(block))
    });
    let tools = list(body.field("tools")).iter();
    tools.chain(list(body.field("system"))).chain(blocks)
}

fn marks<'a>(body: &'a MessagesBody<'_>) -> impl Iterator<Item = (&'a Value, &'a Value)> {
    let marks = carriers(body).map(|carrier| (carrier, member(carrier, "cache_control")));
    marks.filter(|(_, mark)| mark.is_object())
}

fn has_automatic(body: &MessagesBody<'_>) -> bool {
    body.field("cache_control").is_object()
}

pub(super) fn too_many(body: &MessagesBody<'_>) -> bool {
    marks(body).count() + usize::from(has_automatic(body)) > MAX_MARKS
}

/// A mark with the longer lifetime follows one with the shorter.
pub(super) fn order(body: &MessagesBody<'_>) -> bool {
    let mut marks = marks(body).map(|(_, mark)| string(mark, "ttl") == "1h");
    marks.by_ref().any(|is_long| !is_long) && marks.any(|is_long| is_long)
}

pub(super) fn on_empty(body: &MessagesBody<'_>) -> bool {
    marks(body).any(|(block, _)| kind(block) == "text" && string(block, "text").is_empty())
}

pub(super) fn misplaced(body: &MessagesBody<'_>) -> bool {
    const WITHOUT: [&str; 3] = ["fallback", "redacted_thinking", "thinking"];
    marks(body).any(|(block, _)| WITHOUT.contains(&kind(block)))
}

/// The automatic mark differs from an explicit mark on the last block.
pub(super) fn automatic(body: &MessagesBody<'_>) -> bool {
    let last = body.turns.last().and_then(|turn| turn.blocks.last());
    let explicit = last.map(|block| member(block, "cache_control"));
    let explicit = explicit.filter(|mark| mark.is_object());
    let ttl = |mark: &Value| string(mark, "ttl").to_owned();
    has_automatic(body)
        && explicit.is_some_and(|mark| ttl(mark) != ttl(body.field("cache_control")))
}
