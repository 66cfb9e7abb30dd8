//! `longhaul explain`: its table, its JSON, its body and its exit code.

use std::io::Write;
use std::iter;
use std::process::Output;

use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul::Config;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::plan::{Replacement, SummarySource, plan};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::Policy;
use longhaul_core::policy::record::PriorRecords;
use serde_json::{Value, json};

use crate::program::fed;
use crate::sessions::{named, sessions};

fn explain(arguments: &[&str], env: &[(&str, &str)], body: &[u8]) -> Output {
    fed(&[&["explain"], arguments].concat(), env, body)
}

fn stdout(arguments: &[&str], env: &[(&str, &str)], body: &[u8]) -> String {
    let output = explain(arguments, env, body);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn report(arguments: &[&str], env: &[(&str, &str)], body: &[u8]) -> Value {
    let arguments = [&["--json"], arguments].concat();
    stdout(&arguments, env, body).parse().unwrap()
}

/// A call and its tool result.
fn step(id: usize, tool: &str, result: &str) -> [Value; 2] {
    let id = format!("call_{id}");
    let call = json!({"id": id, "type": "function",
        "function": {"name": tool, "arguments": json!({"path": format!("{id}.rs")}).to_string()}});
    [
        json!({"role": "assistant", "content": null, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": id, "content": result}),
    ]
}

/// Results with most verdicts under the settings of [`EVERY`].
fn every_fate() -> Vec<u8> {
    let long = "0123".repeat(400);
    let failure = format!("Error: no such file\n{long}");
    let results = [
        ("read", long.as_str()),
        ("plan", &long),
        ("read", &failure),
        ("read", "[Old tool result content cleared]"),
        ("read", "ok"),
        ("read", ""),
        ("bash", &long),
        ("read", &"0123".repeat(90)),
        ("bash", &long),
    ];
    let mut messages = vec![
        json!({"role": "system", "content": "You are a careful agent."}),
        json!({"role": "user", "content": "Mend the build."}),
        json!({"role": "assistant", "content": "I look at it."}),
        json!({"role": "user", "content": "And the tests."}),
    ];
    messages.extend(results.iter().enumerate().flat_map(|(id, (tool, text))| step(id, tool, text)));
    json!({"model": "m", "messages": messages}).to_string().into()
}

const EVERY: &[(&str, &str)] = &[
    ("LONGHAUL_PRUNE_PROTECT_TOKENS", "500"),
    ("LONGHAUL_PRUNE_MINIMUM_TOKENS", "300"),
    ("LONGHAUL_PRUNE_EXEMPT_TOOLS", "plan"),
    ("LONGHAUL_PRUNE_KEEP_ERRORS", "1"),
    ("LONGHAUL_PRUNE_PLACEHOLDER", "fixed"),
];

#[test]
fn table_shows_the_action_and_reason_for_each_message() {
    insta::assert_snapshot!("every_fate", stdout(&[], EVERY, &every_fate()));
}

#[test]
fn window_comes_from_the_table_only_for_the_matching_upstream() {
    let body = br#"{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}"#;
    let window = |arguments: &[&str]| {
        let window = &report(arguments, &[], body)["window"];
        let source = window["source"].as_str().unwrap().to_owned();
        (window["tokens"].as_u64().unwrap(), source)
    };
    assert_eq!(window(&[]), (272_000, "table, openai gpt-5".to_owned()));
    let local = ["--upstream", "http://127.0.0.1:1/v1"];
    assert_eq!(window(&local), (200_000, "assumed".to_owned()));
}

#[test]
fn model_table_in_the_config_file_applies_like_flags() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("longhaul.toml");
    std::fs::write(&file, "[[model]]\nmatch = \"m\"\nprofile = \"local\"\nwindow = 3000\n")
        .unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let by_table = report(&config, &[], &every_fate());
    let by_flags = report(&["--profile", "local", "--window", "3000"], &[], &every_fate());
    for part in ["marks", "messages", "profile", "prune", "totals"] {
        assert_eq!(by_table[part], by_flags[part], "{part}");
    }
    let plain = report(&[], &[], &every_fate());
    assert_ne!(plain["prune"], by_flags["prune"]);
}

#[test]
fn session_above_the_mark_shows_the_digest_that_replaces_history() {
    let body = named("cli-0123").body;
    insta::assert_snapshot!("digest", stdout(&["--window", "6000"], &[], &body));
}

#[test]
fn hints_at_the_min_user_turns_setting_for_a_headless_session() {
    let body = named("cli-0149").body;
    let local = ["--profile", "local", "--window", "12000"];
    insta::assert_snapshot!("headless", stdout(&local, &[], &body));
    let one = [("LONGHAUL_PRUNE_MIN_USER_TURNS", "1")];
    let set = stdout(&local, &one, &body);
    let told = report(&local, &[], &body);
    assert!(told["hint"].as_str().unwrap().contains("LONGHAUL_PRUNE_MIN_USER_TURNS=1"));
    assert!(!set.contains("Hint:") && set.contains(" cleared "), "{set}");
}

#[test]
fn a_head_that_fills_the_window_is_named_with_what_helps() {
    let long = "word ".repeat(4_000);
    let tool = json!({"type": "function", "function": {"name": "t", "description": long}});
    let messages =
        [json!({"role": "system", "content": long}), json!({"role": "user", "content": "hi"})];
    let body = json!({"model": "m", "messages": messages, "tools": [tool]}).to_string();
    let why = |window: &str| {
        let said = report(&["--window", window], &[], body.as_bytes());
        (said["why"].as_str().unwrap().to_owned(), said["untouched"]["reason"].clone())
    };
    let (said, reason) = why("8000");
    assert_eq!(reason, "no rule applies");
    for words in
        ["10,0", "leaves 7,000", "(5,0", "always stay", "Offer fewer tools", "larger window"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(why("20000").0, "the request passes unchanged: no rule applies");
}

#[test]
fn tool_schemas_have_their_share_of_the_window_and_the_largest_are_named() {
    let text = |chars: usize| "x".repeat(chars);
    let schemas = |schema: &dyn Fn(&str, usize) -> Value| {
        let sizes = [("small", 40), ("Task", 8_000), ("Bash", 20_000), ("Edit", 4_000)];
        json!(sizes.map(|(name, chars)| schema(name, chars)))
    };
    let chat = |name: &str, chars| json!({"type": "function", "function": {"name": name, "description": text(chars)}});
    let flat =
        |name: &str, chars| json!({"type": "function", "name": name, "description": text(chars)});
    let ask = json!([{"role": "user", "content": "Mend the build."}]);
    for (body, instructions) in [
        (json!({"messages": ask, "tools": schemas(&chat)}), 0),
        (
            json!({"messages": ask, "tools": schemas(&flat), "system": text(4_000), "max_tokens": 9}),
            1_000,
        ),
        (json!({"input": ask, "tools": schemas(&flat), "instructions": text(4_000)}), 1_000),
    ] {
        let body = body.to_string();
        let said = report(&["--window", "100k"], &[], body.as_bytes());
        let tools = &said["tool_schemas"];
        let tokens = tools["tokens"].as_u64().unwrap();
        assert!((8_000..8_200).contains(&tokens), "{tokens}");
        assert_eq!(said["tool_share"], 8);
        assert_eq!(said["totals"]["tools"].as_u64().unwrap(), tokens + instructions);
        let named = tools["largest"].as_array().unwrap().iter().map(|it| it[0].as_str().unwrap());
        assert_eq!(named.collect::<Vec<_>>(), ["Bash", "Task", "Edit"]);
        let page = stdout(&["--window", "100k"], &[], body.as_bytes());
        let row = page.lines().find(|line| line.starts_with("tools ")).unwrap();
        assert!(
            row.contains(" tokens of schemas, 8% of the window; the largest: Bash 5,0"),
            "{row}"
        );
    }
}

#[test]
fn help_shows_examples() {
    let help = stdout(&["--help"], &[], b"");
    let examples = ["longhaul explain request.json", "longhaul explain --body < request.json"];
    for words in examples.iter().chain(&["--window <TOKENS>", "--config <FILE>", "--json"]) {
        assert!(help.contains(words), "{words:?} is not in: {help}");
    }
}

/// The rows' tokens add up to the totals, and the cleared results are the ones that the plan cuts.
#[test]
fn rows_sum_to_the_totals_and_cleared_rows_match_the_plan() {
    let mut cleared = 0;
    let mut digests = 0;
    for (at, session) in sessions().enumerate() {
        let (profile, window) =
            [("standard", "200000"), ("local", "10000"), ("frugal", "48000")][at % 3];
        let said = report(&["--profile", profile, "--window", window], &[], &session.body);
        let rows = said["messages"].as_array().unwrap();
        let sum = |key: &str| rows.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
        let digest = said["digest"]["tokens"].as_u64().unwrap_or(0);
        let totals = |key: &str| said["totals"][key].as_u64().unwrap();
        assert_eq!(sum("tokens") + totals("tools"), totals("before"), "{}", session.name);
        assert_eq!(sum("becomes") + digest + totals("tools"), totals("after"), "{}", session.name);
        let shown: Vec<usize> =
            (0..rows.len()).filter(|&at| rows[at]["action"] == "cleared").collect();
        assert_eq!(shown, cut_results(&session.body, profile, window), "{}", session.name);
        cleared += shown.len();
        digests += usize::from(digest > 0);
    }
    assert!(cleared > 100 && digests > 3, "{cleared} results, {digests} digests");
}

fn planned(body: &[u8], profile: &str, window: &str) -> Option<Vec<Replacement>> {
    let settings = [("profile", profile), ("window", window)];
    let config = Config::default_with(settings).unwrap();
    let conversation = read(body).unwrap();
    let policy = Policy::new(&config.compaction, config.window);
    let outlook = plan(&conversation, &policy, &PriorRecords::default(), SummarySource::Digest);
    outlook.view.replacements(&conversation)
}

fn cut_results(body: &[u8], profile: &str, window: &str) -> Vec<usize> {
    let plan = planned(body, profile, window);
    let cuts = plan.iter().flatten();
    cuts.filter_map(|cut| if let Replacement::Result { at, .. } = cut { Some(*at) } else { None })
        .collect()
}

#[test]
fn body_output_equals_the_spliced_plan() {
    let mut changed = 0;
    for session in sessions().step_by(8) {
        for (profile, window) in [("auto", "200000"), ("local", "10000"), ("frugal", "32000")] {
            let body = &session.body;
            let plan = planned(body, profile, window);
            let expect = plan.map_or_else(
                || body.clone(),
                |plan| Splice::new(&read(body).unwrap(), &plan).unwrap().apply(),
            );
            let flags = ["--body", "--profile", profile, "--window", window];
            let output = explain(&flags, &[], body);
            assert!(output.stdout == expect, "{} under {profile}", session.name);
            changed += usize::from(expect != *body);
        }
    }
    assert!(changed > 5, "{changed}");
}

/// Checks the verdict and reason for the message at `at`.
fn check_verdict(env: &[(&str, &str)], body: &[u8], at: usize, verdict: &str, reason: &str) {
    let said = report(&[], env, body);
    let row = &said["messages"][at];
    assert_eq!(row["verdict"], verdict, "{row}");
    assert_eq!(row["reason"], reason, "{row}");
}

#[test]
fn old_result_shows_why_it_is_not_cleared_yet() {
    let body = every_fate();
    let with = |more: &[(&'static str, &'static str)]| [EVERY, more].concat();
    let turns = with(&[("LONGHAUL_PRUNE_MIN_USER_TURNS", "3")]);
    check_verdict(&turns, &body, 5, "too-few-user-turns", "too few user turns: 2 of 3");
    let little = with(&[("LONGHAUL_PRUNE_MINIMUM_TOKENS", "784")]);
    let reason = "too little to free yet: 784, needs more than 784";
    check_verdict(&little, &body, 5, "waits", reason);
    let enough = with(&[("LONGHAUL_PRUNE_MINIMUM_TOKENS", "783")]);
    let reason = "older than the newest 500 tokens of results";
    check_verdict(&enough, &body, 5, "cleared", reason);
    let mark = with(&[("LONGHAUL_PRUNE_WHEN", "mark")]);
    check_verdict(&mark, &body, 5, "waits", "waits until the forwarded request reaches 165,254");
    let off = with(&[("DISABLE_PRUNE", "1")]);
    let reason = "clearing is switched off (DISABLE_PRUNE)";
    check_verdict(&off, &body, 5, "prune-disabled", reason);
}

#[test]
fn images_do_not_count_towards_the_minimum_to_free() {
    let picture = json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}});
    let steps = (0..9).flat_map(|id| {
        let [call, mut result] = step(id, "read", "");
        result["content"] = json!([{"type": "text", "text": "0123".repeat(100)}, picture]);
        [call, result]
    });
    let ask = || json!({"role": "user", "content": "go on"});
    let messages: Vec<Value> = iter::once(ask()).chain(steps).chain([ask(), ask()]).collect();
    let body = json!({"model": "m", "messages": messages}).to_string();
    let settings = [EVERY, &[("LONGHAUL_PRUNE_MINIMUM_TOKENS", "1000")]].concat();
    let said = report(&[], &settings, body.as_bytes());
    let reason = said["messages"][2]["reason"].as_str().unwrap();
    assert!(reason.starts_with("too little to free yet: "), "{reason}");
}

