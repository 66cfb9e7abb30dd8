//! Placement of the replacement text: a message of its own, or merged into the adjacent user messages.

mod blocks;

use crate::conversation::{Content, Conversation, Message};
use crate::dialect::Dialect;
use crate::json::quote::quote;
use crate::json::span::Span;
use crate::policy::segments::{SegmentForm, SegmentedText};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Position of the replacement text.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Placement {
    /// Merged into the preceding or following user message, or with both into one: some chat
    /// templates refuse two user messages in a row. A separate message if neither neighbour is a user
    /// message.
    Merged,
    /// A separate user message.
    #[default]
    Separate,
}

/// Placements of the replacement text that a model has refused. The greater of two holds the refusals of both.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum PlacementRefusals {
    /// No placement.
    #[default]
    Nowhere,
    /// A message of its own.
    Separate,
    /// Both placements. Placement was not the cause, so the default is used.
    Both,
}

impl PlacementRefusals {
    /// Returns the placement to use.
    pub fn placement(self) -> Placement {
        match self {
            Self::Separate => Placement::Merged,
            Self::Both | Self::Nowhere => Placement::Separate,
        }
    }

    /// Adds a refusal of `placement`. Two concurrent requests may have been refused for the same reason.
    #[must_use]
    pub fn with_refusal(self, placement: Placement) -> Self {
        match placement {
            Placement::Merged => Self::Both,
            Placement::Separate => self.max(Self::Separate),
        }
    }
}

/// Returns the span of the body to replace, and its replacement, when `text` replaces the messages
/// from `from` up to `to`.
pub(crate) fn history_edit(
    conversation: &Conversation<'_>,
    from: usize,
    to: usize,
    text: &SegmentedText,
    placement: Placement,
) -> Option<(Span, String)> {
    let moved = conversation.last_cache_mark(from..to);
    let mark = moved.or_else(|| {
        let may_add = text.may_add_mark();
        may_add.then(|| conversation.added_cache_mark(from..to)).flatten()
    });
    let shares_object = |at: usize| conversation.container(at).is_some();
    let sides = [from.checked_sub(1), Some(from), to.checked_sub(1), Some(to)];
    if moved.is_some() || sides.into_iter().flatten().any(shares_object) {
        return blocks::edit(conversation, from, to, text, mark, placement);
    }
    let text = match text.form() {
        SegmentForm::Text => ContentJson::Text(quote(text).into()),
        SegmentForm::Parts => ContentJson::Parts(parts_of(conversation, text, mark).into()),
    };
    let first = conversation.message(from)?;
    let last = conversation.message(to.checked_sub(1)?)?;
    let (before, after) = match placement {
        Placement::Merged => adjacent_user_messages(conversation, from, to),
        Placement::Separate => (None, None),
    };
    let body = conversation.body();
    let contents = [
        before.map(|before| ContentJson::from_message(body, before)),
        Some(Some(text)),
        after.map(|after| ContentJson::from_message(body, after)),
    ];
    let contents: Option<Vec<ContentJson<'_>>> = contents.into_iter().flatten().collect();
    let content = join_contents(contents?, conversation.dialect());
    let between = |start: usize, end: usize| body.get(start..end).unwrap_or_default();
    match (before, after) {
        (None, None) => {
            let message = conversation.dialect().user_message(&content);
            Some((first.span.extended_to(last.span), message))
        }
        (Some(before), None) => {
            let at = before.content.span()?;
            let rest = between(at.end(), before.span.end());
            Some((at.extended_to(last.span), [&content, rest].concat()))
        }
        (before, Some(after)) => {
            let at = after.content.span()?;
            let start = between(after.span.start(), at.start());
            let replaced = before.unwrap_or(first).span.extended_to(at);
            Some((replaced, [start, &content].concat()))
        }
    }
}

