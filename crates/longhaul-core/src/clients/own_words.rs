//! What the user wrote in the text of a user message.

use super::rows;
use memchr::{memchr, memmem};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Maximum bytes of a tag, with its attributes.
const MAX_TAG: usize = 1_024;

/// End of the line above a tool's result, in clients whose tools are text.
const RESULT_LINE: &str = "] Result:";
/// Maximum bytes of that line.
const MAX_RESULT_LINE: usize = 1_024;

/// Returns the parts of a text of a user message that the user wrote, in order.
///
/// A text without a form of a client is one part, unchanged. Elements of other names, and elements without an
/// end, are the user's.
pub(crate) fn own_words(text: &str) -> Vec<&str> {
    if announces_result(text) {
        return Vec::new();
    }
    let mut reader = Reader::new(text);
    while reader.skip_block() || reader.skip_tag() {}
    reader.take(text.len());
    if reader.skipped {
        reader.parts
    } else {
        Vec::from_iter((!text.trim().is_empty()).then_some(text))
    }
}

/// Whether a text begins with the line above a tool's result, as of Cline and Roo without native calls:
/// `[read_file for 'a.rs'] Result:`. If nothing follows, the next text of the message is the result.
pub(crate) fn announces_result(text: &str) -> bool {
    let line = text.split('\n').next().unwrap_or_default().trim_end();
    line.len() <= MAX_RESULT_LINE && line.starts_with('[') && line.ends_with(RESULT_LINE)
}

/// Returns the instructions of a skill that a client put into a user message.
pub(crate) fn loaded_skill(text: &str) -> Option<&str> {
    let text = text.trim();
    let mut starts = rows("skill-start").iter();
    starts
        .any(|row| text.starts_with(&row.words))
        .then_some(text)
}

/// Element that clients write.
struct Element {
    open: String,
    close: String,
    /// Whether the content is the user's.
    is_users: bool,
}

/// Returns the element with a name.
fn element(name: &str) -> Option<&'static Element> {
    static ELEMENTS: LazyLock<HashMap<&str, Element>> = LazyLock::new(|| {
        let of = |kind, is_users| {
            rows(kind).iter().map(move |row| {
                let name = row.words.as_str();
                let (open, close) = (format!("<{name}"), format!("</{name}>"));
                (
                    name,
                    Element {
                        open,
                        close,
                        is_users,
                    },
                )
            })
        };
        of("program", false).chain(of("user", true)).collect()
    });
    ELEMENTS.get(name)
}

