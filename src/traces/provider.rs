//! Provider names in the vocabulary of `gen_ai.provider.name`.

use crate::models::HostKind;

/// Providers whose name in the model table differs from their name in the convention.
const CONVENTION_NAMES: &[(&str, &str)] = &[
    ("azure", "azure.ai.openai"),
    ("bedrock", "aws.bedrock"),
    ("google", "gcp.gemini"),
    ("mistral", "mistral_ai"),
    ("vertex", "gcp.vertex_ai"),
    ("xai", "x_ai"),
];

/// Provider reported for an unknown host. The convention uses the name of the provider whose API
/// dialect the server speaks: here `OpenAI`.
const DEFAULT_PROVIDER: &str = "openai";

pub(super) fn provider_name(host: &str) -> &'static str {
    let provider = match HostKind::from_host(host) {
        HostKind::Local | HostKind::Unknown => return DEFAULT_PROVIDER,
        HostKind::Provider(provider) => provider,
    };
    let called = CONVENTION_NAMES.iter().find(|(ours, _)| *ours == provider);
    called.map_or(provider, |(_, theirs)| theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_names_follow_the_convention() {
        assert_eq!(provider_name("api.openai.com"), "openai");
        assert_eq!(provider_name("x.openai.azure.com"), "azure.ai.openai");
        assert_eq!(provider_name("api.x.ai"), "x_ai");
        assert_eq!(provider_name("api.groq.com"), "groq");
        assert_eq!(provider_name("openrouter.ai"), "openrouter");
    }

    #[test]
    fn unknown_provider_is_named_by_the_dialect() {
        assert_eq!(provider_name("127.0.0.1"), "openai");
        assert_eq!(provider_name("llm.example.com"), "openai");
    }
}
