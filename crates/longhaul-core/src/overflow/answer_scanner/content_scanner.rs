//! Detects content in the choices of a JSON body, byte by byte.

/// Bytes kept of a string. No key of content is longer.
const MAX_KEY_BYTES: usize = 32;

/// Bytes of choices that are scanned. Errors in a choice are shorter than this, so longer choices are
/// an answer.
const MAX_BYTES: usize = 4 * 1024;

/// Scanner that starts at the first byte of the first choice.
#[derive(Debug)]
pub(super) struct ContentScanner {
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
    pub(super) fn new(keys: &'static str) -> Self {
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
    pub(super) fn scan_byte(&mut self, byte: u8) -> bool {
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
    use crate::dialect::Dialect;

    fn check(choices: &str, answer: bool) {
        let mut scanner = ContentScanner::new(Dialect::ChatCompletions.content_keys());
        let found = choices.bytes().any(|byte| scanner.scan_byte(byte));
        assert_eq!(found, answer, "{choices}");
    }

    #[test]
    fn a_value_under_a_content_key_is_content() {
        check(r#"{"message":{"role":"a","content":"x"#, true);
        check(r#"{"message":{"content":null,"tool_calls":[{"#, true);
        check(r#"{"message":{"content" : [ {"#, true);
        check(r#"{"text":"x"#, true);
        check(&"x".repeat(MAX_BYTES + 1), true);
    }

    #[test]
    fn an_empty_value_or_another_key_is_no_content() {
        check(r#"{"message":{"content":"","tool_calls":[]}}"#, false);
        check(r#"{"message":{"content":null,"a\"content":"x"}}"#, false);
        check(
            r#"{"error":{"message":"content","raw":"\"content\":\"x\""}}"#,
            false,
        );
        check(&"x".repeat(MAX_BYTES), false);
    }
}
