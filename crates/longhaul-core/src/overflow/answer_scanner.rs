//! Detects that a JSON body is an answer before the whole body has arrived.

use crate::dialect::Dialect;

/// Bytes kept of a string. No key of an answer is longer.
const MAX_KEY_BYTES: usize = 32;

/// Bytes of choices that are scanned. Errors in a choice are shorter than this, so longer choices are
/// an answer.
const MAX_BYTES: usize = 4 * 1024;

/// Byte-wise JSON scanner that detects the first content below an array at the top, the member that
/// has content only in answers.
///
/// Errors lack the member, or it is empty, null, or has an element with an error in place of content.
/// Input that is not JSON is never mistaken for an answer because of its strings.
#[derive(Debug)]
pub(super) struct AnswerScanner {
    dialect: Dialect,
    depth: usize,
    /// Bytes of the array from its first element on. `None` before.
    choices: Option<usize>,
    escaped: bool,
    /// The last string, cut off after the longest key.
    string: Vec<u8>,
    position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// After the colon that follows the array's key.
    BeforeArray,
    /// Inside the array, before its first element.
    InArray,
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
    Elsewhere,
}

impl AnswerScanner {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            depth: 0,
            choices: None,
            escaped: false,
            string: Vec::new(),
            position: Position::Elsewhere,
        }
    }

    pub(super) fn scan(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|&byte| self.scan_byte(byte))
    }

    fn scan_byte(&mut self, byte: u8) -> bool {
        self.choices = self.choices.map(|bytes| bytes + 1);
        if self.choices.is_some_and(|bytes| bytes > MAX_BYTES) {
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
        if self.position == Position::InArray && byte != b']' {
            self.choices = Some(1);
        }
        match byte {
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.position = match (self.position, byte) {
            (Position::ContentList, b']' | b'}') => Position::Elsewhere,
            (Position::ContentList, _) => return true,
            (Position::BeforeContent, b'"') => Position::ContentString,
            (Position::BeforeContent, b'[' | b'{') => Position::ContentList,
            (Position::BeforeArray, b'[') => Position::InArray,
            (Position::AfterString, b':') if self.is_content_key() => Position::BeforeContent,
            (Position::AfterString, b':') if self.is_array_key() => Position::BeforeArray,
            (_, b'"') => {
                self.string.clear();
                Position::String
            }
            _ => Position::Elsewhere,
        };
        false
    }

    fn is_array_key(&self) -> bool {
        let key = self.dialect.facts().answer_key.as_bytes();
        self.choices.is_none() && self.depth == 1 && self.string == key
    }

    /// Whether the last string is a key whose value is content, if that is not empty.
    fn is_content_key(&self) -> bool {
        let mut keys = self.dialect.facts().content_keys.as_bytes().split(|byte| *byte == b' ');
        self.choices.is_some() && keys.any(|key| key == self.string)
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
        check(r#"{"id":"a\"b","usage":{"a":[1]}, "choices" : [ {"text" : "a"#, true);
        check(r#"{"choices":[{"message":{"content":"","error":{"code":1}"#, false);
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
        check(&format!(r#"{{"choices":[{choices}"#), answer);
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
        check_content(r#"{"error":{"message":"content","raw":"\"content\":\"x\""}}"#, false);
        check_content(&"x".repeat(MAX_BYTES), false);
    }
}
