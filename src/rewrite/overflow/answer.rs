//! Sees that a JSON body is an answer, before it has all arrived.

/// The member that only an answer has, if it is an array with an element.
const CHOICES: &[u8] = b"choices";

/// Follows a JSON text byte by byte, and knows of its top level only what it needs: whether the
/// member `choices` has begun an element. Errors come with no such member, or with an empty or
/// null one. What is not JSON leads nowhere, and never to an answer by accident of its strings.
#[derive(Debug, Default)]
pub(super) struct Answer {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// How much of `choices` the string in progress at the top level has spelt; `None` once it
    /// differs.
    spelt: Option<usize>,
    place: Place,
}

/// How near the first element of `choices` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Its array has begun.
    Array,
    /// Not near.
    #[default]
    Elsewhere,
    /// The last string at the top level was `choices`.
    Name,
    /// That string was a key: a colon followed it.
    Value,
}

impl Answer {
    /// Reads the next bytes; true once the body is seen to be an answer.
    pub(super) fn is_seen_in(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|&byte| self.step(byte))
    }

    fn step(&mut self, byte: u8) -> bool {
        if self.in_string {
            self.within_string(byte);
            return false;
        }
        if byte.is_ascii_whitespace() {
            return false;
        }
        if self.place == Place::Array && byte != b']' {
            return true;
        }
        self.place = match (self.place, byte) {
            (Place::Name, b':') => Place::Value,
            (Place::Value, b'[') => Place::Array,
            _ => Place::Elsewhere,
        };
        match byte {
            b'"' => {
                self.in_string = true;
                self.spelt = (self.depth == 1).then_some(0);
            }
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }

    fn within_string(&mut self, byte: u8) {
        if std::mem::take(&mut self.escaped) {
            self.spelt = None;
            return;
        }
        match byte {
            b'\\' => self.escaped = true,
            b'"' => {
                self.in_string = false;
                if self.spelt == Some(CHOICES.len()) {
                    self.place = Place::Name;
                }
            }
            _ => {
                self.spelt = self
                    .spelt
                    .filter(|&at| CHOICES.get(at) == Some(&byte))
                    .map(|at| at + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, answer: bool) {
        let whole = Answer::default().is_seen_in(body.as_bytes());
        assert_eq!(whole, answer, "{body}");
        let mut piecewise = Answer::default();
        let seen = body.bytes().any(|byte| piecewise.is_seen_in(&[byte]));
        assert_eq!(seen, answer, "{body}");
    }

    #[test]
    fn an_element_of_choices_makes_an_answer() {
        check(r#"{"choices":[{"#, true);
        check(r#"{"id":"a\"b","usage":{"a":[1]}, "choices" : [ 1"#, true);
        check(r#"{"choices":[]}"#, false);
        check(r#"{"choices":null,"error":{"message":"x"}}"#, false);
        check(r#"{"id":["#, false);
    }

    #[test]
    fn choices_within_a_member_or_a_text_make_none() {
        check(r#"{"error":{"choices":[1]}}"#, false);
        check(r#"{"error":"\"choices\":[1]"}"#, false);
        check(r#"{"error":"choices","a":[1]}"#, false);
        check(r#"{"choices2":[1],"choice":[1],"xchoices":[1]}"#, false);
    }
}
