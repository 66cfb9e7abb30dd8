//! Detects that a JSON body is an answer before the whole body has arrived.

mod content_scanner;

use crate::dialect::Dialect;
use content_scanner::ContentScanner;

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
}
