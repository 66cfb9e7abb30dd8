//! The admin listener of the compiled program: health, metrics, settings, and the secrets that it
//! must not expose.

mod broken;
mod dashboard;
mod held;
mod page;

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};

use longhaul_mock_model::{Model, ModelOptions, RequestKind, SeenRequest, SummaryBehaviour};

use crate::caller::{Caller, chat, talk};
use crate::harness::{Nobody, Upstream, Wire};
use crate::program::{Admin, Program};
use crate::redis_server::signal;
use crate::time_limit::bounded;
use page::Metrics;
pub(crate) use page::has_counted;

const SMALL: u64 = 32_768;
const SECRET: &str = "hunter2";
const PAGES: [&str; 5] = ["/", "/livez", "/readyz", "/metrics", "/config"];

/// Returns the answer to a whole raw request, on a connection of its own.
pub(crate) async fn told(admin: SocketAddr, request: &str) -> String {
    let mut wire = Wire::to(admin).await;
    wire.send(request).await;
    wire.rest().await
}

pub(crate) async fn get(admin: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n");
    told(admin, &request).await
}

/// Returns the body of an answer with this status.
pub(crate) fn body<'a>(answer: &'a str, status: &str) -> &'a str {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    body
}

/// Runs `longhaul health` against the listener at `admin`.
fn health(admin: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["health", "--admin", admin])
        .args(more)
        .env_clear()
        .output()
        .unwrap()
}

#[track_caller]
fn check_health(admin: &str, more: &[&str], code: i32, says: &str) {
    let output = health(admin, more);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(said.contains(says), "{said}");
}

/// Waits until the process has handled the signal to stop.
async fn is_unready(admin: SocketAddr) {
    bounded(async { while get(admin, "/readyz").await.starts_with("HTTP/1.1 200") {} }).await;
}

#[tokio::test]
async fn serving_process_is_live_and_ready_without_its_upstream() {
    // The upstream does not exist, and readiness must not depend on it.
    let program = Program::with_admin("http://127.0.0.1:9/v1", &[], Admin::Free);
    let admin = program.admin();
    for (path, says) in [("/livez", "alive\n"), ("/readyz", "ready\n")] {
        assert_eq!(body(&get(admin, path).await, "200"), says);
        let head = format!("HEAD {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n");
        assert_eq!(body(&told(admin, &head).await, "200"), "");
    }
    let post = format!("POST /livez HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\n\r\n");
    body(&told(admin, &post).await, "405");
    body(&get(admin, "/status").await, "404");
    let rebound = "GET /config HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    body(&told(admin, rebound).await, "403");
    check_health(&admin.to_string(), &[], 0, "");
    check_health(&admin.to_string(), &["--ready"], 0, "");
}