#[test]
fn read_referenced_by_a_later_result_is_pinned() {
    let long = "0123".repeat(400);
    let [mut again, unchanged] = step(1, "read", "File unchanged since last read.");
    again["tool_calls"][0]["function"]["arguments"] = json!("{\"path\":\"call_0.rs\"}");
    let mut messages = vec![json!({"role": "user", "content": "a"})];
    messages.extend(step(0, "read", &long));
    messages.push(json!({"role": "user", "content": "b"}));
    messages.extend([again, unchanged]);
    messages.extend((2..5).flat_map(|id| step(id, "bash", &long)));
    let body = json!({"messages": messages}).to_string();
    let reason = "pinned: a later result refers to it";
    check_verdict(EVERY, body.as_bytes(), 2, "pinned", reason);
}

#[test]
fn untouched_request_shows_its_reason_and_keeps_its_bytes() {
    let off = [("DISABLE_PRUNE", "1"), ("DISABLE_AUTOCOMPACT", "1")];
    let all = [&off[..], &[("DISABLE_COMPACT_ON_OVERFLOW", "1")]].concat();
    let chat = br#"{"messages":[{"role":"user","content":"hi"}]}"#.as_slice();
    let twice = br#"{"messages":[],"messages":[]}"#.as_slice();
    let stateful = br#"{"previous_response_id":"resp_1","input":"hi"}"#.as_slice();
    let small = [("LONGHAUL_LIMITS_BODY", "16")];
    let thread = br#"{"system":"s","thread":{"type":"create"},"messages":[]}"#.as_slice();
    for (body, env, label) in [
        (b"[1]".as_slice(), &[][..], "shape"),
        (twice, &[], "duplicate"),
        (chat, &all, "disabled"),
        (chat, &[("LONGHAUL_MODE", "off")], "disabled"),
        (chat, &small, "too-large"),
        (thread, &[], "stateful"),
        (chat, &[], "nothing"),
        (stateful, &[], "stateful"),
    ] {
        assert_eq!(report(&[], env, body)["untouched"]["label"], label);
        let said = stdout(&[], env, body);
        assert!(said.contains("he request passes unchanged: "), "{label}: {said}");
        assert_eq!(explain(&["--body"], env, body).stdout, body, "{label}");
    }
}

