//! `longhaul explain --replay`: its report on whole sessions, and its exit code.

use std::process::{Command, Output};

use longhaul_mock_model::TokenDensity;
use serde_json::Value;

use crate::sessions::named;

/// A session of almost four windows.
const LONG: &str = "cli-0018";
const WINDOW: &str = "32768";

fn replay(arguments: &[&str], env: &[(&str, &str)], files: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .arg("explain")
        .args(arguments)
        .arg("--replay")
        .args(files)
        .env_clear()
        .envs(env.iter().copied())
        .output()
        .unwrap()
}

fn recorded(name: &str) -> String {
    format!("{}/fixtures/sessions/{name}.json.gz", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the machine-readable report on that session.
fn told(arguments: &[&str], env: &[(&str, &str)]) -> Value {
    let arguments = [&["--json", "--window", WINDOW], arguments].concat();
    let output = replay(&arguments, env, &[&recorded(LONG)]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    told["sessions"][0].clone()
}

fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} of {of}"))
}

/// Cost in billionths of a dollar: a new token costs a millionth of a dollar, and a cached token a
/// tenth of that.
fn relative(new: u64, cached: u64) -> u64 {
    new * 1_000 + cached * 100
}

#[test]
fn report_on_a_session_of_four_windows_shows_completion_and_cost() {
    // A server of one's own has no list prices.
    let told = told(&["--summary-model", "none", "--upstream", "http://127.0.0.1:9/v1"], &[]);
    let requests = named(LONG).replay().requests().len() as u64;
    assert_eq!(number(&told, "answered"), requests);
    assert_eq!(told["broken_off"], Value::Null);
    assert_eq!(number(&told, "window").to_string(), WINDOW);
    assert_eq!(told["window_source"], "flag --window");
    assert!(number(&told, "prefix_changes") > 0);
    assert_eq!(number(&told, "summaries"), 0);

    let wholes = named(LONG).replay();
    let wholes = wholes.requests().map(|request| request.body());
    let wholes = wholes.map(|body| TokenDensity::STANDARD.request_tokens(&body).unwrap());
    let (mut sent, mut without, mut before) = (0, 0, 0);
    for whole in wholes {
        sent += whole;
        without += relative(whole - before, before);
        before = whole;
    }
    assert_eq!(number(&told, "tokens_sent"), sent);
    let forwarded = number(&told, "tokens_forwarded");
    let cached = number(&told, "tokens_cached");
    assert!(forwarded < sent / 2 && cached < forwarded, "{told}");
    assert_eq!(told["cost"]["listed"], false);
    assert_eq!(number(&told["cost"], "without"), without);
    let with = relative(forwarded - cached, cached);
    assert_eq!(number(&told["cost"], "with"), with);
}

#[test]
fn equal_settings_give_equal_reports_and_others_differ() {
    let none = ["--summary-model", "none"];
    let first = told(&none, &[]);
    assert_eq!(told(&none, &[]), first);
    let kept = told(&none, &[("DISABLE_PRUNE", "1")]);
    assert_ne!(kept["tokens_forwarded"], first["tokens_forwarded"]);
    // Clearing alone makes enough room in this session.
    let written = told(&[], &[("DISABLE_PRUNE", "1")]);
    assert!(number(&written, "summaries") > 0);
    assert!(number(&written, "tokens_for_summaries") > 0);
}

#[test]
fn report_quotes_the_refusal_that_ends_a_session() {
    let off = [
        ("DISABLE_PRUNE", "1"),
        ("DISABLE_AUTOCOMPACT", "1"),
        ("DISABLE_COMPACT_ON_OVERFLOW", "1"),
    ];
    let told = told(&[], &off);
    assert!(number(&told, "answered") < number(&told, "session_requests"));
    let why = told["broken_off"].as_str().unwrap();
    assert!(why.starts_with("400 This model's maximum context length is 32768"), "{why}");
}

#[test]
fn replay_ignores_store_proxy_and_summariser_settings() {
    let env = [
        ("LONGHAUL_STORE", "file:/does/not/exist/store"),
        ("HTTP_PROXY", "http://127.0.0.1:1/"),
        ("LONGHAUL_SUMMARY_UPSTREAM", "http://127.0.0.1:1/v1"),
        ("LONGHAUL_SUMMARY_MODEL", "small"),
        ("DISABLE_PRUNE", "1"),
    ];
    let told = told(&[], &env);
    assert_eq!(number(&told, "answered"), number(&told, "session_requests"));
    assert!(number(&told, "summaries") > 0);
}

#[test]
fn several_sessions_get_a_line_each_and_a_total_line() {
    let files = ["tau-airline-0112", "cli-0059"].map(recorded);
    let output = replay(&[], &[], &[&files[0], &files[1]]);
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = page.lines().take_while(|line| !line.is_empty()).collect();
    let begin = ["session", &files[0], &files[1], "all"];
    assert_eq!(lines.len(), begin.len(), "{page}");
    for (line, begin) in lines.iter().zip(begin) {
        assert!(line.starts_with(begin), "{page}");
    }
}

#[test]
fn rejects_a_file_that_is_not_a_session_before_playing_any() {
    let check = |arguments: &[&str], files: &[&str], code: i32, words: &str| {
        let output = replay(arguments, &[], files);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(output.stdout.is_empty());
    };
    let cargo = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let real = recorded("cli-0059");
    check(&[], &[&real, "/does/not/exist"], 66, "/does/not/exist");
    check(
        &[],
        &[&real, cargo],
        65,
        "no session: the file is not JSON; give the last request body of a session",
    );
    check(
        &[],
        &[concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/validity.json")],
        65,
        "no messages",
    );
    check(&[], &[], 64, "--replay");
    check(&["--body"], &[&real], 64, "--body");
}
