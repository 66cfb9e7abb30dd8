//! Text of the request that was refused. An error may quote any of it, so words that the request
//! contains are not evidence.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use crate::dialect::{Dialect, percent_decoded};
use crate::json::scanner::{NotJson, Scanner};
use crate::overflow::error_details::plain_key;
use crate::overflow::heuristics::statement::{
    blank_out, is_identifier_letter, overflow_identifiers,
};

/// Consecutive words that make a quotation. Fewer words occur in a request by chance.
const QUOTED_WORDS: usize = 4;

/// Minimum length of an identifier that names an overflow: `ctx_full`.
const MIN_IDENTIFIER_BYTES: usize = 7;

/// Body and target of a request.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct RequestText<'a> {
    body: &'a [u8],
    target: &'a str,
}

impl fmt::Debug for RequestText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.body.len();
        f.debug_struct("RequestText").field("bytes", &bytes).finish()
    }
}

impl<'a> RequestText<'a> {
    /// Creates the text of a request with this body and this target, a path with its query.
    pub const fn new(body: &'a [u8], target: &'a str) -> Self {
        Self { body, target }
    }

    /// Counts the messages of the body, or the items of its input.
    pub(in crate::overflow) fn items(&self) -> usize {
        let body = std::str::from_utf8(self.body).unwrap_or_default();
        let counts = Dialect::ALL.into_iter().map(|it| it.count_items(body));
        counts.max().unwrap_or_default()
    }

    /// Counts the characters of all decoded texts, without embedded files.
    pub(super) fn characters(&self) -> u64 {
        let mut characters = 0;
        self.each_text(|text| {
            if !text.starts_with("data:") {
                characters += text.chars().count() as u64;
            }
        });
        characters
    }

    pub(in crate::overflow) fn bytes(&self) -> u64 {
        self.body.len() as u64
    }

    /// Replaces quotations of the request in the texts of an error by spaces. An identifier that names an
    /// overflow is a quotation by itself.
    pub(in crate::overflow) fn remove_quotations(&self, texts: &[String]) -> Vec<String> {
        let found = texts.iter().flat_map(|text| runs(text));
        let runs: HashSet<Run> = found.map(|(_, run)| run).collect();
        let names = texts.iter().flat_map(|text| overflow_identifiers(text));
        let identifiers: HashSet<String> = names.map(|(_, name)| plain_key(name)).collect();
        let (mut quoted, mut named) = (HashSet::new(), HashSet::new());
        if !runs.is_empty() || !identifiers.is_empty() {
            self.each_text(|text| {
                let found = self::runs(text).map(|(_, run)| run);
                quoted.extend(found.filter(|run| runs.contains(run)));
                if !identifiers.is_empty() {
                    let names = text.split(|letter| !is_identifier_letter(letter));
                    let names = names.filter(|name| name.len() >= MIN_IDENTIFIER_BYTES);
                    let names = names.map(plain_key);
                    named.extend(names.filter(|name| identifiers.contains(name)));
                }
            });
        }
        let remove = |text: &String| {
            let runs = self::runs(text).filter(|(_, run)| quoted.contains(run));
            let names = overflow_identifiers(text);
            let names = names.filter(|(_, name)| named.contains(&plain_key(name)));
            blank_out(text, runs.map(|it| it.0).chain(names.map(|it| it.0)))
        };
        texts.iter().map(remove).collect()
    }

    /// Calls `each` with every decoded text and key of the request.
    fn each_text(&self, mut each: impl FnMut(&str)) {
        let json = std::str::from_utf8(self.body).unwrap_or_default();
        if visit_texts(&mut Scanner::new(json), 0, &mut each).is_err() {
            each(&String::from_utf8_lossy(self.body));
        }
        each(&percent_decoded(self.target));
    }
}

/// Hashes of consecutive words.
type Run = [u64; QUOTED_WORDS];

/// Returns the runs of words of a text, each with its position in bytes.
fn runs(text: &str) -> impl Iterator<Item = (Range<usize>, Run)> {
    let mut hashes = [0; QUOTED_WORDS];
    let mut starts = [0; QUOTED_WORDS];
    words(text).enumerate().filter_map(move |(at, (range, hash))| {
        hashes.rotate_left(1);
        starts.rotate_left(1);
        if let (Some(last), Some(start)) = (hashes.last_mut(), starts.last_mut()) {
            (*last, *start) = (hash, range.start);
        }
        let first = *starts.first()?;
        (at + 1 >= QUOTED_WORDS).then_some((first..range.end, hashes))
    })
}

