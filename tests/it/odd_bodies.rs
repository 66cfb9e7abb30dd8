//! Odd bodies, one per file: read as the oracle reads them, or bypassed with a reason.

use crate::oracle::pruner::Rule;
use crate::oracle::reader;
use crate::promises::judged_rightly;
use crate::subject;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::dialect::chat_completions::read;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The reason to bypass each file; `None` if it is understood.
const TRAPS: &[(&str, Option<Bypass>)] = &[
    ("call-named-twice", None),
    ("content-missing", None),
    ("content-null", None),
    ("custom-tool", None),
    ("duplicate-unknown-keys", None),
    ("escaped-keys", None),
    ("function-call-legacy", None),
    ("huge-numbers", None),
    ("keys-inside-unknown", None),
    ("lone-surrogates", None),
    ("max-tokens-past-u32", None),
    ("messages-empty", None),
    ("model-null", None),
    ("nul-escaped", None),
    ("parts-odd", None),
    ("reasoning-in-three-keys", None),
    ("role-unknown", None),
    ("stream-string", None),
    ("tool-calls-and-function-call", None),
    ("tool-calls-empty", None),
    ("tool-calls-null", None),
    ("white-space", None),
    ("wide-letters", None),
    ("bad-escape", Some(Bypass::Malformed)),
    ("byte-order-mark", Some(Bypass::Malformed)),
    ("comment", Some(Bypass::Malformed)),
    ("empty", Some(Bypass::Malformed)),
    ("invalid-utf8", Some(Bypass::Malformed)),
    ("leading-zero", Some(Bypass::Malformed)),
    ("line-end-in-string", Some(Bypass::Malformed)),
    ("not-a-number", Some(Bypass::Malformed)),
    ("nul-raw", Some(Bypass::Malformed)),
    ("short-escape", Some(Bypass::Malformed)),
    ("trailing-bytes", Some(Bypass::Malformed)),
    ("trailing-comma", Some(Bypass::Malformed)),
    ("truncated", Some(Bypass::Malformed)),
    ("two-bodies", Some(Bypass::Malformed)),
    ("utf16", Some(Bypass::Malformed)),
    ("call-null", Some(Bypass::Shape)),
    ("content-number", Some(Bypass::Shape)),
    ("content-object", Some(Bypass::Shape)),
    ("message-null", Some(Bypass::Shape)),
    ("messages-missing", Some(Bypass::Shape)),
    ("messages-null", Some(Bypass::Shape)),
    ("messages-object", Some(Bypass::Shape)),
    ("model-number", Some(Bypass::Shape)),
    ("part-string", Some(Bypass::Shape)),
    ("role-missing", Some(Bypass::Shape)),
    ("role-null", Some(Bypass::Shape)),
    ("text-number", Some(Bypass::Shape)),
    ("tool-call-id-number", Some(Bypass::Shape)),
    ("tool-calls-string", Some(Bypass::Shape)),
    ("top-level-array", Some(Bypass::Shape)),
    ("top-level-string", Some(Bypass::Shape)),
    ("duplicate-key-behind-a-huge-number", Some(Bypass::Duplicate)),
    ("duplicate-arguments-and-input", Some(Bypass::Duplicate)),
    ("duplicate-arguments", Some(Bypass::Duplicate)),
    ("duplicate-cache-control", Some(Bypass::Duplicate)),
    ("duplicate-call-id", Some(Bypass::Duplicate)),
    ("duplicate-call-name", Some(Bypass::Duplicate)),
    ("duplicate-content-escaped", Some(Bypass::Duplicate)),
    ("duplicate-content", Some(Bypass::Duplicate)),
    ("duplicate-function-and-custom", Some(Bypass::Duplicate)),
    ("duplicate-function", Some(Bypass::Duplicate)),
    ("duplicate-max-tokens", Some(Bypass::Duplicate)),
    ("duplicate-messages", Some(Bypass::Duplicate)),
    ("duplicate-model", Some(Bypass::Duplicate)),
    ("duplicate-part-text", Some(Bypass::Duplicate)),
    ("duplicate-part-type", Some(Bypass::Duplicate)),
    ("duplicate-role", Some(Bypass::Duplicate)),
    ("duplicate-stream", Some(Bypass::Duplicate)),
    ("duplicate-tool-call-id", Some(Bypass::Duplicate)),
    ("duplicate-tool-calls", Some(Bypass::Duplicate)),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/odd_bodies")
}