#[tokio::test]
async fn stopping_process_is_live_but_not_ready_and_streams_continue() {
    let upstream = Upstream::bind().await;
    // New connections are accepted until the test has seen the state.
    let delay = [("LONGHAUL_LIMITS_DRAIN_DELAY", "5m")];
    let mut program = Program::with_admin(&upstream.base("/v1"), &delay, Admin::Free);
    let admin = program.admin();
    let ask = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    let mut client = Wire::to(program.address()).await;
    client.send(ask).await;
    let mut asked = upstream.accept().await;
    asked.until("{}").await;
    asked
        .send(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 24\r\n\r\n\
             data: {\"a\":1}\n\n",
        )
        .await;
    client.until("{\"a\":1}\n\n").await;

    signal(program.process(), "TERM");
    is_unready(admin).await;
    assert_eq!(body(&get(admin, "/readyz").await, "503"), "stopping\n");
    assert_eq!(body(&get(admin, "/livez").await, "200"), "alive\n");
    check_health(&admin.to_string(), &[], 0, "");
    check_health(&admin.to_string(), &["--ready"], 1, "503");

    let mut late = Wire::to(program.address()).await;
    late.send(ask).await;
    let mut again = upstream.accept().await;
    again.until("{}").await;
    again.send("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
    assert!(late.until("\r\n\r\n").await.starts_with("HTTP/1.1 204 "));

    asked.send("data: [1]").await;
    client.until("data: [1]").await;
    signal(program.process(), "TERM");
    assert!(program.exit().success());
    check_health(&admin.to_string(), &[], 1, "not running (nothing listens on");
}

#[tokio::test]
async fn readiness_shows_the_drain_even_without_a_delay() {
    let upstream = Upstream::bind().await;
    let mut program = Program::with_admin(&upstream.base("/v1"), &[], Admin::Free);
    let admin = program.admin();
    let mut client = Wire::to(program.address()).await;
    client.send("GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut asked = upstream.accept().await;
    asked.until("\r\n\r\n").await;
    signal(program.process(), "TERM");
    is_unready(admin).await;
    body(&get(admin, "/readyz").await, "503");
    asked.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]").await;
    client.until("\r\n\r\n[]").await;
    assert!(program.exit().success());
}

#[tokio::test]
async fn every_event_is_counted_under_its_labels() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let (admin, caller) = (program.admin(), Caller::of(program.address()));
    Metrics::of(admin).await.check("longhaul_chats_total", &[], 0);

    let body = talk(20, 2_000);
    assert_eq!(caller.ask(body.clone()).await.action(), "retry, summary");
    assert_eq!(caller.ask(body).await.action(), "summary");
    caller.ask(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#).await;
    caller.ask("{").await;
    let hopeless = chat(1, 200_000).len();
    let hopeless = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"{}"}}]}}"#,
        "word ".repeat(hopeless / 5)
    );
    assert_eq!(caller.ask(hopeless).await.action(), "gave-up");
    let shadow = [("x-longhaul-mode", "shadow")];
    let other = talk(20, 2_000);
    caller.ask_with(&shadow, other).await;

    let metrics = Metrics::of(admin).await;
    let requests = |action, status| [("action", action), ("status", status)];
    for (action, status, expect) in [
        ("retry", "2xx", 1),
        ("summary", "2xx", 1),
        ("pass", "2xx", 1),
        ("pass", "4xx", 1),
        ("gave-up", "4xx", 1),
        ("prune", "2xx", 0),
    ] {
        let labels = requests(action, status);
        metrics.check("longhaul_requests_total", &labels, expect);
    }
    let kept = [("kind", "compacted"), ("outcome", "accepted")];
    metrics.check("longhaul_retries_total", &kept, 1);
    let trigger = |trigger| [("trigger", trigger)];
    metrics.check("longhaul_compactions_total", &trigger("overflow"), 1);
    metrics.check("longhaul_compactions_total", &trigger("proactive"), 0);
    let made = [("outcome", "made")];
    metrics.check("longhaul_summary_requests_total", &made, 1);
    metrics.check("longhaul_bypasses_total", &[("reason", "malformed")], 1);
    metrics.check("longhaul_bypasses_total", &[("reason", "nothing")], 1);
    metrics.check("longhaul_acts_total", &[("act", "gave-up")], 1);
    metrics.check("longhaul_requests_ended_total", &[("ending", "complete")], 6);
    metrics.check("longhaul_inflight_requests", &[], 0);
    metrics.check("longhaul_modified_bytes_outside_cuts_total", &[], 0);
    assert!((metrics.counted("longhaul_overhead_seconds") - 6.0).abs() < 0.5);
    assert!((metrics.counted("longhaul_request_seconds") - 6.0).abs() < 0.5);
    // Both replies to the first request and the hopeless refusal; the others are known to fit.
    assert!((metrics.counted("longhaul_held_seconds") - 3.0).abs() < 0.5);
    assert!((metrics.counted("longhaul_summary_seconds") - 1.0).abs() < 0.5);
    assert!((metrics.counted("longhaul_summary_wait_seconds") - 1.0).abs() < 0.5);

    let number = |name| metrics.number(name, &[]);
    let before = number("longhaul_tokens_before_total");
    let saved = before - number("longhaul_tokens_after_total");
    assert!(saved > 20_000.0, "{saved}");
    assert!((number("longhaul_tokens_saved_total") - saved).abs() < 0.5);
    assert!(number("longhaul_shadow_saved_tokens_total") > 10_000.0);
    // The counts agree with the model's own, which cover answers and not refusals.
    let seen = model.seen();
    let cached: u64 = seen.iter().map(|seen| seen.cached_tokens).sum();
    let cached = f64::from(u32::try_from(cached).unwrap());
    let told = number("longhaul_cached_tokens_total");
    assert!(told > 0.0 && told <= cached, "{told} of {cached}");
    assert!(number("longhaul_prompt_tokens_total") > told);
    assert!(number("longhaul_completion_tokens_total") > 0.0);
}

