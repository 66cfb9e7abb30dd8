//! Finds the last values of a key near the top of a JSON text that may lack its beginning.
//!
//! Inside a JSON string every quotation mark is escaped. A bare `"usage"` before a colon is
//! therefore a key, wherever reading begins. The brackets closed after the key reveal its depth.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

/// Maximum depth of a reply's own fields: in an element of an array at the top. A deeper key may be
/// model output, such as call arguments that some server gives as an object.
const MAX_LEVELS: usize = 3;

/// Maximum number of occurrences of one key that are examined: one per choice, and more choices than
/// agents request.
const MAX_KEYS: usize = 16;

/// Search term with its precompiled finder, since the last events of a stream are searched for
/// several terms and contain few. The term for a key includes its quotation marks.
pub(crate) struct SearchTerm(LazyLock<Finder<'static>>);

impl SearchTerm {
    /// Creates a term; `finder` runs at its first use.
    pub(crate) const fn new(finder: fn() -> Finder<'static>) -> Self {
        Self(LazyLock::new(finder))
    }

    pub(crate) fn occurs_in(&self, json: &[u8]) -> bool {
        self.0.find(json).is_some()
    }

    /// Returns the rest of `json` after each occurrence.
    pub(crate) fn text_after_each<'a>(
        &'static self,
        json: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> {
        let length = self.0.needle().len();
        let places = self.0.find_iter(json);
        places.filter_map(move |at| json.get(at + length..))
    }
}

/// Returns the values of `key` near the top of `json`, last one first. Values that do not
/// deserialise to `T` are skipped.
pub(crate) fn last_values<'a, T: Deserialize<'a> + 'a>(
    json: &'a [u8],
    key: &'static SearchTerm,
) -> impl Iterator<Item = T> + 'a {
    // Most events lack these keys, and one search costs less than setting up an iterator.
    let places: Vec<usize> =
        if key.occurs_in(json) { key.0.find_iter(json).collect() } else { Vec::new() };
    places.into_iter().rev().take(MAX_KEYS).filter_map(|at| {
        let (before, after) = json.split_at_checked(at)?;
        // A match after a backslash is text.
        if before.last() == Some(&b'\\') {
            return None;
        }
        let after = after.get(key.0.needle().len()..)?;
        let value = after.trim_ascii_start().strip_prefix(b":")?;
        // Serde would read a sequence as a struct by position.
        if value.trim_ascii_start().starts_with(b"[") {
            return None;
        }
        if !(1..=MAX_LEVELS).contains(&count_unmatched_closers(value)?) {
            return None;
        }
        let mut values = serde_json::Deserializer::from_slice(value).into_iter();
        values.next()?.ok()
    })
}

/// Counts the closing brackets in `json` that have no opening one in it. `json` must begin outside
/// a string. Returns `None` if `json` ends within a string or with unclosed brackets.
fn count_unmatched_closers(json: &[u8]) -> Option<usize> {
    let (mut open, mut closed) = (0_usize, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => open += 1,
            b'}' | b']' if open > 0 => open -= 1,
            b'}' | b']' => closed += 1,
            _ => {}
        }
    }
    (!in_string && open == 0).then_some(closed)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    static USAGE: SearchTerm = SearchTerm::new(|| Finder::new(r#""usage""#));

    fn check(json: &str, expect: &[Value]) {
        let found: Vec<Value> = last_values(json.as_bytes(), &USAGE).collect();
        assert_eq!(found, expect, "{json}");
    }

    #[test]
    fn finds_values_near_the_top_last_first() {
        check(r#"{"usage":1}"#, &[json!(1)]);
        check(r#"{"usage" : {"a":[1]} , "x":"}"}"#, &[json!({"a": [1]})]);
        check(r#"tail of a text"},"usage":1}]}"#, &[json!(1)]);
        check(
            r#"{"choices":[{"usage":1},{"usage":2}],"usage":null}"#,
            &[json!(null), json!(2), json!(1)],
        );
    }

    #[test]
    fn text_that_looks_like_a_key_is_ignored() {
        check(r#"{"content":"\"usage\":1"}"#, &[]);
        check(r#"{"content":"say \"usage","b":1}"#, &[]);
        check(r#"{"content":"usage"}"#, &[]);
        check(r#"{"\"usage":1}"#, &[]);
    }

    #[test]
    fn brackets_and_quotes_in_a_string_are_ignored() {
        check(r#"{"usage":1,"b":"say \"}}}}\" twice"}"#, &[json!(1)]);
        check(r#"{"usage":1,"b":"say \"{[\" twice"}"#, &[json!(1)]);
        check(r#"{"usage":1,"b":"a path ends in \\"}"#, &[json!(1)]);
        check(r#"{"usage":1,"b":"\\\"","c":"}}}}"}"#, &[json!(1)]);
    }

    #[test]
    fn values_too_deep_for_reply_fields_are_ignored() {
        check(r#"{"choices":[{"message":{"usage":1}}]}"#, &[]);
    }

    #[test]
    fn an_array_value_is_ignored() {
        check(r#"{"usage": [100,5]}"#, &[]);
    }

    #[test]
    fn truncated_values_are_ignored() {
        check(r#"{"usage":{"a":1"#, &[]);
        check(r#"{"usage":1"#, &[]);
        check(r#"{"usage":1,"b":"open}"#, &[]);
        check(r#"{"usage":1},"b":"open"#, &[]);
        check(r#"{"usage":1},{"b":2"#, &[]);
    }
}
