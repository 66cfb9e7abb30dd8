//! Statements of ARCHITECTURE.md about the source: its paths, the file of each bound, and the
//! modules of the core.

use std::path::Path;

use super::{File, files, products};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// First lines of each table of bounds.
const BOUNDS: &str = "| what | where | bound |\n|---|---|---|\n";

/// Returns ARCHITECTURE.md.
fn page() -> String {
    std::fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap()
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
fn every_path_in_architecture_md_exists() {
    let page = page();
    // Blocks of code have three backticks on each side, which would shift the pairs.
    let text: String = page.split("```").step_by(2).collect();
    let is_path = |text: &&str| text.contains('/') && !text.contains([' ', '>', ':']);
    let paths: Vec<&str> = quoted(&text).into_iter().filter(is_path).collect();
    assert!(paths.len() > 100, "the page was read: {}", paths.len());
    for path in paths {
        assert!(Path::new(ROOT).join(path).exists(), "{path}");
    }
}

#[test]
fn every_listed_bound_occurs_in_a_file_of_its_row() {
    let page = page();
    let source = products();
    let tables = page.split(BOUNDS).skip(1);
    let rows = tables.flat_map(|table| table.lines().take_while(|line| !line.is_empty()));
    let mut bounds = 0;
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [_, places, bound] = *cells else {
            panic!("three cells: {row}");
        };
        let places = quoted(places);
        let there = |file: &&File| {
            let mut places = places.iter();
            places.any(|place| {
                file.path == *place || (place.ends_with('/') && file.path.starts_with(place))
            })
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
    assert!(bounds > 50, "the tables were read: {bounds}");
}

#[test]
fn every_core_module_is_listed() {
    let page = page();
    let (_, list) = page
        .split_once("The modules of `crates/longhaul-core/src`")
        .unwrap();
    let (list, _) = list.split_once("\n## ").unwrap();
    let listed = quoted(list);
    for file in files("crates/longhaul-core/src") {
        let name = file.path.strip_prefix("crates/longhaul-core/src/");
        let name = name.and_then(|name| name.strip_suffix(".rs"));
        if let Some(name) = name.filter(|name| !name.contains('/') && *name != "lib") {
            assert!(listed.contains(&name), "{name} is not listed");
        }
    }
}
