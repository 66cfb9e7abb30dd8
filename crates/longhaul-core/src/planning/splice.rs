//! The rewritten body: replacements spliced in, every other byte unchanged.

use crate::conversation::{Conversation, images};
use crate::json::quote::quote;
use crate::json::span::Span;
use crate::planning::plan::Replacement;
use crate::planning::view::ForwardedView;
use crate::policy::placement;
use crate::pruning::argument_clip;
use crate::units::body_limits::BodyLimits;

/// A replacement of a byte range.
#[derive(Debug)]
struct ByteEdit {
    delete: Span,
    insert: String,
}

/// A run of bytes of the rewritten body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece<'s> {
    /// Bytes of the original body between two replacements, borrowed in place.
    Original(&'s str),
    /// Inserted text that replaces original bytes.
    Inserted(&'s str),
}

/// A body with its replacements.
///
/// Invariant: edits are sorted, disjoint and on token boundaries of the body. Only cache marks make it longer.
#[derive(Debug)]
pub struct Splice<'a> {
    body: &'a str,
    edits: Vec<ByteEdit>,
    length: usize,
}

impl<'a> Splice<'a> {
    /// Resolves `replacements` to byte edits of the conversation's body. Returns `None` if the plan is
    /// faulty: empty, misplaced, overlapping, or with a longer body. longhaul then forwards the original body.
    pub fn new(conversation: &Conversation<'a>, replacements: &[Replacement]) -> Option<Self> {
        let mut edits: Vec<ByteEdit> = Vec::with_capacity(replacements.len());
        for cut in replacements {
            if let Replacement::Thinking { at } = cut {
                let spans = conversation.bound_thinking_spans(*at).into_iter();
                edits.extend(spans.map(|delete| ByteEdit { delete, insert: String::new() }));
            } else {
                edits.push(byte_edit(conversation, cut)?);
            }
        }
        // Replacements follow the order of the messages, but the output limit may stand before or
        // after the messages.
        edits.sort_by_key(|edit| edit.delete.start());
        let ordered = edits.windows(2).all(|pair| match pair {
            [one, next] => one.delete.end() <= next.delete.start(),
            _ => true,
        });
        let body = conversation.body();
        let inserted: usize = edits.iter().map(|edit| edit.insert.len()).sum();
        let deleted: usize = edits.iter().map(|edit| edit.delete.len()).sum();
        if edits.is_empty() || !ordered || inserted > deleted {
            return None;
        }
        Some(Self { body, edits, length: body.len() + inserted - deleted })
    }

    /// Adds cache marks to a body without any. `None` if a later request is unlikely to repeat its beginning.
    pub fn with_cache_marks(conversation: &Conversation<'a>) -> Option<Self> {
        let insertions = conversation.marks_to_insert().into_iter();
        let edit = |(at, insert)| Some(ByteEdit { delete: Span::new(at, at)?, insert });
        let mut edits: Vec<ByteEdit> = insertions.map(edit).collect::<Option<_>>()?;
        edits.sort_by_key(|edit| edit.delete.start());
        let body = conversation.body();
        let inserted: usize = edits.iter().map(|edit| edit.insert.len()).sum();
        (inserted > 0).then(|| Self { body, edits, length: body.len() + inserted })
    }

    /// Returns the bytes of the rewritten body.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the pieces of the rewritten body, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut edits = self.edits.iter();
        let (mut start, mut inserted) = (Some(0), None);
        std::iter::from_fn(move || {
            if let Some(text) = inserted.take() {
                return Some(Piece::Inserted(text));
            }
            let edit = edits.next();
            let end = edit.map_or(self.body.len(), |edit| edit.delete.start());
            let original = self.body.get(start?..end);
            start = edit.map(|edit| edit.delete.end());
            inserted = edit.map(|edit| &*edit.insert);
            Some(Piece::Original(original.unwrap_or_default()))
        })
    }

    /// Copies the body with the replacements applied.
    pub fn apply(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.length);
        for piece in self.pieces() {
            out.extend_from_slice(piece.text().as_bytes());
        }
        debug_assert_eq!(out.len(), self.length, "the length is computed from the edits");
        out
    }

    /// Counts the bytes of `chunks`, joined, that differ from the body outside the replacements.
    /// Missing and surplus bytes count too. Any value but zero means that the code that built
    /// `chunks` is faulty.
    pub fn corrupted_bytes<'o>(&self, chunks: impl IntoIterator<Item = &'o [u8]>) -> usize {
        let (mut chunks, mut sent) = (chunks.into_iter(), &[][..]);
        let mut corrupted = 0;
        for piece in self.pieces() {
            let mut expected = piece.text().as_bytes();
            while !expected.is_empty() {
                while sent.is_empty()
                    && let Some(chunk) = chunks.next()
                {
                    sent = chunk;
                }
                let length = expected.len().min(sent.len());
                let ((now, next), (found, rest)) =
                    (expected.split_at(length), sent.split_at(length));
                if let Piece::Original(_) = piece {
                    corrupted +=
                        if length == 0 { expected.len() } else { count_differing(now, found) };
                }
                // Nothing more was sent.
                expected = if length == 0 { &[] } else { next };
                sent = rest;
            }
        }
        corrupted + sent.len() + chunks.map(<[u8]>::len).sum::<usize>()
    }
}

