//! The official SDKs: identical results with and without longhaul, and sessions of three windows.
//!
//! `tests/sdk/install` installs the SDKs. These tests run with `--include-ignored` only.

mod api;
mod windows;

use crate::program::Program;
use api::Api;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Script of an SDK, and its interpreter.
struct Script {
    interpreter: PathBuf,
    file: &'static str,
    /// Path that must exist for the script to run.
    installed: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
}

#[test]
#[ignore = "needs the SDKs of tests/sdk/install"]
fn python_sdk_gets_identical_results_through_longhaul() {
    check(&Script::python("tests/sdk/python/talk.py"));
}

#[test]
#[ignore = "needs the SDKs of tests/sdk/install"]
fn node_sdk_gets_identical_results_through_longhaul() {
    check(&Script::node("tests/sdk/node/talk.cjs"));
}

fn check(script: &Script) {
    script.require();
    let api = Api::start();
    let direct = script.run(&api.base_url(), &api.base_url());
    let asked_direct = api.take_requests();
    let program = Program::start(&api.base_url(), &[]);
    let base_url = format!("http://{}/v1", program.address());
    let proxied = script.run(&base_url, &base_url);
    assert_eq!(proxied, direct, "what the script printed");
    assert_eq!(api.take_requests(), asked_direct, "what the API was asked");
    assert!(asked_direct.len() >= 5, "every part of the script asked the API");
}

impl Script {
    /// Builds a Python script.
    fn python(file: &'static str) -> Self {
        let home = Path::new(ROOT).join("target/sdk/python");
        Self {
            interpreter: home.join("bin/python3"),
            file,
            installed: home.join("installed.txt"),
            environment: Vec::new(),
        }
    }

    /// Builds a Node script.
    fn node(file: &'static str) -> Self {
        let home = Path::new(ROOT).join("target/sdk/node");
        Self {
            interpreter: PathBuf::from("node"),
            file,
            installed: home.join("installed.json"),
            environment: vec![("NODE_PATH", home.join("node_modules"))],
        }
    }

    /// Fails unless the SDK is installed.
    fn require(&self) {
        assert!(self.installed.exists(), "run tests/sdk/install before {}", self.file);
    }

    /// Runs the script with `argument` and `base_url` in its environment. Returns its output.
    fn run(&self, argument: &str, base_url: &str) -> String {
        let output = Command::new(&self.interpreter)
            .current_dir(ROOT)
            .arg(self.file)
            .arg(argument)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("OPENAI_BASE_URL", base_url)
            .env("OPENAI_API_KEY", "sk-none")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap_or_else(|error| panic!("{} starts: {error}", self.interpreter.display()));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} against {base_url}: {errors}", self.file);
        String::from_utf8(output.stdout).expect("the script prints UTF-8")
    }
}
