//! Recall: originals by the IDs in forwarded requests, over HTTP, in a shell and over MCP.

pub(crate) mod agent;
mod keep;
#[cfg(feature = "mcp")]
mod mcp;

use std::process::{Command, Output};

use longhaul::Config;
use longhaul_mock_model::{Model, ModelOptions, RequestKind};
use memchr::memmem;
use serde_json::{Value, json};

use crate::caller::{Caller, chat};
use crate::dashboard::json_of;
use crate::harness::{Nobody, Proxy, Wire};
use crate::program::{Admin, Program};
use crate::redis_server::RedisServer;
use crate::time_limit::bounded;
use agent::{Agent, WINDOW, ids, play};

const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// Clears by the fixed rule in a window that holds everything.
const CLEARING: [(&str, &str); 4] = [
    ("LONGHAUL_PROFILE", "standard"),
    ("LONGHAUL_PRUNE_PROTECT_TOKENS", "2000"),
    ("LONGHAUL_PRUNE_MINIMUM_TOKENS", "1000"),
    ("LONGHAUL_SUMMARY_MODEL", "none"),
];
const URL: (&str, &str) = ("LONGHAUL_RECALL", "url");

fn with<'v>(more: &[(&'v str, &'v str)]) -> Vec<(&'v str, &'v str)> {
    [&CLEARING[..], more].concat()
}

async fn large_model() -> Model {
    Model::start(ModelOptions::with_window(1_000_000)).await.unwrap()
}

/// Returns the last chat that the model received.
fn last(model: &Model) -> String {
    let seen = model.seen();
    let chat = seen.into_iter().rfind(|seen| seen.kind == RequestKind::Chat);
    String::from_utf8(chat.unwrap().body.to_vec()).unwrap()
}

/// Returns the text of the result of turn `turn` of [`chat`].
fn result_of(body: &[u8], turn: usize) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    let mut results = body["messages"].as_array().unwrap().iter();
    let result = results.find(|it| it["tool_call_id"] == json!(format!("call_{turn}")));
    result.unwrap()["content"].as_str().unwrap().to_owned()
}