impl<'s> Piece<'s> {
    /// Returns the text of the piece.
    pub fn text(self) -> &'s str {
        match self {
            Self::Original(text) | Self::Inserted(text) => text,
        }
    }
}

/// Counts the bytes that differ in two slices of one length. A slice borrowed from the body itself cannot differ from
/// it.
fn count_differing(one: &[u8], other: &[u8]) -> usize {
    if std::ptr::eq(one, other) || one == other {
        return 0;
    }
    one.iter().zip(other).filter(|(a, b)| a != b).count()
}

/// Returns the edit of any other replacement.
fn byte_edit(conversation: &Conversation<'_>, cut: &Replacement) -> Option<ByteEdit> {
    match cut {
        Replacement::Arguments { result } => {
            let call = conversation.answered_call(*result)?;
            Some(ByteEdit {
                delete: call.arguments?.span(),
                insert: argument_clip::clipped_json(conversation, call)?,
            })
        }
        Replacement::History { from, to, text, placement } => {
            // Only whole units are removed, so that no call loses its result.
            conversation.boundaries().binary_search(to).ok()?;
            if conversation.message(*from)?.role.is_tool_result() {
                return None;
            }
            let (delete, insert) =
                placement::history_edit(conversation, *from, *to, text, *placement)?;
            Some(ByteEdit { delete, insert })
        }
        Replacement::Provider { from, to, item } => {
            conversation.boundaries().binary_search(to).ok()?;
            let first = conversation.object_span(*from)?;
            let last = conversation.object_span(to.checked_sub(1)?)?;
            let is_whole = conversation.object_span(*to) != Some(last);
            let edit = ByteEdit { delete: first.extended_to(last), insert: item.to_string() };
            is_whole.then_some(edit)
        }
        Replacement::Image { at, part } => {
            let part = *conversation.parts(conversation.message(*at)?).get(*part)?;
            Some(ByteEdit { delete: part.span, insert: images::marker_part(conversation, &part)? })
        }
        Replacement::Output { tokens } => Some(ByteEdit {
            delete: conversation.params().output_limit?.span,
            insert: tokens.to_string(),
        }),
        Replacement::Result { at, text, marked } => {
            let message = conversation.message(*at)?;
            if !message.is_replaceable_result() {
                return None;
            }
            let delete = message.content.span()?;
            let dialect = conversation.dialect();
            let mut insert = dialect.content_in_shape(conversation, message, text)?;
            if *marked && let Some(mark) = conversation.added_result_mark(*at) {
                // The content keeps its form: a provider may bind thinking to the form.
                let mark = format!(",\"{}\":{mark}", dialect.facts().cache_mark_key);
                if insert.len() + mark.len() <= delete.len() {
                    insert.push_str(&mark);
                }
            }
            Some(ByteEdit { delete, insert })
        }
        Replacement::Thinking { .. } => None,
        Replacement::Words { at, text } => {
            let end = conversation.object_span(*at)?.end();
            let message = conversation.dialect().user_message(&quote(text));
            Some(ByteEdit { delete: Span::new(end, end)?, insert: format!(",{message}") })
        }
    }
}

/// Returns the bytes by which a view exceeds `bytes`; [`usize::MAX`] for too many messages. `None` if it cannot be spliced.
pub(crate) fn body_excess(
    conversation: &Conversation<'_>,
    view: &ForwardedView,
    bytes: usize,
    limits: &BodyLimits,
) -> Option<usize> {
    let body = Splice::new(conversation, &view.replacements(conversation)?)?;
    let count = |body: &str| conversation.dialect().count_items(body);
    let items = || count(&String::from_utf8_lossy(&body.apply()));
    let has_too_many = limits.items != usize::MAX && items() > limits.items;
    Some(if has_too_many { usize::MAX } else { body.len().saturating_sub(bytes) })
}

/// Returns the bytes of the body in the form of `view`.
pub fn body_len(conversation: &Conversation<'_>, view: &ForwardedView) -> usize {
    let excess = body_excess(conversation, view, 0, &BodyLimits::UNKNOWN);
    excess.unwrap_or_else(|| conversation.body().len())
}

