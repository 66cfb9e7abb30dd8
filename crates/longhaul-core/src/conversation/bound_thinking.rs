//! Removal of thinking that its provider binds to the bytes before it.

use crate::conversation::Conversation;
use crate::json::span::Span;

impl Conversation<'_> {
    /// Whether any message has bound thinking.
    pub fn has_bound_thinking(&self) -> bool {
        self.has_bound_thinking
    }

    /// Returns the spans to delete to remove the bound thinking of the message at `at`, including the
    /// commas left over. Empty if there is none, or if that would delete the last message.
    pub(crate) fn bound_thinking_spans(&self, at: usize) -> Vec<Span> {
        let Some(message) = self.messages().get(at) else {
            return Vec::new();
        };
        let found = self.dialect.bound_thinking(self.body, message);
        if at + 1 == self.messages().len() && found.first() == Some(&message.span) {
            return Vec::new();
        }
        with_commas(self.body, &found)
    }
}

/// Extends spans of members or elements by their commas; joins neighbours.
fn with_commas(body: &str, spans: &[Span]) -> Vec<Span> {
    let is_comma = |from, to| body.get(from..to).is_some_and(|it| it.trim_ascii() == ",");
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for &span in spans {
        match joined.last_mut() {
            Some(last) if is_comma(last.end(), span.start()) => *last = last.extended_to(span),
            _ => joined.push(span),
        }
    }
    let extended = joined.iter().filter_map(|span| with_comma(body, *span));
    extended.collect()
}

/// Extends a span by the comma after it, or else by the comma before it.
fn with_comma(body: &str, span: Span) -> Option<Span> {
    let (before, after) = (body.get(..span.start())?, body.get(span.end()..)?);
    if let Some(rest) = after.trim_ascii_start().strip_prefix(',') {
        return Span::new(span.start(), body.len() - rest.trim_ascii_start().len());
    }
    let before = before.trim_ascii_end();
    let start = before.strip_suffix(',').map_or_else(|| span.start(), str::len);
    Span::new(start, span.end())
}

#[cfg(test)]
mod tests {
    use crate::dialect::chat_completions::read;

    /// Removes the thinking from the second of three messages.
    fn check(second: &str, expect: &str) {
        let body = |second: &str| {
            let second = if second.is_empty() { String::new() } else { format!("{second},") };
            format!(
                r#"{{"messages":[{{"role":"user","content":"u"}},{second}{{"role":"user","content":"v"}}]}}"#
            )
        };
        let text = body(second);
        let conversation = read(text.as_bytes()).unwrap();
        let mut left = text.clone();
        for span in conversation.bound_thinking_spans(1).iter().rev() {
            left.replace_range(span.start()..span.end(), "");
        }
        assert_eq!(left, body(expect));
    }

    #[test]
    fn removing_thinking_leaves_no_stray_comma() {
        let details = r#""reasoning_details" : [{"signature":"s"}]"#;
        let blocks = r#""thinking_blocks":[{"signature":"s"}]"#;
        let left = r#"{"role":"assistant","content":"c"}"#;
        check(&format!(r#"{{"role":"assistant",{details},"content":"c"}}"#), left);
        check(&format!(r#"{{"role":"assistant","content":"c",{details}}}"#), left);
        check(&format!(r#"{{"role":"assistant","content":"c", {details} , {blocks}}}"#), left);
        check(&format!(r#"{{{blocks}, "role":"assistant",{details},"content":"c"}}"#), left);
        let part = r#"{"type":"thinking","signature":"s"}"#;
        check(
            &format!(
                r#"{{"role":"assistant","content":[{part},{part},{{"type":"text","text":"c"}},{part}]}}"#
            ),
            r#"{"role":"assistant","content":[{"type":"text","text":"c"}]}"#,
        );
    }

    #[test]
    fn removes_a_message_of_thinking_alone_unless_it_is_last() {
        let alone = r#"{"role":"assistant","thinking_blocks":[{"signature":"s"}]}"#;
        check(alone, "");
        let body = format!(r#"{{"messages":[{{"role":"user","content":"u"}},{alone}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        assert!(conversation.bound_thinking_spans(1).is_empty());
    }
}