/// Sends one GET request; returns the head and the body of the reply.
async fn get(proxy: std::net::SocketAddr, target: &str, fields: &str) -> (String, String) {
    let mut wire = Wire::to(proxy).await;
    wire.send(&format!(
        "GET {target} HTTP/1.1\r\nhost: localhost\r\n{fields}connection: close\r\n\r\n"
    ))
    .await;
    let reply = bounded(wire.rest()).await;
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn longhaul(arguments: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(arguments).env_clear().envs(env.iter().copied());
    command.output().unwrap()
}

#[tokio::test]
async fn recall_that_is_off_changes_no_byte_and_keeps_nothing() {
    let model = large_model().await;
    let body = chat(20, 500);
    let mut forwarded = Vec::new();
    for more in [&[][..], &[URL, ("DISABLE_RECALL", "1")], &[("LONGHAUL_RECALL", "off")]] {
        let program = Program::start(&model.url(), &with(more));
        let arrived = Caller::of(program.address()).ask(body.clone()).await;
        assert_eq!(arrived.action(), "prune");
        forwarded.push(last(&model));
        let agent = Agent::of(program.address());
        let (status, said) = agent.recall(&"a".repeat(52), "").await;
        assert_eq!(status, 404);
        assert!(said.contains("reserved_path"), "{said}");
    }
    assert!(forwarded.iter().all(|body| *body == forwarded[0]));
    assert!(!forwarded[0].contains("Full text"));
}

#[tokio::test]
async fn a_cleared_result_is_read_in_full_or_in_part_by_its_id() {
    let model = large_model().await;
    let program = Program::with_admin(&model.url(), &with(&[URL]), Admin::Free);
    let body = chat(20, 500);
    Caller::of(program.address()).ask(body.clone()).await;
    let forwarded = last(&model);
    let named = ids(&forwarded);
    assert!(named.len() > 10, "{forwarded}");
    let target = format!("/__longhaul__/recall/{}", named[0]);
    let (head, text) = get(program.address(), &target, "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let all = json_of(program.admin(), "/conversations").await;
    assert_eq!(all["conversations"][0]["rereads"], 1, "the agent asked for it again");
    for field in [
        "content-type: text/plain; charset=utf-8",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(head.contains(field), "{head}");
    }
    assert_eq!(text, result_of(&body, 0));
    let agent = Agent::of(program.address());
    let line = "line of 000 said.\n";
    assert_eq!(agent.recall(named[0], "?lines=3-4").await.1, line.repeat(2));
    assert_eq!(agent.recall(named[0], "?grep=000&lines=7").await.1, format!("7: {line}"));
    assert_eq!(agent.recall(&named[0].to_uppercase(), "").await.1, text);
    let (_, outline) = agent.recall(named[1], "?outline").await;
    assert!(outline.contains("read(src/file_3.rs)"), "{outline}");
    let (_, found) = agent.recall(named[1], "?search=of+003").await;
    assert!(found.contains("line of 003 said.") && found.contains("src/file_3.rs"), "{found}");
    // Later requests name the same IDs.
    Caller::of(program.address()).ask(chat(21, 500)).await;
    let later = last(&model);
    assert!(named.iter().all(|id| later.contains(id)));
    let log = program.ended();
    assert!(log.contains("/__longhaul__/recall/…") && !log.contains(named[0]), "{log}");
}

#[tokio::test]
async fn unknown_ids_wrong_queries_and_foreign_pages_are_refused() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &with(&[URL]));
    Caller::of(program.address()).ask(chat(20, 500)).await;
    let forwarded = last(&model);
    let id = ids(&forwarded)[0].to_owned();
    let unknown = format!("{}{}", &id[..40], "a".repeat(12));
    for id in [&unknown, "short", "../../etc/passwd", ""] {
        let (head, said) = get(program.address(), &format!("/__longhaul__/recall/{id}"), "").await;
        assert!(head.starts_with("HTTP/1.1 404"), "{id}: {head}");
        assert!(said.contains("recall_unknown"), "{said}");
    }
    let target = format!("/__longhaul__/recall/{id}");
    for query in ["?lines=0", "?grep=", "?lines=9-3"] {
        let (head, said) = get(program.address(), &format!("{target}{query}"), "").await;
        assert!(head.starts_with("HTTP/1.1 400") && said.contains("recall_query"), "{said}");
    }
    for fields in ["origin: https://evil.example\r\n", "sec-fetch-site: cross-site\r\n"] {
        let (head, _) = get(program.address(), &target, fields).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    }
    let mut wire = Wire::to(program.address()).await;
    wire.send(&format!("GET {target} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n"))
        .await;
    assert!(bounded(wire.rest()).await.starts_with("HTTP/1.1 403"));
}

#[tokio::test]
async fn originals_survive_a_kill_in_a_file_that_holds_no_word_of_them() {
    let model = large_model().await;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("longhaul.db");
    let store = format!("file:{}", file.display());
    let env = with(&[URL, ("LONGHAUL_STORE", &store)]);
    let body = chat(20, 500);
    let program = Program::told(&model.url(), &env);
    Caller::of(program.address()).ask(body.clone()).await;
    let before = last(&model);
    let id = ids(&before)[0].to_owned();
    let (status, text) = Agent::of(program.address()).recall(&id, "").await;
    assert_eq!((status, &*text), (200, &*result_of(&body, 0)));
    program.killed();
    for name in ["longhaul.db", "longhaul.db.recall"] {
        let bytes = std::fs::read(place.path().join(name)).unwrap();
        for word in ["line of", "src/file_3", "Task 3"] {
            let found = memmem::find(&bytes, word.as_bytes()).is_some();
            assert!(!found, "{word} in {name}");
        }
    }
    let program = Program::told(&model.url(), &env);
    assert_eq!(Agent::of(program.address()).recall(&id, "").await.1, text);
    Caller::of(program.address()).ask(body).await;
    assert_eq!(last(&model), before, "a restart forwards the same bytes");
    program.closed();
    let stats = longhaul(&["store", "stats", "--store", &store, "--json"], &[]);
    let stats: Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert!(stats["scopes"][0]["originals"].as_u64().unwrap() > 20, "{stats}");
    let purged = longhaul(&["store", "purge", "--store", &store], &[]);
    assert!(purged.status.success(), "{purged:?}");
    let program = Program::told(&model.url(), &env);
    assert_eq!(Agent::of(program.address()).recall(&id, "").await.0, 404);
}

