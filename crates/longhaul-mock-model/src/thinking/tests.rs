//! Tests of the checker: accepted and refused thinking.

use super::*;

/// A conversation of two answered steps and a result, each step signed by the model.
fn signed(model: &str) -> Value {
    let mut body = json!({"model": model, "messages": [{"role": "user", "content": "go"}]});
    for step in 2..5 {
        let thinking = ThinkingRules::Bound.sign(&chat(&body), step).unwrap();
        let id = format!("c{step}");
        let call =
            json!([{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let answer = json!({"role": "assistant", "content": null, "tool_calls": call,
            "reasoning_details": thinking});
        let result = json!({"role": "tool", "tool_call_id": id, "content": "a result"});
        body["messages"].as_array_mut().unwrap().extend([answer, result]);
    }
    body
}

fn chat(body: &Value) -> ChatBody {
    ChatBody::parse(body.to_string().as_bytes()).unwrap()
}

/// Returns the rule that a changed conversation breaks.
fn broken(rules: ThinkingRules, change: impl FnOnce(&mut Value)) -> Option<&'static str> {
    let mut body = signed("claude-opus-5-5");
    change(&mut body);
    rules.judge(&chat(&body)).map(|(rule, _)| rule)
}

fn bare(message: &mut Value) {
    message.as_object_mut().unwrap().remove("reasoning_details");
}

#[test]
fn signed_thinking_is_accepted_despite_marks_and_key_order() {
    assert_eq!(broken(ThinkingRules::Bound, |_| ()), None);
    let marked = |body: &mut Value| {
        body["messages"][0] = json!({"content": "go", "role": "user"});
        body["messages"][2]["cache_control"] = json!({"type": "ephemeral"});
        body["max_tokens"] = json!(10);
    };
    assert_eq!(broken(ThinkingRules::Bound, marked), None);
    let respelt = |body: &mut Value| {
        body["messages"][2]["content"] = json!([{"type": "text", "text": "a result"}]);
    };
    assert_eq!(broken(ThinkingRules::Bound, respelt), None);
}

#[test]
fn a_client_may_ask_for_stale_thinking_to_be_dropped() {
    let dropped = |body: &mut Value| {
        body["messages"][2]["content"] = json!("[cleared]");
        body["thinking"] = json!({"type": "adaptive",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
    };
    assert_eq!(broken(ThinkingRules::Bound, dropped), None);
}

#[test]
fn an_edit_invalidates_later_thinking_until_it_is_removed() {
    let edit = |body: &mut Value| body["messages"][2]["content"] = json!("[cleared]");
    assert_eq!(broken(ThinkingRules::Bound, edit), Some(STALE_THINKING));
    assert_eq!(broken(ThinkingRules::Unenforced, edit), None);
    let removed = |body: &mut Value| {
        edit(body);
        bare(&mut body["messages"][3]);
        bare(&mut body["messages"][5]);
    };
    assert_eq!(broken(ThinkingRules::Bound, removed), None);
}

#[test]
fn kept_thinking_blocks_must_be_contiguous() {
    let without = |gone: &'static [usize]| {
        move |body: &mut Value| gone.iter().for_each(|at| bare(&mut body["messages"][*at]))
    };
    for (gone, expect) in [
        (&[1][..], None),
        (&[5], None),
        (&[1, 3], None),
        (&[1, 3, 5], None),
        (&[3], Some(STALE_THINKING)),
    ] {
        assert_eq!(broken(ThinkingRules::Bound, without(gone)), expect, "{gone:?}");
    }
}

#[test]
fn a_redacted_block_is_bound_and_part_of_the_chain() {
    let body = signed("claude-opus-5-5");
    let last = &body["messages"][5]["reasoning_details"][0];
    assert!(last.get("data").is_some(), "{last}");
    let edit = |body: &mut Value| {
        body["messages"][4]["content"] = json!("[cleared]");
    };
    assert_eq!(broken(ThinkingRules::Bound, edit), Some(STALE_THINKING));
    let gap = |body: &mut Value| bare(&mut body["messages"][3]);
    assert_eq!(broken(ThinkingRules::Bound, gap), Some(STALE_THINKING));
    let forge = |body: &mut Value| {
        body["messages"][5]["reasoning_details"][0]["data"] = json!("another");
    };
    assert_eq!(broken(ThinkingRules::Bound, forge), Some(FORGED_THINKING));
}

#[test]
fn a_changed_block_is_forged_but_another_models_is_dropped() {
    let forge = |body: &mut Value| {
        body["messages"][1]["reasoning_details"][0]["text"] = json!("another thought");
    };
    assert_eq!(broken(ThinkingRules::Bound, forge), Some(FORGED_THINKING));
    let switch = |body: &mut Value| {
        body["messages"][2]["content"] = json!("[cleared]");
        body["model"] = json!("claude-fable-5-2");
    };
    assert_eq!(broken(ThinkingRules::Bound, switch), None);
}

#[test]
fn manual_thinking_must_start_the_open_turn() {
    let edit = |body: &mut Value| body["messages"][2]["content"] = json!("[cleared]");
    assert_eq!(broken(ThinkingRules::Manual, edit), None);
    let start = |body: &mut Value| bare(&mut body["messages"][1]);
    assert_eq!(broken(ThinkingRules::Manual, start), Some(THINKING_LEFT_OUT));
    let finished = |body: &mut Value| {
        start(body);
        let next = json!({"role": "user", "content": "next"});
        body["messages"].as_array_mut().unwrap().push(next);
    };
    assert_eq!(broken(ThinkingRules::Manual, finished), None);
}
