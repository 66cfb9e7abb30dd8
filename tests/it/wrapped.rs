//! `longhaul wrapped`: the card of a home with logs of several agents, and what the card leaves out.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::history::{RESULTS, claude_code, codex, pi};

/// A home with logs of Claude Code and Codex, and a broken log of each.
fn lived_in_home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), ".claude/projects/-home-u-hidden/5b0c.jsonl", &claude_code());
    write(home.path(), ".claude/projects/-home-u-hidden/cut.jsonl", "{\"sessionId\": \"5b");
    write(home.path(), "own-codex/sessions/2026/11/20/rollout-1.jsonl", &codex());
    write(home.path(), "own-codex/sessions/2026/11/20/rollout-2.jsonl", "\0\n[1]\n\u{fffd}\n");
    home
}

fn write(home: &Path, path: &str, text: &str) {
    let path = home.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn wrapped(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .arg("wrapped")
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("CODEX_HOME", home.join("own-codex"))
        .output()
        .unwrap()
}

/// Returns the card with single spaces.
fn card(home: &Path, arguments: &[&str]) -> String {
    let output = wrapped(home, arguments);
    assert!(output.status.success(), "{output:?}");
    let page = String::from_utf8(output.stdout).unwrap();
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check(page: &str, words: &[&str]) {
    for words in words {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn the_card_of_a_home_sums_up_what_a_replay_of_each_log_shows() {
    let home = lived_in_home();
    let pictures = tempfile::tempdir().unwrap();
    let file = pictures.path().join("card.svg");
    let page = card(home.path(), &["--window", "32k", "--svg", file.to_str().unwrap()]);
    let answered = (2 * RESULTS).to_string();
    check(
        &page,
        &[
            "Hit the wall 2 times. 2 of 2 would have finished.",
            "2× at the wall 2 with a request over the model's window, 0 compacted by the agent",
            "2 sessions Claude Code 1, Codex 1;",
            &format!("{answered} requests answered"),
            "5 lines or files in an unknown form",
            &format!("The picture is in {}.", file.display()),
        ],
    );
    // The same sessions by another way through the program.
    let replayed = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["explain", "--window", "32k", "--profile", "auto", "--json", "--replay"])
        .arg(home.path())
        .env_clear()
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    let totals = &report["profiles"][0]["totals"];
    let [sent, saved] = ["tokens_sent", "tokens_saved"].map(|key| totals[key].as_u64().unwrap());
    let short = |tokens: u64| match tokens {
        0..1_000_000 => format!("{}k", (tokens + 500) / 1_000),
        _ => format!("{}.{:02}M", tokens / 1_000_000, (tokens % 1_000_000 + 5_000) / 10_000),
    };
    let share = saved * 100 / sent;
    let compared = format!("{} tokens less {share}% of the {}", short(saved), short(sent));
    check(&page, &[&compared]);

    let picture = fs::read_to_string(file).unwrap();
    check(&picture, &["2 of 2", "Claude Code 1, Codex 1", "prefers-color-scheme:dark"]);
    // Every name in the form has a value: braces are left in the style alone.
    let body = picture.split("</style>").nth(1).unwrap();
    assert!(!page.contains('{') && !body.contains('{'), "{page} {body}");
    for hidden in ["hidden", "5b0c", "Read all files", "rollout", home.path().to_str().unwrap()] {
        assert!(!page.contains(hidden) && !picture.contains(hidden), "{hidden}: {page}");
    }
}

#[test]
fn a_compaction_by_the_agent_counts_where_the_window_is_near() {
    let home = lived_in_home();
    let page = card(home.path(), &["--window", "80k"]);
    check(&page, &["Hit the wall once.", "0 with a request over the model's window, 1 compacted"]);
    // The same compaction at a third of the window is the user's own.
    let page = card(home.path(), &["--window", "200k"]);
    check(&page, &["No session met its window.", "0 compacted"]);
}

#[test]
fn a_window_that_nobody_states_or_the_log_refutes_is_no_wall() {
    let home = tempfile::tempdir().unwrap();
    let unknown = codex().replace("gpt-5-codex", "house-model");
    write(home.path(), "logs/rollout-1.jsonl", &unknown);
    let usage = r#""role":"assistant","usage":{"input":90000,"cacheRead":10000}"#;
    write(home.path(), "logs/1_s.jsonl", &pi().replace(r#""role":"assistant""#, usage));
    let logs = home.path().join("logs");
    let left_out = "1 whose window or size is not known";
    let page = card(home.path(), &["--window", "64k", logs.to_str().unwrap()]);
    check(&page, &["Hit the wall once.", "of 1 conversations played", left_out]);
    let page = card(home.path(), &[logs.to_str().unwrap()]);
    check(&page, &["of 1 conversations played", left_out]);
    let page = card(home.path(), &["--sessions", "0", "--window", "64k", logs.to_str().unwrap()]);
    check(&page, &["of 0 conversations played", "1 farther from it", "unknown input cost"]);

    // A provider that counted less than the strict model saw no request over the window.
    let counted = usage.replace("90000", "40000");
    write(home.path(), "logs/1_s.jsonl", &pi().replace(r#""role":"assistant""#, &counted));
    fs::remove_file(logs.join("rollout-1.jsonl")).unwrap();
    let page = card(home.path(), &["--window", "64k", logs.to_str().unwrap()]);
    check(&page, &["No session met its window.", "of 1 conversations played", "0 whose window"]);
}

#[test]
fn a_home_without_logs_names_the_places_and_the_next_step() {
    let home = tempfile::tempdir().unwrap();
    let output = wrapped(home.path(), &[]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    check(&told, &["/.claude/projects", "/own-codex/sessions", "longhaul run -- claude"]);
    let output = wrapped(lived_in_home().path(), &["--mode", "off"]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let nowhere = ["--window", "32k", "--sessions", "0", "--svg", "/nowhere/card.svg"];
    let output = wrapped(lived_in_home().path(), &nowhere);
    check(&String::from_utf8(output.stderr).unwrap(), &["cannot write the picture"]);
}
