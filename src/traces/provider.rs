//! Who answers at a host, in the words of `gen_ai.provider.name`.

use crate::models::Place;

/// What the convention calls a provider for which the table of models has another name.
const CALLED: &[(&str, &str)] = &[
    ("azure", "azure.ai.openai"),
    ("bedrock", "aws.bedrock"),
    ("google", "gcp.gemini"),
    ("mistral", "mistral_ai"),
    ("vertex", "gcp.vertex_ai"),
    ("xai", "x_ai"),
];

/// What speaks a provider's dialect and is nobody that is known has that provider's name: this one
/// is `OpenAI`'s.
const DIALECT: &str = "openai";

/// Who answers at `host`.
pub(super) fn of(host: &str) -> &'static str {
    let provider = match Place::of(host) {
        Place::Local | Place::Unknown => return DIALECT,
        Place::Provider(provider) => provider,
    };
    let called = CALLED.iter().find(|(ours, _)| *ours == provider);
    called.map_or(provider, |(_, theirs)| theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_called_as_the_convention_calls_them() {
        assert_eq!(of("api.openai.com"), "openai");
        assert_eq!(of("x.openai.azure.com"), "azure.ai.openai");
        assert_eq!(of("api.x.ai"), "x_ai");
        assert_eq!(of("api.groq.com"), "groq");
        assert_eq!(of("openrouter.ai"), "openrouter");
    }

    #[test]
    fn who_is_not_known_is_called_by_the_dialect() {
        assert_eq!(of("127.0.0.1"), "openai");
        assert_eq!(of("llm.example.com"), "openai");
    }
}
