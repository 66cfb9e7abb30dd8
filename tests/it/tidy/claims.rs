//! Promises of the pages name the tests that hold them, in comments that a reader does not see:
//! `<!-- held by: test, test -->` at the end of a paragraph, an item or a row.
//!
//! `cargo test --test it tidy::claims -- --nocapture` lists the promises.

use std::collections::BTreeMap;

use super::markdown::without_addresses;
use super::{File, files, has_ending, sources};

/// Parts of pages that promise something: a page, and a heading of it. An empty heading is all of the page.
const PARTS: [(&str, &str, Needs); 14] = [
    ("README.md", "longhaul", Needs::ClaimsAlone),
    ("README.md", "Start in 60 seconds", Needs::ClaimsAlone),
    ("README.md", "What you will see", Needs::ClaimsAlone),
    ("README.md", "How it decides", Needs::All),
    ("README.md", "Is it safe?", Needs::All),
    ("SECURITY.md", "What longhaul promises", Needs::All),
    ("ARCHITECTURE.md", "Invariants", Needs::ClaimsAlone),
    ("docs/explanation/compaction.md", "", Needs::ClaimsAlone),
    ("docs/explanation/responses.md", "", Needs::ClaimsAlone),
    ("docs/explanation/thinking.md", "", Needs::ClaimsAlone),
    (WINDOWS, "What an error may change", Needs::ClaimsAlone),
    (WINDOWS, "What is asked", Needs::ClaimsAlone),
    (WINDOWS, "How tokens are counted", Needs::ClaimsAlone),
    (
        "docs/reference/switches-and-headers.md",
        "",
        Needs::ClaimsAlone,
    ),
];
const WINDOWS: &str = "docs/explanation/windows.md";

/// Words that promise something without exception.
const CLAIM_WORDS: [&str; 12] = [
    "always",
    "cannot",
    "every",
    "guarantees",
    "identical",
    "neither",
    "never",
    "no",
    "nobody",
    "none",
    "nothing",
    "nowhere",
];
const CLAIM_PHRASE: &str = "byte for byte";

/// Beginning of a comment that names tests.
const HELD_BY: &str = "<!-- held by: ";
/// Beginning of a comment that says why a claim word promises nothing of the program.
const NO_TEST: &str = "<!-- no test: ";
const END: &str = " -->";

/// Blocks that need a tag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Each paragraph, item and row.
    All,
    /// Those with a word of [`CLAIM_WORDS`].
    ClaimsAlone,
}

/// A paragraph, an item of a list or a row of a table.
#[derive(Debug, Default, PartialEq)]
struct Block {
    /// Number of its first line, from 1.
    line: usize,
    heading: String,
    text: String,
}

impl Block {
    /// Returns the text without tags, code and addresses of links.
    fn prose(&self) -> String {
        let mut plain = String::new();
        let mut rest = self.text.as_str();
        while let Some((before, after)) = rest.split_once("<!--") {
            plain.push_str(before);
            rest = after.split_once("-->").map_or("", |(_, after)| after);
        }
        plain.push_str(rest);
        let pieces = plain.split('`').enumerate();
        let words: String = pieces
            .map(|(at, piece)| if at % 2 == 1 { "x" } else { piece })
            .collect();
        without_addresses(&words).to_lowercase()
    }

    fn claims(&self) -> bool {
        let prose = self.prose();
        let mut words = prose.split(|c: char| !c.is_alphanumeric());
        prose.contains(CLAIM_PHRASE) || words.any(|word| CLAIM_WORDS.contains(&word))
    }

    /// Returns the contents of the comments that begin with `mark`.
    fn tagged(&self, mark: &str) -> Vec<&str> {
        let after = self.text.split(mark).skip(1);
        after
            .map(|rest| rest.split_once(END).map_or("", |(content, _)| content))
            .collect()
    }

    /// Returns the names of the tests that hold the block.
    fn tests(&self) -> Vec<&str> {
        let tags = self.tagged(HELD_BY).into_iter();
        tags.flat_map(|names| names.split(", ")).collect()
    }
}

