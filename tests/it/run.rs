//! `longhaul run -- COMMAND`: the command's exit status, its environment variables, and the final
//! report.

#[cfg(target_os = "linux")]
mod signals;

use crate::harness::{Upstream, Wire};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

fn run(arguments: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command
        .arg("run")
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LONGHAUL_UPSTREAM_ASK", "false")
        .envs(env.iter().copied());
    command
}

/// Runs a shell command in front of an upstream that receives no requests.
fn shell(line: &str) -> Output {
    let arguments = ["--upstream", "http://127.0.0.1:9/v1", "--", "sh", "-c", line];
    run(&arguments, &[]).output().unwrap()
}

fn check_code(line: &str, code: i32) {
    let output = shell(line);
    assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
}

#[test]
fn exits_with_the_commands_exit_code() {
    check_code("exit 0", 0);
    check_code("exit 7", 7);
    check_code("kill -TERM $$", 128 + 15);
    check_code("kill -KILL $$", 128 + 9);
}

#[test]
fn sets_the_agents_base_url_variables_to_the_proxy() {
    let output = shell("echo $OPENAI_BASE_URL $OPENAI_API_BASE $OPENAI_HOST");
    let said = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    let [base, older, origin] = words[..] else {
        panic!("three words: {said}");
    };
    assert_eq!(base, older);
    assert_eq!(base, format!("{origin}/v1"));
    assert!(origin.starts_with("http://127.0.0.1:"), "{origin}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("no chat came through"), "{told}");
    assert!(told.contains(base), "{told}");
}

#[test]
fn command_environment_contains_no_longhaul_secrets() {
    let env = [
        ("LONGHAUL_UPSTREAM_API_KEY", "sk-hunter2"),
        ("LONGHAUL_STORE_SCOPE_SECRET", "hunter2-hunter2-hunter2-hunter2-hunter2"),
        ("LONGHAUL_PROXY_HTTP", "http://u:hunter2@127.0.0.1:9"),
        ("LONGHAUL_STORE", "memory"),
        ("OPENAI_API_KEY", "the-agents-own"),
        ("http_proxy", "http://agents:own@127.0.0.1:9"),
    ];
    let arguments = ["--upstream", "http://127.0.0.1:9/v1", "--", "env"];
    let output = run(&arguments, &env).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    for stays in
        ["LONGHAUL_STORE=memory", "OPENAI_API_KEY=the-agents-own", "http_proxy=http://agents:own@"]
    {
        assert!(said.contains(stays), "{stays}: {said}");
    }
}

#[test]
fn unrunnable_command_exits_with_127_or_126_as_in_a_shell() {
    for (program, code, hint) in
        [("/nowhere/agent", 127, "installed and on PATH?\n"), ("/", 126, "\n")]
    {
        let output = run(&["--upstream", "http://127.0.0.1:9/v1", "--", program], &[]);
        let output = { output }.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(
            told.starts_with(&format!("longhaul: {program}: ")) && told.ends_with(hint),
            "{told}"
        );
    }
}

/// Returns the endpoint that a command finds in its environment.
fn endpoint(arguments: &[&str], env: &[(&str, &str)]) -> String {
    let upstream = ["--upstream", "http://127.0.0.1:9/v1"];
    let echo = ["--", "sh", "-c", "echo $OPENAI_BASE_URL $NO_PROXY"];
    let output = run(&[&upstream, arguments, &echo].concat(), env).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn run_ignores_the_listen_settings_of_serve() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("longhaul.toml");
    std::fs::write(&file, format!("listen = \"{taken}\"\n")).unwrap();
    for env in [
        ("LONGHAUL_CONFIG", file.to_str().unwrap()),
        ("LONGHAUL_LISTEN", &taken),
        ("LONGHAUL_LISTEN", "0.0.0.0:0"),
    ] {
        let base = endpoint(&[], &[env]);
        assert!(base.starts_with("http://127.0.0.1:"), "{env:?}: {base}");
        assert!(!base.contains(&taken), "{env:?}: {base}");
    }
}

#[test]
fn run_listens_on_the_address_of_the_listen_flag() {
    let help = run(&["--help"], &[]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("[default: 127.0.0.1:0]"), "{help}");
    assert!(!help.contains("8484"), "{help}");
    let other = endpoint(&["--listen", "127.0.0.2:0"], &[("HTTP_PROXY", "corp:1")]);
    assert!(other.starts_with("http://127.0.0.2:"), "{other}");
    assert!(other.ends_with(" 127.0.0.2"), "{other}");
    let env = [("LONGHAUL_PUBLIC", "true")];
    let every = endpoint(&["--listen", "0.0.0.0:0"], &env);
    assert!(every.starts_with("http://127.0.0.1:"), "{every}");
}

/// Returns the variables that are set to the proxy for a command in front of this upstream.
fn set_before(upstream: &[&str]) -> Vec<String> {
    let arguments = [upstream, &["--", "env"]].concat();
    let output = run(&arguments, &[]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let set = said.lines().filter_map(|line| line.split_once('='));
    let names = set.filter(|(_, value)| value.starts_with("http://127.0.0.1:"));
    names.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn rejects_a_preset_base_url_unless_upstream_is_given() {
    let variables = set_before(&["--upstream", "http://127.0.0.1:9/v1"]);
    assert_eq!(variables.len(), 8, "{variables:?}");
    let help = run(&["--help"], &[]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for name in variables {
        assert!(help.contains(&format!("\n  {name} ")), "{help}");
        if name == "ANTHROPIC_BASE_URL" {
            // Kept as the upstream of the Messages API.
            continue;
        }
        let elsewhere = [(&*name, "http://127.0.0.1:9/api/v1")];
        let output = run(&["--", "true"], &elsewhere).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{name}: {output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(&name), "{told}");
        let named = "--upstream http://127.0.0.1:9/api/v1";
        assert!(told.contains(named), "{told}");
        let told = ["--upstream", "http://127.0.0.1:9/api/v1", "--", "true"];
        assert!(run(&told, &elsewhere).status().unwrap().success());
    }
}

#[test]
fn preset_base_url_is_reported_without_its_password() {
    for (base, named) in [
        ("http://u:hunter2@h/v1", "--upstream http://h/v1\n"),
        ("http://h/v1?key=hunter2", "--upstream http://h/v1\n"),
        ("u:hunter2@h/v1", "--upstream h/v1\n"),
    ] {
        let elsewhere = [("OPENAI_BASE_URL", base)];
        let output = run(&["--", "true"], &elsewhere).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(named), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn openrouters_key_goes_to_no_other_provider() {
    const OPENROUTERS: &str = "OPENROUTER_API_BASE";
    let check = |upstream: &[&str], expect: bool| {
        let set = set_before(upstream);
        assert!(set.contains(&"OPENAI_BASE_URL".to_owned()), "{set:?}");
        let is_set = set.iter().any(|name| name == OPENROUTERS);
        assert_eq!(is_set, expect, "{upstream:?}: {set:?}");
    };
    check(&[], false);
    check(&["--upstream", "https://api.groq.com/openai/v1"], false);
    check(&["--upstream", "https://openrouter.ai/api/v1"], true);
    check(&["--upstream", "https://gateway.example.org/v1"], true);
    check(&["--upstream", "http://localhost:4000"], true);
}

#[test]
fn anthropics_key_goes_to_no_other_provider() {
    let check = |upstream: &[&str], expect: bool| {
        let set = set_before(upstream);
        let is_set = set.iter().any(|name| name == "ANTHROPIC_BASE_URL");
        assert_eq!(is_set, expect, "{upstream:?}: {set:?}");
    };
    // If the upstream is OpenAI's API, requests of the Messages API go to Anthropic's.
    check(&[], true);
    check(&["--upstream", "https://api.openai.com/v1"], true);
    check(&["--upstream", "https://api.groq.com/openai/v1"], false);
    check(&["--upstream", "https://openrouter.ai/api/v1"], false);
    check(&["--upstream", "https://api.anthropic.com/v1"], true);
    check(&["--upstream", "https://gateway.example.org/v1"], true);
    check(&["--upstream", "http://localhost:4000"], true);
}

#[test]
fn rejects_an_invalid_anthropic_base_url_by_name() {
    for base in ["foo", "https://u:hunter2@h"] {
        let mut command = run(&["--", "true"], &[("ANTHROPIC_BASE_URL", base)]);
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{told}");
        assert!(told.contains("ANTHROPIC_BASE_URL"), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn rejects_a_base_url_of_a_running_longhaul() {
    for (name, base) in [
        ("OPENAI_BASE_URL", "http://127.0.0.1:8484/v1"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8484"),
    ] {
        let output = run(&["--", "true"], &[(name, base)]).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{told}");
        let words = format!("{name} leads to your longhaul at http://127.0.0.1:8484");
        assert!(told.contains(&words), "{told}");
    }
}

#[tokio::test]
async fn run_forwards_messages_requests_to_the_preset_anthropic_base_url() {
    let upstream = Upstream::bind().await;
    let base = upstream.base("/");
    let line = "echo $ANTHROPIC_BASE_URL; cat";
    let (mut child, origin) =
        started(run(&["--", "sh", "-c", line], &[("ANTHROPIC_BASE_URL", &base)]));
    let address = origin.strip_prefix("http://").unwrap().parse().unwrap();
    let mut client = Wire::to(address).await;
    let head = "POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
    client.send(head).await;
    let mut server = upstream.accept().await;
    let head = server.until("\r\n\r\n").await;
    assert!(head.starts_with("POST /v1/messages HTTP/1.1"), "{head}");
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// Starts a command that prints its endpoint and ends when its standard input closes.
fn agent(upstream: &str) -> (Child, String) {
    let line = "echo $OPENAI_BASE_URL; cat";
    started(run(&["--upstream", upstream, "--", "sh", "-c", line], &[]))
}

/// Starts a command, and returns the command with the first line that it prints.
fn started(mut command: Command) -> (Child, String) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

fn ended(mut child: Child) -> (Option<i32>, String) {
    drop(child.stdin.take());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    (child.wait().unwrap().code(), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_chats_and_reports_them_at_the_end() {
    let upstream = Upstream::bind().await;
    let (child, base) = agent(&upstream.base("/v1"));
    let address = base.strip_prefix("http://").unwrap();
    let address = address.strip_suffix("/v1").unwrap().parse().unwrap();
    let mut client = Wire::to(address).await;
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hello, who is there?"}]}"#;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.send(&request).await;
    let mut at_upstream = upstream.accept().await;
    at_upstream.until(body).await;
    let answer = r#"{"choices":[{"message":{"role":"assistant","content":"me"}}]}"#;
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    );
    at_upstream.send(&reply).await;
    client.until(answer).await;
    drop(client);
    let (code, told) = ended(child);
    assert_eq!(code, Some(0), "{told}");
    let started = "longhaul: started sh, pointed to the proxy by 8 variables\n";
    assert!(told.starts_with(started), "{told}");
    assert!(told.contains("\nlonghaul: 1 chat, about "), "{told}");
    assert_eq!(told.lines().count(), 2, "nothing else is said: {told}");
}

#[cfg(unix)]
#[test]
fn forwards_sigterm_and_exits_with_the_commands_code() {
    let line = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = run(&["--upstream", "http://127.0.0.1:9", "--", "sh", "-c", line], &[])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

#[test]
fn the_command_is_not_handed_the_page_and_asks_it_through_the_socket() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_str().unwrap();
    let ours = env!("CARGO_BIN_EXE_longhaul");
    let last = format!("{ours} explain --last; {ours} explain --conversation hi");
    let line = format!("env; {last}; {ours} quota --json");
    let upstream = ["--upstream", "http://127.0.0.1:9/v1", "--admin", "127.0.0.1:0"];
    let output = run(&[&upstream[..], &["--", "sh", "-c", &line]].concat(), &[("HOME", path)]);
    let output = { output }.output().unwrap();
    let (told, said) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(told.contains("dashboard at http://127.0.0.1:"), "{told}");
    assert!(said.contains("\n[]"), "no login has a quota: {said}");
    for what in ["the last request", "conversation hi"] {
        assert!(told.contains(&format!("{what} is unknown to your longhaul: ")), "{told}");
    }
    let file = home.path().join(".local/state/longhaul/page.token");
    let token = std::fs::read_to_string(&file).unwrap();
    assert!(token.len() == 64 && !said.contains(&token) && !told.contains(&token));
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_dashboard_and_a_log_are_there_on_request_and_lessons_in_the_state_folder() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = free.local_addr().unwrap().to_string();
    drop(free);
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().to_str().unwrap();
    let log = dir.path().join("agent.log");
    let health =
        format!("{} health --admin {admin}; kill -0 $$; echo $?", env!("CARGO_BIN_EXE_longhaul"));
    let upstream = ["--upstream", "http://127.0.0.1:9/v1", "--admin", &admin];
    let log_file = ["--log", log.to_str().unwrap(), "--", "sh", "-c", &health];
    let output = run(&[&upstream[..], &log_file].concat(), &[("HOME", home)]);
    let output = { output }.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("dashboard at http://{admin}")), "{told}");
    assert!(log.exists());
    let state = dir.path().join(".local/state/longhaul");
    assert!(state.join("lessons.db.secret").exists());
    let off = [("HOME", home), ("LONGHAUL_STORE_LESSONS", "false")];
    std::fs::remove_dir_all(&state).unwrap();
    let output = run(&["--upstream", "http://127.0.0.1:9/v1", "--", "true"], &off).output();
    assert!(output.unwrap().status.success());
    assert!(!state.exists());
}
