//! Detects that a JSON body is an answer before the whole body has arrived.

use crate::dialect::Dialect;

/// Byte-wise JSON scanner that detects the first content below an array at the top, the member that
/// has content only in answers.
///
/// Errors lack the member, or it is empty, null, or has an element with an error in place of content.
/// Input that is not JSON is never mistaken for an answer because of its strings.
#[derive(Debug)]
pub(super) struct AnswerScanner {
    dialect: Dialect,
    /// Key of the member.
    key: &'static [u8],
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Length of the prefix of the key that the current top-level string matches; `None` after a
    /// mismatch.
    matched_bytes: Option<usize>,
    position: ScanPosition,
    /// Scanner of the array from its first element on.
    content: Option<ContentScanner>,
}

/// Progress towards the first element of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanPosition {
    /// Inside the array, before its first element.
    InArray,
    /// At any other position.
    Elsewhere,
    /// After a top-level string that equals the key.
    AfterName,
    /// After the colon that follows the key.
    AfterColon,
}

impl AnswerScanner {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            key: dialect.answer_key().as_bytes(),
            depth: 0,
            in_string: false,
            escaped: false,
            matched_bytes: None,
            position: ScanPosition::Elsewhere,
            content: None,
        }
    }

    /// Scans the next bytes and returns whether the body is an answer.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|&byte| self.scan_byte(byte))
    }

    fn scan_byte(&mut self, byte: u8) -> bool {
        if let Some(content) = &mut self.content {
            return content.scan_byte(byte);
        }
        if self.in_string {
            self.scan_string_byte(byte);
            return false;
        }
        if byte.is_ascii_whitespace() {
            return false;
        }
        if self.position == ScanPosition::InArray && byte != b']' {
            let content = self
                .content
                .insert(ContentScanner::new(self.dialect.content_keys()));
            return content.scan_byte(byte);
        }
        self.position = match (self.position, byte) {
            (ScanPosition::AfterName, b':') => ScanPosition::AfterColon,
            (ScanPosition::AfterColon, b'[') => ScanPosition::InArray,
            _ => ScanPosition::Elsewhere,
        };
        match byte {
            b'"' => {
                self.in_string = true;
                self.matched_bytes = (self.depth == 1).then_some(0);
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }

    fn scan_string_byte(&mut self, byte: u8) {
        if std::mem::take(&mut self.escaped) {
            self.matched_bytes = None;
            return;
        }
        match byte {
            b'\\' => self.escaped = true,
            b'"' => {
                self.in_string = false;
                if self.matched_bytes == Some(self.key.len()) {
                    self.position = ScanPosition::AfterName;
                }
            }
            _ => {
                self.matched_bytes = self
                    .matched_bytes
                    .filter(|&at| self.key.get(at) == Some(&byte))
                    .map(|at| at + 1);
            }
        }
    }
}

/// Bytes kept of a string. No key of content is longer.
const MAX_KEY_BYTES: usize = 32;

/// Bytes of choices that are scanned. Errors in a choice are shorter than this, so longer choices are
/// an answer.
const MAX_BYTES: usize = 4 * 1024;

/// Scanner that starts at the first byte of the first choice.
#[derive(Debug)]
struct ContentScanner {
    /// Keys whose value is content, if it is not empty.
    keys: &'static str,
    bytes: usize,
    escaped: bool,
    /// The last string, cut off after the longest key.
    string: Vec<u8>,
    position: Position,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    /// After the colon of a content key.
    BeforeContent,
    /// At the first byte of a content string.
    ContentString,
    /// At the first byte of an array or an object of content.
    ContentList,
    /// In a string that is not content.
    String,
    /// After a string.
    AfterString,
    #[default]
    Elsewhere,
}

impl ContentScanner {
    /// Creates a scanner for content under these keys, separated by spaces.
    fn new(keys: &'static str) -> Self {
        Self {
            keys,
            bytes: 0,
            escaped: false,
            string: Vec::new(),
            position: Position::default(),
        }
    }

    fn is_content_key(&self) -> bool {
        let mut keys = self.keys.split(' ');
        keys.any(|key| key.as_bytes() == self.string)
    }

    /// Scans the next byte and returns whether there was content.
    fn scan_byte(&mut self, byte: u8) -> bool {
        self.bytes += 1;
        if self.bytes > MAX_BYTES {
            return true;
        }
        if self.position == Position::String {
            self.scan_string_byte(byte);
            return false;
        }
        if self.position == Position::ContentString {
            self.position = Position::Elsewhere;
            return byte != b'"';
        }
        if byte.is_ascii_whitespace() {
            return false;
        }
        self.position = match (self.position, byte) {
            (Position::ContentList, b']' | b'}') => Position::Elsewhere,
            (Position::ContentList, _) => return true,
            (Position::BeforeContent, b'"') => Position::ContentString,
            (Position::BeforeContent, b'[' | b'{') => Position::ContentList,
            (Position::AfterString, b':') if self.is_content_key() => Position::BeforeContent,
            (_, b'"') => {
                self.string.clear();
                Position::String
            }
            _ => Position::Elsewhere,
        };
        false
    }

    fn scan_string_byte(&mut self, byte: u8) {
        if self.string.len() <= MAX_KEY_BYTES {
            self.string.push(byte);
        }
        if std::mem::take(&mut self.escaped) {
            return;
        }
        match byte {
            b'\\' => self.escaped = true,
            b'"' => {
                self.string.pop_if(|last| *last == b'"');
                self.position = Position::AfterString;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, answer: bool) {
        let whole = AnswerScanner::new(Dialect::ChatCompletions).scan(body.as_bytes());
        assert_eq!(whole, answer, "{body}");
        let mut piecewise = AnswerScanner::new(Dialect::ChatCompletions);
        let seen = body.bytes().any(|byte| piecewise.scan(&[byte]));
        assert_eq!(seen, answer, "{body}");
    }

    #[test]
    fn non_empty_content_of_a_choice_is_an_answer() {
        check(r#"{"choices":[{"message":{"content":"a"#, true);
        check(
            r#"{"id":"a\"b","usage":{"a":[1]}, "choices" : [ {"text" : "a"#,
            true,
        );
        check(
            r#"{"choices":[{"message":{"content":"","error":{"code":1}"#,
            false,
        );
        check(r#"{"choices":[]}"#, false);
        check(r#"{"choices":null,"error":{"message":"x"}}"#, false);
        check(r#"{"id":["#, false);
    }

    #[test]
    fn choices_in_a_nested_member_or_a_string_are_no_answer() {
        check(r#"{"error":{"choices":[1]}}"#, false);
        check(r#"{"error":"\"choices\":[1]"}"#, false);
        check(r#"{"error":"choices","a":[1]}"#, false);
        check(r#"{"choices2":[1],"choice":[1],"xchoices":[1]}"#, false);
    }

    fn check_content(choices: &str, answer: bool) {
        let mut scanner = ContentScanner::new(Dialect::ChatCompletions.content_keys());
        let found = choices.bytes().any(|byte| scanner.scan_byte(byte));
        assert_eq!(found, answer, "{choices}");
    }

    #[test]
    fn a_value_under_a_content_key_is_content() {
        check_content(r#"{"message":{"role":"a","content":"x"#, true);
        check_content(r#"{"message":{"content":null,"tool_calls":[{"#, true);
        check_content(r#"{"message":{"content" : [ {"#, true);
        check_content(r#"{"text":"x"#, true);
        check_content(&"x".repeat(MAX_BYTES + 1), true);
    }

    #[test]
    fn an_empty_value_or_another_key_is_no_content() {
        check_content(r#"{"message":{"content":"","tool_calls":[]}}"#, false);
        check_content(r#"{"message":{"content":null,"a\"content":"x"}}"#, false);
        check_content(
            r#"{"error":{"message":"content","raw":"\"content\":\"x\""}}"#,
            false,
        );
        check_content(&"x".repeat(MAX_BYTES), false);
    }
}