/// Splits a text into words and hashes each in lower case. Words are runs of letters and digits, and
/// single letters of scripts that write no spaces between words.
fn words(text: &str) -> impl Iterator<Item = (Range<usize>, u64)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.find(|(_, letter)| letter.is_alphanumeric())?;
        let mut hash = FNV_OFFSET;
        let mut add = |letter: char| {
            if letter.is_ascii() {
                hash = fnv(hash, letter.to_ascii_lowercase());
            } else {
                letter.to_lowercase().for_each(|lower| hash = fnv(hash, lower));
            }
        };
        add(first);
        let mut end = start + first.len_utf8();
        let joins = |letter: char| letter.is_alphanumeric() && !is_unspaced(letter);
        if !is_unspaced(first) {
            let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
            // A separator of thousands joins two digits.
            let separates = |at: usize| at > 0 && is_digit(at - 1) && is_digit(at + 1);
            while let Some((at, letter)) = rest.next_if(|&(at, letter)| {
                joins(letter) || (matches!(letter, ',' | '.' | '_') && separates(at))
            }) {
                add(letter);
                end = at + letter.len_utf8();
            }
        }
        Some((start..end, hash))
    })
}

/// Offset basis of the 64-bit FNV-1a hash.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// Adds a letter to a 64-bit FNV-1a hash. A collision hides a word of an error from the heuristics.
fn fnv(hash: u64, letter: char) -> u64 {
    (hash ^ u64::from(u32::from(letter))).wrapping_mul(0x0100_0000_01b3)
}

/// Whether a letter belongs to Chinese, Japanese or Korean.
fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// Maximum nesting of a body whose texts are decoded.
const MAX_DEPTH: usize = 128;

/// Calls `each` with every decoded text and key of the JSON value at the scanner.
fn visit_texts(
    scanner: &mut Scanner<'_>,
    depth: usize,
    each: &mut dyn FnMut(&str),
) -> Result<(), NotJson> {
    match scanner.peek() {
        Some(b'"') => each(&scanner.string()?.decode(scanner.text())),
        Some(b'[' | b'{') if depth == MAX_DEPTH => return Err(NotJson),
        Some(b'[') => {
            scanner.array(|scanner| visit_texts(scanner, depth + 1, each))?;
        }
        Some(b'{') => {
            scanner.object(|scanner, key| {
                each(&key.decode(scanner.text()));
                visit_texts(scanner, depth + 1, each)
            })?;
        }
        _ => scanner.skip()?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"messages":[{"role":"user","content":"the log says\n\"Prompt is too long: 213,000 tokens > 200,000\" \u4e0a\u4e0b\u6587\u957f\u5ea6\u8d85\u8fc7"}],"n":[1,true,null,0.5]}"#;

    fn check(text: &str, expect: &str) {
        let target = "/v1/chat/completions?why=context%20length%20is+over";
        let request = RequestText::new(BODY, target);
        let kept = request.remove_quotations(&[text.to_owned()]).concat();
        let kept: Vec<&str> = kept.split_whitespace().collect();
        assert_eq!(kept.join(" "), expect, "{text}");
    }

    #[test]
    fn quotations_of_the_request_are_removed() {
        check(
            "Invalid value: 'prompt is too long: 213,000 tokens > 200,000'.",
            "Invalid value: ' '.",
        );
        check("No route for context length is over.", "No route for .");
        check("无效：上下文长度超过", "无效：");
    }

    #[test]
    fn text_that_the_request_does_not_contain_is_kept() {
        check("Prompt is too large: 300000 tokens", "Prompt is too large: 300000 tokens");
        for text in ["too long", "", "prompt is too"] {
            check(text, text);
        }
        check(
            "prompt is too long: 214,000 tokens > 200,000 maximum",
            ": 214,000 tokens > 200,000 maximum",
        );
    }

    #[test]
    fn counts_the_characters_of_decoded_texts() {
        let request = RequestText::new(br#"{"a":"b\u4e0a\n","c":"data:image/png;base64,x"}"#, "");
        assert_eq!(request.characters(), 5);
        assert_eq!(RequestText::new(b"not JSON", "").characters(), 8);
    }
}
