//! The question before anything is spent, in a terminal.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use super::harness::Evaluation;
use super::sessions::Api;
use super::three_sessions;

/// Runs the command in a terminal of its own, types `answer`, and returns the exit code and the output.
async fn answered(evaluation: &Evaluation, answer: &'static str) -> (Option<i32>, String) {
    let arguments = ["--samples", "1", "--summary-model", "none"];
    let inner = evaluation.command(&arguments);
    let words = std::iter::once(inner.get_program()).chain(inner.get_args());
    let line: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let mut script = Command::new("/usr/bin/script");
    script
        .args(["--quiet", "--return", "--command", &line.join(" "), "/dev/null"])
        .current_dir(evaluation.folder.path())
        .env_clear()
        .env("SHELL", "/bin/sh")
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let played = tokio::task::spawn_blocking(move || {
        let mut child = script.spawn().unwrap();
        let mut keys = child.stdin.take().unwrap();
        keys.write_all(answer.as_bytes()).unwrap();
        let mut shown = String::new();
        child.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
        drop(keys);
        (child.wait().unwrap().code(), shown)
    });
    played.await.unwrap()
}

#[tokio::test]
#[ignore = "needs script, of util-linux, and a pseudo-terminal"]
async fn a_person_is_asked_before_anything_is_spent() {
    let evaluation = three_sessions(Api::Chat).await;
    for answer in ["\n", "n\n", "maybe\n"] {
        let (code, shown) = answered(&evaluation, answer).await;
        assert_eq!(code, Some(64), "{shown}");
        assert!(shown.contains("ask the model? [y/N]"), "{shown}");
        assert!(shown.contains("nothing was spent"), "{shown}");
        assert!(evaluation.seen().is_empty());
    }
    let (code, shown) = answered(&evaluation, "y\n").await;
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(evaluation.seen().len(), 3, "{shown}");
}
