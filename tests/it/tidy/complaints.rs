//! The table in docs/contributing/complaints.md names an existing test for every complaint.

use super::{File, files, sources};

/// Returns the rows of the table, without the heading.
fn rows() -> Vec<String> {
    let pages = files("docs");
    let page = pages
        .iter()
        .find(|file| file.path == "docs/contributing/complaints.md");
    let text = &page.expect("docs/contributing/complaints.md is there").text;
    let (_, table) = text.split_once("|---|---|---|\n").expect("it has a table");
    table.lines().map(str::to_owned).collect()
}

/// Returns the names in the last cell of a row.
fn named(row: &str) -> Vec<&str> {
    let last = row.trim_end_matches(" |").rsplit(" | ").next();
    let quoted = last.unwrap_or_default().split('`').skip(1).step_by(2);
    quoted.collect()
}

/// Whether a file has a test with this name: a function directly after a test attribute.
pub(super) fn tests(file: &File, name: &str) -> bool {
    let Some((before, _)) = file.text.split_once(&format!("fn {name}(")) else {
        return false;
    };
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    attributes.contains("#[test]") || attributes.contains("#[tokio::test")
}

#[test]
fn every_complaint_names_existing_tests() {
    let sources = sources();
    let rows = rows();
    assert!(!rows.is_empty());
    for row in rows {
        let names = named(&row);
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            let there = sources.iter().any(|file| tests(file, name));
            assert!(there, "no test is called {name}: {row}");
        }
    }
}
