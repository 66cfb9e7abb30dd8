//! The official SDKs get the same through longhaul as without it.
//!
//! `tests/sdk/install` installs them. Where it has not run, these tests say so and pass; under
//! `CI` they fail.

mod api;

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
    let home = Path::new(ROOT).join("target/sdk/python");
    check(&Script {
        interpreter: home.join("bin/python3"),
        file: "tests/sdk/python/talk.py",
        installed: home.join("installed.txt"),
        environment: Vec::new(),
    });
}

#[test]
fn the_node_sdk_gets_the_same_through_longhaul() {
    let home = Path::new(ROOT).join("target/sdk/node");
    check(&Script {
        interpreter: PathBuf::from("node"),
        file: "tests/sdk/node/talk.cjs",
        installed: home.join("installed.json"),
        environment: vec![("NODE_PATH", home.join("node_modules"))],
    });
}

fn check(script: &Script) {
    if !script.installed.exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "run tests/sdk/install before the tests"
        );
        println!(
            "{} DID NOT RUN: run tests/sdk/install to install the SDK",
            script.file
        );
        return;
    }
    let api = Api::start();
    let direct = script.run(&api.base_url());
    let asked_direct = api.take_requests();
    let program = Program::start(&api.base_url(), &[]);
    let proxied = script.run(&format!("http://{}/v1", program.address()));
    assert_eq!(proxied, direct, "what the script printed");
    assert_eq!(api.take_requests(), asked_direct, "what the API was asked");
    assert!(
        asked_direct.len() >= 5,
        "every part of the script asked the API"
    );
}

impl Script {
    /// Runs the script against `base_url`; what it printed.
    fn run(&self, base_url: &str) -> String {
        let output = Command::new(&self.interpreter)
            .current_dir(ROOT)
            .arg(self.file)
            .arg(base_url)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env_remove("OPENAI_BASE_URL")
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
