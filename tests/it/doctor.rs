//! `longhaul doctor` against a model that answers, refuses, or is not there.

use std::process::Command;

use longhaul_mock_model::{Model, ModelOptions};

use crate::harness::Upstream;
use crate::tls;

/// Runs `longhaul doctor` with an upstream at `base`, on free ports. Returns its exit code and page.
async fn doctor(base: &str, arguments: &[&str]) -> (Option<i32>, String) {
    doctor_with("sk-hunter2", base, arguments).await
}

/// Like [`doctor`], with this key in the environment.
async fn doctor_with(key: &str, base: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command
        .args(["doctor", "--upstream", base, "--listen", ":0", "--admin", "off"])
        .args(arguments)
        .env_clear()
        .env("OPENAI_API_KEY", key);
    let ended = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = ended.await.unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(!page.contains("hunter2"), "{page}");
    // Without the widths of the columns.
    let lines = page.lines().map(|line| line.split_whitespace());
    let lines = lines.map(|words| words.collect::<Vec<_>>().join(" ") + "\n");
    (output.status.code(), lines.collect())
}

#[tokio::test]
async fn every_part_is_one_line_and_a_chat_passes_through() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let base = model.url();
    let (code, page) = doctor(&base, &["--model", "strict", "--window", "32k"]).await;
    assert_eq!(code, Some(0), "{page}");
    for subject in
        ["version", "settings", "listen", "store", "upstream", "clock", "request", "window"]
    {
        let line = page.lines().find(|line| line.contains(subject));
        assert!(line.is_some(), "no {subject}: {page}");
    }
    assert!(page.contains("strict answered a chat through longhaul"), "{page}");
    assert!(page.contains("32,000 tokens"), "{page}");
    model.stop().await;
}

#[tokio::test]
async fn another_upstream_of_claude_is_named_until_a_model_is() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "upstream.messages = \"https://api.anthropic.com/v1\"\n").unwrap();
    let line = "skipped claude `--model claude-…` tests api.anthropic.com\n";
    let config = ["--config", file.path().to_str().unwrap(), "--window", "32k"];
    for (arguments, expect) in [
        (&config[..], true),
        (&[&config[..], &["--model", "strict"]].concat(), false),
        (&config[2..], false),
    ] {
        let (code, page) = doctor(&model.url(), arguments).await;
        assert_eq!((code, page.contains(line)), (Some(0), expect), "{page}");
    }
    model.stop().await;
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_a_failure_with_its_reason() {
    let (code, page) = doctor("http://127.0.0.1:1/v1", &[]).await;
    assert_eq!(code, Some(1), "{page}");
    assert!(page.contains("failed upstream"), "{page}");
    assert!(page.contains("Connection refused"), "{page}");
    for subject in ["clock", "key", "request"] {
        let line = format!("skipped {subject} needs the upstream");
        assert!(page.contains(&line), "{subject}: {page}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_refused_keeps_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (port, served) = tls::upstream(&dir.path().join("ca.pem"), "localhost").await;
    let (code, page) = doctor(&format!("https://localhost:{port}/v1"), &[]).await;
    assert_eq!(code, Some(1), "{page}");
    assert!(page.contains("UnknownIssuer"), "{page}");
    served.abort();
}

#[tokio::test]
async fn a_store_that_cannot_be_used_fails_in_its_own_line_alone() {
    let model = Model::start(ModelOptions::with_window(32_768)).await.unwrap();
    let (code, page) = doctor(&model.url(), &["--store", "file:/proc/longhaul.db"]).await;
    assert_eq!(code, Some(1), "{page}");
    assert!(page.contains("failed store"), "{page}");
    assert!(page.contains("ok settings"), "{page}");
    assert!(page.contains("ok upstream"), "{page}");
    model.stop().await;
}

#[tokio::test]
async fn settings_that_serve_refuses_are_each_a_failure() {
    let (code, page) = doctor("http://127.0.0.1:1/v1", &["--window", "many"]).await;
    assert_eq!(code, Some(1), "{page}");
    assert!(page.contains("failed settings") && page.contains("`many`"), "{page}");
}

#[tokio::test]
async fn a_chat_without_a_key_is_skipped_where_the_upstream_requires_one() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("/v1");
    let asked =
        tokio::spawn(
            async move { doctor_with("", &base, &["--model", "m", "--window", "32k"]).await },
        );
    let mut server = upstream.accept().await;
    let head = server.until("\r\n\r\n").await;
    assert!(head.starts_with("GET /v1/models ") && !head.contains("authorization"), "{head}");
    server.send("HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}").await;
    let (code, page) = asked.await.unwrap();
    assert_eq!(code, Some(0), "{page}");
    assert!(page.contains("skipped request needs the key"), "{page}");
}