/// Splits a page into blocks. Code and headings belong to none.
fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut heading = String::new();
    let (mut in_code, mut ends) = (false, true);
    for (at, line) in page.lines().enumerate() {
        let text = line.trim();
        let is_fence = text.starts_with("```");
        in_code ^= is_fence;
        let is_code = in_code || is_fence || (ends && line.starts_with("    "));
        let is_heading = !in_code && line.starts_with('#');
        if is_heading {
            text.trim_start_matches('#').trim().clone_into(&mut heading);
        }
        let begins = text.starts_with(['|', '-', '*']) && !text.starts_with("**")
            || text
                .split_once(". ")
                .is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if text.is_empty() || is_code || is_heading {
            ends = true;
            continue;
        }
        if ends || begins {
            found.push(Block {
                line: at + 1,
                heading: heading.clone(),
                text: String::new(),
            });
        }
        ends = false;
        if let Some(block) = found.last_mut() {
            block.text.push_str(text);
            block.text.push('\n');
        }
    }
    found
}

/// Returns the names of all tests, with the number of files that declare each.
fn test_names() -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for file in sources() {
        let mut is_test = false;
        for line in file.text.lines().map(str::trim) {
            is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
            let declared = line.strip_prefix("async ").unwrap_or(line);
            let Some(name) = declared.strip_prefix("fn ") else {
                is_test &= !line.is_empty() && line != "}";
                continue;
            };
            let name = name.split(['(', '<']).next().unwrap_or_default();
            if std::mem::take(&mut is_test) {
                *names.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
    assert!(names.len() > 1_500, "{}", names.len());
    names
}

fn pages() -> Vec<File> {
    let mut pages = files("");
    pages.retain(|file| has_ending(&file.path, "md") && !file.path.starts_with("fixtures/"));
    pages
}

#[test]
fn every_tag_of_a_page_names_existing_tests() {
    let tests = test_names();
    let mut tags = 0;
    super::check(&pages(), |file| {
        let mut wrong = Vec::new();
        for block in blocks(&file.text) {
            let place = format!("line {}", block.line);
            let marks = block.text.matches("held by:").count();
            if marks != block.tagged(HELD_BY).len() {
                wrong.push(format!("{place}: a tag is `{HELD_BY}name, name{END}`"));
            }
            for name in block.tests() {
                if !tests.contains_key(name) {
                    wrong.push(format!("{place}: no test is called {name:?}"));
                }
            }
        }
        wrong
    });
    for file in pages() {
        for block in blocks(&file.text) {
            let names = block.tests();
            tags += names.len();
            if !names.is_empty() {
                println!("{}:{} {}", file.path, block.line, names.join(", "));
            }
        }
    }
    assert!(tags > 200, "the tags were read: {tags}");
}

#[test]
fn every_claim_names_the_tests_that_hold_it() {
    let pages = pages();
    let mut wrong = Vec::new();
    for (path, heading, needs) in PARTS {
        let page = pages.iter().find(|file| file.path == path);
        let mut found = blocks(&page.expect(path).text);
        found.retain(|block| heading.is_empty() || block.heading == heading);
        assert!(!found.is_empty(), "{path}: {heading}");
        for block in found {
            let is_promise = block.claims() || needs == Needs::All && !block.text.starts_with("![");
            let reasons = block.tagged(NO_TEST);
            let is_explained = reasons.iter().any(|reason| reason.contains(' '));
            if is_promise && block.tests().is_empty() && !is_explained {
                wrong.push(format!("{path}:{}: {}", block.line, block.text));
            }
        }
    }
    assert!(wrong.is_empty(), "no test holds:\n{}", wrong.join("\n"));
}

#[test]
fn blocks_claims_and_tags_are_told_apart() {
    let page = "# A\nIt never\nfails.\n<!-- held by: a, b -->\n\n## B\n- One `never`.\n  Two.\n- \
                [Nothing](no.md)\n\n    no code\n\n| x | passes byte for byte <!-- no test: a reason --> |\n";
    let found = blocks(page);
    let seen: Vec<_> = found
        .iter()
        .map(|block| (block.line, block.heading.as_str(), block.claims()))
        .collect();
    assert_eq!(
        seen,
        [
            (2, "A", true),
            (7, "B", false),
            (9, "B", true),
            (13, "B", true)
        ]
    );
    assert_eq!(found[0].tests(), ["a", "b"]);
    assert!(found[1].tests().is_empty());
    assert_eq!(found[3].tagged(NO_TEST), ["a reason"]);
}
