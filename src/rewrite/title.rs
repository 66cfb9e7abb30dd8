//! What a conversation is called where a person looks through many: asking a model, and taking its
//! answer. None of it ever enters a conversation.

use super::brief::Frame;
use super::conversation::{Conversation, Message, Role};
use super::fence::fenced;
use super::summary::without_thinking;
use super::tokens::Tokens;
use super::wording;

const PROMPT: &str = include_str!("prompts/title.md");

/// The longest title, in characters: about 20 tokens.
pub const TITLE: usize = 80;
/// The longest text below it, in characters: about 100 tokens.
pub const BODY: usize = 400;
/// What is shown of each message, in characters.
const SHOWN: usize = 1_000;
/// What the answer may have: title and text are about 120, the rest is for a model that reasons first.
const OUTPUT: Tokens = Tokens::new(1_000);

/// A title and the text below it, each one line of plain text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Title {
    /// At most [`TITLE`] characters, never empty.
    pub title: String,
    /// At most [`BODY`] characters.
    pub body: String,
}

/// The body of a request for a title of `conversation`: the beginnings of its first and last user
/// message and of the last text of the model.
pub fn ask(conversation: &Conversation<'_>, frame: &Frame<'_>) -> Option<String> {
    let messages = conversation.messages();
    let users = || messages.iter().filter(|message| message.role.is_user());
    let said =
        |message: &&Message| message.role == Role::Assistant && message.text_tokens > Tokens::ZERO;
    let (first, last) = (users().next()?, users().next_back()?);
    let mut parts = vec![format!("[User]: {}", shown(conversation, first))];
    if !std::ptr::eq(first, last) {
        parts.push(format!("[User, last]: {}", shown(conversation, last)));
    }
    if let Some(answer) = messages.iter().rev().find(said) {
        parts.push(format!(
            "[Assistant, last]: {}",
            shown(conversation, answer)
        ));
    }
    let text = parts.join("\n");
    Some(frame.body(PROMPT.trim(), &fenced("conversation", &text), OUTPUT))
}

/// Reads what a model answered; none where it has no words in it.
pub fn read(answer: &str) -> Option<Title> {
    let answer = without_thinking(answer);
    let mut lines = answer.lines().map(plain).filter(|line| !line.is_empty());
    let title = wording::one_line(&lines.next()?, TITLE);
    let rest: Vec<String> = lines.collect();
    Some(Title {
        title,
        body: wording::one_line(&rest.join(" "), BODY),
    })
}

fn shown(conversation: &Conversation<'_>, message: &Message) -> String {
    wording::one_line(&conversation.text(message), SHOWN)
}

/// A line without what marks it up.
fn plain(line: &str) -> String {
    let marks = |letter: char| letter.is_whitespace() || "#*_`\"'>-".contains(letter);
    line.trim_matches(marks).to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::chat_completions::read as conversation_of;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_title_is_asked_for_with_little_of_the_conversation_and_none_of_its_results() {
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
        let asked = ask(&conversation, &Frame::of(&conversation, Some("small"))).unwrap();
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
        assert_eq!(ask(&silent, &Frame::of(&silent, None)), None);
    }

    #[test]
    fn an_answer_is_two_lines_of_plain_text() {
        let check = |answer: &str, expect: Option<(&str, &str)>| {
            let found = read(answer);
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
        let long = read(&format!("{0}\n{0}", "word ".repeat(900))).unwrap();
        let chars = |text: &str| text.chars().count();
        assert!(chars(&long.title) <= TITLE + 1 && chars(&long.body) <= BODY + 1);
    }
}