#[tokio::test]
async fn a_store_that_does_not_answer_fails_no_chat_and_is_told_from_an_unknown_id() {
    let (model, nobody) = (large_model().await, Nobody::bind());
    let url = nobody.base("").replace("http://", "redis://");
    let env = with(&[URL, ("LONGHAUL_STORE", &url), ("LONGHAUL_STORE_SCOPE_SECRET", SECRET)]);
    let program = Program::start(&model.url(), &env);
    let arrived = Caller::of(program.address()).ask(chat(20, 500)).await;
    assert_eq!(arrived.action(), "prune");
    let forwarded = last(&model);
    let (status, said) = Agent::of(program.address()).recall(ids(&forwarded)[0], "").await;
    assert_eq!(status, 503);
    assert!(said.contains("recall_unavailable"), "{said}");
}

#[tokio::test]
async fn callers_have_ids_of_their_own_for_the_same_history() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &with(&[URL]));
    let caller = Caller::of(program.address());
    let mut named = Vec::new();
    for key in ["Bearer one", "Bearer two"] {
        caller.ask_with(&[("authorization", key)], chat(20, 500)).await;
        named.push(ids(&last(&model)).into_iter().map(str::to_owned).collect::<Vec<_>>());
    }
    assert!(named[0].iter().all(|id| !named[1].contains(id)));
}

#[tokio::test]
async fn command_prints_what_the_url_answers() {
    let model = large_model().await;
    let program = Program::start(&model.url(), &with(&[URL]));
    let body = chat(20, 500);
    Caller::of(program.address()).ask(body.clone()).await;
    let forwarded = last(&model);
    let id = ids(&forwarded)[0];
    let base = format!("http://{}", program.address());
    let env = [("LONGHAUL_RECALL_URL", base.as_str())];
    let printed = |arguments: &[&str]| {
        let output = longhaul(&[&["recall", id], arguments].concat(), &env);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(printed(&[]), result_of(&body, 0));
    let line = "line of 000 said.\n";
    assert_eq!(printed(&["--lines", "2-3"]), line.repeat(2));
    assert_eq!(printed(&["--grep", "of 000", "--lines", "-1"]), format!("1: {line}"));
    assert!(printed(&["--outline"]).contains("src/file_3.rs"));
    assert!(printed(&["--search", "of 004"]).contains("line of 004 said."));
    let unknown = format!("{}{}", &id[..40], "a".repeat(12));
    for (arguments, code) in [
        (["recall", "short", "--lines=1"], 64),
        (["recall", id, "--lines=0"], 64),
        (["recall", &unknown, "--lines=1"], 69),
    ] {
        let output = longhaul(&arguments, &env);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty());
    }
}

#[test]
fn run_tells_its_command_where_originals_are() {
    let said = |arguments: &[&str]| {
        let command = ["--", "sh", "-c", "echo at $LONGHAUL_RECALL_URL"];
        let upstream = ["run", "--upstream", "http://127.0.0.1:9/v1"];
        let env = [("PATH", "/usr/bin:/bin")];
        let output = longhaul(&[&upstream, arguments, &command].concat(), &env);
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said(&[]), "at\n");
    assert!(said(&["--recall"]).starts_with("at http://127.0.0.1:"));
    assert!(said(&["--recall=mcp"]).starts_with("at http://127.0.0.1:"));
}

/// Returns a chat whose first result is a long line, in which a search of [`SLOW_PATTERN`] is slow.
fn chat_with_a_long_line() -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(&chat(20, 500)).unwrap();
    let messages = body["messages"].as_array_mut().unwrap();
    let result = messages.iter_mut().find(|it| it["tool_call_id"] == json!("call_0"));
    // The digits of a linear congruential generator.
    let mut state = 1_u32;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 { 'a' } else { 'b' }
    });
    result.unwrap()["content"] = json!(letters.take(1_000_000).collect::<String>());
    serde_json::to_vec(&body).unwrap()
}

