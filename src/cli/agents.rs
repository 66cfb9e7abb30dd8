//! Agents that longhaul knows by their programs, and the text by which each one finds it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::connect::journal;
use super::run::variables::{may_have_anthropic_key, provider_name};
use super::settings_files;
use crate::cli::Env;

/// An agent. `agents.toml` describes the fields, and the names in braces that their texts contain.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Agent {
    pub(super) name: String,
    program: String,
    pub(super) is_strict: bool,
    files: Vec<String>,
    key: Vec<Key>,
    pub(super) export: String,
    start: String,
    named: String,
    arguments: Vec<String>,
    variable: Vec<Key>,
    project_files: Vec<String>,
    pub(super) own_models: Vec<String>,
    pub(super) hindered_by: Vec<String>,
}

/// A value in an agent's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Key {
    pub(super) at: String,
    pub(super) value: Value,
    #[serde(default)]
    when: Vec<Case>,
    #[serde(default)]
    pub(super) absent: bool,
    #[serde(default)]
    pub(super) is_form: bool,
}

/// A condition for a key.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Case {
    Model,
    ForeignModel,
    Provider,
    Messages,
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
pub(super) struct Target<'p> {
    /// URL of longhaul, without a version.
    pub(super) origin: &'p str,
    /// Name of a model, if the user has given one.
    pub(super) model: Option<&'p str>,
    pub(super) host: &'p str,
    /// Whether requests of the Messages API have another upstream.
    pub(super) has_messages: bool,
}

