//! Tests of the file effects of a single call.

use super::*;

use FileAccess::{Created, Deleted, Modified, Read};

/// Asserts which files a call touches.
fn check_touches(name: &str, arguments: &Value, expect: &[(&str, FileAccess)]) {
    let body = body(&[(name, arguments.clone())]);
    let conversation = read(body.as_bytes()).unwrap();
    let mut found = Vec::new();
    for_each_file_access(&conversation, 0..1, |path, touch| found.push((path, touch)));
    let found = found.iter().map(|(path, touch)| (&**path, *touch));
    assert_eq!(found.collect::<Vec<_>>(), expect, "{name} {arguments}");
}

fn check_shell(command: &str, expect: &[(&str, FileAccess)]) {
    check_touches("bash", &json!({"command": command}), expect);
}

#[test]
fn touch_is_derived_from_the_tool_name_or_its_command() {
    for (tool, touch) in [
        ("create_file", Some(Created)),
        ("delete_file", Some(Deleted)),
        ("write_file", Some(Modified)),
        ("read_file", Some(Read)),
        ("think", None),
    ] {
        let touches = touch.map(|touch| ("a.rs", touch));
        check_touches(tool, &json!({"path": "a.rs"}), touches.as_slice());
    }
    let verbs = [("create", Created), ("delete", Deleted), ("insert", Modified), ("view", Read)];
    for (verb, touch) in verbs {
        let arguments = json!({"command": verb, "path": "a.rs"});
        check_touches("str_replace_editor", &arguments, &[("a.rs", touch)]);
    }
}

#[test]
fn patch_sections_determine_the_touch_of_each_file() {
    let patch = "*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n*** Add File: c.rs\n*** Delete File: d.rs\n*** End Patch";
    let modified = [("a.rs", Modified), ("b.rs", Created)];
    let expect = [&modified[..], &[("c.rs", Created), ("d.rs", Deleted)]].concat();
    check_touches("apply_patch", &json!({"input": patch}), &expect);
}

#[test]
fn a_search_in_a_folder_counts_as_no_read() {
    check_touches("search", &json!({"path": "src", "pattern": "a.rs"}), &[]);
    let file = [("src/a.rs", Read)];
    check_touches("search", &json!({"path": "src/a.rs"}), &file);
    let folder = json!({"command": "view", "path": "src"});
    check_touches("text_editor", &folder, &[("src", Read)]);
}

#[test]
fn a_path_is_one_line_of_at_most_300_bytes() {
    for (tool, touch) in [("read_file", Read), ("edit_file", Modified)] {
        let named = |length: usize| format!("{}.rs", "a".repeat(length - 3));
        let (longest, longer) = (named(300), named(301));
        check_touches(tool, &json!({"path": longest}), &[(&longest, touch)]);
        for none in [&longer, " ", "a\nb.rs"] {
            let arguments = json!({"path": none});
            check_touches(tool, &arguments, &[]);
            assert_eq!(activity(&[(tool, arguments)]), "", "{tool} {none:?}");
        }
    }
}

#[test]
fn shell_verbs_determine_which_files_are_read_or_modified() {
    check_shell("cat a.rs b.rs", &[("a.rs", Read), ("b.rs", Read)]);
    check_shell("make | tee build.log", &[("build.log", Modified)]);
    check_shell("sed -i s/a/b/ a.rs", &[("a.rs", Modified)]);
    check_shell("head -i a.rs", &[("a.rs", Read)]);
    check_shell("git add a.rs && rm b.rs", &[]);
    check_shell("cat 'a.rs' > b.rs", &[("a.rs", Read)]);
}

#[test]
fn a_shell_word_counts_as_a_file_by_its_ending() {
    for file in r"src/a.rs a.tar.gz C:\a.txt .env a.abcdefghij 1a.7".split(' ') {
        check_shell(&format!("cat {file}"), &[(file, Read)]);
    }
    let others = "-n.rs *.rs $x.rs {a,b}.rs a=b.rs Makefile a.rs/b a. a.rs~ a.abcdefghijk 1.5";
    for other in others.split(' ') {
        check_shell(&format!("cat {other}"), &[]);
    }
}
