//! Pages in Markdown: short sentences, lines that fit a screen, links that lead somewhere, and a place
//! in the book.

use std::path::Path;

use super::{File, check, files, has_ending};

/// Maximum words of a sentence.
const SENTENCE_WORDS: usize = 30;
/// Maximum words of a page's sentences on average.
const MEAN_WORDS: usize = 18;
/// Maximum characters of a line of prose.
const LINE_CHARS: usize = 140;

/// Pages that other people wrote, or that describe data field by field.
const FOREIGN: [&str; 3] = ["THIRD_PARTY.md", "fixtures/", "config/models/"];
/// Pages whose entries are written before the rule: each release heads a new part.
const GROWN: [&str; 2] = ["CHANGELOG.md", "bench/"];

fn pages() -> Vec<File> {
    let mut pages = files("");
    pages.retain(|file| {
        has_ending(&file.path, "md")
            && !file.path.starts_with("crates/")
            && FOREIGN.iter().chain(&GROWN).all(|start| !file.path.starts_with(start))
    });
    assert!(pages.len() > 20, "{}", pages.len());
    pages
}

/// Returns the lines outside code blocks, tables and headings, with their numbers from 1. Lines
/// that begin or end a paragraph are kept as empty ones.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let mut found = Vec::new();
    let mut after_blank = true;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```");
        let is_indented = line.starts_with("    ") && after_blank;
        let skipped = in_code
            || is_fence
            || is_indented
            || trimmed.starts_with(['|', '#', '!', '<'])
            || trimmed.starts_with("[!");
        in_code ^= is_fence;
        found.push((at + 1, if skipped { "" } else { without_comments(line) }));
        after_blank = trimmed.is_empty() || is_indented;
    }
    found
}

/// Returns the number of words of each sentence, and the sentence. A code span and the address of a
/// link are not words. A colon ends a sentence: a list or an example follows.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs = vec![String::new()];
    for (_, line) in prose(text) {
        let line = line.trim();
        let item = ["- ", "* "].iter().any(|mark| line.starts_with(mark))
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if line.is_empty() || item {
            paragraphs.push(String::new());
        }
        if let Some(paragraph) = paragraphs.last_mut() {
            paragraph.push_str(line);
            paragraph.push(' ');
        }
    }
    let mut found = Vec::new();
    for paragraph in paragraphs {
        let pieces = paragraph.split('`').enumerate();
        let plain: String =
            pieces.map(|(at, piece)| if at % 2 == 1 { "x" } else { piece }).collect();
        let plain = without_addresses(&plain);
        let words: Vec<&str> = plain.split_whitespace().collect();
        let ends = |word: &&str| {
            word.trim_end_matches([')', '"', '*', '_']).ends_with(['.', '?', '!', ':'])
        };
        for sentence in words.split_inclusive(ends) {
            let count = sentence.iter().filter(|word| word.contains(char::is_alphanumeric)).count();
            found.push((count, sentence.join(" ")));
        }
    }
    found.retain(|(count, _)| *count > 0);
    found
}

/// Returns a line without its comments, which a reader does not see.
fn without_comments(line: &str) -> &str {
    line.split_once("<!--").map_or(line, |(before, _)| before).trim_end()
}

/// Returns `text` without the addresses of its links.
fn without_addresses(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        plain.push(']');
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    plain + rest
}

/// Returns the addresses of the links of a page, outside code.
fn links(text: &str) -> Vec<&str> {
    let lines = text.lines().scan(false, |in_code, line| {
        *in_code ^= line.trim().starts_with("```");
        Some(if *in_code { "" } else { line })
    });
    let linked = lines.flat_map(|line| line.split("](").skip(1));
    linked.filter_map(|rest| rest.split_once(')').map(|(address, _)| address)).collect()
}

/// Returns the anchor of a heading, as forges and mdBook make it.
fn anchor(heading: &str) -> String {
    let lower = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Maximum lines of the page that a visitor reads first.
const README_LINES: usize = 130;

#[test]
fn the_readme_is_read_in_a_minute() {
    let lines = include_str!("../../../README.md").lines().count();
    assert!(lines <= README_LINES, "{lines} lines");
}

#[test]
fn a_sentence_of_a_page_is_short_and_the_mean_is_shorter() {
    check(&pages(), |file| {
        let sentences = sentences(&file.text);
        let long = sentences.iter().filter(|(count, _)| *count > SENTENCE_WORDS);
        let mut wrong: Vec<String> =
            long.map(|(count, text)| format!("{count} words: {text}")).collect();
        let words: usize = sentences.iter().map(|(count, _)| count).sum();
        if words > MEAN_WORDS * sentences.len().max(1) {
            wrong.push(format!("{} words a sentence", words / sentences.len().max(1)));
        }
        wrong
    });
}

#[test]
fn a_line_of_prose_fits_a_screen() {
    check(&pages(), |file| {
        let lines = prose(&file.text).into_iter();
        let long = lines.filter(|(_, line)| line.chars().count() > LINE_CHARS);
        long.map(|(number, line)| format!("line {number} has {} characters", line.chars().count()))
            .collect()
    });
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_of_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = files("");
    all.retain(|file| has_ending(&file.path, "md"));
    check(&all, |file| {
        let folder = root.join(&file.path);
        let folder = folder.parent().unwrap();
        let inner = links(&file.text)
            .into_iter()
            .filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        inner
            .filter(|link| {
                let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
                let target =
                    if path.is_empty() { root.join(&file.path) } else { folder.join(path) };
                if fragment.is_empty() || target.extension().is_none_or(|ending| ending != "md") {
                    return !target.exists();
                }
                let text = std::fs::read_to_string(&target).unwrap_or_default();
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                !headings.any(|heading| anchor(heading) == fragment)
            })
            .map(|link| format!("{link} leads nowhere"))
            .collect()
    });
}

#[test]
fn every_page_of_docs_has_a_place_in_the_book() {
    let pages = files("docs");
    let summary = pages.iter().find(|file| file.path == "docs/SUMMARY.md").unwrap();
    let listed = links(&summary.text);
    let mut missing: Vec<&str> = Vec::new();
    for file in pages.iter().filter(|file| has_ending(&file.path, "md")) {
        let path = file.path.trim_start_matches("docs/");
        if path != "SUMMARY.md" && !listed.contains(&path) {
            missing.push(path);
        }
    }
    assert_eq!(missing, [""; 0]);
}

#[test]
fn words_are_counted_across_lines_and_without_code_and_addresses() {
    let counts = |text: &str| -> Vec<usize> {
        sentences(text).into_iter().map(|(count, _)| count).collect()
    };
    assert_eq!(counts("one two\nthree. Four `five six` [seven](eight/nine).\n"), [3, 3]);
    assert_eq!(
        counts("# one\n\n| two |\n\n    three\n\n```\nfour\n```\nfive: six\n- seven\n"),
        [1, 1, 1]
    );
    assert_eq!(anchor("## What a reply says"), "what-a-reply-says");
    assert_eq!(links("[a](b) `c` [d](e#f)\n```\n[g](h)\n```\n"), ["b", "e#f"]);
}