impl Target<'_> {
    /// Returns `text` with the values in place of their names.
    pub(super) fn fill(&self, text: &str) -> String {
        text.replace("{model}", self.model.unwrap_or_default())
            .replace("{provider}", provider_name(self.host).unwrap_or("openai"))
            .replace("{base}", &format!("{}/v1", self.origin))
            .replace("{origin}", self.origin)
    }

    fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(values) => values.iter().map(|value| self.fill_value(value)).collect(),
            Value::Object(members) => {
                let filled = members.iter();
                filled.map(|(name, value)| (self.fill(name), self.fill_value(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn holds(&self, case: Case, agent: &Agent) -> bool {
        match case {
            Case::Model => self.model.is_some(),
            Case::ForeignModel => self.model.is_some_and(|model| {
                !agent.own_models.iter().any(|word| model.contains(word.as_str()))
            }),
            Case::Provider => self.model.is_none() && provider_name(self.host).is_some(),
            Case::Messages => may_have_anthropic_key(self.host, self.has_messages),
        }
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
        let name = Path::new(program).file_stem()?.to_str()?;
        Self::named(name).or_else(|| AGENTS.iter().find(|agent| agent.program == name))
    }

    /// Returns the agent's file, whether it exists or not; as the table has it if the user has no home.
    pub(super) fn file(&self, env: &Env) -> PathBuf {
        self.found_file(env)
            .unwrap_or_else(|| self.files.last().map(PathBuf::from).unwrap_or_default())
    }

    fn found_file(&self, env: &Env) -> Option<PathBuf> {
        let folder = |root: &str| match root.strip_prefix('$') {
            Some(variable) => settings_files::folder(env, variable),
            None => settings_files::folder(env, "HOME"),
        };
        let parts = self.files.iter().filter_map(|file| file.split_once('/'));
        let (first, _) = parts.clone().find(|(root, _)| folder(root).is_some())?;
        let beside = parts.filter(|(root, _)| *root == first);
        let paths: Vec<PathBuf> =
            beside.filter_map(|(root, rest)| Some(folder(root)?.join(rest))).collect();
        paths.iter().find(|path| path.exists()).or_else(|| paths.last()).cloned()
    }

    /// Returns the keys that the agent needs in its file, with their values.
    pub(super) fn keys(&self, target: &Target<'_>) -> Vec<Key> {
        self.needed(&self.key, target)
    }

    fn needed(&self, keys: &[Key], target: &Target<'_>) -> Vec<Key> {
        let holds = |key: &&Key| key.when.iter().all(|case| target.holds(*case, self));
        let needed = keys.iter().filter(holds);
        let mut keys: Vec<Key> = Vec::new();
        for key in needed {
            let (at, value) = (target.fill(&key.at), target.fill_value(&key.value));
            keys.retain(|earlier| earlier.at != at);
            keys.push(Key { at, value, ..key.clone() });
        }
        keys
    }

    /// Returns the command that starts the agent, once the file or the variable is in place.
    pub(super) fn start_command(&self, target: &Target<'_>) -> String {
        let named = target.model.map_or_else(String::new, |_| format!(" {}", self.named));
        target.fill(&(self.start.clone() + &named)).trim_end().to_owned()
    }

    /// Returns the arguments before the user's own that point the agent to longhaul for one run.
    pub(super) fn arguments(&self, target: &Target<'_>, own: &[&OsString]) -> Vec<String> {
        let is_given = |option: &String| {
            option.starts_with("--") && own.iter().any(|word| *word == option.as_str())
        };
        let ours =
            self.arguments.iter().take_while(|_| !self.arguments.first().is_some_and(is_given));
        ours.map(|text| target.fill(text)).collect()
    }

    /// Returns the variables for one run that the user has not set.
    pub(super) fn variables(
        &self,
        target: &Target<'_>,
        env: &Env,
    ) -> impl Iterator<Item = (String, String)> {
        let variables = self.needed(&self.variable, target).into_iter();
        let variables = variables.filter(|variable| !env.contains_key(&variable.at));
        variables.filter_map(|variable| Some((variable.at, variable.value.as_str()?.to_owned())))
    }

    /// Returns a variable as the agent has it, where longhaul did not write it: the agent's files beat the
    /// environment.
    pub(super) fn seen_variable(&self, env: &Env, name: &str) -> Option<String> {
        let project = self.project_files.iter().map(PathBuf::from);
        let mut files = project.chain([self.file(env)]);
        let in_file = files.find_map(|path| {
            let root: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
            Some(root.get("env")?.get(name)?.as_str()?.to_owned())
        });
        let in_file = in_file.filter(|value| !journal::has_written(self, env, value));
        in_file.or_else(|| env.get(name).cloned()).filter(|value| !value.is_empty())
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
    fn every_agent_is_pointed_to_longhaul_and_its_texts_are_filled() {
        let target = Target {
            origin: "http://127.0.0.1:8484",
            model: Some("m-1"),
            host: "api.openai.com",
            has_messages: true,
        };
        for agent in Agent::all() {
            let keys = agent.keys(&target);
            let text = format!("{keys:?} {}", agent.start_command(&target));
            assert!(text.contains(target.origin), "{text}");
            assert!(!text.contains("{base}") && !text.contains("{model}"), "{text}");
            for (_, json) in agent.variables(&target, &Env::new()) {
                assert!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
            }
        }
    }

    #[test]
    fn the_file_is_the_one_that_the_agent_reads() {
        let home = tempfile::tempdir().unwrap();
        let file = |agent: &str, names: &[&str]| {
            let path = home.path().to_str().unwrap().to_owned();
            let env = names.iter().map(|name| ((*name).to_owned(), path.clone()));
            let found = Agent::named(agent).unwrap().file(&env.collect());
            found.strip_prefix(home.path()).unwrap_or(&found).display().to_string()
        };
        assert_eq!(file("codex", &[]), "~/.codex/config.toml");
        assert_eq!(file("codex", &["HOME"]), ".codex/config.toml");
        assert_eq!(file("codex", &["HOME", "CODEX_HOME"]), "config.toml");
        let folder = home.path().join(".config/opencode");
        assert_eq!(file("opencode", &["HOME"]), ".config/opencode/opencode.json");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("opencode.jsonc"), "{}").unwrap();
        assert_eq!(file("opencode", &["HOME"]), ".config/opencode/opencode.jsonc");
    }
}
