//! Statements of ARCHITECTURE.md about the source: its paths, and the modules of the core.

use std::path::Path;

use super::files;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns ARCHITECTURE.md.
fn page() -> String {
    std::fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap()
}

/// Returns the texts in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
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
fn every_core_module_is_listed() {
    let page = page();
    let (_, list) = page.split_once("The modules of `crates/longhaul-core/src`").unwrap();
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
