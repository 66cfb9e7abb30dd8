//! Token ratio of a conversation by OpenAI's own tokenizers.
//!
//! Used only until the provider has counted a request of the conversation: its counts are more
//! accurate, since they include tools, reasoning and templates. The vocabularies are built in,
//! which is why this is an optional feature.

use crate::conversation::Conversation;
use crate::units::tokens::Tokens;
use crate::window::token_ratio::TokenRatio;
use bpe_openai::Tokenizer;

/// Bytes of the newest text to tokenize: about 20 ms. More text changes the ratio little.
const MAX_BYTES: usize = 1 << 19;

/// Prefixes of model names with their vocabularies: the table in `model.py` of OpenAI's `tiktoken`,
/// and later families, which share the newest vocabulary.
const VOCABULARIES: [(&str, Vocabulary); 12] = [
    ("gpt-3.5", Vocabulary::Cl100k),
    ("gpt-35", Vocabulary::Cl100k),
    ("gpt-4.1", Vocabulary::O200k),
    ("gpt-4.5", Vocabulary::O200k),
    ("gpt-4o", Vocabulary::O200k),
    ("gpt-4", Vocabulary::Cl100k),
    ("gpt-5", Vocabulary::O200k),
    ("gpt-oss", Vocabulary::O200k),
    ("chatgpt-4o", Vocabulary::O200k),
    ("o1", Vocabulary::O200k),
    ("o3", Vocabulary::O200k),
    ("o4", Vocabulary::O200k),
];

#[derive(Clone, Copy)]
enum Vocabulary {
    Cl100k,
    O200k,
}

impl Vocabulary {
    fn for_model(model: &str) -> Option<Self> {
        let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
        // A fine-tuned model.
        let name = name.strip_prefix("ft:").unwrap_or(name);
        let known = VOCABULARIES
            .iter()
            .find(|(start, _)| name.starts_with(start));
        known.map(|(_, vocabulary)| *vocabulary)
    }

    fn tokenizer(self) -> &'static Tokenizer {
        match self {
            Self::Cl100k => bpe_openai::cl100k_base(),
            Self::O200k => bpe_openai::o200k_base(),
        }
    }
}

/// Computes the token ratio of the conversation's newest text. Returns `None` without text, or
/// without a vocabulary for the model.
pub(crate) fn measure(conversation: &Conversation<'_>) -> Option<TokenRatio> {
    let tokenizer = Vocabulary::for_model(&conversation.model())?.tokenizer();
    let (mut bytes, mut counted, mut estimate) = (0, 0, Tokens::ZERO);
    for message in conversation.messages().iter().rev() {
        let text = conversation.text(message);
        bytes += text.len();
        counted += tokenizer.count(&*text);
        estimate += message.text_tokens;
        if bytes >= MAX_BYTES {
            break;
        }
    }
    let counted = Tokens::new(u32::try_from(counted).unwrap_or(u32::MAX));
    (estimate > Tokens::ZERO).then(|| TokenRatio::from_counts(counted, estimate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::chat_completions::read;
    use crate::window::script_ratio;

    fn check(model: &str, text: &str, expect: Option<(u32, u32)>) {
        let messages = serde_json::json!([{"role": "user", "content": text}]);
        let body = serde_json::json!({"model": model, "messages": messages}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let expect = expect.map(|(counted, estimate)| {
            TokenRatio::from_counts(Tokens::new(counted), Tokens::new(estimate))
        });
        assert_eq!(measure(&conversation), expect, "{model}");
    }

    #[test]
    fn tokens_are_counted_with_the_models_vocabulary() {
        // The example of OpenAI's cookbook, four times: six tokens each in either vocabulary.
        let english = "antidisestablishmentarianism".repeat(4);
        for model in [
            "gpt-4o-mini",
            "openai/gpt-5",
            "gpt-oss-120b",
            "o4-mini",
            "ft:gpt-4o:acme::1",
        ] {
            check(model, &english, Some((24, 28)));
        }
        check("gpt-4-turbo", &english, Some((24, 28)));
    }

    #[test]
    fn only_the_newest_half_mebibyte_is_measured() {
        let density_of = |texts: &[&str]| {
            let messages = texts
                .iter()
                .map(|text| serde_json::json!({"role": "user", "content": text}));
            let messages: Vec<_> = messages.collect();
            let body = serde_json::json!({"model": "gpt-4o", "messages": messages}).to_string();
            measure(&read(body.as_bytes()).unwrap())
        };
        let older = "上下文窗口已经满了".repeat(2_000);
        let words = "word ".repeat(110_000);
        let (enough, less) = (&words[..524_288], &words[..524_287]);
        assert_eq!(density_of(&[&older, enough]), density_of(&[enough]));
        assert!(density_of(&[&older, less]) > density_of(&[less]));
    }

    #[test]
    fn other_models_and_empty_text_have_no_count() {
        check("claude-sonnet-4", "hello", None);
        check("gpt-4o", "", None);
    }

    #[test]
    fn measured_chinese_ratio_is_between_one_and_the_script_ratio() {
        let text = "上下文窗口已经满了，需要压缩较早的对话内容。".repeat(50);
        let messages = serde_json::json!([{"role": "user", "content": text}]);
        let body = serde_json::json!({"model": "gpt-4o", "messages": messages}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        let exact = measure(&conversation).unwrap();
        assert!(exact > TokenRatio::default());
        assert!(exact <= script_ratio::predict(&conversation));
    }
}
