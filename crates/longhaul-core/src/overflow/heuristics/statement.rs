//! Reduces the text of an error to its statement: without names, addresses, ids and help.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex, RegexBuilder};

use crate::overflow::heuristics::numbers::{self, Number};
use crate::overflow::heuristics::{codes, words};
use crate::overflow::vocabulary::matches_around;
use crate::text::with_edits;

/// Names, addresses and ids. They may contain any word and any number.
const NAMES: &str = r#"(?xi)
    https?://\S+
    | \breceived\ model\ group=.*
    | \bavailable\ model\ group\ fallbacks=.*
    | \b(?:model|models|engine|deployment|group|organi[sz]ation|project|org|tier|user|team|key|pool)
        (?:\ name|\ id|\ group)? [\s:=]+ [`'"“][^`'"”]{1,200}[`'"”]
    | \b(?:model|deployment|group|engine)\s?[:=]\s?[^\s,;)]+
    | \b(?:organization|org|project|user|team)[-_][a-z0-9_-]+
    | \((?:request|trace)[\ _-]?id:[^)]*\)
    | \b(?:request|trace|session|folder|internal)[\ _-]?id[:=\ ]\s?[\w&=-]+
    | \breq_\w+
    | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{13,}
"#;

/// The statement of an error, in lower case.
#[derive(Debug)]
pub(super) struct Statement {
    /// All sentences as one text.
    pub(super) text: String,
    pub(super) numbers: Vec<Number>,
    sentences: Vec<String>,
    /// Whether an identifier within the text is a code of an overflow.
    pub(super) has_code: bool,
}

impl Statement {
    /// Cleans `text`, which may name `model`.
    pub(super) fn clean(text: &str, model: &str) -> Self {
        static NAMES_PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(NAMES));
        let mut text = text.replace('\u{2019}', "'");
        for name in removable_names(model) {
            text = replace_ignoring_case(&text, name);
        }
        let text = NAMES_PATTERN.replace_all(&text, " ");
        let has_code = identifiers(&text).any(codes::names_overflow);
        let text = without_separators(&text.to_lowercase());
        let is_help = |one: &str| matches_around!("help", r"^\W*", "", one);
        // Help may state the sizes.
        let (mut kept, help): (Vec<&str>, Vec<&str>) =
            sentences(&text).partition(|one| !is_help(one) || numbers::states_two_sizes(one));
        let names_overflow = |one: &&str| words::sentence_names_overflow(one);
        // Help is evidence if no other sentence is.
        if !help.is_empty() && !kept.iter().any(names_overflow) {
            kept.extend(help.into_iter().filter(names_overflow));
        }
        let text = kept.join(". ");
        Self {
            numbers: numbers::numbers(&text),
            sentences: kept.into_iter().map(str::to_owned).collect(),
            text,
            has_code,
        }
    }

    pub(super) fn sentences(&self) -> impl Iterator<Item = &str> {
        self.sentences.iter().map(String::as_str)
    }

    /// Returns a hash of the words. Words with a digit are sizes and ids, which differ from reply to
    /// reply.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let words = self.text.split(|letter| !is_identifier_letter(letter));
        let words = words.filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()));
        let bytes = words.flat_map(str::bytes);
        bytes.for_each(|byte| byte.hash(&mut hasher));
        // Numbers often stand next to letters of other scripts, without a space.
        let letters = self.text.chars();
        let others = letters.filter(|letter| !letter.is_ascii() && letter.is_alphabetic());
        others.for_each(|letter| letter.hash(&mut hasher));
        hasher.finish()
    }
}

#[expect(clippy::expect_used, reason = "patterns are constants, and the tests compile each")]
fn compile(pattern: &str) -> Regex {
    RegexBuilder::new(pattern).size_limit(16 * 1024 * 1024).build().expect("a valid pattern")
}

/// Returns the forms of a model's name that are removed from a statement. A name without a digit or a
/// separator, such as `max` or `large`, is a word like any other.
fn removable_names(model: &str) -> impl Iterator<Item = &str> {
    let has_digit = |name: &&str| name.contains(|letter: char| letter.is_ascii_digit());
    let is_name = |name: &&str| has_digit(name) || name.contains(['/', '-', '_', ':', '.', '@']);
    let last = model.rsplit('/').next().filter(has_digit);
    let names = Some(model).filter(is_name).into_iter().chain(last);
    names.filter(|name| name.len() >= 3)
}

