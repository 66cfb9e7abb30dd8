//! `longhaul explain --replay FOLDER`: the logs of each agent, odd lines, and the report.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

/// Text of about `tokens` tokens that differs with `seed`.
fn text(seed: usize, tokens: usize) -> String {
    let mut text = String::new();
    for line in 0..tokens / 8 {
        _ = writeln!(text, "{seed:04} {line:05} let value_{line} = {seed};");
    }
    text
}

/// Number of tool results of a session, and the size of each in tokens: more than any window of
/// 32,768.
pub(crate) const RESULTS: usize = 14;
const RESULT_TOKENS: usize = 4_000;

/// A log of Claude Code: a line for each block of a message, and lines of other kinds.
pub(crate) fn claude_code() -> String {
    let mut log = json!({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}})
        .to_string()
        + "\n";
    let mut line = |value: Value| {
        let mut value = value;
        value["sessionId"] = "5b0c".into();
        value["cwd"] = "/home/u/project".into();
        log.push_str(&(value.to_string() + "\n"));
    };
    line(json!({"type": "user", "message": {"role": "user", "content": "Read all files."}}));
    for at in 0..RESULTS {
        let id = format!("toolu_{at}");
        let message = format!("msg_{at}");
        let block = |block: Value| {
            json!({"type": "assistant", "message": {
            "id": message, "role": "assistant", "model": "claude-sonnet-4-5", "content": [block]}})
        };
        line(block(json!({"type": "thinking", "thinking": "…", "signature": "s"})));
        line(block(json!({"type": "text", "text": "Next."})));
        line(block(
            json!({"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "/a"}}),
        ));
        let result = text(at, RESULT_TOKENS);
        line(json!({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": result}]}]}}));
    }
    // What a subagent was asked is in requests of its own.
    let aside = json!({"role": "user", "content": text(99, 500)});
    line(json!({"type": "user", "isSidechain": true, "agentId": "a1", "message": aside}));
    line(
        json!({"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted"}),
    );
    line(
        json!({"type": "user", "isCompactSummary": true, "message": {"role": "user", "content": "A summary."}}),
    );
    log
}

pub(crate) fn codex() -> String {
    let line = |kind: &str, payload: Value| {
        json!({"timestamp": "2026-11-20T10:00:00.000Z", "type": kind, "payload": payload})
            .to_string()
            + "\n"
    };
    let mut log = line(
        "session_meta",
        json!({"id": "0199", "cwd": "/p", "cli_version": "0.166.0", "model_provider": "openai"}),
    );
    log += &line("turn_context", json!({"cwd": "/p", "model": "gpt-5-codex"}));
    log += &line(
        "response_item",
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]}),
    );
    for at in 0..RESULTS {
        let id = format!("call_{at}");
        log += &line(
            "response_item",
            json!({"type": "reasoning", "summary": [], "encrypted_content": "x"}),
        );
        log += &line(
            "response_item",
            json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": id}),
        );
        log += &line("event_msg", json!({"type": "token_count", "info": null}));
        log += &line(
            "response_item",
            json!({"type": "function_call_output", "call_id": id, "output": text(at, RESULT_TOKENS)}),
        );
    }
    log
}

pub(crate) fn pi() -> String {
    let mut log = json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-20T10:00:00Z", "cwd": "/p"}).to_string() + "\n";
    let mut line = |id: String, message: Value| {
        log.push_str(
            &(json!({"type": "message", "id": id, "parentId": null, "message": message})
                .to_string()
                + "\n"),
        );
    };
    line("u".into(), json!({"role": "user", "content": [{"type": "text", "text": "Go."}]}));
    for at in 0..RESULTS {
        let id = format!("c{at}");
        line(
            format!("a{at}"),
            json!({"role": "assistant", "provider": "openai", "model": "gpt-4o", "content": [
            {"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "a"}}]}),
        );
        line(
            format!("r{at}"),
            json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "isError": false,
            "content": [{"type": "text", "text": text(at, RESULT_TOKENS)}]}),
        );
    }
    log
}

/// Writes OpenCode's storage: a file for each message and each part.
fn write_opencode(storage: &Path) {
    let write = |path: String, value: Value| {
        let path = storage.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    };
    write(
        "message/ses_1/msg_000.json".into(),
        json!({"id": "msg_000", "sessionID": "ses_1", "role": "user"}),
    );
    write("part/msg_000/prt_1.json".into(), json!({"type": "text", "text": "Go."}));
    for at in 1..=RESULTS {
        let id = format!("msg_{at:03}");
        write(
            format!("message/ses_1/{id}.json"),
            json!({"id": id, "sessionID": "ses_1", "role": "assistant", "modelID": "gpt-4o", "providerID": "openai"}),
        );
        write(format!("part/{id}/prt_1.json"), json!({"type": "step-start"}));
        write(
            format!("part/{id}/prt_2.json"),
            json!({"type": "tool", "tool": "read", "callID": format!("c{at}"),
            "state": {"status": "completed", "input": {"filePath": "a"}, "output": text(at, RESULT_TOKENS)}}),
        );
    }
}

fn explain(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["explain", "--window", "32k", "--replay", folder.to_str().unwrap()])
        .args(arguments)
        .env_clear()
        .output()
        .unwrap()
}

fn report(folder: &Path, arguments: &[&str]) -> Value {
    let output = explain(folder, &[&["--json"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_logs_of_each_agent_give_the_session_that_was_held() {
    let folder = tempfile::tempdir().unwrap();
    let place = |path: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    fs::write(place("claude/projects/-home-u/5b0c.jsonl"), claude_code()).unwrap();
    fs::write(place("codex/sessions/2026/11/20/rollout-1.jsonl"), codex()).unwrap();
    fs::write(place("pi/agent/sessions/--p--/1_s.jsonl"), pi()).unwrap();
    write_opencode(&place("opencode/storage/x").with_file_name(""));

    let report = report(folder.path(), &["--profile", "frugal"]);
    let played = report["played"].as_array().unwrap();
    assert_eq!(played.len(), 4, "{report:#}");
    for session in played {
        // A request for the task, and one for each result.
        assert_eq!(session["requests"], RESULTS + 1, "{session:#}");
        assert_eq!(session["overflows"], true, "{session:#}");
    }
    let models: Vec<&str> = played.iter().map(|one| one["model"].as_str().unwrap()).collect();
    for model in ["claude-sonnet-4-5", "gpt-5-codex", "gpt-4o"] {
        assert!(models.contains(&model), "{models:?}");
    }
    assert_eq!(report["compacted_by_agent"], 1);
    assert_eq!(report["short"], 1, "what follows the compaction: {report:#}");
    let [profile] = report["profiles"].as_array().unwrap().as_slice() else { panic!("{report:#}") };
    let totals = &profile["totals"];
    assert_eq!(totals["answered"], totals["requests"], "{report:#}");
    let [with, without] = ["cost_with", "cost_without"].map(|key| profile[key].as_i64().unwrap());
    assert!(0 < with && with < without, "{profile:#}");
}

#[test]
fn odd_lines_cost_only_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let odd =
        ["", "{", "null", "[1]", "\"text\"", "{\"type\": 7}", "\u{0}\u{fffd}", "{\"payload\": {}}"]
            .join("\n");
    let log = pi();
    let (first, rest) = log.split_once('\n').unwrap();
    // A result without its call, a call without a result, and a line cut short at the end.
    let strange = json!({"type": "message", "id": "x", "message": {"role": "toolResult", "toolCallId": "none", "content": 7}});
    let cut = &rest[..rest.len() - 9];
    fs::write(folder.path().join("a.jsonl"), format!("{odd}\n{first}\n{strange}\n{odd}\n{cut}"))
        .unwrap();
    fs::write(folder.path().join("b.jsonl"), [0xff, 0xfe, b'\n', b'{']).unwrap();
    fs::write(folder.path().join("c.json"), "{\"version\": 1}").unwrap();
    let report = report(folder.path(), &["--profile", "local", "--sessions", "1"]);
    assert_eq!(report["played"].as_array().unwrap().len(), 1, "{report:#}");
    assert!(report["skipped"].as_u64().unwrap() >= 9, "{report:#}");
    let totals = &report["profiles"][0]["totals"];
    assert_eq!(totals["answered"], totals["requests"], "{report:#}");
}

#[test]
fn one_screen_has_every_profile_and_a_folder_without_logs_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let output = explain(folder.path(), &[]);
    assert_eq!(output.status.code(), Some(65));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no session"), "{output:?}");

    fs::write(folder.path().join("rollout.jsonl"), codex()).unwrap();
    let output = explain(folder.path(), &[]);
    let page = String::from_utf8(output.stdout).unwrap();
    for profile in ["auto", "standard", "local", "frugal"] {
        assert!(page.lines().any(|line| line.starts_with(profile)), "{page}");
    }
    assert!(page.lines().count() <= 24, "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
}

#[test]
fn a_log_is_read_whatever_its_age_and_a_window_that_no_table_states_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("rollout.jsonl");
    let old = SystemTime::now() - Duration::from_hours(24 * 90);
    let page = |path: &Path, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command.args(["explain", "--profile", "auto", "--replay"]).arg(path).args(arguments);
        let output = command.env_clear().output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    fs::write(&log, codex().replace("gpt-5-codex", "our-own")).unwrap();
    File::options().write(true).open(&log).unwrap().set_modified(old).unwrap();
    let older = page(folder.path(), &[]);
    assert!(
        older.contains("among 2 files and folders") && older.contains("1 files are older"),
        "{older}"
    );
    let assumed = page(&log, &[]);
    assert!(assumed.contains(" 200,000*  "), "{assumed}");
    assert!(assumed.contains("A window with * is assumed"), "{assumed}");
    let set = page(&log, &["--window", "32k"]);
    assert!(set.contains(" 32,000  "), "{set}");
}
