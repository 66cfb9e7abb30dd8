//! The form of the data files. Each failure names the file and the line.

use regex::bytes::RegexBuilder;

use crate::overflow::vocabulary::{HEURISTICS, WORDINGS, WORDS, compile_row, heuristics, rows};

/// The files, each with the number of columns that a row must have.
const FILES: [(&str, &str, usize); 3] =
    [("wordings.tsv", WORDINGS, 4), ("heuristics.tsv", HEURISTICS, 3), ("words.tsv", WORDS, 3)];

/// Calls `each` with the place and the cells of every line that is neither blank nor a comment.
fn each_line(mut each: impl FnMut(&str, usize, &[&'static str])) {
    for (name, file, columns) in FILES {
        let lines = (1..).zip(file.lines());
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            each(&format!("data/{name}:{number}"), columns, &cells);
        }
    }
}

/// Whether a list stands at the beginning of a line in the head of a file.
fn is_explained(file: &str, list: &str) -> bool {
    let head = file.lines().filter_map(|line| line.strip_prefix("#   "));
    head.into_iter().any(|line| line.split(' ').next() == Some(list))
}

#[test]
fn every_row_has_its_columns_and_a_list_that_the_head_explains() {
    each_line(|place, columns, cells| {
        let may_have = columns..=columns + 1;
        assert!(
            may_have.contains(&cells.len()),
            "{place}: {} cells, expected {may_have:?}, separated by one tab",
            cells.len()
        );
        for cell in cells {
            let is_trimmed = !cell.is_empty() && cell.trim() == *cell;
            assert!(is_trimmed, "{place}: {cell:?} is empty, or has a space at an end");
        }
        let (_, file, _) = FILES.iter().find(|one| place.contains(one.0)).unwrap();
        assert!(is_explained(file, cells[0]), "{place}: no list {}", cells[0]);
        for language in cells[1].split(' ') {
            let is_code = language == "any" || language.len() == 2;
            assert!(is_code, "{place}: {language} is not a language code");
        }
    });
}

#[test]
fn every_pattern_is_valid() {
    each_line(|place, _, cells| {
        let (list, pattern) = (cells[0], cells[2]);
        let compiled = if place.contains("wordings.tsv") {
            let is_normalised =
                pattern.replace("\\W", "").to_ascii_lowercase() == pattern.replace("\\W", "");
            assert!(is_normalised && !pattern.contains("  "), "{place}: not normalised: {pattern}");
            RegexBuilder::new(pattern).unicode(false).build()
        } else {
            compile_row(pattern)
        };
        assert!(compiled.is_ok(), "{place}: {compiled:?}");
        let is_status = list != "status" || pattern.parse::<u16>().is_ok();
        assert!(is_status, "{place}: no status: {pattern}");
    });
}

#[test]
fn words_for_a_prompt_and_for_too_much_come_in_the_same_languages() {
    let languages = |list| {
        let mut languages: Vec<&str> = heuristics(list).map(|row| row.language).collect();
        languages.sort_unstable();
        languages.dedup();
        languages
    };
    assert_eq!(languages("prompt"), languages("excess"));
}

#[test]
fn a_malformed_line_is_no_row() {
    let rows: Vec<&str> = rows("# a\tb\tc\n\nveto en pattern\nveto\ten\nveto\ten\ta|b\n")
        .map(|row| row.pattern)
        .collect();
    assert_eq!(rows, ["a|b"]);
}
