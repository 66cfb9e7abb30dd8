//! Finds the message that replaces history in the forwarded request, by comparison alone.

use serde_json::Value;

use crate::client_logs::content_text;

/// Returns the text of the first user message that was forwarded but never sent, if there is one.
pub(super) fn injected_text(sent: &[u8], forwarded: &[u8]) -> Option<String> {
    let sent = messages(sent);
    messages(forwarded)
        .iter()
        .filter(|message| message.get("role").is_some_and(|role| role == "user"))
        .find(|message| !sent.contains(message))
        .and_then(|message| message.get("content").map(content_text))
}

fn messages(body: &[u8]) -> Vec<Value> {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let messages = body.and_then(|mut body| {
        let keys = ["messages", "input"];
        let key = keys.into_iter().find(|key| body.get(key).is_some())?;
        body.get_mut(key).map(Value::take)
    });
    match messages {
        Some(Value::Array(messages)) => messages,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(forwarded: &str, expect: Option<&str>) {
        let sent = br#"{"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]}"#;
        let found = injected_text(sent, forwarded.as_bytes());
        assert_eq!(found.as_deref(), expect, "{forwarded}");
    }

    #[test]
    fn finds_a_forwarded_user_message_that_the_client_did_not_send() {
        check(
            r#"{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "new"}]}"#,
            Some("new"),
        );
        check(
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]}]}"#,
            Some("x\ny"),
        );
    }

    #[test]
    fn a_cleared_result_is_no_injected_message() {
        check(
            r#"{"messages": [{"content": "a", "role": "user"}, {"role": "tool", "content": "[cleared]"}]}"#,
            None,
        );
        check("{}", None);
    }
}