#[test]
fn the_window_names_its_source() {
    let chat = br#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let check = |flags: &[&str], env: &[(&str, &str)], tokens: u64, source: &str| {
        let said = report(flags, env, chat);
        assert_eq!(said["window"], json!({"tokens": tokens, "source": source}));
    };
    check(&[], &[], 200_000, "assumed");
    check(&["--profile", "local"], &[], 10_000, "profile local");
    check(&["--window", "32000"], &[], 32_000, "flag --window");
    check(&[], &[("LONGHAUL_WINDOW", "64000")], 64_000, "env LONGHAUL_WINDOW");
}

#[test]
fn plain_and_gzipped_files_are_read_like_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("request.json");
    std::fs::write(&file, every_fate()).unwrap();
    let from_file = stdout(&[file.to_str().unwrap()], EVERY, b"");
    assert_eq!(from_file, stdout(&["-"], EVERY, &every_fate()));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&every_fate()).unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(from_file, stdout(&["-"], EVERY, &packed));
    std::fs::write(&file, packed).unwrap();
    assert_eq!(from_file, stdout(&[file.to_str().unwrap()], EVERY, b""));
}

#[test]
fn removes_control_characters_from_names_in_the_request() {
    let [call, result] = step(0, "\u{1b}[2J\n\u{202e}rm", "done");
    let body = json!({"messages": [{"role": "user", "content": "hi"}, call, result]}).to_string();
    let said = stdout(&[], &[], body.as_bytes());
    assert!(!said.contains(['\u{1b}', '\u{202e}']) && said.contains("[2J"), "{said}");
}

#[test]
fn unreadable_file_exits_66_invalid_json_65_and_wrong_usage_64() {
    let check = |arguments: &[&str], code: i32, words: &str| {
        let output = explain(arguments, &[], b"{}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
    };
    check(&["/does/not/exist"], 66, "/does/not/exist");
    let text = tempfile::NamedTempFile::new().unwrap();
    let name = text.path().to_str().unwrap();
    check(&[name], 65, "the body is not JSON");
    check(&["--json", name], 65, "the body of a chat, or an agent's log");
    let forwarded = explain(&["--body"], &[], b"{");
    assert_eq!(forwarded.stdout, b"{", "that goes on as it came");
    check(&["--jsn"], 64, "--json");
    check(&["--json", "--body"], 64, "--body");
    check(&["--window", "many"], 64, "flag --window");
}