/// Whether the limits on the body admit a view.
pub fn admits_body(
    conversation: &Conversation<'_>,
    view: &ForwardedView,
    limits: &BodyLimits,
) -> bool {
    if *limits == BodyLimits::UNKNOWN {
        return true;
    }
    let body = conversation.body();
    let is_original = || {
        body.len() <= limits.bytes
            && (limits.items == usize::MAX
                || conversation.dialect().count_items(body) <= limits.items)
    };
    body_excess(conversation, view, limits.bytes, limits).map_or_else(is_original, |it| it == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::dialect::chat_completions::read;
    use crate::units::tokens::Tokens;

    #[test]
    fn output_limit_is_lowered_beside_another_replacement_in_any_key_order() {
        let messages = |result: &str| {
            format!(
                r#""messages":[{{"role":"user","content":"u"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}},{{"role":"tool","tool_call_id":"c","content":"{result}"}}]"#
            )
        };
        let cuts = vec![result("-"), Replacement::Output { tokens: Tokens::new(900) }];
        let (long, short) = (messages("a long result"), messages("-"));
        for (body, expected) in [
            (
                format!(r#"{{"max_tokens":4096,{long}}}"#),
                format!(r#"{{"max_tokens":900,{short}}}"#),
            ),
            (
                format!(r#"{{{long},"max_tokens":4096}}"#),
                format!(r#"{{{short},"max_tokens":900}}"#),
            ),
        ] {
            let conversation = read(body.as_bytes()).unwrap();
            let splice = Splice::new(&conversation, &cuts).unwrap();
            assert_eq!(String::from_utf8(splice.apply()).unwrap(), expected);
        }
    }

    const CHAT: &str = r#"{"messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"a long result"}],"n":1}"#;

    fn result(text: &'static str) -> Replacement {
        Replacement::Result { at: 2, text: text.into(), marked: false }
    }

    /// Checks whether a chat with the result `a long result` can be spliced.
    fn check(cuts: &[Replacement], expect: bool) {
        let conversation = read(CHAT.as_bytes()).unwrap();
        assert_eq!(Splice::new(&conversation, cuts).is_some(), expect, "{cuts:?}");
    }

    #[test]
    fn a_marked_result_carries_the_next_mark_if_the_provider_allows_one_more() {
        let mark = r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#;
        let result = |content: &str| {
            format!(r#"{{"type":"tool_result","tool_use_id":"c","content":{content}}}"#)
        };
        let body = |content: &str, marks: usize| {
            let system = format!(r#"{{"type":"text","text":"s",{mark}}}"#);
            format!(
                r#"{{"system":[{}],"messages":[{{"role":"user","content":"u"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"c","name":"f","input":{{}}}}]}},{{"role":"user","content":[{}]}},{{"role":"user","content":[{{"type":"text","text":"v",{mark}}}]}}]}}"#,
                vec![system; marks].join(","),
                result(content)
            )
        };
        let long = format!("\"{:a>120}\"", "");
        let (marked, null) = (format!("\"-\",{mark}"), r#","cache_control":null"#);
        // A result that is hardly longer than its placeholder has no room for a mark.
        for (content, marks, expected) in [
            (&*long, 2, &*marked),
            (&long, 3, "\"-\""),
            (&format!("{long}{null}"), 1, &format!("\"-\"{null}")),
            ("\"four\"", 2, "\"-\""),
        ] {
            let before = body(content, marks);
            let conversation = Dialect::Messages.read(before.as_bytes()).unwrap();
            let cut = Replacement::Result { at: 2, text: "-".into(), marked: true };
            let splice = Splice::new(&conversation, &[cut]).unwrap();
            assert_eq!(String::from_utf8(splice.apply()).unwrap(), body(expected, marks));
        }
    }

    #[test]
    fn rejects_empty_growing_and_duplicate_replacements() {
        check(&[result("-")], true);
        check(&[result("as long as it")], true);
        check(&[], false);
        check(&[result("longer than it was")], false);
        check(&[result("-"), result("-")], false);
    }

    #[test]
    fn every_changed_byte_outside_the_replacements_counts_as_corrupted() {
        let conversation = read(CHAT.as_bytes()).unwrap();
        let cuts = [result("-")];
        let splice = Splice::new(&conversation, &cuts).unwrap();
        let sound = splice.apply();
        assert_eq!(splice.corrupted_bytes([&*sound]), 0);
        let inserted = sound.iter().rposition(|byte| *byte == b'-').unwrap();
        for at in 0..sound.len() {
            let mut other = sound.clone();
            other[at] ^= 1;
            let inside = (inserted - 1..=inserted + 1).contains(&at);
            assert_eq!(splice.corrupted_bytes([&*other]), usize::from(!inside), "at {at}");
            let (one, two) = other.split_at(at);
            assert_eq!(splice.corrupted_bytes([one, &[], two]), usize::from(!inside));
        }
        assert_eq!(splice.corrupted_bytes([&*sound, b"xy"]), 2, "surplus bytes");
        assert_eq!(splice.corrupted_bytes([&sound[..sound.len() - 3]]), 3, "missing bytes");
        assert!(splice.corrupted_bytes([CHAT.as_bytes()]) > 0, "the original body");
    }
}