/// Replaces every occurrence of a name as a whole word by a space.
fn replace_ignoring_case(text: &str, name: &str) -> String {
    let (lower, name) = (text.to_ascii_lowercase(), name.to_ascii_lowercase());
    let continues = |letter: Option<char>| letter.is_some_and(|one| one.is_ascii_alphanumeric());
    let is_whole = |at: usize| {
        let before = text.get(..at).and_then(|head| head.chars().next_back());
        let after = text.get(at + name.len()..);
        !continues(before) && !continues(after.and_then(|tail| tail.chars().next()))
    };
    let found = lower.match_indices(&name).filter(|&(at, _)| is_whole(at));
    let spaces = found.map(|(at, name)| (at..at + name.len(), " "));
    with_edits(text.into(), spaces).into_owned()
}

pub(super) fn is_identifier_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// Returns the identifiers of a text that name an overflow, each with its position in bytes. An identifier
/// may join its words by hyphens.
pub(super) fn overflow_identifiers(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    static IDENTIFIER: LazyLock<Regex> = LazyLock::new(|| compile("[A-Za-z0-9_-]+"));
    let words = IDENTIFIER.find_iter(text);
    let found = words.filter(|word| {
        let word = word.as_str();
        (word.contains('-') || has_several_words(word)) && codes::names_overflow(word)
    });
    found.map(|word| (word.range(), word.as_str()))
}

/// Replaces the identifiers that name an overflow by spaces.
pub(super) fn without_overflow_identifiers(text: &str) -> String {
    blank_out(text, overflow_identifiers(text).map(|it| it.0))
}

/// Replaces ranges of a text by spaces. Ranges may overlap, so every position stays.
pub(super) fn blank_out(text: &str, ranges: impl Iterator<Item = Range<usize>>) -> String {
    let mut kept = text.to_owned();
    for range in ranges {
        let spaces = " ".repeat(range.len());
        kept.replace_range(range, &spaces);
    }
    kept
}

/// Minimum length of an identifier that joins its words without a separator: `contextlengthexceeded`.
const MIN_JOINED_BYTES: usize = 12;

/// Returns the identifiers of a text that consist of several words: `context_length_exceeded`,
/// `ContextWindowExceededError`.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| has_several_words(word))
}

/// Whether an identifier may consist of several words.
fn has_several_words(word: &str) -> bool {
    let capitals = word.chars().skip(1).filter(char::is_ascii_uppercase);
    let has_humps = capitals.count() > 1;
    let has_lower = word.contains(|letter: char| letter.is_ascii_lowercase());
    word.contains('_') || (has_humps && has_lower) || word.len() >= MIN_JOINED_BYTES
}

/// Splits a text into sentences. A dot ends a sentence only before white space.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().find_map(|(at, letter)| {
            let after = at + letter.len_utf8();
            let next = rest.get(after..).and_then(|tail| tail.chars().next());
            let ends = match letter {
                '.' | '!' | '?' => next.is_none_or(char::is_whitespace),
                '。' | '！' | '？' | '\n' => true,
                _ => false,
            };
            ends.then_some((at, after))
        });
        let (at, after) = end.unwrap_or((rest.len(), rest.len()));
        let sentence = rest.get(..at).unwrap_or_default();
        rest = rest.get(after..).unwrap_or_default();
        Some(sentence.trim())
    })
    .filter(|sentence| !sentence.is_empty())
}

/// Removes separators of thousands, writes digits in ASCII, and writes white space as single spaces
/// except line ends.
fn without_separators(text: &str) -> String {
    // A dot or a space separates only whole groups of a number that stands alone.
    static SEPARATORS: LazyLock<Regex> = LazyLock::new(|| {
        compile(
            r"(^|[^0-9A-Za-z.,_-])(\d{1,3})((?:[,，_'’\u{a0}\u{202f}]\d{3})+|(?:[. ]\d{3})+)(?-u:\b)",
        )
    });
    let digits: String = text.chars().map(ascii_digit).collect();
    let joined = SEPARATORS.replace_all(&digits, |found: &Captures<'_>| {
        let groups = found.get(3).map_or("", |groups| groups.as_str());
        let groups: String = groups.chars().filter(char::is_ascii_digit).collect();
        format!("{}{}{groups}", &found[1], &found[2])
    });
    let lines = joined.lines();
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the ASCII form of a full-width digit, or the letter itself.
fn ascii_digit(letter: char) -> char {
    let digit = u32::from(letter).checked_sub(0xff10);
    let ascii = digit.and_then(|digit| char::from_digit(digit, 10));
    ascii.unwrap_or(letter)
}
