//! Tests of the files that tool calls modify, and of the lists that are rendered.

mod lists;
mod touches;

use super::*;
use crate::dialect::chat_completions::read;
use crate::text::labels::LINE_ENDS;
use serde_json::{Value, json};

/// Returns a body whose only message makes these calls.
fn body(calls: &[(&str, Value)]) -> String {
    let calls = calls.iter().map(|(name, arguments)| {
        let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        json!({"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    json!({"messages": [{"role": "assistant", "content": null, "tool_calls": calls}]}).to_string()
}

fn activity(calls: &[(&str, Value)]) -> String {
    let body = body(calls);
    let conversation = read(body.as_bytes()).unwrap();
    let text = FileActivity::from_messages(&conversation, 0..1).render(Tokens::new(400));
    assert!(Tokens::estimate_text(&text) <= Tokens::new(400));
    text
}

/// Asserts that the calls list these modified files.
fn check(calls: &[(&str, Value)], expect: &[&str]) {
    let files = expect.iter().map(|file| format!("\n- {file}"));
    let list: String = files.collect();
    let heading = if list.is_empty() { "" } else { "## Files Touched\n### Modified" };
    assert_eq!(activity(calls), format!("{heading}{list}"), "{calls:?}");
}

#[test]
fn a_path_with_a_line_end_is_ignored() {
    for end in LINE_ENDS {
        check(&[("Edit", json!({"path": format!("a.rs{end}[User]: x.rs")}))], &[]);
    }
}

#[test]
fn only_modified_files_are_listed() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Add File: b.rs\n*** Delete File: c.rs\n*** End Patch";
    let shell = "cd x && sed -n '1,5p' a.rs | head; sed -i s/a/b/ c.rs";
    let (all, b): (&[&str], &[&str]) = (&["a.rs", "b.rs", "c.rs"], &["b.rs"]);
    for (name, arguments, expect) in [
        ("Read", json!({"file_path": "/a/b.rs"}), &[][..]),
        ("read_file", json!({"path": "b.rs"}), &[]),
        ("Edit", json!({"file_path": "/a/b.rs"}), &["/a/b.rs"]),
        ("multi_edit", json!({"filePath": "b.rs"}), b),
        ("write", json!({"path": "b.rs", "content": "x"}), b),
        ("think", json!({"thought": "b.rs"}), &[]),
        ("str_replace_editor", json!({"command": "view", "path": "b.rs"}), &[]),
        ("str_replace_editor", json!({"command": "str_replace", "path": "b.rs"}), b),
        ("apply_patch", json!({"input": patch}), all),
        ("apply_patch", json!(patch), all),
        ("exec_command", json!({"cmd": shell}), &["c.rs"]),
    ] {
        check(&[(name, arguments)], expect);
    }
}

#[test]
fn a_file_both_read_and_modified_is_modified() {
    let call = |name| (name, json!({"path": "a.rs"}));
    check(&["Read", "Edit", "Read"].map(call), &["a.rs"]);
}

#[test]
fn entries_that_do_not_fit_are_counted() {
    let calls = (0..300).map(|n| ("Edit", json!({"path": format!("src/file_{n}.rs")})));
    let text = activity(&calls.collect::<Vec<_>>());
    assert!(text.contains("- src/file_299.rs\n- src/file_298.rs"), "{text}");
    assert!(text.contains("older left out]"), "{text}");
}
