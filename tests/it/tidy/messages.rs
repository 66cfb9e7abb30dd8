//! The messages that the page on troubleshooting quotes are those of the program.

use super::{File, files};

const PAGE: &str = include_str!("../../../docs/how-to/troubleshoot.md");
const SECTION: &str = "## longhaul does not start";

/// Returns the part of a quoted message that no value interrupts.
fn fixed_part(message: &str) -> &str {
    let is_value = |word: &&str| word.starts_with("http://");
    let parts = message.split('…').flat_map(|part| match part.split(' ').find(is_value) {
        Some(value) => part.splitn(2, value).collect(),
        None => vec![part],
    });
    let parts = parts.map(|part| part.trim_matches([' ', ':']));
    parts.max_by_key(|part| part.len()).unwrap_or_default()
}

/// Returns the text of a source file with its string literals on one line.
fn joined(file: &File) -> String {
    let mut text = String::new();
    for line in file.text.lines() {
        if let Some(begun) = line.strip_suffix('\\') {
            text.push_str(begun.trim_start());
        } else {
            text.push_str(line.trim_start());
            text.push('\n');
        }
    }
    text
}

#[test]
fn quoted_messages_are_those_of_the_program() {
    let (_, section) = PAGE.split_once(SECTION).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let sources: Vec<String> = files("src").iter().map(joined).collect();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let messages: Vec<&str> = cells.filter_map(|cell| cell.rsplit('`').nth(1)).collect();
    assert!(messages.len() >= 5, "{messages:?}");
    for message in messages {
        let part = fixed_part(message);
        let is_there = sources.iter().any(|source| source.contains(part));
        assert!(part.len() > 8 && is_there, "no source has {part:?} of {message:?}");
    }
}
