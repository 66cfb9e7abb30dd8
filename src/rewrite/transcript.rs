//! History as a summariser reads it.

use super::arguments::Arguments;
use super::conversation::{Call, Conversation, Role};
use super::said::text_with_images;
use super::wording;

/// Results and values of arguments keep so many characters at each end: the middle of a long
/// result hardly ever decides what a summary says.
const END: usize = 500;

/// One message of the transcript; empty if it says nothing. Reasoning is left out.
pub fn entry(conversation: &Conversation<'_>, at: usize) -> String {
    let Some(message) = conversation.message(at) else {
        return String::new();
    };
    let text = text_with_images(conversation, message);
    let text = text.trim();
    let mut entry = String::new();
    match message.role {
        _ if text.is_empty() => {}
        Role::Assistant => entry.extend(["[Assistant]: ", text, "\n"]),
        Role::Function | Role::Tool => {
            entry.extend([
                "[Tool Result]: ",
                &wording::clip_chars(text, END, END),
                "\n",
            ]);
        }
        Role::User => entry.extend(["[User]: ", text, "\n"]),
        Role::Developer | Role::Other | Role::System => entry.extend(["[System]: ", text, "\n"]),
    }
    for call in conversation.calls(message) {
        push_call(&mut entry, conversation, call);
    }
    entry
}

/// `[Tool Call]: name(arg="value", …)`.
fn push_call(entry: &mut String, conversation: &Conversation<'_>, call: &Call) {
    let name = call
        .name
        .map(|name| name.decode(conversation.body()))
        .unwrap_or_default();
    entry.extend(["[Tool Call]: ", &name, "("]);
    let arguments = Arguments::of(conversation, call);
    let mut any = false;
    for (name, value) in arguments.pairs() {
        let comma = if any { ", " } else { "" };
        any = true;
        let value = format!("{:?}", wording::clip_chars(&value, END, END));
        entry.extend([comma, name, "=", &value]);
    }
    if let Some(raw) = call.arguments.filter(|_| !any) {
        let raw = raw.decode(conversation.body());
        if raw.trim() != "{}" {
            entry.push_str(&wording::clip_chars(raw.trim(), END, END));
        }
    }
    entry.push_str(")\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::chat_completions::read;

    fn check(message: &str, expect: &str) {
        let body = format!(r#"{{"messages":[{message}]}}"#);
        assert_eq!(entry(&read(body.as_bytes()).unwrap(), 0), expect);
    }

    #[test]
    fn each_role_has_its_label() {
        check(r#"{"role":"user","content":"hi"}"#, "[User]: hi\n");
        check(
            r#"{"role":"tool","tool_call_id":"a","content":"out"}"#,
            "[Tool Result]: out\n",
        );
        check(
            r#"{"role":"assistant","content":"yes","reasoning_content":"hidden"}"#,
            "[Assistant]: yes\n",
        );
        check(r#"{"role":"assistant","content":null}"#, "");
    }

    #[test]
    fn calls_show_their_arguments() {
        check(
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"a\":\"a\\\"b\",\"n\":3}"}}]}"#,
            "[Tool Call]: f(a=\"a\\\"b\", n=\"3\")\n",
        );
        check(
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"a","function":{"name":"f","arguments":"raw text"}}]}"#,
            "[Tool Call]: f(raw text)\n",
        );
    }

    #[test]
    fn long_results_keep_both_ends() {
        let long = format!("begin{}end", "x".repeat(5_000));
        let body =
            format!(r#"{{"messages":[{{"role":"tool","tool_call_id":"a","content":"{long}"}}]}}"#);
        let entry = entry(&read(body.as_bytes()).unwrap(), 0);
        assert!(
            entry.starts_with("[Tool Result]: begin")
                && entry.ends_with("end\n")
                && entry.len() < 1_100
        );
    }
}
