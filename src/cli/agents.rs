//! Agents that longhaul knows by their programs, and the text by which each one finds it.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

/// An agent. `agents.toml` describes the fields, and the names in braces that their texts contain.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) file: String,
    content: String,
    pub(super) export: String,
    start: String,
    arguments: Vec<String>,
    variable: Option<(String, String)>,
    pub(super) needs_file: bool,
}

#[derive(Default, Deserialize)]
struct AgentTables {
    agent: Vec<Agent>,
}

static AGENTS: LazyLock<Vec<Agent>> = LazyLock::new(|| {
    let read = toml::from_str::<AgentTables>(include_str!("agents.toml"));
    debug_assert!(read.is_ok(), "{:?}", read.err());
    read.unwrap_or_default().agent
});

/// Values for the names in braces.
pub(super) struct Place<'p> {
    /// URL of longhaul, without a version.
    pub(super) origin: &'p str,
    pub(super) model: &'p str,
    /// The name that agents have for the provider of the upstream.
    pub(super) provider: &'p str,
}

impl Place<'_> {
    /// Returns `text` with the values in place of their names.
    pub(super) fn fill(&self, text: &str) -> String {
        text.replace("{model}", self.model)
            .replace("{provider}", self.provider)
            .replace("{base}", &format!("{}/v1", self.origin))
            .replace("{origin}", self.origin)
    }
}

impl Agent {
    pub(super) fn all() -> &'static [Self] {
        &AGENTS
    }

    pub(super) fn named(name: &str) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.name == name)
    }

    /// Returns the agent that `program` starts, whatever folder the program lies in.
    pub(super) fn of_program(program: &OsStr) -> Option<&'static Self> {
        Self::named(Path::new(program).file_stem()?.to_str()?)
    }

    /// Returns the content of the agent's file, in which the model's name is part of a quoted text.
    pub(super) fn file_content(&self, place: &Place<'_>) -> String {
        let quoted = serde_json::Value::from(place.model).to_string();
        let model = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        Place { model, ..*place }.fill(&self.content)
    }

    /// Returns the command that starts the agent, once the file or the variable is in place.
    pub(super) fn start_command(&self, place: &Place<'_>) -> String {
        place.fill(&self.start)
    }

    /// Returns the arguments before the user's own that point the agent to longhaul for one run.
    pub(super) fn arguments(&self, place: &Place<'_>) -> impl Iterator<Item = String> {
        self.arguments.iter().map(|text| place.fill(text))
    }

    /// Returns the variable that points the agent to longhaul for one run, if there is one.
    pub(super) fn variable(&self, place: &Place<'_>) -> Option<(&str, String)> {
        let (name, text) = self.variable.as_ref()?;
        Some((name, place.fill(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_known_by_its_program_in_any_folder() {
        let of = |program: &str| Agent::of_program(OsStr::new(program)).map(|it| it.name.as_str());
        assert_eq!(of("codex"), Some("codex"));
        assert_eq!(of("/opt/bin/opencode"), Some("opencode"));
        assert_eq!(of("codex-helper"), None);
    }

    #[test]
    fn every_text_names_the_endpoint_and_the_model_that_it_needs() {
        let place = Place { origin: "http://127.0.0.1:8484", model: "m-\"1", provider: "openai" };
        for agent in Agent::all() {
            assert_ne!(agent.file.is_empty(), agent.export.is_empty());
            let content = agent.file_content(&place);
            let text = content.clone() + &place.fill(&agent.export) + &agent.start_command(&place);
            assert!(text.contains(place.origin), "{text}");
            assert!(!text.contains("{base}") && !text.contains("{model}"), "{text}");
            let is_json = serde_json::from_str::<serde_json::Value>(&content).is_ok();
            let is_toml = content.parse::<toml::Table>().is_ok();
            assert!(is_json || is_toml, "{content}");
            if let Some((_, json)) = agent.variable(&place) {
                assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{json}");
            }
        }
    }
}
