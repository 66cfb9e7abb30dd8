//! Conversation titles for the dashboard: the request to a model, and the parsing of its answer.
//! Titles never enter a conversation.

use crate::conversation::{Conversation, Message, Role};
use crate::summary::request::RequestTemplate;
use crate::summary::strip_reasoning;
use crate::text::delimiters::delimited;
use crate::text::wording;
use crate::units::tokens::Tokens;

const PROMPT: &str = include_str!("prompts/title.md");

/// Maximum characters of a title: about 20 tokens.
pub const MAX_TITLE_CHARS: usize = 80;
/// Maximum characters of the text below the title: about 100 tokens.
pub const MAX_BODY_CHARS: usize = 400;
/// Maximum characters shown of each message.
const MAX_MESSAGE_CHARS: usize = 1_000;
/// Output limit of the call. Title and text take about 120 tokens; the rest is for models that
/// reason first.
const OUTPUT_LIMIT: Tokens = Tokens::new(1_000);

/// A title and the text below it, each one line of plain text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Title {
    /// The title, never empty: at most [`MAX_TITLE_CHARS`] characters, plus an ellipsis if cut.
    pub title: String,
    /// The text: at most [`MAX_BODY_CHARS`] characters, plus an ellipsis if cut.
    pub body: String,
}

/// Returns the body of a request for a title of `conversation`. The request shows the beginnings of
/// the first and last user message and of the model's last text. Returns `None` without a user
/// message.
pub fn request_body(
    conversation: &Conversation<'_>,
    frame: &RequestTemplate<'_>,
) -> Option<String> {
    let messages = conversation.messages();
    let users = || messages.iter().filter(|message| message.role.is_user());
    let said =
        |message: &&Message| message.role == Role::Assistant && message.text_tokens > Tokens::ZERO;
    let (first, last) = (users().next()?, users().next_back()?);
    let mut parts = vec![format!("[User]: {}", excerpt(conversation, first))];
    if !std::ptr::eq(first, last) {
        parts.push(format!("[User, last]: {}", excerpt(conversation, last)));
    }
    if let Some(answer) = messages.iter().rev().find(said) {
        parts.push(format!(
            "[Assistant, last]: {}",
            excerpt(conversation, answer)
        ));
    }
    let text = parts.join("\n");
    Some(frame.render(
        PROMPT.trim(),
        &delimited("conversation", &text),
        OUTPUT_LIMIT,
    ))
}

/// Parses a model's answer. Returns `None` if the answer contains no words.
pub fn parse(answer: &str) -> Option<Title> {
    let answer = strip_reasoning(answer);
    let mut lines = answer
        .lines()
        .map(strip_markup)
        .filter(|line| !line.is_empty());
    let title = wording::one_line(&lines.next()?, MAX_TITLE_CHARS);
    let rest: Vec<String> = lines.collect();
    Some(Title {
        title,
        body: wording::one_line(&rest.join(" "), MAX_BODY_CHARS),
    })
}

fn excerpt(conversation: &Conversation<'_>, message: &Message) -> String {
    wording::one_line(&conversation.text(message), MAX_MESSAGE_CHARS)
}

/// Strips Markdown markup from both ends of a line.
fn strip_markup(line: &str) -> String {
    let marks = |letter: char| letter.is_whitespace() || "#*_`\"'>-".contains(letter);
    line.trim_matches(marks).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read as conversation_of;
    use serde_json::{Value, json};

    #[test]
    fn title_request_contains_a_short_excerpt_without_results() {
        let long = "word ".repeat(2_000);
        let call =
            json!({"id": "1", "type": "function", "function": {"name": "read", "arguments": "{}"}});
        let body = json!({"model": "m", "tools": [], "max_tokens": 9_999, "messages": [
            {"role": "system", "content": "SYSTEM"},
            {"role": "user", "content": format!("FIRST {long}")},
            {"role": "assistant", "content": "SAID"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "RESULT"},
            {"role": "user", "content": "LAST"},
        ]});
        let body = body.to_string();
        let conversation = conversation_of(body.as_bytes()).unwrap();
        let asked = request_body(
            &conversation,
            &RequestTemplate::from_request(&conversation, Some("small")),
        )
        .unwrap();
        assert!(asked.len() < 3_000, "{}", asked.len());
        for (word, there) in [
            ("FIRST", true),
            ("LAST", true),
            ("SAID", true),
            ("RESULT", false),
            ("SYSTEM", false),
        ] {
            assert_eq!(asked.contains(word), there, "{word}");
        }
        let asked: Value = serde_json::from_str(&asked).unwrap();
        assert_eq!(
            (&asked["model"], &asked["max_tokens"]),
            (&json!("small"), &json!(1_000))
        );
        let silent = conversation_of(br#"{"messages":[{"role":"system","content":"x"}]}"#).unwrap();
        assert_eq!(
            request_body(&silent, &RequestTemplate::from_request(&silent, None)),
            None
        );
    }

    #[test]
    fn title_reply_is_parsed_as_two_lines_of_plain_text() {
        let check = |answer: &str, expect: Option<(&str, &str)>| {
            let found = parse(answer);
            let found = found
                .as_ref()
                .map(|of| (of.title.as_str(), of.body.as_str()));
            assert_eq!(found, expect, "{answer:?}");
        };
        check(
            "Fix the build\nThe linker fails.",
            Some(("Fix the build", "The linker fails.")),
        );
        check(
            "\n# **Fix** the build\n\n- one\n- two\n",
            Some(("Fix** the build", "one two")),
        );
        check(
            "<think>\nThe user greets.\n</think>\n\nFix the build\nThe linker fails.",
            Some(("Fix the build", "The linker fails.")),
        );
        check("<think>\nThe user greets, so", None);
        check("\"Fix the build\"", Some(("Fix the build", "")));
        for nothing in ["", " \n", "---", "```\n```"] {
            check(nothing, None);
        }
        let long = parse(&format!("{0}\n{0}", "word ".repeat(900))).unwrap();
        let chars = |text: &str| text.chars().count();
        assert!(
            chars(&long.title) <= MAX_TITLE_CHARS + 1 && chars(&long.body) <= MAX_BODY_CHARS + 1
        );
    }
}
