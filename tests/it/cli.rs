//! The binary as a user runs it: help, defaults, check, and error messages.

mod environment;
mod files;
mod flags;
mod scripts;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

pub(crate) fn longhaul(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    command(arguments, env).output().unwrap()
}

fn command(arguments: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(arguments).env_clear().envs(env.iter().copied());
    command
}

/// Checks that the call exits with 64 and prints every text of `expect`.
pub(crate) fn check_refused(arguments: &[&str], env: &[(&str, &str)], expect: &[&str]) {
    let output = longhaul(arguments, env);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    for words in expect {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
}

pub(crate) fn stdout(arguments: &[&str], env: &[(&str, &str)]) -> String {
    let output = longhaul(arguments, env);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn defaults_prompts_command_prints_each_prompt_under_its_setting() {
    let page = stdout(&["defaults", "--prompts"], &[]);
    let fresh = include_str!("../../crates/longhaul-core/src/summary/prompts/fresh.md").trim();
    let update = include_str!("../../crates/longhaul-core/src/summary/prompts/update.md").trim();
    let expect =
        format!("==> summary.prompt <==\n{fresh}\n\n==> summary.update_prompt <==\n{update}\n");
    assert_eq!(page, expect);
}

#[test]
fn default_config_file_changes_no_setting() {
    let values = |page: String| -> Vec<String> {
        let settings = page.lines().filter(|line| !line.starts_with('#'));
        settings.map(|line| line.split_once("  # ").unwrap().0.trim_end().to_owned()).collect()
    };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/config/default.toml");
    let with = stdout(&["check", "--config", file], &[]);
    assert!(with.starts_with("# the file is ") && with.contains("# file "), "{with}");
    assert_eq!(values(with), values(stdout(&["check"], &[])));
}

#[test]
fn flag_overrides_env_overrides_file_and_check_names_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("l.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:1\"\nmode = \"off\"\n[limits]\nbody = 4096\n")
        .unwrap();
    let page = stdout(
        &["check", "--listen", "127.0.0.1:3"],
        &[
            ("LONGHAUL_CONFIG", file.to_str().unwrap()),
            ("LONGHAUL_LISTEN", "127.0.0.1:2"),
            ("LONGHAUL_MODE", "ON"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:8484/v1"),
        ],
    );
    let line = |key: &str| page.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    assert!(line("listen").contains("127.0.0.1:3") && line("listen").ends_with("# flag --listen"));
    assert!(line("mode").ends_with("# env LONGHAUL_MODE"));
    assert!(line("limits.body").ends_with(&format!("# file {}:4", file.display())));
    assert!(line("upstream.base").contains("api.openai.com"));
    assert!(line("log.level").ends_with("# default"));
}

#[test]
fn check_reports_all_problems_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("l.toml");
    std::fs::write(&file, "listn = \"x\"\n\n[limits]\nbody = \"9TB\"\n").unwrap();
    check_refused(
        &["check", "--mode", "maybe", "--config", file.to_str().unwrap()],
        &[("LONGHAUL_UPSTREAM", "https://user:secret@example.com")],
        &[
            "l.toml:1",
            "did you mean listen?",
            "l.toml:4",
            "9TB",
            "flag --mode",
            "LONGHAUL_UPSTREAM",
        ],
    );
    let said = longhaul(&["check"], &[("LONGHAUL_UPSTREAM", "https://user:secret@example.com")]);
    assert!(!String::from_utf8_lossy(&said.stderr).contains("secret"));
}

/// Returns the line of `check` that begins with `key`.
fn setting(key: &str, arguments: &[&str], env: &[(&str, &str)]) -> String {
    let page = stdout(&[&["check"], arguments].concat(), env);
    let key = format!("{key} = ");
    let line = page.lines().find(|line| line.starts_with(&key));
    line.unwrap_or_else(|| panic!("{key} is not in {page}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn conversation_settings_have_environment_variables_and_flags() {
    let env = |key: &str, name: &str, value: &str, shown: &str| {
        assert_eq!(setting(key, &[], &[(name, value)]), format!("{key} = {shown} # env {name}"));
    };
    env("window", "LONGHAUL_WINDOW", "32000", "32000");
    env("profile", "LONGHAUL_PROFILE", "frugal", "\"frugal\"");
    env("prune.min_user_turns", "LONGHAUL_PRUNE_MIN_USER_TURNS", "1", "1");
    env("prune.exempt_tools", "LONGHAUL_PRUNE_EXEMPT_TOOLS", "a,b", "\"a,b\"");
    env("compact.soft", "LONGHAUL_COMPACT_SOFT", "0.5", "0.5");
    env("prune.disabled", "DISABLE_PRUNE", "true", "true");
    env("compact.auto_disabled", "DISABLE_AUTOCOMPACT", "1", "true");
    env("thinking.removal_disabled", "DISABLE_THINKING_REMOVAL", "on", "true");
    env("compact.overflow_disabled", "DISABLE_COMPACT_ON_OVERFLOW", "Yes", "true");
    let flag = |key: &str, name: &str, value: &str, shown: &str| {
        assert_eq!(setting(key, &[name, value], &[]), format!("{key} = {shown} # flag {name}"));
    };
    flag("window", "--window", "64000", "64000");
    flag("profile", "--profile", "local", "\"local\"");
    flag("mode", "--mode", "shadow", "\"shadow\"");
    flag("summary.model", "--summary-model", "none", "\"none\"");
    assert_eq!(setting("window", &[], &[]), "window = \"\" # default");
}

#[test]
fn rejects_a_soft_threshold_above_the_hard_threshold_and_names_both_sources() {
    check_refused(
        &["check"],
        &[("LONGHAUL_COMPACT_HARD", "0.7")],
        &["compact.soft from default", "85%", "70% from env LONGHAUL_COMPACT_HARD"],
    );
    let equal = [("LONGHAUL_COMPACT_HARD", "0.85")];
    assert_eq!(longhaul(&["check"], &equal).status.code(), Some(0));
}

#[test]
fn all_three_disable_switches_turn_the_mode_off() {
    let off = "# the mode is off";
    let mut switches = vec![("DISABLE_PRUNE", "1"), ("DISABLE_AUTOCOMPACT", "on")];
    assert!(!stdout(&["check"], &switches).contains(off));
    switches.push(("DISABLE_COMPACT_ON_OVERFLOW", "TRUE"));
    assert!(stdout(&["check"], &switches).contains(off));
    assert!(stdout(&["check", "--mode", "off"], &[]).contains(off));
}

#[test]
fn check_shows_the_window_of_a_model_its_source_and_the_thresholds() {
    let page = |arguments: &[&str]| stdout(&[&["check", "--model"], arguments].concat(), &[]);
    insta::assert_snapshot!(page(&["gpt-5"]), @r"
    model    gpt-5 at https://api.openai.com/v1
    window   272,000 tokens of input; output has its own limit (table, openai gpt-5), of which the reply leaves 255,616
    source   api.openai.com is openai, which lists it by that name
    asked    not asked for the window yet: --ask asks now, the proxy asks at the first chat
    history  a summary is prepared from 217,273 tokens on; from 230,054 on, it or a digest by rules replaces old history
    results  profile auto: old results are cleared once more than 20,000 tokens of them can go and that is likely to pay, from 2 user messages on; the newest 40,000 tokens stay
    ");
    let claude = page(&["claude-sonnet-4-5"]);
    assert!(
        claude.starts_with("model    claude-sonnet-4-5 at https://api.anthropic.com/v1\n"),
        "{claude}"
    );
    assert!(claude.contains("(table, anthropic claude-sonnet-4-5)"), "{claude}");
    let unlisted = longhaul(&["check", "--model", "claude-next-1"], &[]);
    let unlisted = String::from_utf8(unlisted.stdout).unwrap();
    assert!(
        unlisted.starts_with("model    claude-next-1 at https://api.anthropic.com"),
        "{unlisted}"
    );
    let gateway = ["openai/gpt-5", "--upstream", "https://gateway.example.org/v1"];
    insta::assert_snapshot!(page(&gateway), @r"
    model    openai/gpt-5 at https://gateway.example.org/v1
    window   400,000 tokens (table, openrouter openai/gpt-5), of which the reply leaves 383,616
    source   gateway.example.org is not a known provider; rows by that name: 2, the smallest is openai/gpt-5 of openrouter
    asked    not asked for the window yet: --ask asks now, the proxy asks at the first chat
    history  a summary is prepared from 326,073 tokens on; from 345,254 on, it or a digest by rules replaces old history
    results  profile auto: old results are cleared once more than 20,000 tokens of them can go and that is likely to pay, from 2 user messages on; the newest 40,000 tokens stay
    ");
    let set = ["our-own", "--window", "32000", "--profile", "frugal"];
    insta::assert_snapshot!(page(&set), @r#"
    model    our-own at https://api.openai.com/v1
    window   32,000 tokens (flag --window), of which the reply leaves 28,000
    source   api.openai.com is openai, for which the table has no "our-own"
    asked    not asked: the window is set
    history  a summary is prepared from 19,278 tokens on; from 21,420 on, it or a digest by rules replaces old history
    results  profile frugal: old results are cleared once the request reaches 21,420 tokens; the newest 1,322 tokens stay
    "#);
    let local = ["m", "--upstream", "http://127.0.0.1:1/v1", "--profile", "local", "--ask"];
    let output = longhaul(&[&["check", "--model"], &local[..]].concat(), &[]);
    assert_eq!(output.status.code(), Some(1), "the upstream gave no answer");
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    model    m at http://127.0.0.1:1/v1
    window   10,000 tokens (profile local), of which the reply leaves 8,750
    source   127.0.0.1 is local: the window depends on how its server was started
    asked    connecting to the upstream http://127.0.0.1:1 failed; check that the server is running and that the upstream's URL has the right port (Connection refused (os error 111))
    history  a summary is prepared from 7,088 tokens on; from 7,875 on, it or a digest by rules replaces old history
    results  profile local: old results are cleared once more than 500 tokens of them can go, from 2 user messages on; the newest 2,000 tokens stay
    ");
    check_refused(&["check", "--ask"], &[], &["--model"]);
}

#[test]
fn help_lists_the_conversation_flags() {
    let help = stdout(&["--help"], &[]);
    for words in [
        "--window <TOKENS>",
        "--profile <auto|standard|local|frugal>",
        "--mode <on|shadow|off>",
        "--summary-model <NAME|provider|none>",
        "DISABLE_PRUNE",
    ] {
        assert!(help.contains(words), "{words:?} is not in: {help}");
    }
    assert!(!help.contains("[default: ]"), "{help}");
}

/// Returns the numbers below 128 at the beginnings of lines.
fn codes(table: &str, before: &str) -> Vec<u8> {
    let lines = table.lines().filter_map(|line| line.strip_prefix(before));
    let codes = lines.flat_map(|line| {
        let end = line.find(|c: char| !c.is_ascii_digit() && !", ".contains(c));
        line[..end.unwrap_or(line.len())].split(", ")
    });
    let mut codes: Vec<u8> = codes.filter_map(|code| code.trim().parse().ok()).collect();
    codes.retain(|&code| code < 128);
    codes
}

#[test]
fn the_docs_and_the_help_know_the_same_exit_codes() {
    let help = stdout(&["--help"], &[]);
    let (_, help) = help.split_once("\nExit codes\n").unwrap();
    let page = include_str!("../../docs/reference/exit-codes.md").to_owned() + "\n";
    let (_, readme) = page.split_once("| exit code | when |\n").unwrap();
    let readme = readme.split_once("\n\n").unwrap().0;
    assert_eq!(codes(help, "  "), [0, 1, 64, 65, 66, 69, 71, 74, 126, 127]);
    assert_eq!(codes(readme, "| "), codes(help, "  "));
}

#[test]
fn usage_errors_exit_with_64_and_a_hint() {
    check_refused(&["--listn", "x"], &[], &["--listen"]);
    check_refused(&["check", "--config", "/does/not/exist"], &[], &["/does/not/exist", "--config"]);
    check_refused(&["--listen", "127.0.0.1"], &[], &["127.0.0.1:8484"]);
    check_refused(&["--upstream", "openrouter"], &[], &["http://", "flag --upstream"]);
    let none = [("LONGHAUL_UPSTREAM_CA_FILE", "/does/not/exist")];
    check_refused(&["check"], &none, &["upstream.ca_file", "PEM"]);
}

#[test]
fn busy_port_error_explains_finding_the_owner_or_a_free_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let ask = format!("sport = :{port}");
    let output = longhaul(&["--listen", &listen], &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(69), "{said}");
    for words in [&*ask, "--listen 127.0.0.1:0"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn rejects_a_public_listen_address_unless_public_is_set() {
    let strangers = ["--listen", "0.0.0.0:0"];
    let ways = ["127.0.0.1:0", "client_tokens_file", "public = true"];
    check_refused(&strangers, &[], &ways);
    let meant = [("LONGHAUL_PUBLIC", "true")];
    stdout(&[&["check"], &strangers[..]].concat(), &meant);
}

#[test]
fn serve_prints_its_endpoint_and_mode_and_exits_cleanly_on_sigterm() {
    let mut child =
        command(&["--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1/v1"], &[])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
    let said: Vec<String> =
        BufReader::new(child.stdout.take().unwrap()).lines().take(7).map(Result::unwrap).collect();
    assert!(said[1].contains(" → http://127.0.0.1:1/v1"), "{said:?}");
    assert!(said[2].contains("export OPENAI_BASE_URL=http://127.0.0.1:"), "{said:?}");
    assert!(said[3].contains("export ANTHROPIC_BASE_URL=http://127.0.0.1:"), "{said:?}");
    assert_eq!(said[4], "  mode on");
    assert_eq!(
        said[5],
        "  clear old tool results: on · summaries: by the conversation's own model · fix \
         overflows: on"
    );
    assert_eq!(said[6], "  context window: detected per model (200,000 until known)");
    let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn logs_contain_no_key_query_or_content() {
    let mut child = command(
        &["--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1/v1"],
        &[("LONGHAUL_LOG_LEVEL", "trace"), ("LONGHAUL_LOG_FORMAT", "json")],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = said.nth(1).unwrap();
    let address = address.split(['/', ' ']).find(|word| word.starts_with("127.")).unwrap();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    client
        .write_all(
            b"POST /v1/chat/completions?q=secret HTTP/1.1\r\nHost: secret\r\nConnection: close\r\n\
              Authorization: Bearer secret\r\nContent-Length: 6\r\n\r\nsecret",
        )
        .unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    let logged = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(logged.contains(r#""path":"/v1/chat/completions""#), "{logged}");
    assert!(logged.contains(r#""code":"upstream_unreachable""#), "{logged}");
    assert!(!logged.contains("secret"), "{logged}");
}

#[cfg(target_os = "linux")]
#[test]
fn exits_with_74_if_standard_output_cannot_be_written() {
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["check"],
        &["check", "--json"],
        &["check", "--model", "gpt-4o"],
        &["completions", "bash"],
        &["defaults"],
        &["defaults", "--prompts"],
        &["defaults", "--table"],
        &["demo"],
        &["man"],
    ] {
        let full = std::fs::File::create("/dev/full").unwrap();
        let output = command(arguments, &[]).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74), "{arguments:?}: {said}");
        assert!(said.contains("cannot write to standard output"), "{said}");
    }
}
