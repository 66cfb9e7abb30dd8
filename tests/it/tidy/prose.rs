//! Doc comments begin with a noun or a third-person verb.

use super::{File, check, files, has_ending};

/// Words that no doc comment begins with: they point at the subject instead of naming it.
const POINTERS: [&str; 9] = [
    "What", "Who", "Whose", "Where", "How", "It", "Its", "The same", "That",
];

/// Folders with Rust sources of the project.
const FOLDERS: [&str; 6] = ["src", "crates", "tests", "benches", "examples", "fuzz"];

/// Returns the first lines of all doc comments of a file.
fn first_lines(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open = None;
    for line in text.lines().map(str::trim_start) {
        let marker = ["///", "//!"]
            .into_iter()
            .find(|marker| line.starts_with(marker));
        if marker.is_some() && marker != open {
            found.push(line.get(3..).unwrap_or_default().trim_start());
        }
        open = marker;
    }
    found
}

/// Whether `line` begins with `words` as whole words.
fn begins_with(line: &str, words: &str) -> bool {
    let rest = line.strip_prefix(words);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

#[test]
fn doc_comments_begin_with_their_subject_or_its_verb() {
    let mut sources: Vec<File> = FOLDERS.into_iter().flat_map(files).collect();
    // The doc comments of settings are user documentation.
    sources.retain(|file| has_ending(&file.path, "rs") && file.path != "src/config/settings.rs");
    check(&sources, |file| {
        let lines = first_lines(&file.text).into_iter();
        lines
            .filter(|line| POINTERS.iter().any(|words| begins_with(line, words)))
            .map(|line| format!("a doc comment begins with a pointer: {line}"))
            .collect()
    });
}

#[test]
fn only_the_first_line_of_a_doc_comment_is_read() {
    let text = "//! A file.\n\n/// Reads.\n/// What was read.\nfn a() {}\n/// Its end.\n";
    assert_eq!(first_lines(text), ["A file.", "Reads.", "Its end."]);
    assert!(begins_with("Its end.", "Its") && !begins_with("Its end.", "It"));
    assert!(begins_with("The same of it.", "The same") && !begins_with("Itself", "It"));
}