/// A pattern that the regex crate's lazy automaton cannot hold.
const SLOW_PATTERN: &str = "%5Bab%5D*a%5Bab%5D%7B400%7Dc%7Ca";

#[tokio::test]
async fn eight_searches_of_one_caller_keep_no_other_waiting() {
    let model = large_model().await;
    let program = Program::told(&model.url(), &with(&[URL]));
    let mut targets = Vec::new();
    for (key, body) in
        [("Bearer greedy", chat_with_a_long_line()), ("Bearer modest", chat(20, 500))]
    {
        let fields = [("authorization", key)];
        let caller = Caller::of(program.address());
        caller.ask_with(&fields, body).await;
        targets.push(format!("/__longhaul__/recall/{}", ids(&last(&model))[0]));
    }
    let mut searches = Vec::new();
    for _ in 0..8 {
        let mut wire = Wire::to(program.address()).await;
        let target = format!("{}?grep={SLOW_PATTERN}", targets[0]);
        wire.send(&format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        searches.push(wire);
    }
    let (head, _) = get(program.address(), &targets[1], "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let waiting = searches.iter().filter(|search| search.is_silent());
    assert!(waiting.count() > 2, "the searches take longer");
    // The places of searches whose clients have left are free again.
    drop(searches);
    let (head, _) = get(program.address(), &targets[0], "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[tokio::test]
async fn facts_of_several_windows_are_found_by_one_search_each() {
    let model = agent::model().await;
    let window = WINDOW.to_string();
    let settings = [
        ("window", window.as_str()),
        ("summary.model", "none"),
        ("recall", "url"),
        ("listen", "127.0.0.1:0"),
    ];
    let base = model.url();
    let all = [&[("upstream.base", base.as_str())][..], &settings].concat();
    let proxy = Proxy::with(Config::default_with(all).unwrap()).await;
    let agent = Agent::of(proxy.address);
    let found = play(&agent, &model, 3, 8).await;
    assert_eq!(
        (found.refused, found.by_search, found.results_reached),
        (0, 8, found.results),
        "{found:?}"
    );
    assert!(found.in_prompt < 8, "{found:?}");
    proxy.stop().await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn replicas_share_originals_within_a_bound_for_each_caller() {
    let server = RedisServer::start();
    let model = large_model().await;
    let url = server.url();
    let env = with(&[URL, ("LONGHAUL_STORE", &url), ("LONGHAUL_STORE_SCOPE_SECRET", SECRET)]);
    let body = chat(20, 500);
    let one = Program::start(&model.url(), &env);
    Caller::of(one.address()).ask(body.clone()).await;
    let forwarded = last(&model);
    let id = ids(&forwarded)[0].to_owned();
    assert_eq!(Agent::of(one.address()).recall(&id, "").await.1, result_of(&body, 0));
    let two = Program::start(&model.url(), &env);
    assert_eq!(Agent::of(two.address()).recall(&id, "").await.1, result_of(&body, 0));
    Caller::of(two.address()).ask(body).await;
    assert_eq!(last(&model), forwarded, "the same IDs on every replica");
    let names = server.asked(&["KEYS", "*"]);
    assert!(!names.contains(&id) && names.contains(":index"), "{names}");
    drop((one, two));
    let small = with(&[
        URL,
        ("LONGHAUL_STORE", &url),
        ("LONGHAUL_STORE_SCOPE_SECRET", SECRET),
        ("LONGHAUL_STORE_RECALL_MAX_BYTES", "40KiB"),
    ]);
    let three = Program::start(&model.url(), &small);
    let caller = Caller::of(three.address());
    for turns in [60, 61] {
        caller.ask(chat(turns, 500)).await;
        Agent::of(three.address()).recall(&id, "").await;
    }
    let totals = names.lines().find(|name| name.ends_with(":index:sizes")).unwrap();
    let bytes: u64 = server.asked(&["HGET", totals.trim(), "total"]).trim().parse().unwrap();
    assert!(bytes <= 40 << 10, "{bytes}");
}
