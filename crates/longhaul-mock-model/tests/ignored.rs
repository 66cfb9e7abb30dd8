//! The last line of `cargo test`: how many tests of the workspace did not run, and what they need.
//!
//! Its own binary, without the test harness: cargo runs it last, and shows everything that it prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Beginning of the attribute of a test that needs something.
const ATTRIBUTE: &str = "#[ignore = \"needs ";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut needs: BTreeMap<String, usize> = BTreeMap::new();
    for folder in ["src", "tests", "crates"] {
        count(&root.join(folder), &mut needs);
    }
    let all: usize = needs.values().sum();
    let listed: Vec<String> =
        needs.iter().map(|(what, count)| format!("{count} need {what}")).collect();
    let listed = listed.join("; ");
    if std::env::args().any(|argument| argument.ends_with("ignored")) {
        println!("\nignored tests: none; of those that ran, {listed}");
    } else {
        println!(
            "\nignored tests: {all}; {listed}; run them with `cargo test --locked -- --include-ignored`"
        );
    }
}

/// Adds the ignored tests of every source file below `folder`.
fn count(folder: &Path, needs: &mut BTreeMap<String, usize>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            count(&path, needs);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines = text.lines().filter_map(|line| line.trim().strip_prefix(ATTRIBUTE));
            for line in lines {
                let what = line.trim_end_matches([']', '"']);
                *needs.entry(what.to_owned()).or_default() += 1;
            }
        }
    }
}
