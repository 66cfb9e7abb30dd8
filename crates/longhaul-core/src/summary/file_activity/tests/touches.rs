//! Tests of the files that a single call modifies.

use super::*;

/// Asserts which files a call modifies.
fn check_call(name: &str, arguments: &Value, expect: &[&str]) {
    let body = body(&[(name, arguments.clone())]);
    let conversation = read(body.as_bytes()).unwrap();
    let mut found = Vec::new();
    for_each_modified(&conversation, 0..1, |path| found.push(path));
    assert_eq!(found, expect, "{name} {arguments}");
}

fn check_shell(command: &str, expect: &[&str]) {
    check_call("bash", &json!({"command": command}), expect);
}

#[test]
fn modification_is_derived_from_the_tool_name_or_its_command() {
    for (tool, modifies) in [
        ("create_file", true),
        ("delete_file", true),
        ("write_file", true),
        ("read_file", false),
        ("think", false),
    ] {
        let expect: &[&str] = if modifies { &["a.rs"] } else { &[] };
        check_call(tool, &json!({"path": "a.rs"}), expect);
    }
    for (verb, modifies) in [("create", true), ("delete", true), ("insert", true), ("view", false)]
    {
        let arguments = json!({"command": verb, "path": "a.rs"});
        let expect: &[&str] = if modifies { &["a.rs"] } else { &[] };
        check_call("str_replace_editor", &arguments, expect);
    }
}

#[test]
fn a_patch_modifies_every_file_that_it_names() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n*** Add File: c.rs\n*** Delete File: d.rs\n*** End Patch";
    check_call("apply_patch", &json!({"input": patch}), &["a.rs", "b.rs", "c.rs", "d.rs"]);
}

#[test]
fn a_path_is_one_line_of_at_most_300_bytes() {
    let named = |length: usize| format!("{}.rs", "a".repeat(length - 3));
    let (longest, longer) = (named(300), named(301));
    check_call("edit_file", &json!({"path": longest}), &[&*longest]);
    for none in [&*longer, " ", "a\nb.rs"] {
        let arguments = json!({"path": none});
        check_call("edit_file", &arguments, &[]);
        assert_eq!(activity(&[("edit_file", arguments)]), "", "{none:?}");
    }
}

#[test]
fn shell_verbs_determine_which_files_are_modified() {
    check_shell("cat a.rs b.rs", &[]);
    check_shell("make | tee build.log", &["build.log"]);
    check_shell("sed -i s/a/b/ a.rs", &["a.rs"]);
    check_shell("sed -n 1p a.rs", &[]);
    check_shell("head -i a.rs", &[]);
    check_shell("git add a.rs && rm b.rs", &[]);
    check_shell("tee 'a.rs' > b.rs", &["a.rs"]);
}

#[test]
fn a_shell_word_counts_as_a_file_by_its_ending() {
    for file in r"src/a.rs a.tar.gz C:\a.txt .env a.abcdefghij 1a.7".split(' ') {
        check_shell(&format!("tee {file}"), &[file]);
    }
    let others = "-n.rs *.rs $x.rs {a,b}.rs a=b.rs Makefile a.rs/b a. a.rs~ a.abcdefghijk 1.5";
    for other in others.split(' ') {
        check_shell(&format!("tee {other}"), &[]);
    }
}
