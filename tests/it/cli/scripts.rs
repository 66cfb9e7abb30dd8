//! Output and exit codes that scripts, editors and terminals rely on.

use std::process::Command;

use serde_json::Value;

use super::{longhaul, stdout};

/// The first byte of every ANSI escape sequence.
const ESCAPE: char = '\u{1b}';

#[test]
fn the_version_is_one_line_or_names_commit_and_features() {
    let short = stdout(&["-V"], &[]);
    assert_eq!(short, format!("longhaul {}\n", env!("CARGO_PKG_VERSION")));
    let long = stdout(&["--version"], &[]);
    assert!(long.starts_with(short.trim_end()), "{long}");
    assert!(long.contains("\ncommit: ") && long.contains("\nfeatures: "), "{long}");
    assert_eq!(long.contains("otlp"), cfg!(feature = "otlp"), "{long}");
    assert_eq!(long.contains("mcp"), cfg!(feature = "mcp"), "{long}");
}

#[test]
fn a_pipe_gets_no_colour_unless_it_wants_some() {
    let said = |arguments: &[&str], env: &[(&str, &str)]| {
        let output = longhaul(arguments, env);
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let wants = [("CLICOLOR_FORCE", "1")];
    for arguments in [&["--help"][..], &["--nonsense"], &["check", "--window", "x"]] {
        assert!(!said(arguments, &[]).contains(ESCAPE), "{arguments:?}");
        assert!(said(arguments, &wants).contains(ESCAPE), "{arguments:?}");
        let both = [wants[0], ("NO_COLOR", "1")];
        assert!(!said(arguments, &both).contains(ESCAPE), "{arguments:?}");
    }
}

#[test]
fn an_unknown_model_ends_with_1_and_names_those_that_may_have_been_meant() {
    let output = longhaul(&["check", "--model", "gpt-4-o"], &[]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("did you mean") && page.contains("gpt-4o"), "{page}");
    assert!(page.contains("assumed"), "{page}");

    let output = longhaul(&["check", "--model", "gpt-4-o", "--json"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["window"]["known"], false);
    assert_eq!(report["window"]["tokens"], 200_000);

    let known = stdout(&["check", "--model", "gpt-4o", "--json"], &[]);
    let known: Value = known.parse().unwrap();
    assert_eq!(known["window"]["known"], true);
    assert_eq!(known["window"]["tokens"], 128_000);
}

#[test]
fn the_schema_accepts_the_default_file_and_refuses_a_misspelt_one() {
    let schema: Value = stdout(&["defaults", "--schema"], &[]).parse().unwrap();
    let keys = |value: &Value| -> Vec<String> {
        value["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let file: toml::Table = stdout(&["defaults"], &[]).parse().unwrap();
    let sections = keys(&schema);
    for (name, value) in &file {
        assert!(sections.contains(name), "{name}");
        for inner in value.as_table().into_iter().flat_map(toml::Table::keys) {
            assert!(keys(&schema["properties"][name]).contains(inner), "{name}.{inner}");
        }
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["log"]["additionalProperties"], false);
}

#[test]
fn connect_prints_the_lines_alone_where_a_file_can_take_them() {
    let listen = ["--listen", ":9000", "--model", "m-1"];
    for agent in ["opencode", "pi", "qwen", "tunacode"] {
        let lines = stdout(&[&["connect", agent], &listen[..]].concat(), &[]);
        let lines: Value = lines.parse().unwrap();
        assert!(lines.is_object());
        let text = lines.to_string();
        assert!(agent == "qwen" || text.contains("http://127.0.0.1:9000/v1"), "{text}");
    }
    let line = stdout(&["connect", "claude", "--listen", ":9000"], &[]);
    assert_eq!(line, "export ANTHROPIC_BASE_URL=http://127.0.0.1:9000\n");
    let line = stdout(&["connect", "aider", "--listen", ":9000"], &[]);
    assert_eq!(line, "export OPENAI_API_BASE=http://127.0.0.1:9000/v1\n");
    let lines = stdout(&["connect", "codex", "--listen", ":9000"], &[]);
    let lines: toml::Table = lines.parse().unwrap();
    assert_eq!(lines["openai_base_url"].as_str(), Some("http://127.0.0.1:9000/v1"));
}

#[test]
fn connect_names_a_model_where_the_agent_needs_one() {
    for (agent, expect) in [
        ("codex", "then start codex\n"),
        ("claude", "then start claude;"),
        ("pi", "then start pi --provider longhaul --model NAME\n"),
        ("aider", "then start aider --model openai/NAME "),
    ] {
        let told = longhaul(&["connect", agent], &[]).stderr;
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains(expect), "{agent}: {told}");
    }
    let told = longhaul(&["connect", "codex", "--model", "m-1"], &[]).stderr;
    assert!(String::from_utf8(told).unwrap().contains("then start codex --model m-1\n"));
}

#[cfg(unix)]
#[test]
fn run_points_agents_to_its_proxy_that_read_no_variable() {
    let folder = tempfile::tempdir().unwrap();
    let told = |name: &str| {
        let program = folder.path().join(name);
        std::fs::write(&program, "#!/bin/sh\necho \"$OPENCODE_CONFIG_CONTENT\" \"$@\"\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["run", "--", program.to_str().unwrap(), "own"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let base = "http://127.0.0.1:";
    let codex = told("codex");
    assert!(codex.contains(&format!("-c openai_base_url=\"{base}")), "{codex}");
    assert!(codex.trim_end().ends_with(" own"), "{codex}");
    let opencode = told("opencode");
    let settings: Value = opencode.trim_end().strip_suffix(" own").unwrap().parse().unwrap();
    let url = &settings["provider"]["openai"]["options"]["baseURL"];
    assert!(url.as_str().unwrap().starts_with(base), "{opencode}");
    assert!(told("tunacode").contains(&format!("--baseurl {base}")));
    assert_eq!(told("aider").trim(), "own");
}

#[cfg(unix)]
#[test]
fn run_claude_beats_its_settings_files_and_leaves_what_the_user_set() {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("claude");
    let script = "#!/bin/sh\necho \"$ANTHROPIC_BASE_URL|$CLAUDE_CODE_MAX_CONTEXT_TOKENS|$*\"\n";
    std::fs::write(&program, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    std::fs::create_dir(home.path().join(".claude")).unwrap();
    let file = home.path().join(".claude/settings.json");
    let run = |text: &str, env: &[(&str, &str)], own: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["run", "--", program.to_str().unwrap()])
            .args(own)
            .current_dir(home.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", home.path())
            .envs(env.iter().copied())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (_, plain, told) = run("{}", &[], &["hi"]);
    let (url, rest) = plain.split_once('|').unwrap();
    let settings = format!("|--settings {{\"env\":{{\"ANTHROPIC_BASE_URL\":\"{url}\"}}}} hi\n");
    assert_eq!(rest, settings);
    assert!(told.contains("pointed to the proxy by --settings and 7 variables\n"), "{told}");
    for (env, own, expect) in [
        (&[][..], &["--model", "qwen3"][..], "1000000"),
        (&[], &["--model=claude-opus-5"], ""),
        (&[], &["--model", "sonnet[1m]"], ""),
        (&[("ANTHROPIC_MODEL", "glm-5")], &[], "1000000"),
        (&[("ANTHROPIC_MODEL", "glm-5"), ("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "9")], &[], "9"),
    ] {
        let (_, said, _) = run("{}", env, own);
        assert_eq!(said.split('|').nth(1), Some(expect), "{env:?} {own:?}");
    }
    let (_, said, _) = run("{}", &[], &["--settings", "mine.json"]);
    assert!(said.ends_with("|--settings mine.json\n"), "{said}");
    for (text, env) in [
        ("{}", &[("CLAUDE_CODE_USE_BEDROCK", "1")][..]),
        (r#"{"env": {"CLAUDE_CODE_USE_VERTEX": "1"}}"#, &[]),
    ] {
        let (code, _, told) = run(text, env, &[]);
        assert!(code == Some(64) && told.contains("CLAUDE_CODE_USE_"), "{told}");
    }
    // The file's own endpoint becomes the upstream, so that the user's key goes nowhere else.
    let (code, _, told) = run(r#"{"env": {"ANTHROPIC_BASE_URL": "ftp://x"}}"#, &[], &[]);
    assert!(code == Some(64) && told.contains("set upstream.messages"), "{told}");
}
