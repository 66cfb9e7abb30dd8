//! JSON that longhaul writes into a request: user messages, text parts and replacement contents.

use crate::conversation::{Content, Conversation, Message};
use crate::json::quote::quote;

pub(in crate::dialect) fn content_in_shape(
    conversation: &Conversation<'_>,
    message: &Message,
    text: &str,
) -> Option<String> {
    let text = quote(text);
    match message.content {
        Content::Absent => None,
        Content::Text(_) => Some(text),
        Content::Parts(_) => {
            let mut cache_marks =
                conversation.parts(message).iter().filter_map(|part| part.cache_mark);
            let mark = cache_marks.next_back().map(|mark| mark.slice(conversation.body()));
            Some(["[", &conversation.dialect().text_part(&text, mark), "]"].concat())
        }
    }
}

pub(in crate::dialect) fn user_message(content: &str) -> String {
    ["{\"role\":\"user\",\"content\":", content, "}"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    fn check(content: &str, expect: Option<&str>) {
        let body =
            format!(r#"{{"messages":[{{"role":"tool","tool_call_id":"1","content":{content}}}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        let message = &conversation.messages()[0];
        let content_after = content_in_shape(&conversation, message, "say \"x\"");
        assert_eq!(content_after.as_deref(), expect, "{content}");
    }

    #[test]
    fn replacement_keeps_a_string_and_turns_an_array_into_one_part() {
        check(r#""12 files""#, Some(r#""say \"x\"""#));
        let part = r#"[{"type":"text","text":"say \"x\""}]"#;
        check("[]", Some(part));
        check(r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#, Some(part));
    }

    #[test]
    fn replacement_keeps_the_last_cache_mark_of_an_array() {
        check(
            r#"[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b","cache_control":{"type": "ephemeral", "ttl":"1h"}},{"type":"text","text":"c"}]"#,
            Some(
                r#"[{"type":"text","text":"say \"x\"","cache_control":{"type": "ephemeral", "ttl":"1h"}}]"#,
            ),
        );
    }

    #[test]
    fn null_content_is_not_replaced() {
        check("null", None);
    }
}
