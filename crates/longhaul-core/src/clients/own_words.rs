//! The user's words in the text of a user message.

use super::{Row, answers_user, before_end, row_of, rows, stripped};
use crate::collections::StaticMap;
use memchr::memmem::{self, FinderRev};
use regex::Regex;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Maximum bytes of the line above a tool's result.
pub(super) const MAX_RESULT_LINE: usize = 1_024;

/// Returns the parts of a text of a user message that the user wrote, in order.
///
/// A text without a form of a client is one part, unchanged. Elements of other names, and elements without an
/// end, are the user's.
pub fn own_words(text: &str) -> Vec<&str> {
    parts(text, true)
}

/// Returns the parts of a text that the user wrote. `quotes` says whether elements may quote the user, as no quoted
/// words do.
fn parts(text: &str, quotes: bool) -> Vec<&str> {
    let words = match result_line(text) {
        Some((tool, rest)) if answers_user(tool) => stripped("rejected", rest).unwrap_or(rest),
        Some(_) => return Vec::new(),
        None => request(text),
    };
    let mut reader = WordReader { text: words, quotes, ..WordReader::default() };
    while reader.skip_block() || reader.skip_tag() {}
    if reader.start == 0 && words.len() == text.len() {
        return Vec::from_iter((!text.trim().is_empty()).then_some(text));
    }
    reader.take(words.len());
    reader.parts
}

/// Whether a text begins with the line above a foreign result, as of Cline and Roo without native calls:
/// `[read_file for 'a.rs'] Result:`. If nothing follows, the next text of the message is the result.
pub(crate) fn announces_result(text: &str) -> bool {
    result_line(text).is_some_and(|(tool, _)| !answers_user(tool))
}

/// Whether the client wrote the text of a user message, to show pictures of the results before.
pub(crate) fn shows_result(text: &str) -> bool {
    row_of("pictures", text).is_some()
}

/// Splits the line above a result off a text, and returns the tool in that line and the result.
pub(super) fn result_line(text: &str) -> Option<(&str, &str)> {
    let line = text.split('\n').next()?;
    let head = line.trim_end().strip_prefix('[')?;
    let tool = head.split([' ', ']']).next()?;
    // Files that a message of Roo mentions.
    let is_file = tool == "read_file" && head.ends_with("']");
    let is_result = line.len() <= MAX_RESULT_LINE && (is_file || head.ends_with("] Result:"));
    is_result.then_some((tool, text.get(line.len()..)?.trim()))
}

/// Returns the instructions of a skill that a client put into a user message.
pub(crate) fn loaded_skill(text: &str) -> Option<&str> {
    let text = text.trim();
    row_of("skill-start", text).map(|_| text)
}

/// Returns the part of a text that holds the user's request, below what the program wrote above.
fn request(text: &str) -> &str {
    static ROWS: LazyLock<Vec<(&Row, FinderRev<'_>)>> = LazyLock::new(|| {
        let rows = rows("request").iter();
        rows.map(|row| (row, FinderRev::new(&row.words))).collect()
    });
    let requests = ROWS.iter().filter_map(|(row, finder)| {
        let at = finder.rfind(text)?;
        let (before, words) = text.split_at_checked(at)?;
        let words = words.strip_prefix(&row.words)?;
        let begins_line = before.is_empty() || before.ends_with('\n');
        let ends =
            row.end.is_empty() || memmem::find(words.as_bytes(), row.end.as_bytes()).is_some();
        (begins_line && ends).then(|| before_end(words, row))
    });
    requests.min_by_key(|words| words.len()).unwrap_or(text)
}

/// Element that clients write.
struct Element {
    open: String,
    close: String,
    /// Whether the content is the user's.
    is_users: bool,
}

/// Elements by name, and the pattern of their tags.
static ELEMENTS: LazyLock<(StaticMap<&str, Element>, Option<Regex>)> = LazyLock::new(|| {
    let of = |kind, is_users| {
        rows(kind).iter().map(move |row| {
            let name = row.words.as_str();
            let (open, close) = (format!("<{name}"), format!("</{name}>"));
            (name, Element { open, close, is_users })
        })
    };
    let elements: StaticMap<_, _> = of("program", false).chain(of("user", true)).collect();
    let names: Vec<&str> = elements.keys().copied().collect();
    let names = names.join("|");
    // If the pattern fails to compile, no element is found; a test ensures that it compiles.
    let tags = Regex::new(&format!("</?(?:{names})(?:[ \\n][^<>]*)?>"));
    (elements, tags.ok())
});

