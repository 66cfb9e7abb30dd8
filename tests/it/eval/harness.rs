//! A run of the command in a folder of its own, and its report.

use std::path::PathBuf;
use std::process::{Command, Output};

use longhaul_mock_model::{ChatBehaviour, Model, ModelOptions, SeenRequest};
use serde_json::Value;
use tempfile::TempDir;

pub(super) const KEY: &str = "sk-hunter2";

/// Consent, the report for programs, and no summaries.
pub(super) const UNPAID: [&str; 4] = ["--yes", "--json", "--summary-model", "none"];

/// The placeholder that keeps nothing of a result.
pub(super) const FIXED: [&str; 2] = ["--placeholder", "fixed"];

/// A run of the command in a folder of its own.
pub(super) struct Evaluation {
    pub(super) folder: TempDir,
    pub(super) model: Model,
    pub(super) files: Vec<PathBuf>,
    /// Further variables.
    pub(super) env: Vec<(&'static str, &'static str)>,
}

impl Evaluation {
    pub(super) async fn new(options: ModelOptions) -> Self {
        let chat = ChatBehaviour::Follows;
        Self {
            folder: tempfile::tempdir().unwrap(),
            model: Model::start(ModelOptions { chat, ..options }).await.unwrap(),
            files: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Adds or replaces a session.
    pub(super) fn add(&mut self, name: &str, body: &Value) {
        let path = self.path(name);
        std::fs::write(&path, body.to_string()).unwrap();
        if !self.files.contains(&path) {
            self.files.push(path);
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the command with small thresholds, so that it clears results of a few hundred tokens. An
    /// upstream among `arguments` takes the place of the model.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.arg("eval").args(&self.files);
        command.args(["--model", "asked"]).args(arguments);
        if !arguments.contains(&"--upstream") {
            command.args(["--upstream", &self.model.url()]);
        }
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("OPENAI_API_KEY", KEY)
            .env("LONGHAUL_PRUNE_PROTECT_TOKENS", "1000")
            .env("LONGHAUL_PRUNE_MINIMUM_TOKENS", "300")
            .env("LONGHAUL_PRUNE_MIN_USER_TURNS", "1")
            .envs(self.env.iter().copied());
        command
    }

    /// Runs the command.
    pub(super) async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
        ended.await.unwrap()
    }

    /// Runs the command with consent and returns its report.
    pub(super) async fn report(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&UNPAID[..], arguments].concat()).await;
        report(&output)
    }

    /// The requests that the model has received.
    pub(super) fn seen(&self) -> Vec<SeenRequest> {
        self.model.seen()
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

pub(super) fn report(output: &Output) -> Value {
    let said = said(output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(super) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// The kind and main argument of a step.
pub(super) fn step(outcome: &Value) -> String {
    assert_eq!(outcome["outcome"], "step", "{outcome}");
    let call = &outcome["calls"][0]["main_argument"];
    let words = call.as_str().map_or_else(|| outcome["kind"].as_str(), Some);
    words.unwrap().to_owned()
}
