//! JSON that longhaul writes into a request: user messages, text blocks and replacement contents.

pub(in crate::dialect) use crate::dialect::chat_completions::writer::{
    content_in_shape, user_message,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::messages::read;

    /// Checks the content of a result in place of `content`.
    fn check(content: &str, expect: Option<&str>) {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":[{{"tool_use_id":"a","type":"tool_result","is_error":true,{content}"cache_control":{{"type":"ephemeral"}}}}]}}]}}"#
        );
        let conversation = read(body.as_bytes()).unwrap();
        let message = &conversation.messages()[0];
        let after = content_in_shape(&conversation, message, "say \"x\"");
        assert_eq!(after.as_deref(), expect, "{content}");
    }

    #[test]
    fn replacement_keeps_the_result_shape_and_its_last_cache_mark() {
        check(r#""content":"12 files","#, Some(r#""say \"x\"""#));
        check("", None);
        check(
            r#""content":[{"type":"image","source":{"type":"base64","data":"x"}},{"type":"text","text":"a"}],"#,
            Some(r#"[{"type":"text","text":"say \"x\""}]"#),
        );
        check(
            r#""content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}],"#,
            Some(
                r#"[{"type":"text","text":"say \"x\"","cache_control":{"type":"ephemeral","ttl":"1h"}}]"#,
            ),
        );
    }
}