/// Position in a text, and the parts found before it.
#[derive(Default)]
struct WordReader<'t> {
    text: &'t str,
    /// Whether elements may quote the user.
    quotes: bool,
    parts: Vec<&'t str>,
    /// Start of the words since the last form of a client.
    start: usize,
    /// Start of the next search.
    at: usize,
    /// Next position of each text searched for. A text is searched at most once for each of them.
    next: HashMap<&'static str, Option<usize>>,
    /// Number of open elements of the user, by name.
    open: HashMap<&'static str, usize>,
}

impl WordReader<'_> {
    /// Returns the next position of `words` from `from` on.
    fn find(&mut self, words: &'static str, from: usize) -> Option<usize> {
        let known = self.next.get(words).copied();
        known.filter(|it| it.is_none_or(|at| at >= from)).unwrap_or_else(|| {
            let rest = self.text.as_bytes().get(from..).unwrap_or_default();
            let found = memmem::find(rest, words.as_bytes()).map(|at| from + at);
            self.next.insert(words, found);
            found
        })
    }

    /// Takes the words before `end` as the user's.
    fn take(&mut self, end: usize) {
        let words = self.text.get(self.start..end).unwrap_or_default().trim();
        self.parts.extend((!words.is_empty()).then_some(words));
    }

    /// Takes the words before `start` as the user's, and goes on at `end`.
    fn skip(&mut self, start: usize, end: usize) {
        self.take(start);
        (self.start, self.at) = (end, end);
    }

    /// Skips a text of the program that has no element, at the start of the text or behind the last form.
    fn skip_block(&mut self) -> bool {
        let rest = self.text.get(self.start..).unwrap_or_default();
        let words = rest.trim_start();
        if self.at > self.start || words.is_empty() {
            return false;
        }
        let from = self.text.len() - words.len();
        let mut blocks = rows("block").iter().filter(|row| words.starts_with(&row.words));
        let end = blocks.find_map(|row| match row.end.as_str() {
            "" => Some(self.text.len()),
            end => Some(self.find(end, from + row.words.len())? + end.len()),
        });
        end.inspect(|end| self.skip(from, *end)).is_some()
    }

    /// Goes on behind the next tag, and skips what the program wrote there. False without a further tag.
    fn skip_tag(&mut self) -> bool {
        let (elements, tags) = &*ELEMENTS;
        let Some(tag) = tags.as_ref().and_then(|tags| tags.find_at(self.text, self.at)) else {
            return false;
        };
        self.at = tag.end();
        let name = tag.as_str().trim_start_matches(['<', '/']);
        let name = name.split([' ', '\n', '>']).next().unwrap_or_default();
        let Some(element) = elements.get(name) else {
            return true;
        };
        let depth = self.open.entry(&element.open).or_default();
        if tag.as_str().starts_with("</") {
            if *depth > 0 {
                *depth -= 1;
                self.skip(tag.start(), tag.end());
            }
        } else if self.begins_line(tag.start())
            && let Some(close) = self.find(&element.close, tag.end())
        {
            if element.is_users {
                *self.open.entry(&element.open).or_default() += 1;
                self.skip(tag.start(), tag.end());
            } else {
                let close = self.last_close(element, close);
                self.skip(tag.start(), close + element.close.len());
                let content = self.text.get(tag.end()..close).unwrap_or_default();
                if let Some(words) = stripped("quoted", content.trim()).filter(|_| self.quotes) {
                    self.parts.extend(parts(words, false));
                }
            }
        }
        true
    }

    /// Whether only white space stands before `open` on its line, or behind the last form.
    fn begins_line(&self, open: usize) -> bool {
        let before = self.text.get(self.start..open).unwrap_or_default();
        let before = before.trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    }

    /// Returns the last of the closing tags from `close` on that no opening tag precedes: what a program shows may
    /// contain a closing tag.
    fn last_close(&mut self, element: &'static Element, close: usize) -> usize {
        let until = self.find(&element.open, close).unwrap_or(self.text.len());
        let between = self.text.as_bytes().get(close..until).unwrap_or_default();
        close + memmem::rfind(between, element.close.as_bytes()).unwrap_or_default()
    }
}
