//! Doc comments begin with a noun or a third-person verb, and their sentences are short.

use super::{File, check, files, has_ending, products};

/// Words that no doc comment begins with: they point at the subject instead of naming it.
const POINTERS: [&str; 9] =
    ["What", "Who", "Whose", "Where", "How", "It", "Its", "The same", "That"];

/// Maximum number of words of a sentence in a doc comment.
const SENTENCE_WORDS: usize = 25;

/// Folders with Rust sources of the project.
const FOLDERS: [&str; 6] = ["src", "crates", "tests", "benches", "examples", "fuzz"];

/// Returns the first lines of all doc comments of a file.
fn first_lines(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open = None;
    for line in text.lines().map(str::trim_start) {
        let marker = ["///", "//!"].into_iter().find(|marker| line.starts_with(marker));
        if marker.is_some() && marker != open {
            found.push(line.get(3..).unwrap_or_default().trim_start());
        }
        open = marker;
    }
    found
}

/// Returns the paragraphs and list items of all doc comments of a file, each on one line.
///
/// Code blocks, tables and headings are left out.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut in_code = false;
    for line in text.lines().map(str::trim_start) {
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let words = comment.unwrap_or_default().trim();
        let is_fence = words.starts_with("```");
        let skipped = in_code || is_fence || words.starts_with(['|', '#']);
        // A code block ends with its comment at the latest.
        in_code = comment.is_some() && in_code != is_fence;
        let begins_item = words.starts_with("- ") || words.starts_with("* ");
        if words.is_empty() || skipped || begins_item {
            found.push(String::new());
        }
        if let Some(paragraph) = found.last_mut().filter(|_| !skipped) {
            paragraph.push_str(words);
            paragraph.push(' ');
        }
    }
    found
}

/// Returns `paragraph` with the letter x in place of each code span.
fn without_code(paragraph: &str) -> String {
    let pieces = paragraph.split('`').enumerate();
    pieces.map(|(at, piece)| if at % 2 == 1 { "x" } else { piece }).collect()
}

/// Returns the sentences of a paragraph that have more than [`SENTENCE_WORDS`] words.
///
/// A word contains a letter or a digit, and a code span is one word. A sentence ends with a period,
/// a question mark or an exclamation mark before a space.
fn long_sentences(paragraph: &str) -> Vec<String> {
    let text = without_code(paragraph);
    let words: Vec<&str> = text.split_whitespace().collect();
    words
        .split_inclusive(|word| word.trim_end_matches([')', '"']).ends_with(['.', '?', '!']))
        .filter(|sentence| {
            let words = sentence.iter().filter(|word| word.contains(char::is_alphanumeric));
            words.count() > SENTENCE_WORDS
        })
        .map(|sentence| sentence.join(" "))
        .collect()
}

/// Whether `line` begins with `words` as whole words.
fn begins_with(line: &str, words: &str) -> bool {
    let rest = line.strip_prefix(words);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

#[test]
fn doc_comments_do_not_begin_with_a_pointing_word() {
    let mut sources: Vec<File> = FOLDERS.into_iter().flat_map(files).collect();
    sources.retain(|file| has_ending(&file.path, "rs"));
    check(&sources, |file| {
        let lines = first_lines(&file.text).into_iter();
        lines
            .filter(|line| POINTERS.iter().any(|words| begins_with(line, words)))
            .map(|line| format!("a doc comment begins with a pointer: {line}"))
            .collect()
    });
}

#[test]
fn sentences_of_doc_comments_are_short() {
    let mut sources = products();
    sources.retain(|file| has_ending(&file.path, "rs"));
    check(&sources, |file| {
        let paragraphs = paragraphs(&file.text).into_iter();
        paragraphs
            .flat_map(|paragraph| long_sentences(&paragraph))
            .map(|sentence| format!("more than {SENTENCE_WORDS} words: {sentence}"))
            .collect()
    });
}

#[test]
fn a_sentence_is_measured_across_lines_and_without_its_code() {
    let half = "word ".repeat(13);
    let long = |text: &str| -> usize {
        let paragraphs = paragraphs(text).into_iter();
        paragraphs.map(|text| long_sentences(&text).len()).sum()
    };
    assert_eq!(long(&format!("/// {half}\n/// {half}\nfn a() {{}}")), 1);
    assert_eq!(long(&format!("    //! {half}`a b`\n    //! {half}")), 1);
    // Each of these ends the sentence, or counts as one word.
    for middle in [". ", ".) ", "?\n/// ", "\n///\n/// ", "\n/// - ", "\nfn a() {}\n/// "] {
        assert_eq!(long(&format!("/// {half}{middle}{half}")), 0, "{middle:?}");
    }
    assert_eq!(long(&format!("/// `{half}` {half}")), 0);
    assert_eq!(long(&format!("/// ```\n/// {half}{half}\n/// ```")), 0);
    assert_eq!(long(&format!("/// | {half} | {half} |")), 0);
    assert_eq!(long(&format!("// {half}{half}\n{half}{half}")), 0);
}

#[test]
fn checks_only_the_first_line_of_a_doc_comment() {
    let text = "//! A file.\n\n/// Reads.\n/// What was read.\nfn a() {}\n/// Its end.\n";
    assert_eq!(first_lines(text), ["A file.", "Reads.", "Its end."]);
    assert!(begins_with("Its end.", "Its") && !begins_with("Its end.", "It"));
    assert!(begins_with("The same of it.", "The same") && !begins_with("Itself", "It"));
}
