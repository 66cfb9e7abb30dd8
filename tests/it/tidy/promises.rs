//! The pages that map promises and complaints to tests name existing tests.

use std::collections::BTreeSet;

use super::{File, sources};

/// Each page has tables whose last column names tests, and at least this many names.
const PAGES: [(&str, &str, usize); 2] = [
    (
        "docs/contributing/complaints.md",
        include_str!("../../../docs/contributing/complaints.md"),
        50,
    ),
    ("docs/contributing/promises.md", include_str!("../../../docs/contributing/promises.md"), 300),
];

/// Returns the rows of all tables of a page, without their heads.
fn rows(page: &str) -> impl Iterator<Item = &str> {
    let tables = page.split("\n|---|").skip(1);
    tables.flat_map(|table| table.lines().skip(1).take_while(|line| !line.is_empty()))
}

/// Returns the names in the last cell of a row.
fn named(row: &str) -> Vec<&str> {
    let last = row.trim_end_matches(" |").rsplit(" | ").next();
    let quoted = last.unwrap_or_default().split('`').skip(1).step_by(2);
    quoted.collect()
}

/// Returns the names of the functions that stand directly after a test attribute.
pub(super) fn test_names(files: &[File]) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for file in files {
        let mut after_attribute = false;
        for line in file.text.lines().map(str::trim) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                after_attribute = true;
            } else if let Some((_, declared)) = line.split_once("fn ") {
                if std::mem::take(&mut after_attribute) {
                    names.insert(declared.split(['(', '<']).next().unwrap_or_default());
                }
            } else {
                after_attribute &= line.starts_with(['#', '/']);
            }
        }
    }
    names
}

#[test]
fn every_promise_and_complaint_names_existing_tests() {
    let sources = sources();
    let tests = test_names(&sources);
    for (path, page, expected) in PAGES {
        let mut count = 0;
        for row in rows(page) {
            let names = named(row);
            assert!(!names.is_empty(), "{path}: no test: {row}");
            count += names.len();
            for name in names {
                assert!(tests.contains(name), "{path}: no test is called {name}: {row}");
            }
        }
        assert!(count >= expected, "{path} was read: {count} names");
    }
}

#[test]
fn a_test_is_a_function_after_its_attribute() {
    let text = "#[test]\n#[ignore = \"b\"]\nfn a() {}\n\n#[tokio::test(start_paused = true)]\nasync fn b<T>() {}\n\nfn c() {}\n";
    let file = File { path: String::new(), text: text.to_owned() };
    assert_eq!(Vec::from_iter(test_names(&[file])), ["a", "b"]);
}