/// Returns the content parts of `text`, without brackets. The last segment carries `mark`, the value
/// of a cache mark.
fn parts_of(conversation: &Conversation<'_>, text: &SegmentedText, mark: Option<&str>) -> String {
    let pieces = text.pieces();
    // The end of the frame follows the last segment, and changes its place each time.
    let marked = pieces.len().saturating_sub(2);
    let part = |(at, piece): (usize, &&str)| {
        let mark = mark.filter(|_| at == marked);
        conversation.dialect().text_part(&quote(piece), mark)
    };
    let parts: Vec<String> = pieces.iter().enumerate().map(part).collect();
    parts.join(",")
}

/// Whether the replacement text of the messages from `from` up to `to` is merged into the message at `at`.
pub(crate) fn merges_into(
    conversation: &Conversation<'_>,
    from: usize,
    to: usize,
    at: usize,
) -> bool {
    let (before, after) = adjacent_user_messages(conversation, from, to);
    let is =
        |message: Option<&Message>, place: Option<usize>| message.is_some() && place == Some(at);
    is(before, from.checked_sub(1)) || is(after, Some(to))
}

/// Returns the user messages directly before and after.
fn adjacent_user_messages<'c>(
    conversation: &'c Conversation<'_>,
    from: usize,
    to: usize,
) -> (Option<&'c Message>, Option<&'c Message>) {
    let can_merge = |message: &&Message| match message.content {
        Content::Absent => false,
        Content::Parts(_) | Content::Text(_) => message.role.is_user(),
    };
    let before = from.checked_sub(1).and_then(|at| conversation.message(at));
    (before.filter(can_merge), conversation.message(to).filter(can_merge))
}

/// Message content as raw JSON.
enum ContentJson<'s> {
    /// Elements of an array, without the brackets.
    Parts(Cow<'s, str>),
    /// String literal, with its quotes.
    Text(Cow<'s, str>),
}

impl<'s> ContentJson<'s> {
    /// Returns the content of `message`, or `None` if it has none.
    fn from_message(body: &'s str, message: &Message) -> Option<Self> {
        match message.content {
            Content::Absent => None,
            Content::Parts(span) => {
                let array = span.slice(body).trim();
                let parts = array.strip_prefix('[')?.strip_suffix(']')?;
                Some(Self::Parts(parts.trim().into()))
            }
            Content::Text(literal) => Some(Self::Text(literal.span().slice(body).into())),
        }
    }

    /// Returns the string without its quotes.
    fn inner(&self) -> Option<&str> {
        match self {
            Self::Parts(_) => None,
            Self::Text(text) => text.strip_prefix('"')?.strip_suffix('"'),
        }
    }

    /// Converts the content to array elements.
    fn into_parts(self, dialect: Dialect) -> Cow<'s, str> {
        match self {
            Self::Parts(parts) => parts,
            Self::Text(text) => dialect.text_part(&text, None).into(),
        }
    }
}

