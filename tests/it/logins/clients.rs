//! Codex and Claude Code on logins made for the test, against the built-in hosts.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::hosts::{Answer, Hosts, Seen, strict};

const SSE: &str = "Content-Type: text/event-stream\r\n";

/// Returns the events as a stream. Each is named by its own type.
fn stream(events: &[Value]) -> Answer {
    let event =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    (200, SSE.to_owned(), events.iter().map(event).collect())
}

/// Answers a chat of either client, if the host accepts the credential.
pub(crate) fn talk(request: &Seen) -> Answer {
    let (status, fields, body) = strict(request);
    if status != 200 {
        return (status, fields, body);
    }
    if request.path.contains("/responses") {
        let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "login works", "annotations": []}]});
        return stream(&[
            json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed",
                "output": [item], "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0}}}}),
        ]);
    }
    if request.path.starts_with("/v1/messages") && !request.path.contains("count_tokens") {
        let usage = json!({"input_tokens": 10, "output_tokens": 2});
        return stream(&[
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
                "role": "assistant", "model": "claude", "content": [], "usage": usage,
                "stop_reason": null, "stop_sequence": null}}),
            json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": "login works"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
            json!({"type": "message_stop"}),
        ]);
    }
    (200, fields, json!({"models": [], "data": []}).to_string())
}

/// Runs `longhaul run -- COMMAND` with these folders and variables. Returns what both print.
pub(crate) async fn run(hosts: &Hosts, home: &Path, more: &[(&str, &str)], line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    let path = std::env::var("PATH").unwrap();
    command
        .args(["run", "--", "sh", "-c", line])
        .current_dir(home)
        .env_clear()
        .env("PATH", path)
        .env("HOME", home)
        .envs(hosts.environment())
        .envs(more.iter().copied())
        .stdin(std::process::Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Writes the login file of Codex, with a token for `account`.
pub(crate) fn codex_login(home: &Path, account: &str) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"exp": 4_000_000_000_u64, "email": "a@example.org", "sub": "user-1",
        "https://api.openai.com/auth": {"chatgpt_account_id": account, "chatgpt_plan_type": "pro"}});
    let token = format!("{}.{}.c2ln", part(json!({"alg": "RS256"})), part(claims));
    let file = json!({"OPENAI_API_KEY": null, "auth_mode": "chatgpt",
        "last_refresh": "2099-01-01T00:00:00Z", "tokens": {"id_token": token,
        "access_token": token, "refresh_token": "r", "account_id": account}});
    std::fs::create_dir_all(home.join(".codex")).unwrap();
    std::fs::write(home.join(".codex/auth.json"), file.to_string()).unwrap();
    token
}

/// Lets `connect` point the agent to the proxy, runs the agent without its variables, and undoes that.
async fn connected(agent: &str, file: &str, text: &str, line: &str) {
    let hosts = Hosts::start(talk).await;
    let home = tempfile::tempdir().unwrap();
    codex_login(home.path(), "acc-1");
    let file = home.path().join(file);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    let connect = format!("{} connect {agent}", env!("CARGO_BIN_EXE_longhaul"));
    let line = format!(
        "at=${{OPENAI_HOST#http://}}; {connect} --write --listen $at && unset ANTHROPIC_BASE_URL \
         OPENAI_BASE_URL && {line}; {connect} --undo"
    );
    let login = [("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-made-up")];
    let said = run(&hosts, home.path(), &login, &line).await;
    assert!(said.contains("login works") && said.contains("no longer uses"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs codex on the PATH"]
async fn codex_works_by_its_own_file() {
    let text = "# mine\nmodel = \"gpt-5\" # good\n\n[tui]\nnotifications = true\n";
    connected("codex", ".codex/config.toml", text, "codex exec --skip-git-repo-check 'say ok'")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs claude on the PATH"]
async fn claude_code_works_by_its_own_file() {
    let text = "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls)\"\n    ]\n  }\n}\n";
    connected("claude", ".claude/settings.json", text, "claude --print 'say ok'").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs codex on the PATH"]
async fn codex_works_on_a_login_without_a_setting() {
    let hosts = Hosts::start(talk).await;
    let home = tempfile::tempdir().unwrap();
    let token = codex_login(home.path(), "acc-1");
    let line = "longhaul=$OPENAI_BASE_URL; exec codex -c openai_base_url=\"$longhaul\" exec \
                --skip-git-repo-check 'say ok'";
    let said = run(&hosts, home.path(), &[], line).await;
    let seen = hosts.take();
    assert!(said.contains("login works"), "{said}");
    let chat = seen.iter().find(|it| it.path.ends_with("/responses")).unwrap();
    assert_eq!(chat.host, "chatgpt.com");
    assert_eq!(chat.path, "/backend-api/codex/responses");
    assert!(chat.has("authorization", &format!("Bearer {token}")), "{chat:?}");
    assert!(chat.has("chatgpt-account-id", "acc-1"), "{chat:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs claude on the PATH"]
async fn claude_code_works_on_a_login_without_a_setting() {
    let hosts = Hosts::start(talk).await;
    let home = tempfile::tempdir().unwrap();
    let login = [("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-made-up")];
    let said = run(&hosts, home.path(), &login, "exec claude --print 'say ok'").await;
    let seen = hosts.take();
    assert!(said.contains("login works"), "{said}");
    let chat = seen.iter().find(|it| it.path.starts_with("/v1/messages")).unwrap();
    assert_eq!(chat.host, "api.anthropic.com");
    assert!(chat.has("authorization", "Bearer sk-ant-oat01-made-up"), "{chat:?}");
}
