//! Rereads: tool calls that repeat an earlier call whose result was cleared or replaced.

use std::cell::OnceCell;

use serde_json::Value;

use crate::conversation::{Conversation, Role, ToolCall};
use crate::json::scanner::Literal;
use crate::planning::view::ForwardedView;
use crate::text::wording;

/// Maximum bytes of arguments to compare as JSON; longer ones are compared byte by byte. A call
/// that reads something again usually has short arguments.
const MAX_PARSED_BYTES: usize = 1_000;

/// Total bytes of earlier arguments to parse before the search stops.
const PARSE_BUDGET_BYTES: usize = 1 << 20;

/// Maximum newest calls to check; each is compared with all earlier calls.
const MAX_CALLS: usize = 16;

/// Returns the messages of results that are cleared or replaced in `view`, and that the newest calls ask for
/// again. Such a call has the same tool and arguments. Each adds its message once.
///
/// If several earlier calls are equal, only the latest counts: if its result is still visible, the
/// agent had not lost anything. Only calls of the model's last message are checked, so that a call
/// counts once and not again in every request that repeats it.
pub fn reread_results(conversation: &Conversation<'_>, view: &ForwardedView) -> Vec<usize> {
    if !view.is_pruned() && !view.is_condensed() {
        return Vec::new();
    }
    let messages = conversation.messages();
    let Some(last) = messages.iter().rposition(|it| it.role == Role::Assistant) else {
        return Vec::new();
    };
    let calls = conversation.message(last).map(|last| conversation.calls(last));
    let calls = calls.unwrap_or_default().iter().take(MAX_CALLS);
    let calls = calls.map(|call| CallSignature::new(conversation, call));
    let mut unmatched: Vec<_> = calls.filter(|call| !call.name.is_empty()).collect();
    let batches = conversation.batches().iter().rev();
    let results = batches
        .filter(|batch| batch.results.end <= last)
        .flat_map(|batch| batch.results.clone().rev().map(move |at| (batch, at)));
    let (mut rereads, mut parsed) = (Vec::new(), 0);
    for (batch, at) in results {
        if unmatched.is_empty() || parsed >= PARSE_BUDGET_BYTES {
            break;
        }
        if let Some(earlier) = conversation.call_for_result(batch, at) {
            let earlier = CallSignature::new(conversation, earlier);
            let before = unmatched.len();
            unmatched.retain(|call| !call.matches(&earlier));
            if view.hides_result(at) {
                rereads.extend(std::iter::repeat_n(at, before - unmatched.len()));
            }
            parsed += earlier.parsed_arguments.get().map_or(0, |_| earlier.arguments.len());
        }
    }
    rereads
}

/// The tool name and raw arguments of a call. Byte sum and parsed arguments are computed on first
/// use.
struct CallSignature<'a> {
    name: &'a str,
    arguments: &'a str,
    literal: Option<Literal>,
    body: &'a str,
    byte_sum: OnceCell<u32>,
    parsed_arguments: OnceCell<Option<Value>>,
}

impl<'a> CallSignature<'a> {
    fn new(conversation: &Conversation<'a>, call: &ToolCall) -> Self {
        let body = conversation.body();
        Self {
            name: call.name.map_or("", |name| name.raw(body)),
            arguments: call.arguments.map_or("", |arguments| arguments.raw(body)),
            literal: call.arguments,
            body,
            byte_sum: OnceCell::new(),
            parsed_arguments: OnceCell::new(),
        }
    }

    fn matches(&self, other: &Self) -> bool {
        if self.name != other.name {
            return false;
        }
        if self.arguments == other.arguments {
            return true;
        }
        let short = |call: &Self| call.arguments.len() <= MAX_PARSED_BYTES;
        short(self)
            && short(other)
            && self.byte_sum() == other.byte_sum()
            && self.parsed_arguments().is_some_and(|own| other.parsed_arguments() == Some(own))
    }

    /// Returns the sum of all bytes except spaces. The sum differs for almost all arguments with a
    /// different meaning, and costs far less than parsing.
    fn byte_sum(&self) -> u32 {
        let counted = |byte: u8| u32::from(byte) * u32::from(byte != b' ');
        let sum = || self.arguments.bytes().map(counted).sum();
        *self.byte_sum.get_or_init(sum)
    }

