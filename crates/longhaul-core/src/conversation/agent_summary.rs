//! Summaries that an agent wrote of its own conversation, in place of the history.

use crate::conversation::{Conversation, Message};
use crate::json::scanner::Literal;
use std::ops::Range;

/// Beginnings of the user messages that hold such a summary, from Claude Code, Codex and pi, a line each.
const BEGINNINGS: &str = include_str!("agent_summaries.txt");

impl Conversation<'_> {
    /// Whether a message is the agent's own summary of the history before it.
    pub(crate) fn is_agent_summary(&self, message: &Message) -> bool {
        // The beginnings need no escapes, so the text is not decoded.
        let begins = |text: Literal| {
            let raw = text.raw(self.body());
            BEGINNINGS.lines().any(|words| raw.starts_with(words))
        };
        message.role.is_user() && self.texts(message).next().is_some_and(begins)
    }

    pub(crate) fn newest_agent_summary(&self, range: Range<usize>) -> Option<usize> {
        let messages = self.messages().get(range.clone())?;
        let newest = messages.iter().rposition(|it| self.is_agent_summary(it));
        newest.map(|at| range.start + at)
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::Dialect;

    #[test]
    fn the_summary_of_an_agent_is_known_by_its_first_words() {
        let check = |content: &str, role: &str, expect: bool| {
            let body = format!(r#"{{"messages":[{{"role":"{role}","content":{content}}}]}}"#);
            for dialect in [Dialect::ChatCompletions, Dialect::Messages] {
                let conversation = dialect.read(body.as_bytes()).unwrap();
                let message = conversation.message(0).unwrap();
                assert_eq!(conversation.is_agent_summary(message), expect, "{content}");
            }
        };
        let claude = "This session is being continued from a previous conversation that ran out of context. The summary below covers it.";
        check(&format!(r#""{claude}""#), "user", true);
        let parts =
            format!(r#"[{{"type":"text","text":"{claude}"}},{{"type":"text","text":"x"}}]"#);
        check(&parts, "user", true);
        check(&format!(r#""{claude}""#), "assistant", false);
        check(&format!(r#""Why? {claude}""#), "user", false);
        check(r#""This session is new""#, "user", false);
    }
}
