//! The table of faults is complete, names existing tests, and equals the table in docs/reference/faults.md.

use super::promises::test_names;
use super::{File, files, sources};
use crate::faults::table::{FAULTS, Fault, Gets, STAGES, Stage, markdown};

#[test]
fn every_fault_has_its_row_at_every_stage() {
    let cells: Vec<(Stage, Fault)> = FAULTS.iter().map(|row| (row.stage, row.fault)).collect();
    let every = STAGES.iter().flat_map(|stage| {
        let (stage, _) = stage;
        Fault::ALL.iter().map(|fault| (*stage, *fault))
    });
    assert_eq!(cells, every.collect::<Vec<_>>());
}

#[test]
fn every_fault_row_names_tests_and_every_fault_test_has_a_row() {
    let sources = sources();
    let tests = test_names(&sources);
    let mut named = Vec::new();
    for row in FAULTS {
        let Gets::Shown { by, .. } = row.gets else {
            continue;
        };
        assert!(!by.is_empty(), "{row:?}");
        for name in by {
            assert!(tests.contains(name), "{row:?}: no test is called {name}");
            named.push(*name);
        }
    }
    let (themes, _): (Vec<File>, Vec<File>) = sources
        .into_iter()
        .partition(|file| file.path.starts_with("tests/it/faults/"));
    for name in test_names(&themes) {
        assert!(named.contains(&name), "no row names {name}");
    }
}

#[test]
fn documented_table_matches_the_tested_table() {
    let documents = files("docs");
    let page = documents
        .iter()
        .find(|file| file.path == "docs/reference/faults.md");
    let shown = page
        .and_then(|page| page.text.split_once("<!-- faults:begin -->\n"))
        .and_then(|(_, rest)| rest.split_once("<!-- faults:end -->"))
        .map(|(table, _)| table.trim().to_owned());
    assert_eq!(
        shown,
        Some(markdown().trim().to_owned()),
        "\n{}",
        markdown()
    );
}
