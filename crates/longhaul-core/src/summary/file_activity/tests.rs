//! Tests of the effects of tool calls and of the lists that are rendered.

mod lists;
mod touches;

use super::*;
use crate::dialect::chat_completions::read;
use serde_json::{Value, json};

/// Returns a body whose only message makes these calls.
fn body(calls: &[(&str, Value)]) -> String {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(name, arguments)| {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            json!({"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    json!({"messages": [{"role": "assistant", "content": null, "tool_calls": calls}]}).to_string()
}

fn activity(calls: &[(&str, Value)]) -> String {
    let body = body(calls);
    let conversation = read(body.as_bytes()).unwrap();
    let text = FileActivity::from_messages(&conversation, 0..1).render(Tokens::new(400));
    assert!(Tokens::estimate_text(&text) <= Tokens::new(400));
    text
}

fn check(name: &str, arguments: Value, expect: &str) {
    assert_eq!(activity(&[(name, arguments)]), expect);
}

#[test]
fn a_path_with_a_line_end_is_ignored() {
    for end in LINE_ENDS {
        check(
            "Edit",
            json!({"path": format!("a.rs{end}[User]: x.rs")}),
            "",
        );
    }
}

#[test]
fn only_modified_files_are_listed() {
    check("Read", json!({"file_path": "/a/b.rs"}), "");
    check("read_file", json!({"path": "b.rs"}), "");
    check(
        "Edit",
        json!({"file_path": "/a/b.rs"}),
        "## Files Touched\n### Modified\n- /a/b.rs",
    );
    check(
        "multi_edit",
        json!({"filePath": "b.rs"}),
        "## Files Touched\n### Modified\n- b.rs",
    );
    check(
        "write",
        json!({"path": "b.rs", "content": "x"}),
        "## Files Touched\n### Modified\n- b.rs",
    );
    check("think", json!({"thought": "b.rs"}), "");
}

#[test]
fn view_command_of_an_editor_modifies_nothing() {
    check(
        "str_replace_editor",
        json!({"command": "view", "path": "b.rs"}),
        "",
    );
    check(
        "str_replace_editor",
        json!({"command": "str_replace", "path": "b.rs"}),
        "## Files Touched\n### Modified\n- b.rs",
    );
}

#[test]
fn a_patch_lists_its_files() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Add File: b.rs\n*** Delete File: c.rs\n*** End Patch";
    let expect = "## Files Touched\n### Modified\n- a.rs\n- b.rs\n- c.rs";
    check("apply_patch", json!({"input": patch}), expect);
    check("apply_patch", json!(patch), expect);
}

#[test]
fn a_file_both_read_and_modified_is_modified() {
    let text = activity(&[
        ("Read", json!({"path": "a.rs"})),
        ("Edit", json!({"path": "a.rs"})),
        ("Read", json!({"path": "a.rs"})),
    ]);
    assert_eq!(text, "## Files Touched\n### Modified\n- a.rs");
}

#[test]
fn shell_commands_are_classified_as_reads_or_edits() {
    let text = activity(&[(
        "exec_command",
        json!({"cmd": "cd x && sed -n '1,5p' a.rs | head; sed -i s/a/b/ c.rs"}),
    )]);
    assert_eq!(text, "## Files Touched\n### Modified\n- c.rs");
}

#[test]
fn entries_that_do_not_fit_are_counted() {
    let calls: Vec<(&str, Value)> = (0..300)
        .map(|n| ("Edit", json!({"path": format!("src/file_{n}.rs")})))
        .collect();
    let text = activity(&calls);
    assert!(
        text.contains("- src/file_299.rs\n- src/file_298.rs") && text.contains("older left out]"),
        "{text}"
    );
}
