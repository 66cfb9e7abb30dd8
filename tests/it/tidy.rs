//! Rules for the source itself: sizes, first lines, words, levels, labels.

mod dialect;
mod faults;
mod labels;
mod levels;
mod map;
mod markdown;
mod messages;
mod modules;
mod owners;
mod promises;
mod prose;
mod releases;
mod sleeps;

use std::fs;
use std::path::Path;

/// Maximum number of lines of a source file.
const LINES: usize = 500;

/// A text file of the project.
struct File {
    /// Path from the root of the project, separated by `/`.
    path: String,
    text: String,
}

/// Returns all text files under `folder`, except generated files and recorded sessions.
fn files(folder: &str) -> Vec<File> {
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), folder, &mut found);
    assert!(!found.is_empty(), "no files in {folder:?}");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(folder: &Path, path: &str, found: &mut Vec<File>) {
    const MADE: [&str; 6] = [".git", ".venv", "node_modules", "sessions", "target", "vendor"];
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        if MADE.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &path, found);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            found.push(File { path, text });
        }
    }
}

/// Returns the files of the library, the program and the crates of the workspace.
fn products() -> Vec<File> {
    let mut found = files("src");
    found.extend(files("crates"));
    found.retain(|file| !file.path.contains("/benches/"));
    found
}

/// Returns the source files of all crates and of the tests.
fn sources() -> Vec<File> {
    let mut found = products();
    found.extend(files("tests"));
    found.retain(|file| has_ending(&file.path, "rs"));
    found
}

fn has_ending(path: &str, ending: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == ending)
}

/// Applies `rule`, which returns the violations of a file, to all `files`; panics with all
/// violations.
fn check(files: &[File], rule: impl Fn(&File) -> Vec<String>) {
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let path = &file.path;
            rule(file).into_iter().map(move |what| format!("{path}: {what}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_call_alone_is_unsafe() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert!(read("Cargo.toml").contains("\nunsafe_code = \"deny\"\n"));
    for folder in [
        "",
        "crates/longhaul-console/",
        "crates/longhaul-core/",
        "crates/longhaul-lab/",
        "crates/longhaul-mock-model/",
    ] {
        let manifest = read(&format!("{folder}Cargo.toml"));
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "{folder}");
    }
    for library in [
        "crates/longhaul-console",
        "crates/longhaul-core",
        "crates/longhaul-lab",
        "crates/longhaul-mock-model",
    ] {
        let root_module = read(&format!("{library}/src/lib.rs"));
        assert!(root_module.contains("\n#![forbid(unsafe_code)]\n"), "{library}");
    }
    // Each exception from the lint names the lint.
    let exceptions = files("src")
        .into_iter()
        .flat_map(|file| vec![file.path; file.text.matches("unsafe_code").count()]);
    let exceptions: Vec<String> = exceptions.collect();
    assert_eq!(exceptions, ["src/server/idle_memory.rs"]);
}

#[test]
fn no_source_file_exceeds_the_line_limit() {
    check(&sources(), |file| {
        let lines = file.text.lines().count();
        let long = (lines > LINES).then(|| format!("{lines} lines, at most {LINES}"));
        long.into_iter().collect()
    });
}

#[test]
fn every_source_file_starts_with_a_doc_comment() {
    check(&sources(), |file| {
        let says = file.text.starts_with("//! ");
        (!says).then(|| "its first line is no `//!`".to_owned()).into_iter().collect()
    });
}

#[test]
fn no_module_has_a_generic_name() {
    check(&sources(), |file| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        ["common.rs", "helpers.rs", "mod.rs", "types.rs", "util.rs", "utils.rs"]
            .into_iter()
            .filter(|banned| *banned == name)
            .map(|banned| format!("no file is called {banned}"))
            .collect()
    });
}

#[test]
fn sources_contain_no_todos_and_no_ticket_references() {
    check(&products(), |file| {
        ["todo!", "unimplemented!", "TODO", "FIXME", "for now"]
            .into_iter()
            .filter(|words| file.text.contains(words))
            .map(|words| format!("says {words:?}"))
            .chain(tickets(file))
            .collect()
    });
}

/// Finds numbers of issues and pull requests in comments: the comment must state the reason itself.
fn tickets(file: &File) -> Vec<String> {
    let comments = file.text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    comments
        .filter(|comment| {
            comment.match_indices('#').any(|(at, _)| {
                let next = comment.get(at + 1..).and_then(|rest| rest.chars().next());
                next.is_some_and(|next| next.is_ascii_digit())
            })
        })
        .map(|comment| format!("names a ticket: {}", comment.trim()))
        .collect()
}

#[test]
fn no_file_contains_machine_paths_or_registry_hosts() {
    // Split in two, so that this file does not contain the names either.
    let banned: Vec<String> = [
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("/tm", "p/"),
        ("crates", ".io"),
        ("npmjs", ".org"),
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("proxy.gol", "ang.org"),
    ]
    .into_iter()
    .map(|(head, tail)| format!("{head}{tail}"))
    .collect();
    let mut files = files("");
    // Cargo writes the registry's name into its lock files.
    files.retain(|file| !file.path.ends_with("Cargo.lock"));
    check(&files, |file| {
        let named = banned.iter().filter(|name| file.text.contains(*name));
        named.map(|name| format!("names {name}")).collect()
    });
}

#[test]
fn every_prompt_is_compiled_in() {
    let sources = sources();
    check(&files("crates/longhaul-core/src/summary/prompts"), |file| {
        let name =
            file.path.strip_prefix("crates/longhaul-core/src/summary/").unwrap_or(&file.path);
        let include = format!("include_str!(\"{name}\")");
        let used = sources.iter().any(|source| source.text.contains(&include));
        (!used).then(|| "no source file includes it".to_owned()).into_iter().collect()
    });
}

#[test]
fn every_fixture_is_named_by_a_test() {
    let sources = sources();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let names = fs::read_dir(fixtures)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // A page for readers, and a script that is run manually.
    for name in names.filter(|name| name != "README.md" && name != "scan_secrets") {
        let path = format!("fixtures/{name}");
        let used = sources.iter().any(|source| source.text.contains(&path));
        assert!(used, "{path}: no source file and no test names it");
    }
}
