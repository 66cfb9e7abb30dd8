//! Agents that take their endpoint from a file or an argument, and the text that each one needs.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;

/// Context window to enter where an agent asks for one: larger than any model's, so that longhaul
/// compacts first.
const AGENT_WINDOW: u32 = 1_000_000;
/// Output limit to enter where an agent asks for one, in tokens. Small enough for a window of 32,768.
const AGENT_OUTPUT: u32 = 4_096;

/// An agent that no environment variable points to longhaul.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Agent {
    Codex,
    OpenCode,
    Pi,
    QwenCode,
    Tunacode,
}

impl Agent {
    pub(super) const ALL: [Self; 5] = [
        Self::Codex,
        Self::OpenCode,
        Self::Pi,
        Self::QwenCode,
        Self::Tunacode,
    ];

    /// Returns the agent's name on the command line, which is its program's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Pi => "pi",
            Self::QwenCode => "qwen",
            Self::Tunacode => "tunacode",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.name() == name)
    }

    /// Returns the agent that `program` starts, whatever folder the program lies in.
    pub(super) fn of_program(program: &OsStr) -> Option<Self> {
        Self::named(Path::new(program).file_stem()?.to_str()?)
    }

    /// Returns the file that the agent reads.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Codex => "~/.codex/config.toml",
            Self::OpenCode => "opencode.json, or ~/.config/opencode/opencode.json",
            Self::Pi => "~/.pi/agent/models.json",
            Self::QwenCode => "~/.qwen/settings.json",
            Self::Tunacode => "~/.config/tunacode.json",
        }
    }

    /// Returns the content of that file for longhaul at `base`, a base URL with its version, and the
    /// model `model`.
    pub(super) fn file_content(self, base: &str, model: &str) -> String {
        let json = match self {
            Self::Codex => {
                return format!(
                    "openai_base_url = \"{base}\"\nmodel_context_window = {AGENT_WINDOW}\n"
                );
            }
            Self::OpenCode => json!({ "provider": { "longhaul": {
                "npm": "@ai-sdk/openai-compatible",
                "options": { "baseURL": base, "apiKey": "{env:OPENAI_API_KEY}" },
                "models": { model: {
                    "limit": { "context": AGENT_WINDOW, "output": AGENT_OUTPUT }
                } },
            } } }),
            Self::Pi => json!({ "providers": { "longhaul": {
                "baseUrl": base,
                "api": "openai-completions",
                "apiKey": "$OPENAI_API_KEY",
                "models": [{
                    "id": model, "contextWindow": AGENT_WINDOW, "maxTokens": AGENT_OUTPUT
                }],
            } } }),
            Self::QwenCode => json!({ "security": { "auth": { "selectedType": "openai" } } }),
            Self::Tunacode => json!({
                "default_model": format!("openai:{model}"),
                "env": { "OPENAI_BASE_URL": base },
            }),
        };
        longhaul_console::json::pretty_json(&json)
    }

    /// Returns the command that starts the agent, once the file is in place.
    pub(super) fn start_command(self, base: &str, model: &str) -> String {
        match self {
            Self::Codex => format!("codex --model {model}"),
            Self::OpenCode => format!("opencode --model longhaul/{model}"),
            Self::Pi => format!("pi --provider longhaul --model {model}"),
            Self::QwenCode => format!("OPENAI_BASE_URL={base} OPENAI_MODEL={model} qwen"),
            Self::Tunacode => "tunacode".to_owned(),
        }
    }

    /// Returns the arguments before the user's own that point the agent to `base` for one run.
    pub(super) fn arguments(self, base: &str) -> Vec<String> {
        match self {
            Self::Codex => vec!["-c".to_owned(), format!("openai_base_url=\"{base}\"")],
            Self::Tunacode => vec!["--baseurl".to_owned(), base.to_owned()],
            Self::OpenCode | Self::Pi | Self::QwenCode => Vec::new(),
        }
    }

    /// Returns the variable that points the agent to `base` for one run, if there is one. `provider`
    /// is the name that the agent has for the provider of the upstream.
    pub(super) fn variable(self, base: &str, provider: &str) -> Option<(&'static str, String)> {
        match self {
            Self::OpenCode => {
                let settings =
                    json!({ "provider": { provider: { "options": { "baseURL": base } } } });
                Some(("OPENCODE_CONFIG_CONTENT", settings.to_string()))
            }
            Self::Codex | Self::Pi | Self::QwenCode | Self::Tunacode => None,
        }
    }

    /// Whether `longhaul run` cannot point the agent to its proxy, so that the file is needed.
    pub(super) fn needs_file(self) -> bool {
        match self {
            Self::Pi => true,
            // Its variables name the endpoint; the file only chooses the kind of login.
            Self::QwenCode | Self::Codex | Self::OpenCode | Self::Tunacode => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_known_by_its_program_in_any_folder() {
        let of = |program: &str| Agent::of_program(OsStr::new(program));
        assert_eq!(of("codex"), Some(Agent::Codex));
        assert_eq!(of("/opt/bin/opencode"), Some(Agent::OpenCode));
        assert_eq!(of("codex-helper"), None);
        assert_eq!(of("aider"), None);
        for agent in Agent::ALL {
            assert_eq!(Agent::named(agent.name()), Some(agent));
        }
    }

    #[test]
    fn every_file_names_the_endpoint_and_the_model_that_it_needs() {
        let base = "http://127.0.0.1:8484/v1";
        for agent in Agent::ALL {
            let text = agent.file_content(base, "m-1") + &agent.start_command(base, "m-1");
            assert!(text.contains(base) && text.contains("m-1"), "{text}");
        }
        let toml: toml::Table = Agent::Codex.file_content(base, "m-1").parse().unwrap();
        assert_eq!(toml["openai_base_url"].as_str(), Some(base));
    }
}
