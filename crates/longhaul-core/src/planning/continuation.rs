//! Continuation message: asks the agent to continue after a compacted conversation.

use crate::dialect::Dialect;
use crate::json::quote::quote;
use crate::text::wording::CONTINUE_TEXT;

/// Appends a user message with the request to continue; copies everything else of `body`. Returns `None`
/// if the body is not a chat or has no messages.
pub fn append_continue_message(body: &[u8]) -> Option<Vec<u8>> {
    let conversation = Dialect::read_any(body).ok()?;
    let (end, _) = conversation.object_end(conversation.messages().len().checked_sub(1)?)?;
    let (before, after) = body.split_at_checked(end)?;
    let message = conversation.dialect().user_message(&quote(CONTINUE_TEXT));
    Some([before, b",", message.as_bytes(), after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expect: Option<&str>) {
        let found = append_continue_message(body.as_bytes());
        let found = found.map(|found| String::from_utf8(found).unwrap());
        assert_eq!(found.as_deref(), expect);
    }

    #[test]
    fn appends_a_user_message_and_changes_nothing_else() {
        check(
            r#"{"messages": [ {"role":"assistant","content":"a"} ] , "n":1}"#,
            Some(
                r#"{"messages": [ {"role":"assistant","content":"a"},{"role":"user","content":"Continue if you have next steps"} ] , "n":1}"#,
            ),
        );
    }

    #[test]
    fn appends_nothing_without_messages() {
        check(r#"{"messages":[]}"#, None);
        check("[]", None);
    }
}
