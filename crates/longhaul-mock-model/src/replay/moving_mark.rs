//! The cache mark of a Messages session, on the newest message of each request.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::SessionRecording;
use crate::request::{ChatBody, list, member};

const KEY: &str = r#""cache_control""#;
/// Maximum marks of a request at Anthropic.
const MAX_MARKS: usize = 4;
const EPHEMERAL: &str = r#"{"type":"ephemeral"}"#;

impl SessionRecording {
    /// Returns the session with the automatic cache mark in every request, in place of the marks in messages.
    ///
    /// An agent marks its newest messages, so the recorded marks are those of the last request alone. The
    /// marks of tools and system stay. A session of another API, or without room for a mark, stays as it is.
    #[must_use]
    pub fn with_moving_mark(self) -> Self {
        let body = self.body(self.messages.len());
        let Ok(chat) = ChatBody::parse_any(&body) else {
            return self;
        };
        let head = list(chat.field("tools")).iter().chain(list(chat.field("system")));
        let head = head.filter(|block| member(block, "cache_control").is_object());
        let is_automatic = !chat.field("cache_control").is_null();
        if !chat.is_messages() || is_automatic || head.count() >= MAX_MARKS {
            return self;
        }
        let start = self.messages.first().map_or(0, |first| first.start);
        let (head, messages) = self.text.split_at(start);
        let (messages, mark) = without_marks(&String::from_utf8_lossy(messages));
        let body = [head, messages.as_bytes(), &self.tail].concat();
        // Without a member, the body is a session as before.
        Self::parse(&body).map_or(self, |session| session.with_field("cache_control", &mark))
    }
}

/// Returns the messages without their marks, and the value of the last mark.
fn without_marks(messages: &str) -> (String, String) {
    let (mut kept, mut rest, mut mark) = (String::new(), messages, EPHEMERAL.to_owned());
    // Inside a string, a backslash stands before the quotes.
    while let Some((before, after)) = rest.split_once(KEY) {
        kept.push_str(before);
        let (key_end, value) = (before.trim_end(), after.trim_start().strip_prefix(':'));
        let read = value.filter(|_| key_end.ends_with([',', '{'])).and_then(|value| {
            let mut values = serde_json::Deserializer::from_str(value).into_iter::<IgnoredAny>();
            values.next()?.ok()?;
            value.split_at_checked(values.byte_offset())
        });
        let Some((value, behind)) = read else {
            kept.push_str(KEY);
            rest = after;
            continue;
        };
        if serde_json::from_str::<Value>(value).is_ok_and(|value| value.is_object()) {
            value.trim().clone_into(&mut mark);
        }
        kept.truncate(kept.trim_end().len());
        // One comma of the two beside the member goes with it.
        rest = if kept.ends_with(',') {
            kept.pop();
            behind
        } else {
            behind.trim_start().strip_prefix(',').map_or(behind, str::trim_start)
        };
    }
    (kept + rest, mark)
}
