//! Statements of ARCHITECTURE.md about the source: the file of each bound, and the modules of the
//! core.

use super::{File, products};

/// Returns the source files, and the part of ARCHITECTURE.md between two texts.
fn read(from: &str, to: &str) -> (Vec<File>, String) {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md"));
    let page = page.unwrap();
    let (_, part) = page.split_once(from).expect("where the part begins");
    let (part, _) = part.split_once(to).expect("where it ends");
    (products(), part.to_owned())
}

/// Returns the texts in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Whether `text` contains `name` as a whole word.
fn names(text: &str, name: &str) -> bool {
    text.split(|it: char| !it.is_alphanumeric() && it != '_')
        .any(|word| word == name)
}

#[test]
fn every_bound_is_in_a_file_of_its_row() {
    let (source, table) = read("| what | where | bound |\n|---|---|---|\n", "\n\n");
    let mut bounds = 0;
    for row in table.lines() {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [_, places, bound] = *cells else {
            panic!("three cells: {row}");
        };
        let places = quoted(places);
        let there = |file: &&File| {
            let path = file.path.strip_prefix("src/").unwrap_or(&file.path);
            let mut places = places.iter();
            places.any(|place| path == *place || (place.ends_with('/') && path.starts_with(place)))
        };
        let constant = |name: &&str| !name.contains(|it: char| it.is_lowercase());
        for name in quoted(bound).into_iter().filter(constant) {
            bounds += 1;
            let found = source
                .iter()
                .filter(there)
                .any(|file| names(&file.text, name));
            assert!(found, "{name} is in none of {places:?}");
        }
    }
    assert!(bounds > 50, "the table was read: {bounds}");
}

#[test]
fn every_module_of_the_core_has_its_place() {
    let (source, list) = read("Within `longhaul-core`, from the bytes upwards:\n", "\n## ");
    let listed = quoted(&list);
    for file in source {
        let name = file.path.strip_prefix("crates/longhaul-core/src/");
        let name = name.and_then(|name| name.strip_suffix(".rs"));
        if let Some(name) = name.filter(|name| !name.contains('/') && *name != "lib") {
            assert!(listed.contains(&name), "{name} is not listed");
        }
    }
}
