//! The table of faults is complete and names existing tests.

use super::promises::test_names;
use super::{File, sources};
use crate::faults::table::{FAULTS, Fault, Gets, STAGES, Stage};

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
    let (themes, _): (Vec<File>, Vec<File>) =
        sources.into_iter().partition(|file| file.path.starts_with("tests/it/faults/"));
    for name in test_names(&themes) {
        assert!(named.contains(&name), "no row names {name}");
    }
}
