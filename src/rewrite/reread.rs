//! The price of forgetting: calls that ask once more for what was cleared.

use super::conversation::{Call, Conversation, Role};
use super::view::View;
use serde_json::Value;

/// Arguments up to so many bytes are compared by their meaning, longer ones by their bytes: whoever
/// reads something again names it shortly.
const COMPARED: usize = 1_000;

/// How many of the newest calls are asked about, each of which is held against all before it.
const CALLS: usize = 16;

/// How many of the newest calls are of the same tool with the same arguments as an earlier one whose
/// result does not stand in `view` any more: cleared, or behind what stands for history.
///
/// Of calls that are alike the latest counts: where its result still stands, nothing was forgotten
/// that would have been of use. Only the last message of the model is asked about, so that a call
/// counts once and not with every request that repeats it.
pub fn rereads(conversation: &Conversation<'_>, view: &View) -> usize {
    if !view.is_pruned() && !view.is_summarised() {
        return 0;
    }
    let messages = conversation.messages();
    let speaks = |role: Role| role == Role::Assistant;
    let Some(last) = messages.iter().rposition(|message| speaks(message.role)) else {
        return 0;
    };
    let calls = conversation
        .message(last)
        .map(|last| conversation.calls(last));
    let calls = calls.unwrap_or_default().iter();
    calls
        .take(CALLS)
        .filter(|call| is_gone(conversation, view, call, last))
        .count()
}

/// Whether the latest result of a call like this one, of those before message `before`, is gone.
fn is_gone(conversation: &Conversation<'_>, view: &View, call: &Call, before: usize) -> bool {
    let wanted = Asked::of(conversation, call);
    let batches = conversation.batches().iter().rev();
    let mut results = batches
        .filter(|batch| batch.results.end <= before)
        .flat_map(|batch| batch.results.clone().rev().map(move |at| (batch, at)));
    let alike = results.find(|&(batch, at)| {
        let earlier = conversation.call_of(batch, at);
        earlier.is_some_and(|earlier| wanted.is(&Asked::of(conversation, earlier)))
    });
    alike.is_some_and(|(_, at)| view.forgets(at))
}

/// What a call asks for, as it was written.
struct Asked<'a> {
    name: &'a str,
    arguments: &'a str,
    call: Call,
    body: &'a str,
}

impl<'a> Asked<'a> {
    fn of(conversation: &Conversation<'a>, call: &Call) -> Self {
        let body = conversation.body();
        Self {
            name: call.name.map_or("", |name| name.raw(body)),
            arguments: call.arguments.map_or("", |arguments| arguments.raw(body)),
            call: *call,
            body,
        }
    }

    fn is(&self, other: &Self) -> bool {
        if self.name != other.name || self.name.is_empty() {
            return false;
        }
        if self.arguments == other.arguments {
            return true;
        }
        let short = |asked: &Self| asked.arguments.len() <= COMPARED;
        short(self)
            && short(other)
            && self.sum() == other.sum()
            && self
                .meaning()
                .is_some_and(|own| other.meaning() == Some(own))
    }

    /// What all the bytes but spaces come to, in whatever order: it differs for nearly all arguments
    /// that mean something else, at a fraction of what reading them takes.
    fn sum(&self) -> u32 {
        let counted = |byte: u8| u32::from(byte) * u32::from(byte != b' ');
        self.arguments.bytes().map(counted).sum()
    }

