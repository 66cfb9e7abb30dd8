//! Token ratio of a conversation, expected from the scripts of its text.
//!
//! The estimate of four characters per token holds for Latin letters. A Han character costs three
//! times as much, so a Chinese session would fill its window long before the estimate does. The
//! estimate itself stays, since clearing of tool results depends on it. The ratio predicts the
//! counts of a provider that has counted nothing yet.

use crate::conversation::{Content, Conversation, Message, PartKind};
use crate::json::scanner::has_unicode_escape;
use crate::units::tokens::Tokens;
use crate::window::token_ratio::TokenRatio;

/// Maximum number of messages sampled.
const MAX_MESSAGES: usize = 256;
/// Bytes sampled from the middle of each message: 64 KiB in total.
const BYTES_PER_MESSAGE: usize = 256;
/// Estimated cost of a character of any other script, in thousandths of a token.
const OTHER_SCRIPT_COST: u32 = 250;

/// Computes the expected token ratio of the conversation.
pub fn predict(conversation: &Conversation<'_>) -> TokenRatio {
    let messages = conversation.messages();
    let stride = messages.len().div_ceil(MAX_MESSAGES).max(1);
    let (mut estimate, mut expected) = (Tokens::ZERO, Tokens::ZERO);
    for message in messages.iter().step_by(stride) {
        let ScriptSample { chars, thousandths } = cached_sample(conversation, message);
        estimate += message.text_tokens;
        let plain = Tokens::new(chars.saturating_mul(OTHER_SCRIPT_COST));
        expected += message
            .text_tokens
            .scaled(Tokens::new(thousandths), plain)
            .max(message.text_tokens);
    }
    TokenRatio::from_counts(expected, estimate)
}

/// Returns the sample of a message, from the message's notes if it is cached there.
fn cached_sample(conversation: &Conversation<'_>, message: &Message) -> ScriptSample {
    let take = || ScriptSample::from_json_text(excerpt(conversation, message));
    let notes = message.memo();
    notes.map_or_else(take, |notes| *notes.script.get_or_init(take))
}

/// Returns an excerpt of a message's text, as escaped in the body.
fn excerpt<'a>(conversation: &Conversation<'a>, message: &Message) -> &'a str {
    let literal = match message.content {
        Content::Absent | Content::Null => None,
        Content::Text(literal) => Some(literal),
        Content::Parts(_) => {
            let parts = conversation.parts(message).iter();
            let texts = parts.filter(|part| part.kind == PartKind::Text);
            texts
                .filter_map(|part| part.text)
                .max_by_key(|text| text.chars())
        }
    };
    let raw = literal.map_or("", |literal| literal.raw(conversation.body()));
    let from = raw.floor_char_boundary(raw.len().saturating_sub(BYTES_PER_MESSAGE) / 2);
    let rest = raw.get(from..).unwrap_or_default();
    rest.get(..rest.floor_char_boundary(BYTES_PER_MESSAGE))
        .unwrap_or_default()
}

/// Character statistics of a sample; zero if the sample is plain ASCII.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptSample {
    /// Characters in the sample.
    chars: u32,
    /// Expected tokens of the sample, in thousandths.
    thousandths: u32,
}

impl ScriptSample {
    fn from_json_text(raw: &str) -> Self {
        let mut sampled = Self {
            chars: 0,
            thousandths: 0,
        };
        if raw.is_ascii() && !has_unicode_escape(raw) {
            return sampled;
        }
        let mut rest = raw.chars();
        while let Some(mut char) = rest.next() {
            // Some clients escape every non-ASCII character.
            if char == '\\'
                && rest.next() == Some('u')
                && let Some(unit) = rest.as_str().get(..4)
            {
                let code = u32::from_str_radix(unit, 16).ok();
                char = code.and_then(char::from_u32).unwrap_or(char);
                rest = rest.as_str().get(4..).unwrap_or_default().chars();
            }
            sampled.chars += 1;
            sampled.thousandths += char_cost(char);
        }
        sampled
    }
}

/// Returns the cost of a character in thousandths of a token, as measured with `o200k`. Hangul lies
/// between 0.6 and 0.96; full-width forms count like the CJK characters around them.
fn char_cost(char: char) -> u32 {
    match char {
        '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' => 740,
        '\u{3000}'..='\u{303F}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FF00}'..='\u{FFEF}'
        | '\u{20000}'..='\u{3FFFF}' => 790,
        '\u{1100}'..='\u{11FF}' | '\u{3130}'..='\u{318F}' | '\u{AC00}'..='\u{D7A3}' => 960,
        _ => OTHER_SCRIPT_COST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;

    /// Checks the ratio of a conversation with these texts, in hundredths.
    fn check(texts: &[&str], expect: u32) {
        let message = |text: &&str| format!(r#"{{"role":"user","content":"{text}"}}"#);
        let messages: Vec<String> = texts.iter().map(message).collect();
        let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        let density = predict(&read(body.as_bytes()).unwrap());
        let hundredth = |at: u32| TokenRatio::from_counts(Tokens::new(at), Tokens::new(100));
        let range = hundredth(expect - 1)..=hundredth(expect + 1);
        assert!(range.contains(&density), "{expect}: {density:?}");
    }

    #[test]
    fn latin_text_is_taken_for_what_the_estimate_says() {
        check(&[&"word ".repeat(200)], 100);
        check(&[&"tab\\tand\\nline".repeat(200)], 100);
        check(&[], 100);
    }

    #[test]
    fn each_script_is_taken_for_what_it_was_measured_at() {
        check(&[&"界".repeat(400)], 316);
        check(&[&"か".repeat(400)], 296);
        check(&[&"한".repeat(400)], 384);
    }

    #[test]
    fn escapes_are_characters() {
        // A sample may begin within an escape.
        check(&[&"\\u754c".repeat(400)], 301);
    }

    #[test]
    fn messages_weigh_by_their_size() {
        check(&[&"界".repeat(400), &"a".repeat(1_200)], 154);
    }

    #[test]
    fn the_middle_of_a_message_speaks_for_it() {
        let text = format!("{}{}", "a".repeat(200), "界".repeat(4_000));
        check(&[&text], 316);
    }

    #[test]
    fn of_a_message_in_parts_the_longest_text_speaks() {
        let image = r#"{"type":"image_url","image_url":{"url":"data:,a"},"text":"aaaa"}"#;
        let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
        let (short, long) = (text("in Latin letters"), text(&"界".repeat(400)));
        let body =
            format!(r#"{{"messages":[{{"role":"user","content":[{short},{image},{long}]}}]}}"#);
        let density = predict(&read(body.as_bytes()).unwrap());
        assert!(density > TokenRatio::from_counts(Tokens::new(3), Tokens::new(1)));
    }
}