#[test]
fn each_odd_body_is_read_or_bypassed_for_its_reason() {
    for (name, reason) in TRAPS {
        let body = fs::read(folder().join(format!("{name}.json"))).unwrap();
        eprintln!("{name}");
        assert_eq!(judged_rightly(&body).err(), *reason, "{name}");
    }
}

#[test]
fn every_odd_body_is_in_the_table() {
    let files: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let listed = TRAPS.iter().map(|(name, _)| format!("{name}.json"));
    assert_eq!(files, listed.collect());
}

#[test]
fn huge_numbers_are_read_like_small_ones() {
    let body = fs::read_to_string(folder().join("huge-numbers.json")).unwrap();
    let calm = body.replace("1e999", "1").replace(&"9".repeat(400), "9");
    let tree = reader::tree(calm.as_bytes()).unwrap();
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(subject::reading(&conversation), reader::reading(&tree).unwrap());
}

/// Nesting too deep for any stack, one level per byte.
const DEEP: usize = 100_000;

#[test]
fn ignores_nesting_of_any_depth_in_members_that_are_not_read() {
    let result = "x".repeat(4_000);
    for (open, close) in [("[", "]"), (r#"{"content":"#, "}")] {
        let deep = format!("{}1{}", open.repeat(DEEP), close.repeat(DEEP));
        let arguments = deep.replace('"', "\\\"");
        let old = format!(r#"[{{"type":"text","text":"{result}","x":{deep}}}]"#);
        let body = format!(
            r#"{{"x":{deep},"tools":{deep},"messages":[{{"role":"user","x":{deep}}},
            {{"role":"assistant","x":{deep},"tool_calls":[{{"id":"1","x":{deep},
            "function":{{"name":"f","arguments":"{arguments}","x":{deep}}}}}]}},
            {{"role":"tool","tool_call_id":"1","content":{old}}},
            {{"role":"assistant","tool_calls":[{{"id":"2"}}]}},
            {{"role":"tool","tool_call_id":"2","content":"new"}}]}}"#,
        );
        assert_eq!(judged_rightly(body.as_bytes()), Ok(()));
        let new = "[Old tool result content cleared: f, about 1000 tokens]";
        let new = format!(r#"[{{"type":"text","text":"{new}"}}]"#);
        let forwarded = subject::forwarded(body.as_bytes(), &clear_all()).unwrap();
        assert!(forwarded == body.replace(&old, &new).as_bytes());
    }
}

fn clear_all() -> Rule {
    Rule {
        protect: 0,
        minimum: 0,
        user_turns: 0,
        exempt_tools: Vec::new(),
        keep_errors: false,
        described: true,
    }
}

#[test]
fn judges_nesting_of_any_depth_in_members_that_are_read() {
    for (body, reason) in [
        (format!(r#"{{"messages":{}{}}}"#, "[".repeat(DEEP), "]".repeat(DEEP)), Bypass::Shape),
        (format!(r#"{{"messages":{}"#, "[".repeat(DEEP)), Bypass::Malformed),
        (r#"{"messages":"#.repeat(DEEP), Bypass::Malformed),
        ("[".repeat(DEEP), Bypass::Malformed),
        (format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP)), Bypass::Shape),
    ] {
        assert_eq!(judged_rightly(body.as_bytes()), Err(reason));
    }
}

/// A pairwise comparison of this many calls and results would take minutes.
#[test]
fn matches_a_batch_of_twenty_thousand_calls() {
    const COUNT: usize = 20_000;
    let many = |one: &dyn Fn(usize) -> String| (0..COUNT).map(one).collect::<Vec<_>>().join(",");
    let calls = many(&|at| format!(r#"{{"id":"{at}","function":{{"name":"f"}}}}"#));
    let result = "y".repeat(400);
    let answers = |shift: usize| {
        many(&|at| {
            let id = at + shift;
            format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{result}"}}"#)
        })
    };
    let rest = r#"{"role":"assistant","function_call":{}},{"role":"function","content":""}"#;
    for (shift, complete) in [(0, true), (COUNT, false)] {
        let answers = answers(shift);
        let body = format!(
            r#"{{"messages":[{{"role":"assistant","tool_calls":[{calls}]}},{answers},{rest}]}}"#
        );
        let conversation = read(body.as_bytes()).unwrap();
        let batches = conversation.batches();
        assert_eq!(batches[0].complete_at.is_some(), complete);
        let called = |at| conversation.call_for_result(&batches[0], at).is_some();
        assert_eq!(called(COUNT), complete);
        assert_eq!(subject::cleared(&body, &clear_all()).0.len(), COUNT);
    }
}
