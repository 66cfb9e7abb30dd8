//! Originals by `longhaul mcp`, over its standard streams and over HTTP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{large_model, last, result_of, with};
use crate::caller::{Caller, chat};
use crate::program::Program;

/// Exchanges messages with `longhaul mcp` over its standard streams.
#[tokio::test]
async fn mcp_server_lists_and_runs_its_tools_over_standard_streams() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &with(&[("LONGHAUL_RECALL", "mcp")]));
    let body = chat(20, 500);
    Caller::of(program.address()).ask(body.clone()).await;
    let forwarded = last(&model);
    let line = "[Full text: call the tool recall with id ";
    let id = &forwarded.split(line).nth(1).unwrap()[..52];
    let mut server = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .arg("mcp")
        .env_clear()
        .env("LONGHAUL_RECALL_URL", format!("http://{}", program.address()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut ask = |method: &str, params: Value| -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        writeln!(input, "{request}").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        if method == "initialize" {
            writeln!(input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
        }
        serde_json::from_str(&line).unwrap()
    };
    let client = json!({"name": "test", "version": "1"});
    let said = ask(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
    );
    assert_eq!(said["result"]["serverInfo"]["name"], "longhaul", "{said}");
    let said = ask("tools/list", json!({}));
    let tools = said["result"]["tools"].as_array().unwrap().iter();
    let tools: Vec<&str> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
    let names = ["recall", "search_history", "conversation_outline", "keep", "unkeep"];
    assert_eq!(tools, names);
    let mut call = |name: &str, arguments: Value| {
        let said = ask("tools/call", json!({"name": name, "arguments": arguments}));
        let result = &said["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        (result["isError"].as_bool().unwrap_or_default(), text.to_owned())
    };
    assert_eq!(call("recall", json!({"id": id})), (false, result_of(&body, 0)));
    assert_eq!(call("recall", json!({"id": id, "lines": "1"})).1, "line of 000 said.\n");
    assert!(
        call("search_history", json!({"id": id, "pattern": "of 005"})).1.contains("of 005 said")
    );
    let (_, outline) = call("conversation_outline", json!({"id": id}));
    assert!(outline.contains("src/file_2.rs"));
    let refused = call("keep", json!({"id": id}));
    assert!(refused.0 && refused.1.contains("only words of the user"));
    let step = outline.lines().find(|line| line.contains("Done with 2."));
    let wish = json!({"id": &step.unwrap()[..52], "quote": "Done with 2"});
    assert_eq!(call("keep", wish.clone()).1, "kept\n");
    let now = [("x-longhaul-compact", "now")];
    let caller = Caller::of(program.address());
    caller.ask_with(&now, chat(21, 500)).await;
    assert!(last(&model).contains("[Kept, by the agent's wish]: Done with 2\\n"));
    assert_eq!(call("unkeep", wish).1, "taken back\n");
    let (is_error, said) = call("recall", json!({"id": "wrong"}));
    assert!(is_error && said.contains("52 characters"), "{said}");
    drop(input);
    assert!(server.wait().unwrap().success());
}

/// Runs the official SDK against `longhaul mcp`, over both transports.
#[tokio::test]
#[ignore = "needs the SDKs of tests/sdk/install"]
async fn official_mcp_client_lists_and_calls_the_tools_over_stdio_and_http() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &with(&[("LONGHAUL_RECALL", "mcp")]));
    let body = chat(20, 500);
    Caller::of(program.address()).ask(body.clone()).await;
    let forwarded = last(&model);
    let line = "[Full text: call the tool recall with id ";
    let id = &forwarded.split(line).nth(1).unwrap()[..52];
    let binary = env!("CARGO_BIN_EXE_longhaul");
    let base = format!("http://{}", program.address());
    let mut server = Command::new(binary)
        .args(["mcp", "--http", "127.0.0.1:0"])
        .env_clear()
        .env("LONGHAUL_RECALL_URL", &base)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let url = said.trim().rsplit(' ').next().unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(root.join("target/sdk/python/bin/python3"))
        .arg(root.join("tests/sdk/python/recall.py"))
        .args([binary, id, url])
        .env("LONGHAUL_RECALL_URL", &base)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("run tests/sdk/install before");
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["stdio"], said["http"]);
    let said = &said["http"];
    assert_eq!(
        said["tools"],
        json!(["recall", "search_history", "conversation_outline", "keep", "unkeep"])
    );
    assert_eq!(said["recall"], result_of(&body, 0));
    assert_eq!(said["grep"], "1: line of 000 said.\n2: line of 000 said.\n");
    assert!(said["search"].as_str().unwrap().contains("line of 003 said."));
    assert!(said["outline"].as_str().unwrap().contains("src/file_3.rs"));
    assert!(said["wrong"].as_str().unwrap().contains("52 characters"));
}