/// Joins contents: to a string if all are strings, otherwise to an array of parts.
fn join_contents(contents: Vec<ContentJson<'_>>, dialect: Dialect) -> String {
    if let Some(texts) = contents.iter().map(ContentJson::inner).collect::<Option<Vec<&str>>>() {
        return format!("\"{}\"", texts.join("\\n\\n"));
    }
    let parts = contents.into_iter().map(|content| content.into_parts(dialect));
    let parts: Vec<Cow<'_, str>> = parts.filter(|parts| !parts.is_empty()).collect();
    format!("[{}]", parts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::chat_completions::read;
    use crate::planning::plan::Replacement;
    use crate::planning::splice::Splice;

    /// Checks `messages` after "sum" replaced those in `range`.
    fn check(messages: &Value, range: (usize, usize), placement: Placement, expect: &Value) {
        let body = json!({"messages": messages}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let cut =
            Replacement::History { from: range.0, to: range.1, text: "sum".into(), placement };
        let splice = Splice::new(&conversation, &[cut]).unwrap();
        let out: Value = serde_json::from_slice(&splice.apply()).unwrap();
        assert_eq!(&out["messages"], expect);
    }

    fn user(content: &Value) -> Value {
        json!({"role": "user", "content": content})
    }

    fn model(text: &str) -> Value {
        json!({"role": "assistant", "content": text})
    }

    fn long() -> Value {
        model(&"x".repeat(200))
    }

    #[test]
    fn separate_summary_is_its_own_message_between_both_sides() {
        check(
            &json!([user(&"a".into()), long(), user(&"b".into())]),
            (1, 2),
            Placement::Separate,
            &json!([user(&"a".into()), user(&"sum".into()), user(&"b".into())]),
        );
    }

    #[test]
    fn merged_summary_joins_the_user_messages_on_both_sides() {
        check(
            &json!([user(&"a\"".into()), long(), user(&"\\b".into()), model("c")]),
            (1, 2),
            Placement::Merged,
            &json!([user(&"a\"\n\nsum\n\n\\b".into()), model("c")]),
        );
    }

    #[test]
    fn merged_summary_joins_the_only_adjacent_user_message() {
        let system = json!({"role": "system", "content": "s"});
        check(
            &json!([user(&"a".into()), long(), model("c")]),
            (1, 2),
            Placement::Merged,
            &json!([user(&"a\n\nsum".into()), model("c")]),
        );
        check(
            &json!([system, user(&"old".into()), long(), user(&"b".into()), model("c")]),
            (1, 3),
            Placement::Merged,
            &json!([system, user(&"sum\n\nb".into()), model("c")]),
        );
        check(
            &json!([system, user(&"old".into()), long(), model("c")]),
            (1, 3),
            Placement::Merged,
            &json!([system, user(&"sum".into()), model("c")]),
        );
    }

    #[test]
    fn summary_merges_only_into_adjacent_user_messages() {
        let messages = json!([model("a"), user(&"b".into()), long(), user(&"c".into())]);
        let body = json!({"messages": messages}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let taking = |from, to| {
            let takes = |at: &usize| merges_into(&conversation, from, to, *at);
            (0..5).filter(takes).collect::<Vec<_>>()
        };
        assert_eq!(taking(2, 3), [1, 3]);
        assert_eq!(taking(1, 3), [3]);
        assert_eq!(taking(2, 4), [1]);
        assert_eq!(taking(0, 2), [0; 0]);
        assert_eq!(taking(0, 4), [0; 0]);
    }

    #[test]
    fn a_refused_placement_switches_to_the_other_and_then_back() {
        use Placement::{Merged, Separate};
        let none = PlacementRefusals::default();
        assert_eq!(none.placement(), Separate);
        let one = none.with_refusal(Separate);
        assert_eq!((one, one.placement()), (PlacementRefusals::Separate, Merged));
        assert_eq!(one.with_refusal(Separate), one);
        let both = one.with_refusal(Merged);
        assert_eq!((both, both.placement()), (PlacementRefusals::Both, Separate));
        assert_eq!(both.with_refusal(Separate), both);
    }

    #[test]
    fn merging_placement_refusals_keeps_the_stronger() {
        use PlacementRefusals::{Both, Nowhere, Separate};
        for (one, other, expect) in [
            (Nowhere, Nowhere, Nowhere),
            (Nowhere, Separate, Separate),
            (Separate, Separate, Separate),
            (Nowhere, Both, Both),
            (Separate, Both, Both),
            (Both, Both, Both),
        ] {
            assert_eq!((one.max(other), other.max(one)), (expect, expect));
        }
    }

    #[test]
    fn merged_content_parts_stay_separate_parts() {
        let image = json!({"type": "image_url", "image_url": {"url": "u"}});
        let text = |text: &str| json!({"type": "text", "text": text});
        check(
            &json!([user(&"a".into()), long(), user(&json!([text("b"), image]))]),
            (1, 2),
            Placement::Merged,
            &json!([user(&json!([text("a"), text("sum"), text("b"), image]))]),
        );
        check(
            &json!([user(&json!([])), long(), model("c")]),
            (1, 2),
            Placement::Merged,
            &json!([user(&json!([text("sum")])), model("c")]),
        );
    }
}
