//! `longhaul demo` as a user runs it: its output and its exit code.

use std::process::{Command, Output};

use serde_json::Value;

fn demo(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .arg("demo")
        .args(options)
        .env_clear()
        .output()
        .unwrap()
}

/// Returns the output of a show that succeeded.
fn finished(options: &[&str]) -> String {
    let output = demo(options);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that the show exits with this code and prints these words.
fn check_failed(options: &[&str], code: i32, words: &str) {
    let output = demo(options);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(words), "{said}");
}

fn sum(rows: &[Value], column: &str) -> u64 {
    rows.iter().map(|row| row[column].as_u64().unwrap()).sum()
}

#[test]
fn demo_session_fails_directly_and_completes_through_longhaul() {
    let report: Value = finished(&["--json"]).parse().unwrap();
    let (direct, longhaul) = (&report["direct"], &report["longhaul"]);
    let last = direct["rows"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["status"], &last["refused"]), (&400.into(), &1.into()));
    assert!(
        last["error"].as_str().unwrap().contains("maximum context length is 32768 tokens"),
        "{last}"
    );
    let rows = longhaul["rows"].as_array().unwrap();
    let requests: Vec<u64> = rows.iter().map(|row| row["request"].as_u64().unwrap()).collect();
    assert_eq!(requests, (1..=112).collect::<Vec<_>>());
    for row in rows {
        assert_eq!((&row["status"], &row["error"]), (&200.into(), &Value::Null), "{row}");
        assert!(row["tokens_forwarded"].as_u64().unwrap() <= 32_768, "{row}");
    }
    assert!(rows.iter().any(|row| row["tokens_sent"].as_u64().unwrap() > 3 * 32_768));
    let injected = report["injected"]["text"].as_str().unwrap();
    assert!(!injected.is_empty());
}

#[test]
fn totals_are_the_sums_of_the_rows() {
    let report: Value = finished(&["--json"]).parse().unwrap();
    for played in [&report["direct"], &report["longhaul"]] {
        let (rows, totals) = (played["rows"].as_array().unwrap(), &played["totals"]);
        for column in [
            "refused",
            "tokens_sent",
            "tokens_forwarded",
            "tokens_cached",
            "tokens_for_summaries",
            "summaries",
        ] {
            assert_eq!(totals[column], sum(rows, column), "{column}");
        }
        assert_eq!(totals["requests"], rows.len());
        let answered: Vec<Value> =
            rows.iter().filter(|row| row["error"].is_null()).cloned().collect();
        assert_eq!(totals["answered"], answered.len());
        let spent = sum(&answered, "tokens_forwarded") + sum(rows, "tokens_for_summaries");
        let saved = sum(&answered, "tokens_sent").checked_signed_diff(spent).unwrap();
        assert_eq!(totals["tokens_saved"], saved);
    }
}

#[test]
fn table_is_deterministic_and_all_prints_every_row() {
    let is_row = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
    let (page, all) = (finished(&[]), finished(&["--all"]));
    let every: Vec<&str> = all.lines().filter(is_row).collect();
    assert!(every.len() >= 112, "{all}");
    for row in page.lines().filter(is_row) {
        assert!(every.contains(&row), "{row} is not in: {all}");
    }
    let sums = |page: &str| page.split_once("\ntotals ").unwrap().1.to_owned();
    assert_eq!(sums(&page), sums(&all));
    assert!(!page.contains('\x1b'), "{page}");
    // Up to the refusal, the output depends only on the session and the model.
    let (stable, _) = page.split_once("\n     41 ").unwrap();
    insta::assert_snapshot!(stable);
}

#[test]
fn readme_shows_lines_that_the_demo_prints() {
    let printed = finished(&[]);
    let readme = include_str!("../../README.md");
    let (_, shown) = readme.split_once("```text\nrequest ").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    for line in shown.lines().skip(1).filter(|line| !line.is_empty()) {
        assert!(printed.lines().any(|it| it.trim_end() == line), "{line}\n{printed}");
    }
}

#[test]
fn rejects_a_session_that_fits_the_window() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("short.json");
    std::fs::write(&file, r#"{"model": "m", "messages": [{"role": "user", "content": "hi"}]}"#)
        .unwrap();
    check_failed(&["--session", file.to_str().unwrap()], 1, "try a smaller --window");
}

#[test]
fn invalid_options_and_files_exit_with_distinct_codes() {
    check_failed(&["--window", "12"], 64, "2048 or more");
    check_failed(&["--summary-model", "gpt"], 64, "possible values: own, none");
    check_failed(&["--session", "/does/not/exist"], 66, "/does/not/exist");
    let empty = tempfile::NamedTempFile::new().unwrap();
    let name = empty.path().to_str().unwrap();
    check_failed(&["--session", name], 65, "the last request body");
    check_failed(&["--listen", "127.0.0.1:1"], 64, "--listen");
}

#[test]
fn codex_session_fails_directly_and_completes_through_longhaul() {
    let report: Value = finished(&["--dialect", "responses", "--json"]).parse().unwrap();
    let last = report["direct"]["rows"].as_array().unwrap().last().unwrap();
    let error = last["error"].as_str().unwrap();
    assert!(error.contains("exceeds the context window"), "{error}");
    let rows = report["longhaul"]["rows"].as_array().unwrap();
    assert!(rows.len() > 80, "{}", rows.len());
    for row in rows {
        assert_eq!((&row["status"], &row["error"]), (&200.into(), &Value::Null), "{row}");
    }
    // The model's refusals state no number: the first few show where the window is.
    let refused: u64 = rows.iter().filter_map(|row| row["refused"].as_u64()).sum();
    assert!((1..=6).contains(&refused), "{refused}");
    check_failed(&["--dialect", "x"], 64, "possible values: chat, messages, responses");
}

#[test]
fn a_session_of_claude_code_dies_alone_and_is_finished_through_longhaul() {
    let report: Value = finished(&["--dialect", "messages", "--json"]).parse().unwrap();
    let last = report["direct"]["rows"].as_array().unwrap().last().unwrap();
    let error = last["error"].as_str().unwrap();
    assert!(error.contains("exceed context limit"), "{error}");
    let rows = report["longhaul"]["rows"].as_array().unwrap();
    assert!(rows.len() > 100, "{}", rows.len());
    for row in rows {
        assert_eq!((&row["status"], &row["error"]), (&200.into(), &Value::Null), "{row}");
    }
    let refused: u64 = rows.iter().filter_map(|row| row["refused"].as_u64()).sum();
    assert!((1..=3).contains(&refused), "{refused}");
}