    /// The arguments, whatever the spaces between them and the order of their keys.
    fn meaning(&self) -> Option<Value> {
        let text = self.call.arguments?.decode(self.body);
        serde_json::from_str(&text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::chat_completions::read;
    use super::super::cut_point::Kept;
    use super::super::placeholder::Placeholder;
    use super::super::prune::{Fold, Rule};
    use super::super::tokens::Tokens;
    use super::*;
    use serde_json::json;

    /// Calls with results of a thousand characters, as a conversation of the one who asks.
    fn body(calls: &[(&str, &str)]) -> String {
        let mut messages = vec![json!({"role": "user", "content": "go"})];
        for (at, (name, arguments)) in calls.iter().enumerate() {
            let function = json!({"name": name, "arguments": arguments});
            let call = json!({"id": at.to_string(), "type": "function", "function": function});
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
            let content = "x".repeat(1_000);
            messages
                .push(json!({"role": "tool", "tool_call_id": at.to_string(), "content": content}));
        }
        json!({"model": "m", "messages": messages}).to_string()
    }

    /// What is counted where the results of the first `cleared` calls are cleared, and the first
    /// `covered` messages are summarised.
    fn check(calls: &[(&str, &str)], cleared: usize, covered: usize, expect: usize) {
        let body = body(calls);
        let conversation = read(body.as_bytes()).unwrap();
        let rule = Rule {
            protect: Tokens::ZERO,
            minimum: Tokens::ZERO,
            user_turns: 0,
            exempt_tools: Vec::new(),
            keep_errors: false,
            placeholder: Placeholder::Fixed,
        };
        let mut fold = Fold::new(&conversation, Some(&rule));
        fold.clear_before(1 + 2 * cleared);
        let mut view = View::new(Kept { end: 1 }, &fold);
        if covered > 0 {
            view.cover(covered, "summary".into());
        }
        assert_eq!(
            rereads(&conversation, &view),
            expect,
            "{calls:?} {cleared} {covered}"
        );
    }

    const A: (&str, &str) = ("read", r#"{"path":"a","line":1}"#);
    const B: (&str, &str) = ("read", r#"{"path":"b","line":1}"#);

    #[test]
    fn a_call_like_one_whose_result_was_cleared_is_a_reread() {
        check(&[A, B, A], 1, 0, 1);
        check(&[A, B, A], 0, 3, 1);
        let spelt = ("read", r#"{ "line": 1, "path": "a" }"#);
        check(&[A, B, spelt], 1, 0, 1);
        check(&[("read", ""), B, ("read", "")], 1, 0, 1);
        check(&[("read", "no json"), B, ("read", "no json")], 1, 0, 1);
    }

    #[test]
    fn one_whose_result_still_stands_is_none() {
        check(&[A, B, A], 0, 0, 0);
        check(&[B, A, A], 1, 0, 0);
        check(&[A, B, A, A], 1, 0, 0);
    }

    #[test]
    fn another_call_is_none() {
        check(&[A, B, ("read", r#"{"path":"c"}"#)], 2, 0, 0);
        check(&[A, B, ("list", A.1)], 2, 0, 0);
        // The same letters in another order.
        let turned = ("read", r#"{"line":"ba"}"#);
        check(&[("read", r#"{"line":"ab"}"#), B, turned], 2, 0, 0);
        let long = |end: char| format!("{{\"path\":\"{}{end}\"}}", "p".repeat(COMPARED));
        let (one, other) = (long('1'), long('2'));
        check(&[("read", &one), B, ("read", &other)], 1, 0, 0);
        check(&[("read", &one), B, ("read", &one)], 1, 0, 1);
        // Past the bound no meaning is compared, whichever of the two is longer.
        let spaced = format!("{}{}", A.1, " ".repeat(COMPARED));
        check(&[A, B, ("read", &spaced)], 1, 0, 0);
        check(&[("read", &spaced), B, A], 1, 0, 0);
    }

    #[test]
    fn a_call_counts_where_it_is_new_and_not_again() {
        check(&[A, B, A, B], 3, 0, 1);
        check(&[A, B, A, ("list", "{}")], 3, 0, 0);
    }

    #[test]
    fn of_a_message_with_very_many_calls_only_some_are_asked_about() {
        let many = CALLS + 4;
        let calls: Vec<_> = (0..many)
            .map(|at| {
                let function = json!({"name": "read", "arguments": format!("{{\"at\":{at}}}")});
                json!({"id": at.to_string(), "type": "function", "function": function})
            })
            .collect();
        let asks = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let results = (0..many).map(|at| {
            json!({"role": "tool", "tool_call_id": at.to_string(), "content": "x".repeat(1_000)})
        });
        let mut messages = vec![json!({"role": "user", "content": "go"}), asks.clone()];
        messages.extend(results.clone());
        messages.push(asks);
        messages.extend(results);
        let body = json!({"model": "m", "messages": messages}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let mut view = View::new(Kept { end: 1 }, &Fold::new(&conversation, None));
        view.cover(2 + many, "summary".into());
        assert_eq!(rereads(&conversation, &view), CALLS);
    }
}
