//! Two longhauls of one user at the same time: what each learns and counts reaches the other and the next start.

use std::process::Command;

use longhaul_mock_model::{Model, ModelOptions};
use serde_json::Value;
use tempfile::TempDir;

use crate::caller::{Caller, talk};
use crate::program::{Admin, Program};

/// A user's state folder, and a model of 32,768 tokens.
struct User {
    home: TempDir,
    model: Model,
}

impl User {
    async fn new() -> Self {
        let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
        Self { home: tempfile::tempdir().unwrap(), model }
    }

    fn start(&self) -> Program {
        let state = self.home.path().to_str().unwrap();
        let settings = [("XDG_STATE_HOME", state), ("LONGHAUL_SUMMARY_MODEL", "none")];
        Program::with_admin(&self.model.url(), &settings, Admin::Free)
    }

    /// Has `program` send a chat that is too large for the model. Returns how often the model refuses.
    async fn refusals(&self, program: &Program, model: &str) -> usize {
        let refused = || self.model.seen().iter().filter(|seen| seen.status == 400).count();
        let before = refused();
        let mut chat: Value = serde_json::from_slice(&talk(20, 2_000)).unwrap();
        chat["model"] = model.into();
        let reply = Caller::of(program.address()).ask(chat.to_string()).await;
        assert_eq!(reply.status, 200);
        refused() - before
    }

    /// Returns the requests that the page at `program` counts.
    async fn requests(&self, program: &Program, query: &str) -> u64 {
        let token = std::fs::read_to_string(self.home.path().join("longhaul/page.token")).unwrap();
        let admin = program.admin();
        let asked = format!(
            "GET /days{query} HTTP/1.1\r\nHost: {admin}\r\nx-longhaul-token: {token}\r\n\r\n"
        );
        let answer = crate::admin::told(admin, &asked).await;
        let rows: Vec<Value> = serde_json::from_str(crate::admin::body(&answer, "200")).unwrap();
        rows.iter().filter_map(|row| row["requests"].as_u64()).sum()
    }

    /// Waits until the file of lessons holds what `program` has just learned.
    async fn written(&self, before: Option<Vec<u8>>) -> Vec<u8> {
        let file = self.home.path().join("longhaul/lessons.db.models");
        crate::time_limit::bounded(async {
            loop {
                match std::fs::read(&file) {
                    Ok(now) if Some(&now) != before.as_ref() => return now,
                    _ => tokio::task::yield_now().await,
                }
            }
        })
        .await
    }
}

#[tokio::test]
async fn lessons_of_one_process_reach_another_while_both_run() {
    let user = User::new().await;
    let first = user.start();
    let second = user.start();
    assert_eq!(user.refusals(&first, "one").await, 1);
    let file = user.written(None).await;
    let third = user.start();
    assert_eq!(user.refusals(&third, "one").await, 0, "a later process reads the file");
    assert_eq!(user.refusals(&second, "two").await, 1);
    user.written(Some(file)).await;
    assert_eq!(user.refusals(&second, "one").await, 0, "an earlier one reads it when it writes");
    // What a killed process learned last is in the file, and its lock is free.
    second.killed();
    first.killed();
    third.killed();
    let next = user.start();
    for model in ["one", "two"] {
        assert_eq!(user.refusals(&next, model).await, 0, "{model}");
    }
}

#[tokio::test]
async fn totals_of_two_processes_add_up_on_each_page_and_after_both_have_ended() {
    let user = User::new().await;
    let (first, second) = (user.start(), user.start());
    for (program, requests) in [(&first, 1), (&second, 2)] {
        for _ in 0..requests {
            user.refusals(program, "m").await;
        }
    }
    // A page adds the rows of the file and its own to those that it asks the others for. Rows may be on their way.
    crate::time_limit::bounded(async {
        while user.requests(&first, "").await + user.requests(&second, "?beside").await != 3 {}
    })
    .await;
    second.closed();
    assert_eq!(user.requests(&first, "").await, 3, "the file has those of the process that ended");
    first.closed();
    let next = user.start();
    assert_eq!(user.requests(&next, "").await, 3);
    assert_eq!(user.requests(&next, "?beside").await, 0);
}

#[tokio::test]
async fn run_refuses_the_address_of_a_longhaul_that_runs_at_any_port() {
    let user = User::new().await;
    let program = user.start();
    let port = program.address().port();
    let told = |name: &str, base: &str| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        run.env_clear().env("XDG_STATE_HOME", user.home.path()).env(name, base);
        let output = run.args(["run", "--", "/bin/true"]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (name, base) in [
        ("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{port}")),
        ("ANTHROPIC_BASE_URL", format!("http://localhost:{port}/")),
        ("OPENAI_BASE_URL", format!("http://127.0.0.1:{port}/v1")),
    ] {
        let (code, told) = told(name, &base);
        assert_eq!(code, Some(64), "{told}");
        let words = format!("{name} leads to your longhaul at http://127.0.0.1:{port}, ");
        assert!(told.contains(&words), "{told}");
    }
    let (code, told) = told("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    assert_eq!(code, Some(0), "another gateway is the upstream: {told}");
}
