//! Imitations: new tool calls that repeat the note of a clipped call, so that contents are missing.

use crate::conversation::{Conversation, Role};
use crate::planning::view::ForwardedView;
use crate::text::wording;

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
