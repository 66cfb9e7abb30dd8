//! `longhaul explain --last`, `--conversation` and `--request` against a running longhaul, in every
//! dialect, and the lines of the log that lead there.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use longhaul_mock_model::{
    ErrorFamily, Model, ModelOptions, PreservedThinking, ReplyCompletion, RequestKind,
    ThinkingRules,
};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::journey::bodies;
use crate::messages::thinking::{Agent, Keeps};
use crate::program::{Admin, Program};

/// Settings under which old results are cleared early, and requests are logged for people.
const EARLY: [(&str, &str); 5] = [
    ("LONGHAUL_PRUNE_PROTECT_TOKENS", "1000"),
    ("LONGHAUL_PRUNE_MINIMUM_TOKENS", "1000"),
    ("LONGHAUL_PRUNE_MIN_USER_TURNS", "1"),
    ("LONGHAUL_LOG_FORMAT", "console"),
    // Half an hour beside UTC, in a form that needs no table of time zones.
    ("TZ", "IST-05:30"),
];

fn explain(program: &Program, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    let admin = program.admin().to_string();
    command.env_clear().args(["explain", "--admin", &admin]);
    command.args(arguments).output().unwrap()
}

#[track_caller]
fn page(program: &Program, arguments: &[&str]) -> String {
    let output = explain(program, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn top(program: &Program) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    let command = command.env_clear().args(["top", "--admin", &program.admin().to_string()]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Builds a request of one dialect that reads four files of about 2,500 tokens.
fn body(path: &str) -> Value {
    let text = "word ".repeat(2_000);
    let calls = (0..4).map(|at| (format!("call{at}"), json!({"path": format!("{at}.rs")})));
    match path {
        "/v1/chat/completions" => {
            let mut messages = vec![json!({"role": "user", "content": "go"})];
            for (id, input) in calls {
                let function = json!({"name": "read", "arguments": input.to_string()});
                let call = json!({"id": id, "type": "function", "function": function});
                messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
            }
            let tool = json!({"type": "function", "function": {"name": "read", "parameters": {}}});
            json!({"model": "m", "messages": messages, "tools": [tool]})
        }
        "/v1/messages" => {
            let mut messages = vec![json!({"role": "user", "content": "go"})];
            for (id, input) in calls {
                let call = json!({"type": "tool_use", "id": id, "name": "read", "input": input});
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
                messages.push(json!({"role": "assistant", "content": [call]}));
                messages.push(json!({"role": "user", "content": [result]}));
            }
            let tool = json!({"name": "read", "input_schema": {"type": "object"}});
            json!({"model": "m", "max_tokens": 100, "messages": messages, "tools": [tool]})
        }
        _ => {
            let mut input = vec![json!({"type": "message", "role": "user", "content": "go"})];
            for (id, arguments) in calls {
                input.push(json!({"type": "function_call", "call_id": id, "name": "read",
                    "arguments": arguments.to_string()}));
                input.push(json!({"type": "function_call_output", "call_id": id, "output": text}));
            }
            let tool = json!({"type": "function", "name": "read", "parameters": {}});
            json!({"model": "m", "store": false, "input": input, "tools": [tool]})
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_text_of_the_providers_block_is_shown_where_content_may_be() {
    for (shows, setting) in [(true, "true"), (false, "false")] {
        let thinking = ThinkingRules::ByModel(PreservedThinking::default());
        let options = ModelOptions { thinking, ..ModelOptions::with_window(64_000) };
        let model = Model::start(options.refusing_as(ErrorFamily::Anthropic)).await.unwrap();
        let changes = [
            ("LONGHAUL_SUMMARY_MODEL", "provider"),
            ("LONGHAUL_WINDOW", "48000"),
            ("LONGHAUL_ADMIN_SHOW_CONTENT", setting),
        ];
        let program = Program::with_admin(&model.url(), &changes, Admin::Free);
        let caller = Caller::of(program.address());
        let fields = [("anthropic-version", "2023-06-01"), ("x-api-key", "k")];
        let adaptive = json!({"type": "adaptive"});
        let mut agent = Agent::new("cli-3a782158", "claude-opus-5-5", adaptive, Keeps::All);
        let mut block = None;
        for end in agent.ends.clone() {
            let body = agent.request(end).to_string();
            let reply = caller.ask_at("/v1/messages", &fields, body).await;
            assert_eq!(reply.status, 200);
            agent.take(end, &reply.body);
            let seen = model.wait_for(|seen| {
                let mut orders = seen.iter().filter(|it| it.kind == RequestKind::Summary);
                orders.all(|it| it.ended != ReplyCompletion::Pending)
            });
            let seen = seen.await;
            let last = seen.iter().rfind(|it| it.kind == RequestKind::Chat).unwrap();
            let body: Value = serde_json::from_slice(&last.body).unwrap();
            let first = &body["messages"][0]["content"][0];
            block = first["content"]
                .as_str()
                .filter(|_| first["type"] == "compaction")
                .map(str::to_owned);
            if block.is_some() {
                break;
            }
        }
        let block = block.unwrap();
        let line = block.lines().find(|line| line.len() > 20).unwrap();
        let words = line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        let page = page(&program, &["--last"]);
        assert_eq!(page.contains(&words), shows, "{words}: {page}");
    }
}

#[tokio::test]
async fn the_status_line_is_about_the_session_or_empty() {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let program = Program::with_admin(&model.url(), &EARLY, Admin::Free);
    let caller = Caller::of(program.address());
    let fields = [
        ("anthropic-version", "2023-06-01"),
        ("x-api-key", "k"),
        ("x-claude-code-session-id", "11111111-1111-4111-8111-111111111111"),
    ];
    let agent = [("x-claude-code-agent-id", "a")];
    let body = body("/v1/messages").to_string();
    caller.ask_at("/v1/messages", &fields, body.clone()).await;
    let other = body.replacen("\"go\"", "\"stop\"", 1);
    caller.ask_at("/v1/messages", &[&fields[..], &agent].concat(), other).await;
    let line = |input: Value| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let admin = program.admin().to_string();
        let command = command.env_clear().args(["statusline", "--admin", &admin]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let input = |session: &str, model: &str| json!({"session_id": session, "model": {"id": model}});
    assert_eq!(line(input(fields[2].1, "m[1m]")), "▰▱▱▱▱ 1% of 200k · cleared once\n");
    let rows = top(&program);
    let row = rows.lines().find(|row| row.contains("  go  ")).unwrap();
    assert!(row.contains("▰▱▱▱▱ 1%") && row.trim_end().ends_with("cleared results"), "{rows}");
    let (id, _) = row.split_once(' ').unwrap();
    let explained = page(&program, &["--conversation", id]);
    assert!(id.len() == 8 && explained.contains(&format!(" {id}")), "{explained}");
    for empty in [input("other", "m"), input(fields[2].1, "haiku"), input("", "m"), json!([])] {
        assert_eq!(line(empty), "");
    }
}

#[tokio::test]
async fn the_last_request_of_every_dialect_says_what_was_cleared_and_why() {
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
        let program = Program::with_admin(&model.url(), &EARLY, Admin::Free);
        let caller = Caller::of(program.address());
        let fields = [("anthropic-version", "2023-06-01"), ("x-api-key", "k")];
        let came = caller.ask_at(path, &fields, body(path).to_string()).await;
        assert_eq!(came.status, 200, "{path}: {:?}", came.body);
        let last = page(&program, &["--last"]);
        let mut results = last.lines().filter(|line| line.contains("  tool  "));
        let cleared = results.find(|line| line.contains("cleared "));
        let cleared = cleared.unwrap_or_else(|| panic!("{path}: {last}"));
        let reason = "\n(a) older than the newest 1,000 tokens of results\n";
        assert!(last.contains(reason) && cleared.contains(" (a); since request 1"), "{last}");
        assert!(cleared.contains("read") && cleared.contains("since request 1"), "{cleared}");
        let why = last.lines().find(|line| line.starts_with("why ")).unwrap();
        assert!(why.contains("once more than 1,000 tokens of them can go"), "{why}");
        // The header, the log and the explanation have the same id.
        let header = |name: &str| came.headers[name].to_str().unwrap().to_owned();
        let (request, conversation) =
            (header("x-longhaul-request"), header("x-longhaul-conversation"));
        assert!(last.contains(&request) && last.contains(&conversation), "{last}");
        for arguments in [["--request", &request], ["--conversation", &conversation[..8]]] {
            assert_eq!(page(&program, &arguments), last, "{arguments:?}");
        }
        let json: Value = serde_json::from_str(&page(&program, &["--last", "--json"])).unwrap();
        assert_eq!(json["request"]["id"], request);
        let log = program.ended();
        let line = log.lines().find(|line| line.contains(&conversation[..8]));
        let line = line.unwrap_or_else(|| panic!("{log}"));
        assert!(line.contains("+05:30  m  ") && line.contains("cleared 3 results, "), "{line}");
        assert!(line.contains(" → ") && line.contains("  200  "), "{line}");
        assert!(!log.contains("\u{1b}["), "no colours in a pipe: {log}");
    }
}

#[tokio::test]
async fn a_failure_after_the_last_explanation_is_noted_in_every_dialect() {
    for path in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        let model = Model::start(ModelOptions::default()).await.unwrap();
        let url = model.url();
        let mut environment = EARLY.to_vec();
        environment.push(("LONGHAUL_UPSTREAM_MESSAGES", &url));
        let program = Program::with_admin(&url, &environment, Admin::Free);
        assert!(top(&program).ends_with("is your agent pointed at longhaul?\n"), "{path}");
        let caller = Caller::of(program.address());
        let body = body(path).to_string();
        assert_eq!(caller.ask_at(path, &[], body.clone()).await.status, 200);
        assert!(!page(&program, &["--last"]).contains("note "), "{path}");
        model.stop().await;
        let failed = caller.ask_at(path, &[], body).await;
        // A connection that was open before may break first.
        let fault = failed.field("fault").unwrap();
        assert!(["upstream_broke", "upstream_unreachable"].contains(&fault));
        let rows = top(&program);
        assert!(rows.contains(&format!("failed: status 502 {fault}")), "{path}: {rows}");
        let page = page(&program, &["--last"]);
        let id = failed.field("request").unwrap();
        let note =
            format!("note     1 newer request failed without an explanation: {id}, 502 {fault}");
        assert!(page.contains(&note), "{path}: {page}");
        let log = program.ended();
        let line = log.lines().find(|line| line.contains("  502")).unwrap();
        assert!(line.contains(&format!("502  {fault}")), "{line}");
    }
}

#[tokio::test]
async fn what_is_not_kept_or_not_there_is_said_with_its_remedy() {
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    for arguments in [&["--last"][..], &["--request", "0"], &["--conversation", "zz/../x"]] {
        let output = explain(&program, arguments);
        assert_eq!(output.status.code(), Some(69), "{arguments:?}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("unknown to your longhaul"), "{said}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    let output = command.env_clear().args(["explain", "--admin", "127.0.0.1:9", "--last"]);
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("start `longhaul`, or `longhaul run -- AGENT`"), "{said}");
}

/// Builds a chat of `steps` steps of about 500 tokens, whose results are too short to clear.
fn steps(steps: usize) -> Value {
    let text = "word ".repeat(400);
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    for at in 0..steps {
        let (id, file) = (format!("call{at}"), format!("src/part{at}.rs"));
        let function = json!({"name": "read", "arguments": json!({"path": file}).to_string()});
        let call = json!({"id": id, "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        let content = format!("{file}: {text}");
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
    }
    let tool = json!({"type": "function", "function": {"name": "read", "parameters": {}}});
    json!({"model": "m", "messages": messages, "tools": [tool]})
}

#[tokio::test]
async fn each_compaction_adds_a_segment_and_leaves_the_earlier_ones_as_they_are() {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let environment = [
        ("LONGHAUL_WINDOW", "16000"),
        ("LONGHAUL_SUMMARY_MODEL", "none"),
        // Clearing results would make enough room without a digest.
        ("DISABLE_PRUNE", "true"),
    ];
    let program = Program::with_admin(&model.url(), &environment, Admin::Free);
    let caller = Caller::of(program.address());
    let mut seen: Vec<Vec<Value>> = Vec::new();
    for count in (5..120).step_by(5) {
        let body = steps(count).to_string();
        let came = caller.ask_at("/v1/chat/completions", &[], body).await;
        assert_eq!(came.status, 200, "{count} steps: {:?}", came.body);
        let json: Value = serde_json::from_str(&page(&program, &["--last", "--json"])).unwrap();
        let segments = json["digest"]["segments"].as_array().cloned();
        let segments = segments.unwrap_or_default();
        if seen.last() != Some(&segments) {
            seen.push(segments);
        }
    }
    let grown = seen.windows(2).filter(|pair| {
        let (before, after) = (&pair[0], &pair[1]);
        !before.is_empty() && after.len() == before.len() + 1 && after.starts_with(before)
    });
    assert!(grown.count() >= 2, "segments by request: {seen:#?}");
    let newest = seen.last().unwrap();
    let last = page(&program, &["--last"]);
    assert!(newest.len() >= 2, "{newest:#?}");
    assert!(last.contains(&format!(", in {} segments", newest.len())), "{last}");
}

/// Whether a field of a log has a value of several words for machines, such as `too_long`.
fn is_for_machines(field: &str) -> bool {
    let (_, value) = field.split_once('=').unwrap_or_default();
    let value = value.trim_matches('"');
    value.contains(['-', '_']) && value.chars().all(|c| c.is_ascii_lowercase() || "-_".contains(c))
}

#[tokio::test]
async fn a_text_log_has_local_time_and_words_and_a_json_log_utc_and_labels() {
    let text = [
        "+05:30  INFO request ",
        "cleared results",
        "bypass=\"no rule applies\"",
        "window_source=\"stated in a refusal\"",
        "verdict=\"newest batch\"",
    ];
    let json = ["Z\",", "prune", "\"nothing\"", "\"refusal\"", "\"newest-batch\""];
    for (format, expect) in [("text", text), ("json", json)] {
        let model = Model::start(ModelOptions::default()).await.unwrap();
        let settings =
            [("LONGHAUL_LOG_FORMAT", format), ("LONGHAUL_LOG_LEVEL", "trace"), ("TZ", "IST-05:30")];
        let program = Program::with_admin(&model.url(), &settings, Admin::Free);
        let caller = Caller::of(program.address());
        for body in bodies(&longhaul_mock_model::session().unwrap()) {
            assert_eq!(caller.ask(body).await.status, 200);
        }
        let log = program.ended();
        for part in expect {
            assert!(log.contains(part), "{part}: {log}");
        }
        let for_machines = log.split_ascii_whitespace().find(|field| is_for_machines(field));
        assert_eq!(for_machines, None, "{format}");
    }
    assert!(is_for_machines("why=\"too_long\"") && !is_for_machines("why=\"too long\""));
}
