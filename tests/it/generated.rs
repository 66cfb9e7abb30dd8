//! Files that derive from the program or from a table of tests.

use std::path::Path;

use crate::cli::stdout;
use crate::faults::table;

/// Command that writes the files.
const UPDATE: &str = "UPDATE=1 cargo test --test it generated::";

/// Checks that `file` is as `expect` makes it of its own text, or writes it so.
fn check(file: &str, expect: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let stored = std::fs::read_to_string(&path).unwrap();
    let page = expect(&stored);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page).unwrap();
    } else {
        assert!(stored == page, "{file} is out of date; run `{UPDATE}`");
    }
}

#[test]
fn the_pages_of_settings_and_commands_are_what_the_program_prints() {
    check("config/default.toml", |_| stdout(&["defaults"], &[]));
    check("docs/reference/cli.md", |_| stdout(&["man", "--markdown"], &[]));
    check("docs/reference/settings.md", |_| stdout(&["defaults", "--table"], &[]));
    let page = stdout(&["defaults", "--table"], &[]);
    let first = page.lines().filter(|line| line.starts_with("- [`"));
    assert_eq!(first.count(), include_str!("../../src/config/first_settings.txt").lines().count());
}

#[test]
#[ignore = "needs python3"]
fn the_pictures_are_what_the_program_prints() {
    let draw = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures/draw.py");
    let check = if std::env::var_os("UPDATE").is_some() { "" } else { "--check" };
    let mut command = std::process::Command::new("python3");
    let output = command.arg(draw).args([env!("CARGO_BIN_EXE_longhaul"), check]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_page_of_faults_has_the_table_that_the_tests_play() {
    let (begin, end) = ("<!-- faults:begin -->\n", "<!-- faults:end -->");
    check("docs/reference/faults.md", |page| {
        let (before, rest) = page.split_once(begin).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        let table = table::markdown();
        format!("{before}{begin}{}\n{end}{after}", table.trim_end())
    });
}
