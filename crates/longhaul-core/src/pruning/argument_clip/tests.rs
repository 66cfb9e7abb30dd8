//! Unit tests of clipped arguments, in each dialect.

use super::*;
use crate::dialect::Dialect;
use serde_json::{Value, json};

fn long() -> String {
    format!("first \"line\"\n{}\nlast ☃ line", "x\\y\n".repeat(1_000))
}

/// A body whose second message makes one call with these arguments.
fn body(dialect: Dialect, arguments: &Value) -> String {
    let ask = json!({"role": "user", "content": "go"});
    let text = match arguments {
        Value::String(text) => text.clone(),
        other @ (Value::Array(_)
        | Value::Bool(_)
        | Value::Null
        | Value::Number(_)
        | Value::Object(_)) => other.to_string(),
    };
    match dialect {
        Dialect::ChatCompletions => {
            let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": text}});
            let calls = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            json!({"messages": [ask, calls]})
        }
        Dialect::Messages => {
            let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": arguments});
            json!({"system": "s", "messages": [ask, {"role": "assistant", "content": [call]}]})
        }
        Dialect::Responses => {
            let kind = if arguments.is_string() {
                json!({"type": "custom_tool_call", "call_id": "a", "name": "f", "input": text})
            } else {
                json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": text})
            };
            json!({"input": [ask, kind]})
        }
    }
    .to_string()
}

/// Returns the arguments after the clip, and checks the tokens that it saves.
fn clipped(dialect: Dialect, body: &str) -> Option<Value> {
    let conversation = dialect.read(body.as_bytes()).unwrap();
    let message = conversation.message(1).unwrap();
    let call = &conversation.calls(message)[0];
    let json = clipped_json(&conversation, call);
    let saved = saved_tokens(&conversation, message, 0);
    let json = json.as_deref().or_else(|| {
        assert_eq!(saved, Tokens::ZERO);
        None
    })?;
    let span = call.arguments.unwrap().span();
    assert!(json.len() < span.len());
    let after = [&body[..span.start()], json, &body[span.end()..]].concat();
    let sizes = [body, &after].map(|body| dialect.read(body.as_bytes()).unwrap().tokens());
    let rest = sizes[0] - sizes[1] - saved;
    assert!(saved > Tokens::ZERO && saved <= sizes[0] - sizes[1] && rest <= Tokens::new(1));
    let after: Value = serde_json::from_str(json).unwrap();
    Some(match after {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other @ (Value::Array(_)
        | Value::Bool(_)
        | Value::Null
        | Value::Number(_)
        | Value::Object(_)) => other,
    })
}

#[test]
fn contents_lose_their_middle_and_other_arguments_stay_whole() {
    let (long, short) = (long(), "x".repeat(2_000));
    let arguments = json!({
        "prompt": long, "file_path": "a/b.rs", "content": long, "diff": short, "n": 1.50,
        "edits": [{"old_string": long, "new_string": "y"}], "cmd": ["bash", "-lc", long],
    });
    let note = "characters left out …]";
    for dialect in Dialect::ALL {
        let mut after = clipped(dialect, &body(dialect, &arguments)).unwrap();
        for at in ["/content", "/edits/0/old_string", "/cmd/2"] {
            let text = after.pointer_mut(at).unwrap();
            let clip = text.as_str().unwrap();
            assert!(clip.starts_with("first \"line\"\nx\\y\n") && clip.ends_with("\nlast ☃ line"));
            assert!(clip.contains(note) && clip.chars().count() < 1_260, "{clip}");
            *text = long.clone().into();
        }
        assert_eq!(after, arguments);
    }
}

#[test]
fn text_in_place_of_json_is_clipped_and_json_that_was_cut_off_stays() {
    let patch = format!("*** Begin Patch\n{}*** End Patch", "+line\n".repeat(500));
    for dialect in [Dialect::ChatCompletions, Dialect::Responses] {
        let after = clipped(dialect, &body(dialect, &patch.clone().into())).unwrap();
        let after = after.as_str().unwrap();
        assert!(after.starts_with("*** Begin Patch\n") && after.ends_with("*** End Patch"));
        let whole = json!({"content": long()}).to_string();
        for odd in [&whole[..whole.len() - 3], &format!("[{whole}"), "null", &format!("{whole} x")]
        {
            assert_eq!(clipped(dialect, &body(dialect, &odd.into())), None);
        }
    }
}

#[test]
fn arguments_without_overlong_contents_stay() {
    let deep = (0..MAX_DEPTH).fold(json!({"content": long()}), |inner, _| json!([inner]));
    for arguments in [json!({}), json!({"prompt": long()}), json!([long()]), deep] {
        for dialect in Dialect::ALL {
            assert_eq!(clipped(dialect, &body(dialect, &arguments)), None, "{arguments}");
        }
    }
}
