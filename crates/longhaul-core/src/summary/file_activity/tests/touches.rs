//! Tests of the file effects of a single call.

use super::*;

/// Returns the files touched by a call with this tool name.
fn touches(name: &str, arguments: Value) -> Vec<(String, FileAccess)> {
    let body = body(&[(name, arguments)]);
    let conversation = read(body.as_bytes()).unwrap();
    let mut found = Vec::new();
    for_each_file_access(&conversation, 0..1, |path, touch| found.push((path, touch)));
    found
}

fn check_touches(name: &str, arguments: Value, expect: &[(&str, FileAccess)]) {
    let shown = arguments.to_string();
    let found = touches(name, arguments);
    let found: Vec<(&str, FileAccess)> = found
        .iter()
        .map(|(path, touch)| (&**path, *touch))
        .collect();
    assert_eq!(found, expect, "{name} {shown}");
}

fn check_shell(command: &str, expect: &[(&str, FileAccess)]) {
    check_touches("bash", json!({"command": command}), expect);
}

#[test]
fn touch_is_derived_from_the_tool_name_or_its_command() {
    let path = || json!({"path": "a.rs"});
    check_touches("create_file", path(), &[("a.rs", FileAccess::Created)]);
    check_touches("delete_file", path(), &[("a.rs", FileAccess::Deleted)]);
    check_touches("write_file", path(), &[("a.rs", FileAccess::Modified)]);
    check_touches("read_file", path(), &[("a.rs", FileAccess::Read)]);
    check_touches("think", path(), &[]);
    let editor = |verb, touch| {
        let arguments = json!({"command": verb, "path": "a.rs"});
        check_touches("str_replace_editor", arguments, &[("a.rs", touch)]);
    };
    editor("create", FileAccess::Created);
    editor("delete", FileAccess::Deleted);
    editor("insert", FileAccess::Modified);
    editor("view", FileAccess::Read);
}

#[test]
fn patch_sections_determine_the_touch_of_each_file() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n*** Add File: c.rs\n*** Delete File: d.rs\n*** End Patch";
    let expect = [
        ("a.rs", FileAccess::Modified),
        ("b.rs", FileAccess::Created),
        ("c.rs", FileAccess::Created),
        ("d.rs", FileAccess::Deleted),
    ];
    check_touches("apply_patch", json!({"input": patch}), &expect);
}

#[test]
fn a_search_in_a_folder_counts_as_no_read() {
    check_touches("search", json!({"path": "src", "pattern": "a.rs"}), &[]);
    check_touches(
        "search",
        json!({"path": "src/a.rs"}),
        &[("src/a.rs", FileAccess::Read)],
    );
    let folder = json!({"command": "view", "path": "src"});
    check_touches("text_editor", folder, &[("src", FileAccess::Read)]);
}

#[test]
fn a_path_is_one_line_of_at_most_300_bytes() {
    for (tool, touch) in [
        ("read_file", FileAccess::Read),
        ("edit_file", FileAccess::Modified),
    ] {
        let named = |length: usize| format!("{}.rs", "a".repeat(length - 3));
        let (longest, longer) = (named(300), named(301));
        check_touches(tool, json!({"path": longest}), &[(&longest, touch)]);
        for none in [&longer, " ", "a\nb.rs"] {
            let arguments = json!({"path": none});
            check_touches(tool, arguments.clone(), &[]);
            assert_eq!(activity(&[(tool, arguments)]), "", "{tool} {none:?}");
        }
    }
}

#[test]
fn shell_verbs_determine_which_files_are_read_or_modified() {
    check_shell(
        "cat a.rs b.rs",
        &[("a.rs", FileAccess::Read), ("b.rs", FileAccess::Read)],
    );
    check_shell(
        "make | tee build.log",
        &[("build.log", FileAccess::Modified)],
    );
    check_shell("sed -i s/a/b/ a.rs", &[("a.rs", FileAccess::Modified)]);
    check_shell("head -i a.rs", &[("a.rs", FileAccess::Read)]);
    check_shell("git add a.rs && rm b.rs", &[]);
    check_shell("cat 'a.rs' > b.rs", &[("a.rs", FileAccess::Read)]);
}

#[test]
fn a_shell_word_counts_as_a_file_by_its_ending() {
    for file in [
        "src/a.rs",
        "a.tar.gz",
        "C:\\a.txt",
        ".env",
        "a.abcdefghij",
        "1a.7",
    ] {
        check_shell(&format!("cat {file}"), &[(file, FileAccess::Read)]);
    }
    let others = [
        "-n.rs",
        "*.rs",
        "$x.rs",
        "{a,b}.rs",
        "a=b.rs",
        "Makefile",
        "a.rs/b",
        "a.",
        "a.rs~",
        "a.abcdefghijk",
        "1.5",
    ];
    for other in others {
        check_shell(&format!("cat {other}"), &[]);
    }
}