#[tokio::test]
async fn undelivered_chat_counts_as_no_savings() {
    let nobody = Nobody::bind();
    let program =
        Program::with_admin(&nobody.base("/v1"), &[("LONGHAUL_WINDOW", "32768")], Admin::Free);
    let arrived = Caller::of(program.address()).ask(talk(20, 2_000)).await;
    assert_eq!(arrived.status, 502);
    let metrics = Metrics::of(program.admin()).await;
    let requests = [("action", "digest"), ("status", "5xx")];
    metrics.check("longhaul_requests_total", &requests, 1);
    metrics.check("longhaul_chats_total", &[], 0);
    metrics.check("longhaul_acts_total", &[("act", "digest")], 0);
    metrics.check("longhaul_tokens_saved_total", &[], 0);
}

#[tokio::test]
async fn failed_summaries_are_counted_by_outcome() {
    for (conduct, outcome) in [
        (SummaryBehaviour::Empty, "empty"),
        (SummaryBehaviour::Fails, "refused"),
        (SummaryBehaviour::None, "nothing_said"),
        (SummaryBehaviour::ToolCall, "tool_calls"),
        (SummaryBehaviour::Truncated, "cut_off"),
    ] {
        let mut options = ModelOptions::with_window(SMALL);
        options.summary = conduct;
        let model = Model::start(options).await.unwrap();
        let program = Program::with_admin(&model.url(), &[], Admin::Free);
        let caller = Caller::of(program.address());
        let arrived = caller.ask(talk(20, 2_000)).await;
        assert_eq!(arrived.action(), "retry, digest", "{conduct:?}");
        let metrics = Metrics::of(program.admin()).await;
        let summaries = "longhaul_summary_requests_total";
        metrics.check(summaries, &[("outcome", outcome)], 1);
        metrics.check(summaries, &[("outcome", "made")], 0);
        let overflow = [("trigger", "overflow")];
        metrics.check("longhaul_compactions_total", &overflow, 1);
    }
}

#[tokio::test]
async fn departed_client_and_its_aborted_summary_are_counted() {
    let mut options = ModelOptions::with_window(SMALL);
    options.summary = SummaryBehaviour::Hangs;
    let model = Model::start(options).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let admin = program.admin();
    let body = talk(20, 2_000);
    let mut client = Wire::to(program.address()).await;
    let length = body.len();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json";
    let head = format!("{head}\r\nContent-Length: {length}\r\n\r\n");
    client.send_bytes(&[head.as_bytes(), &body].concat()).await;
    let asked = |seen: &[SeenRequest]| seen.iter().any(|seen| seen.kind == RequestKind::Summary);
    bounded(model.wait_for(asked)).await;
    let metrics = Metrics::of(admin).await;
    metrics.check("longhaul_inflight_requests", &[], 1);
    client.reset();
    let aborted = [("outcome", "aborted")];
    has_counted(admin, "longhaul_summary_requests_total", &aborted).await;
    let metrics = Metrics::of(admin).await;
    metrics.check("longhaul_inflight_requests", &[], 0);
    metrics.check("longhaul_requests_ended_total", &[("ending", "client-left")], 1);
    let unanswered = [("action", "pass"), ("status", "none")];
    metrics.check("longhaul_requests_total", &unanswered, 1);
}

