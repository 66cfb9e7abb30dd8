//! The table of complaints in ARCHITECTURE.md names tests that exist, for every complaint.

use super::{File, files, sources};

/// The rows of the table: their number and the cells behind it.
fn rows() -> Vec<(usize, String)> {
    let pages = files("");
    let page = pages.iter().find(|file| file.path == "ARCHITECTURE.md");
    let text = &page.expect("ARCHITECTURE.md is there").text;
    let (_, table) = text
        .split_once("complained of\n")
        .expect("it has the table");
    let (table, _) = table.split_once("\n## ").expect("it has an end");
    table
        .lines()
        .filter_map(|line| {
            let (number, cells) = line.strip_prefix("| ")?.split_once(" | ")?;
            Some((number.parse().ok()?, cells.to_owned()))
        })
        .collect()
}

/// The names in the last cell of a row.
fn named(cells: &str) -> Vec<&str> {
    let last = cells.trim_end_matches(" |").rsplit(" | ").next();
    let quoted = last.unwrap_or_default().split('`').skip(1).step_by(2);
    quoted.collect()
}

/// Whether a file has a test of that name: a function right behind the attribute of one.
pub(super) fn tests(file: &File, name: &str) -> bool {
    let Some((before, _)) = file.text.split_once(&format!("fn {name}(")) else {
        return false;
    };
    let attributes = before.rsplit("\n\n").next().unwrap_or_default();
    attributes.contains("#[test]") || attributes.contains("#[tokio::test")
}

#[test]
fn every_complaint_has_its_row_and_every_row_its_tests() {
    let numbers: Vec<usize> = rows().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=34).collect::<Vec<_>>());
    let sources = sources();
    for (number, cells) in rows() {
        let names = named(&cells);
        assert!(!names.is_empty(), "complaint {number} names no test");
        for name in names {
            let there = sources.iter().any(|file| tests(file, name));
            assert!(there, "complaint {number}: no test is called {name}");
        }
    }
}
