//! The messages that a forwarded history changes.

use serde::Serialize;

use longhaul_core::conversation::{Conversation, Message};

/// A run of messages that was replaced or changed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct MessageChange {
    /// Index of the first message in the history as it came.
    pub(crate) first: usize,
    /// Number of messages there.
    pub(crate) messages: usize,
    /// Author of the first message.
    pub(crate) role: &'static str,
    /// Plain estimate of these messages as they came, in tokens.
    pub(crate) tokens_before: u32,
    /// Plain estimate of the forwarded messages in their place, in tokens.
    pub(crate) tokens_after: u32,
    /// The text that was forwarded in their place.
    pub(crate) text: String,
}

/// Returns the changes from `sent` to `forwarded`, in order.
///
/// Equal messages at both ends are unchanged. From the end, a message that differs is a changed message as
/// long as its author and its calls are the same. Everything between both ends was replaced.
pub(crate) fn changed_messages(
    sent: &Conversation<'_>,
    forwarded: &Conversation<'_>,
) -> Vec<MessageChange> {
    let (old, new) = (sent.messages(), forwarded.messages());
    let is_equal = |(one, other): &(&Message, &Message)| {
        one.span.slice(sent.body()) == other.span.slice(forwarded.body())
    };
    let begin = old.iter().zip(new).take_while(is_equal).count();
    let rest = old.len().min(new.len()) - begin;
    let is_aligned = |(one, other): &(&Message, &Message)| {
        let same_shape =
            one.role == other.role && sent.calls(one).len() == forwarded.calls(other).len();
        is_equal(&(*one, *other))
            || same_shape && (one.role.is_tool_result() || sent.text(one) == forwarded.text(other))
    };
    let pairs = old.iter().rev().zip(new.iter().rev()).take(rest);
    let end = pairs.take_while(is_aligned).count();
    let (old_end, new_end) = (old.len() - end, new.len() - end);
    let mut found = Vec::new();
    if begin < old_end || begin < new_end {
        found.push(change((sent, begin..old_end), (forwarded, begin..new_end)));
    }
    for (at, pair) in (old_end..).zip(
        old.get(old_end..).unwrap_or_default().iter().zip(new.get(new_end..).unwrap_or_default()),
    ) {
        if !is_equal(&pair) {
            let moved = at - old_end + new_end;
            found.push(change((sent, at..at + 1), (forwarded, moved..moved + 1)));
        }
    }
    found
}

/// Messages of one conversation.
type MessageRun<'r, 'a> = (&'r Conversation<'a>, std::ops::Range<usize>);

fn change((sent, old): MessageRun<'_, '_>, (forwarded, new): MessageRun<'_, '_>) -> MessageChange {
    let texts = forwarded
        .messages()
        .get(new.clone())
        .unwrap_or_default()
        .iter()
        .map(|message| forwarded.text(message));
    let first = sent.message(old.start);
    MessageChange {
        first: old.start,
        messages: old.len(),
        role: first.map_or("", |message| message.role.label()),
        tokens_before: sent.tokens_of(old).get(),
        tokens_after: forwarded.tokens_of(new).get(),
        text: texts.collect::<Vec<_>>().join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::dialect::Dialect;
    use serde_json::{Value, json};

    fn changes(sent: &[Value], forwarded: &[Value]) -> Vec<(usize, usize, String)> {
        let body = |messages: &[Value]| json!({ "messages": messages }).to_string();
        let (sent, forwarded) = (body(sent), body(forwarded));
        let sent = Dialect::ChatCompletions.read(sent.as_bytes()).unwrap();
        let forwarded = Dialect::ChatCompletions.read(forwarded.as_bytes()).unwrap();
        changed_messages(&sent, &forwarded)
            .into_iter()
            .map(|change| (change.first, change.messages, change.text))
            .collect()
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    fn says(text: &str) -> Value {
        json!({"role": "assistant", "content": text})
    }

    fn calls(id: &str) -> Value {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
            "function": {"name": "t", "arguments": "{}"}}]})
    }

    fn result(id: &str, text: &str) -> Value {
        json!({"role": "tool", "tool_call_id": id, "content": text})
    }

    #[test]
    fn an_unchanged_history_has_no_change() {
        let all = [user("a"), calls("1"), result("1", "x")];
        assert_eq!(changes(&all, &all), []);
    }

    #[test]
    fn each_cleared_result_is_a_change_of_its_own() {
        let sent =
            [user("a"), calls("1"), result("1", "x"), calls("2"), result("2", "y"), user("b")];
        let mut cleared = sent.clone();
        cleared[2] = result("1", "[cleared]");
        cleared[4] = result("2", "[gone]");
        let expect = [(2, 1, "[cleared]".to_owned()), (4, 1, "[gone]".to_owned())];
        // The first change ends the equal beginning, and the second one is aligned from the end.
        assert_eq!(changes(&sent, &cleared), expect);
    }

    #[test]
    fn a_summary_replaces_a_run_and_results_behind_it_are_changes_too() {
        let sent =
            [user("a"), says("b"), user("c"), says("d"), user("e"), calls("1"), result("1", "x")];
        let forwarded =
            [user("a"), user("summary"), user("e"), calls("1"), result("1", "[cleared]")];
        let expect = [(1, 3, "summary".to_owned()), (6, 1, "[cleared]".to_owned())];
        assert_eq!(changes(&sent, &forwarded), expect);
    }
}
