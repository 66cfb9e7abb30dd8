//! A type's name has two owners at most, so that a reader who finds it knows which type is meant.

use std::collections::BTreeMap;

use super::{File, products};

/// Maximum number of types of one name.
const OWNERS: usize = 2;

/// Returns the names of the types that product code declares in a file. Indented `type` lines are
/// associated types, whose names belong to their traits.
fn declared(text: &str) -> Vec<&str> {
    let (product, _) = text.split_once("#[cfg(test)]\nmod tests {").unwrap_or((text, ""));
    product.lines().filter_map(declared_in).collect()
}

fn declared_in(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    let item = match trimmed.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => trimmed.strip_prefix("pub ").unwrap_or(trimmed),
    };
    let (keyword, rest) = item.split_once(' ')?;
    let is_type = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => trimmed.len() == line.len(),
        _ => false,
    };
    let end = rest.find(|letter: char| letter != '_' && !letter.is_alphanumeric());
    is_type.then(|| rest.get(..end.unwrap_or(rest.len())).unwrap_or_default())
}

/// Whether the file has product code whose type names are the project's own choice. A dialect takes
/// its names from the format.
fn is_counted(file: &File) -> bool {
    let path = &file.path;
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    super::has_ending(path, "rs") && !is_test && !path.contains("/dialect/")
}

#[test]
fn type_name_is_declared_in_at_most_two_files() {
    let files = products();
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_counted(file)) {
        for name in declared(&file.text) {
            owners.entry(name).or_default().push(&file.path);
        }
    }
    assert!(owners.len() > 300, "the types were read: {}", owners.len());
    owners.retain(|_, files| files.len() > OWNERS);
    assert!(owners.is_empty(), "{owners:#?}");
}

#[test]
fn finds_types_in_every_form_of_declaration() {
    let text = "pub(crate) struct A<'a> {\n    enum B {\ntype C = u8;\n    type D = u8;\n\
                pub(in crate::x) union E {\npub trait F: Send {\n#[cfg(test)]\nmod tests {\nstruct G;";
    assert_eq!(declared(text), ["A", "B", "C", "E", "F"]);
}