    /// Returns the parsed arguments, whose comparison ignores whitespace and key order.
    fn parsed_arguments(&self) -> Option<&Value> {
        let read = || serde_json::from_str(&self.literal?.decode(self.body)).ok();
        self.parsed_arguments.get_or_init(read).as_ref()
    }
}

/// Counts the calls of the model's last message whose arguments contain the note of a clip, while `view` clips
/// earlier calls. A call counts in one request, and not again in every request that repeats the call.
pub fn count_imitated_clips(conversation: &Conversation<'_>, view: &ForwardedView) -> usize {
    let mut messages = conversation.messages().iter().rev();
    let last = messages.find(|message| message.role == Role::Assistant);
    let Some(last) = last.filter(|_| view.clips_calls()) else {
        return 0;
    };
    let calls = conversation.calls(last).iter();
    let arguments = calls.filter_map(|call| Some(call.arguments?.raw(conversation.body())));
    arguments.filter(|it| wording::holds_clip_note(it)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use crate::policy::cut_point::PinnedHead;
    use crate::pruning::placeholder::Placeholder;
    use crate::pruning::rule::{PruneRule, PruneState};
    use crate::units::tokens::Tokens;
    use serde_json::json;

    /// Returns a body with these calls, each with a result of 1,000 characters.
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

    /// Checks the count when the results of the first `cleared` calls are cleared and the first
    /// `covered` messages are replaced.
    fn check(calls: &[(&str, &str)], cleared: usize, covered: usize, expect: usize) {
        let body = body(calls);
        let conversation = read(body.as_bytes()).unwrap();
        let rule = PruneRule {
            protect: Tokens::ZERO,
            minimum: Tokens::ZERO,
            user_turns: 0,
            exempt_tools: Vec::new(),
            keep_errors: false,
            kept_words: None,
            clips_calls: false,
            placeholder: Placeholder::Fixed,
            recall: None,
        };
        let mut prune_state = PruneState::new(&conversation, Some(&rule));
        prune_state.clear_before(1 + 2 * cleared);
        let mut view = ForwardedView::new(PinnedHead { end: 1 }, &prune_state);
        if covered > 0 {
            view.set_replacement(covered, "summary".into());
        }
        let found = reread_results(&conversation, &view);
        assert_eq!(found.len(), expect, "{calls:?} {cleared} {covered}");
        assert!(found.iter().all(|at| view.hides_result(*at)), "{found:?}");
    }

    const A: (&str, &str) = ("read", r#"{"path":"a","line":1}"#);
    const B: (&str, &str) = ("read", r#"{"path":"b","line":1}"#);

    #[test]
    fn a_repeated_call_whose_result_was_cleared_is_a_reread() {
        check(&[A, B, A], 1, 0, 1);
        check(&[A, B, A], 0, 3, 1);
        let spelt = ("read", r#"{ "line": 1, "path": "a" }"#);
        check(&[A, B, spelt], 1, 0, 1);
        check(&[("read", ""), B, ("read", "")], 1, 0, 1);
        check(&[("read", "no json"), B, ("read", "no json")], 1, 0, 1);
    }

    #[test]
    fn a_repeated_call_whose_latest_result_is_visible_is_no_reread() {
        check(&[A, B, A], 0, 0, 0);
        check(&[B, A, A], 1, 0, 0);
        check(&[A, B, A, A], 1, 0, 0);
    }

    #[test]
    fn a_call_with_another_tool_or_other_arguments_is_no_reread() {
        check(&[A, B, ("read", r#"{"path":"c"}"#)], 2, 0, 0);
        check(&[A, B, ("list", A.1)], 2, 0, 0);
        // The byte sum is equal: same letters in a different order.
        let turned = ("read", r#"{"line":"ba"}"#);
        check(&[("read", r#"{"line":"ab"}"#), B, turned], 2, 0, 0);
        let long = |end: char| format!("{{\"path\":\"{}{end}\"}}", "p".repeat(MAX_PARSED_BYTES));
        let (one, other) = (long('1'), long('2'));
        check(&[("read", &one), B, ("read", &other)], 1, 0, 0);
        check(&[("read", &one), B, ("read", &one)], 1, 0, 1);
        // Beyond the limit, meaning is not compared, whichever of the two is longer.
        let spaced = format!("{}{}", A.1, " ".repeat(MAX_PARSED_BYTES));
        check(&[A, B, ("read", &spaced)], 1, 0, 0);
        check(&[("read", &spaced), B, A], 1, 0, 0);
    }

    #[test]
    fn search_for_equal_arguments_stops_at_the_parse_budget() {
        // The byte sums are equal, so only parsing can distinguish the arguments.
        let spelt = |at: usize| {
            let (before, behind) = ("a".repeat(at), "a".repeat(MAX_PARSED_BYTES - 20 - at));
            format!(r#"{{"path":"{before}b{behind}"}}"#)
        };
        let newest = spelt(0);
        let oldest = newest.replace(':', ": ");
        for (others, expect) in
            [(PARSE_BUDGET_BYTES / MAX_PARSED_BYTES, 1), (PARSE_BUDGET_BYTES / newest.len() + 1, 0)]
        {
            let others: Vec<_> = (0..others).map(|at| spelt(1 + at % 900)).collect();
            let mut calls = vec![("read", oldest.as_str())];
            calls.extend(others.iter().map(|other| ("read", other.as_str())));
            calls.push(("read", &newest));
            check(&calls, calls.len() - 1, 0, expect);
        }
    }

    #[test]
    fn only_calls_of_the_newest_assistant_message_count() {
        check(&[A, B, A, B], 3, 0, 1);
        check(&[A, B, A, ("list", "{}")], 3, 0, 0);
    }

    #[test]
    fn at_most_max_calls_of_one_message_are_checked() {
        let many = MAX_CALLS + 4;
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
        let mut view =
            ForwardedView::new(PinnedHead { end: 1 }, &PruneState::new(&conversation, None));
        view.set_replacement(2 + many, "summary".into());
        assert_eq!(reread_results(&conversation, &view).len(), MAX_CALLS);
    }
}

#[cfg(test)]
mod imitations_tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::planning::splice::Splice;
    use crate::policy::cut_point::PinnedHead;
    use crate::pruning::rule::PruneState;
    use crate::pruning::rule::tests::rule;
    use serde_json::{Value, json};

    #[test]
    fn a_call_with_the_note_of_a_clip_counts_after_a_clip() {
        let step = |input: &Value| {
            let call = json!({"type": "tool_use", "id": "c", "name": "write", "input": input});
            let result = json!({"type": "tool_result", "tool_use_id": "c", "content": "ok"});
            [
                json!({"role": "assistant", "content": [call]}),
                json!({"role": "user", "content": [result]}),
            ]
        };
        let body = |inputs: &[Value]| {
            let steps = inputs.iter().flat_map(step);
            let messages: Vec<Value> = steps.collect();
            json!({"system": "s", "messages": messages}).to_string()
        };
        let count = |body: &str, before: usize| {
            let conversation = Dialect::Messages.read(body.as_bytes()).unwrap();
            let mut state = PruneState::new(&conversation, Some(&rule()));
            state.ingest_until(conversation.messages().len());
            state.clear_before(before);
            let view = ForwardedView::new(PinnedHead { end: 0 }, &state);
            let cuts = view.replacements(&conversation).unwrap_or_default();
            let sent = Splice::new(&conversation, &cuts).map(|it| it.apply());
            (count_imitated_clips(&conversation, &view), sent)
        };
        let long = json!({"content": "x".repeat(5_000)});
        let (_, sent) = count(&body(&[long.clone(), json!({})]), 2);
        let sent: Value = serde_json::from_slice(&sent.unwrap()).unwrap();
        let clipped = sent["messages"][0]["content"][0]["input"].clone();
        assert!(clipped["content"].as_str().unwrap().len() < 2_000);
        for (newest, before, expect) in [(&clipped, 2, 1), (&clipped, 0, 0), (&long, 2, 0)] {
            let body = body(&[long.clone(), newest.clone()]);
            assert_eq!(count(&body, before).0, expect, "{before}");
            let escaped = body.replace('…', r"\u2026");
            assert_eq!(count(&escaped, before).0, expect, "{before}, escaped");
        }
    }
}
