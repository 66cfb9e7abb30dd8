//! Token ratio of a conversation, expected from the scripts of its text.
//!
//! The estimate of four characters per token holds for Latin letters. A Han character costs three
//! times as much, so a Chinese session would fill its window long before the estimate does. The
//! estimate itself stays, since clearing of tool results depends on it. The ratio predicts the
//! counts of a provider that has counted nothing yet.

use crate::conversation::parse_cache::script_sample::{OTHER_SCRIPT_COST, ScriptSample};
use crate::conversation::{Conversation, Message};
use crate::units::tokens::Tokens;
use crate::window::token_ratio::TokenRatio;

const MAX_MESSAGES: usize = 256;
/// Bytes sampled from the middle of each message: 64 KiB in total.
const BYTES_PER_MESSAGE: usize = 256;
/// Computes the expected token ratio of the conversation.
pub fn predict(conversation: &Conversation<'_>) -> TokenRatio {
    let messages = conversation.messages();
    let stride = messages.len().div_ceil(MAX_MESSAGES).max(1);
    let (mut estimate, mut expected) = (Tokens::ZERO, Tokens::ZERO);
    for message in messages.iter().step_by(stride) {
        let ScriptSample { chars, thousandths } = cached_sample(conversation, message);
        estimate += message.text_tokens;
        let plain = Tokens::new(chars.saturating_mul(OTHER_SCRIPT_COST));
        expected +=
            message.text_tokens.scaled(Tokens::new(thousandths), plain).max(message.text_tokens);
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
    let texts = conversation.texts(message);
    let literal = texts.max_by_key(|text| text.chars());
    let raw = literal.map_or("", |literal| literal.raw(conversation.body()));
    let from = raw.floor_char_boundary(raw.len().saturating_sub(BYTES_PER_MESSAGE) / 2);
    let rest = raw.get(from..).unwrap_or_default();
    rest.get(..rest.floor_char_boundary(BYTES_PER_MESSAGE)).unwrap_or_default()
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
        let ratio = predict(&read(body.as_bytes()).unwrap());
        let hundredth = |at: u32| TokenRatio::from_counts(Tokens::new(at), Tokens::new(100));
        let range = hundredth(expect - 1)..=hundredth(expect + 1);
        assert!(range.contains(&ratio), "{expect}: {ratio:?}");
    }

    #[test]
    fn latin_text_has_a_ratio_of_one() {
        check(&[&"word ".repeat(200)], 100);
        check(&[&"tab\\tand\\nline".repeat(200)], 100);
        check(&[], 100);
    }

    #[test]
    fn each_script_has_its_measured_ratio() {
        check(&[&"界".repeat(400)], 316);
        check(&[&"か".repeat(400)], 296);
        check(&[&"한".repeat(400)], 384);
    }

    #[test]
    fn escapes_count_as_their_characters() {
        // A sample may begin within an escape.
        check(&[&"\\u754c".repeat(400)], 301);
    }

    #[test]
    fn messages_weigh_by_their_size() {
        check(&[&"界".repeat(400), &"a".repeat(1_200)], 154);
    }

    #[test]
    fn the_middle_of_a_message_is_sampled() {
        let text = format!("{}{}", "a".repeat(200), "界".repeat(4_000));
        check(&[&text], 316);
    }

    #[test]
    fn the_longest_text_part_is_sampled() {
        let image = r#"{"type":"image_url","image_url":{"url":"data:,a"},"text":"aaaa"}"#;
        let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
        let (short, long) = (text("in Latin letters"), text(&"界".repeat(400)));
        let body =
            format!(r#"{{"messages":[{{"role":"user","content":[{short},{image},{long}]}}]}}"#);
        let ratio = predict(&read(body.as_bytes()).unwrap());
        assert!(ratio > TokenRatio::from_counts(Tokens::new(3), Tokens::new(1)));
    }
}
