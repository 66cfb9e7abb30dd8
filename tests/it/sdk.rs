//! The official SDKs get the same through longhaul as without it, and sessions of three windows.
//!
//! `tests/sdk/install` installs them. Where it has not run, these tests say so and pass; under
//! `CI` they fail.

mod api;
mod windows;

use crate::program::Program;
use api::Api;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// How one SDK's script is run.
struct Script {
    interpreter: PathBuf,
    file: &'static str,
    /// What has to be there for the script to run.
    installed: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
}

#[test]
fn the_python_sdk_gets_the_same_through_longhaul() {
    check(&Script::python("tests/sdk/python/talk.py"));
}

#[test]
fn the_node_sdk_gets_the_same_through_longhaul() {
    check(&Script::node("tests/sdk/node/talk.cjs"));
}

fn check(script: &Script) {
    if !script.is_installed() {
        return;
    }
    let api = Api::start();
    let direct = script.run(&api.base_url(), &api.base_url());
    let asked_direct = api.take_requests();
    let program = Program::start(&api.base_url(), &[]);
    let base_url = format!("http://{}/v1", program.address());
    let proxied = script.run(&base_url, &base_url);
    assert_eq!(proxied, direct, "what the script printed");
    assert_eq!(api.take_requests(), asked_direct, "what the API was asked");
    assert!(
        asked_direct.len() >= 5,
        "every part of the script asked the API"
    );
}

impl Script {
    /// A script for Python.
    fn python(file: &'static str) -> Self {
        let home = Path::new(ROOT).join("target/sdk/python");
        Self {
            interpreter: home.join("bin/python3"),
            file,
            installed: home.join("installed.txt"),
            environment: Vec::new(),
        }
    }

    /// A script for Node.
    fn node(file: &'static str) -> Self {
        let home = Path::new(ROOT).join("target/sdk/node");
        Self {
            interpreter: PathBuf::from("node"),
            file,
            installed: home.join("installed.json"),
            environment: vec![("NODE_PATH", home.join("node_modules"))],
        }
    }

    /// Whether its SDK is there; says so where it is not, and fails there under CI.
    fn is_installed(&self) -> bool {
        let installed = self.installed.exists();
        if !installed {
            assert!(
                std::env::var_os("CI").is_none(),
                "run tests/sdk/install before the tests"
            );
            println!(
                "{} DID NOT RUN: run tests/sdk/install to install the SDK",
                self.file
            );
        }
        installed
    }

    /// Runs the script with `argument`, pointed at `base_url` by the environment; what it printed.
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
        assert!(
            output.status.success(),
            "{} against {base_url}: {errors}",
            self.file
        );
        String::from_utf8(output.stdout).expect("the script prints UTF-8")
    }
}