/// Position in a text, and the parts found before it.
struct Reader<'t> {
    text: &'t str,
    parts: Vec<&'t str>,
    /// Start of the words since the last form of a client.
    start: usize,
    /// Where to search on.
    at: usize,
    /// Whether a form of a client was found.
    skipped: bool,
    /// Next position of each text searched for. Each byte is searched at most once for each text.
    next: HashMap<&'static str, Option<usize>>,
    /// Open elements of the user.
    open: HashMap<&'static str, usize>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let headings = rows("request").iter();
        let below = headings.filter_map(|row| {
            let at = memmem::rfind(text.as_bytes(), row.words.as_bytes())?;
            Some(at + row.words.len())
        });
        let start = below.max().unwrap_or_default();
        let (next, open) = (HashMap::new(), HashMap::new());
        Self {
            text,
            parts: Vec::new(),
            start,
            at: start,
            skipped: start > 0,
            next,
            open,
        }
    }

    /// Returns the next position of `words` from `from` on.
    fn find(&mut self, words: &'static str, from: usize) -> Option<usize> {
        let known = self.next.get(words).copied();
        if let Some(known) = known.filter(|it| it.is_none_or(|at| at >= from)) {
            return known;
        }
        let rest = self.text.as_bytes().get(from..)?;
        let found = memmem::find(rest, words.as_bytes()).map(|at| from + at);
        self.next.insert(words, found);
        found
    }

    /// Takes the words before `end` as the user's.
    fn take(&mut self, end: usize) {
        let words = self.text.get(self.start..end).unwrap_or_default().trim();
        self.parts.extend((!words.is_empty()).then_some(words));
    }

    /// Takes the words before `start` as the user's, and goes on at `end`.
    fn skip(&mut self, start: usize, end: usize) {
        self.take(start);
        (self.start, self.at, self.skipped) = (end, end, true);
    }

    /// Skips a text of the program that has no element, behind the last form or at the start of the text.
    fn skip_block(&mut self) -> bool {
        if self.at > self.start {
            return false;
        }
        let rest = self.text.get(self.start..).unwrap_or_default();
        let words = rest.trim_start();
        let from = self.text.len() - words.len();
        let mut blocks = rows("block")
            .iter()
            .filter(|row| words.starts_with(&row.words));
        let end = blocks.find_map(|row| {
            if row.end.is_empty() {
                return Some(self.text.len());
            }
            let end = self.find(&row.end, from + row.words.len())?;
            Some(end + row.end.len())
        });
        let found = end.filter(|_| !words.is_empty());
        found.inspect(|end| self.skip(from, *end)).is_some()
    }

    /// Goes on behind the next tag, and skips what the program wrote there. False without a further tag.
    fn skip_tag(&mut self) -> bool {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let Some(open) = memchr(b'<', rest).map(|at| self.at + at) else {
            return false;
        };
        self.at = open + 1;
        let Some((element, is_close, end)) = self.tag(open) else {
            return true;
        };
        let depth = self.open.get(element.open.as_str()).copied();
        if is_close && element.is_users {
            if let Some(depth) = depth.filter(|depth| *depth > 0) {
                self.open.insert(&element.open, depth - 1);
                self.skip(open, end);
            }
        } else if !is_close && self.begins_line(open) {
            match self.find(&element.close, end) {
                Some(_) if element.is_users => {
                    self.open
                        .insert(&element.open, depth.unwrap_or_default() + 1);
                    self.skip(open, end);
                }
                Some(close) => {
                    let close = self.last_close(element, close);
                    self.skip(open, close + element.close.len());
                    let content = self.text.get(end..close).unwrap_or_default();
                    self.parts.extend(quoted(content));
                }
                None => {}
            }
        }
        true
    }

    /// Returns the element of the tag at `open`, whether the tag closes it, and the tag's end.
    fn tag(&self, open: usize) -> Option<(&'static Element, bool, usize)> {
        let inner = self.text.get(open + 1..)?;
        let is_close = inner.starts_with('/');
        let inner = inner.get(usize::from(is_close)..)?;
        let bytes = inner.as_bytes();
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-:".contains(byte);
        let name = bytes.iter().position(|byte| !is_name(byte))?;
        let element = element(inner.get(..name)?)?;
        let bytes = bytes.get(..MAX_TAG.min(bytes.len()))?;
        let end = name + memchr(b'>', bytes.get(name..)?)?;
        // `<task-notification` and `<taskX` are other names; `<task>` and `<task id="1">` are this one.
        Some((
            element,
            is_close,
            open + 1 + usize::from(is_close) + end + 1,
        ))
    }

    /// Whether only white space stands before `open` on its line, or behind the last form.
    fn begins_line(&self, open: usize) -> bool {
        let before = self.text.get(self.start..open).unwrap_or_default();
        let before = before.trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with('\n')
    }

    /// Returns the last of the closing tags from `close` on that no opening tag precedes. What a program shows may
    /// contain a closing tag.
    fn last_close(&mut self, element: &'static Element, close: usize) -> usize {
        let until = self.find(&element.open, close).unwrap_or(self.text.len());
        let between = self.text.as_bytes().get(close..until).unwrap_or_default();
        let last = memmem::rfind(between, element.close.as_bytes());
        close + last.unwrap_or_default()
    }
}

/// Returns the user's words that an element of the program quotes.
fn quoted(content: &str) -> Option<&str> {
    let content = content.trim();
    let mut forms = rows("quoted").iter().filter_map(|row| {
        let words = content.strip_prefix(&row.words)?;
        Some((words, words.rfind(&row.end)?))
    });
    let (words, end) = forms.next()?;
    words.get(..end).map(str::trim)
}