#[tokio::test]
async fn faults_and_unread_bodies_are_counted_by_their_reason() {
    let program = Program::with_admin(
        "http://127.0.0.1:9/v1",
        &[("LONGHAUL_LIMITS_BODY", "1KiB")],
        Admin::Free,
    );
    let caller = Caller::of(program.address());
    assert_eq!(caller.ask(chat(1, 2_000)).await.status, 502);
    let metrics = Metrics::of(program.admin()).await;
    let fault = [("reason", "upstream_unreachable")];
    metrics.check("longhaul_faults_total", &fault, 1);
    metrics.check("longhaul_unread_total", &[("reason", "large")], 1);
    let answered = [("action", "pass"), ("status", "5xx")];
    metrics.check("longhaul_requests_total", &answered, 1);
}

#[tokio::test]
async fn no_page_shows_message_text_callers_or_secrets() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scope");
    std::fs::write(&file, SECRET.repeat(8)).unwrap();
    let environment = [
        ("LONGHAUL_STORE_SCOPE_SECRET_FILE", file.to_str().unwrap()),
        ("LONGHAUL_STORE", "redis://user:hunter2@127.0.0.1:9/0"),
    ];
    let program = Program::with_admin(&model.url(), &environment, Admin::Free);
    let (admin, caller) = (program.admin(), Caller::of(program.address()));
    let key = format!("Bearer {SECRET}");
    let said = String::from_utf8(talk(20, 2_000)).unwrap();
    let said = said.replace("said", SECRET).replace("\"m\"", "\"hunter2\"");
    let fields = [("authorization", key.as_str()), ("x-own", SECRET)];
    caller.ask_with(&fields, said).await;
    caller.ask_with(&fields, format!("{{\"{SECRET}\":")).await;
    for path in PAGES {
        let page = get(admin, path).await;
        body(&page, "200");
        assert!(!page.contains(SECRET), "{path} tells it: {page}");
    }
}

#[tokio::test]
async fn config_page_matches_the_output_of_check() {
    let environment = [("LONGHAUL_WINDOW", "64000")];
    let program = Program::with_admin("http://127.0.0.1:9/v1", &environment, Admin::Free);
    let page = get(program.admin(), "/config").await;
    let settings: Vec<serde_json::Value> = serde_json::from_str(body(&page, "200")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["check", "--json", "--listen", "127.0.0.1:0"])
        .args(["--upstream", "http://127.0.0.1:9/v1"])
        .args(["--admin", "127.0.0.1:0"])
        .env_clear()
        .env("LONGHAUL_UPSTREAM_ASK", "false")
        .envs(environment)
        .output()
        .unwrap();
    let checked: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(settings, checked);
    let window = serde_json::json!(
        {"key": "window", "value": "64000", "source": "env LONGHAUL_WINDOW"}
    );
    assert!(settings.contains(&window), "{settings:?}");
}

#[tokio::test]
async fn takes_a_free_port_if_the_default_admin_address_is_taken() {
    // The port is taken by this test or by another longhaul on this machine; either will do.
    let _taken = TcpListener::bind("127.0.0.1:8485");
    let program = Program::with_admin("http://127.0.0.1:9/v1", &[], Admin::Default);
    assert_ne!(program.admin().port(), 8485);
    body(&get(program.admin(), "/livez").await, "200");
}

#[test]
fn start_fails_if_the_requested_admin_address_is_unavailable() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = |arguments: &[&str], code: i32| {
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments)
            .env_clear()
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = serve(&["--admin", &address], 69);
    assert!(said.contains("is in use") && said.contains("--admin"), "{said}");
    let said = serve(&["--admin", "nowhere"], 64);
    assert!(said.contains("off, or an IP address and a port"), "{said}");
}

#[test]
fn health_command_reports_why_it_cannot_query() {
    check_health("off", &[], 64, "admin.listen is off");
    check_health("127.0.0.1:0", &[], 64, "port 0");
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = deaf.local_addr().unwrap().to_string();
    check_health(&address, &[], 1, "within 2 s");
}
