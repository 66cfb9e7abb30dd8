//! Finds what stands last under a key near the top of a JSON text, its beginning kept or not.
//!
//! Inside a JSON string every quotation mark is escaped, so a bare `"usage"` before a colon is a
//! key wherever reading begins. How deep it stands is told by what is closed behind it.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::Deserialize;

use crate::rewrite::sse::FinishReason;

/// How deep a reply's own fields stand at most: in an element of an array at its top, as
/// `choices[0].finish_reason` does. What is deeper may be the model's own doing: the arguments of
/// a call that some server gives as an object.
const MAX_LEVELS: usize = 3;

/// Keys of one name that are looked at: one a choice, and more choices than agents ask for.
const MAX_KEYS: usize = 16;

/// What is looked for, with what finds it fast: the last events of a stream are searched for each of
/// these, and hold few. A key stands in its quotation marks.
pub(super) struct SearchTerm(LazyLock<Finder<'static>>);

impl SearchTerm {
    const fn new(finder: fn() -> Finder<'static>) -> Self {
        Self(LazyLock::new(finder))
    }

    /// Whether it stands anywhere in `json`.
    pub(super) fn occurs_in(&self, json: &[u8]) -> bool {
        self.0.find(json).is_some()
    }

    /// What stands behind it, each time.
    pub(super) fn text_after_each<'a>(
        &'static self,
        json: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> {
        let length = self.0.needle().len();
        let places = self.0.find_iter(json);
        places.filter_map(move |at| json.get(at + length..))
    }
}

/// What the type or the key of every error has in it.
pub(super) static ERROR: SearchTerm = SearchTerm::new(|| Finder::new("error"));
/// What the type of the others has.
pub(super) static FAILED: SearchTerm = SearchTerm::new(|| Finder::new("failed"));
pub(super) static FINISH_REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#""finish_reason""#));
pub(super) static NATIVE_FINISH_REASON: SearchTerm =
    SearchTerm::new(|| Finder::new(r#""native_finish_reason""#));
/// What the keys end with that say why a reply ended.
pub(super) static REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#"_reason""#));
pub(super) static STOP_REASON: SearchTerm = SearchTerm::new(|| Finder::new(r#""stop_reason""#));
pub(super) static TIMINGS: SearchTerm = SearchTerm::new(|| Finder::new(r#""timings""#));
pub(super) static USAGE: SearchTerm = SearchTerm::new(|| Finder::new(r#""usage""#));
pub(super) static WINDOW_FULL: SearchTerm =
    SearchTerm::new(|| Finder::new(FinishReason::WINDOW_FULL));

/// The values under `key` near the top of `json`, the last one first; those that read as no `T` are
/// left out.
pub(super) fn last_values<'a, T: Deserialize<'a> + 'a>(
    json: &'a [u8],
    key: &'static SearchTerm,
) -> impl Iterator<Item = T> + 'a {
    // Most events have none of these keys, and one look costs less than the beginning of several.
    let places: Vec<usize> = if key.occurs_in(json) {
        key.0.find_iter(json).collect()
    } else {
        Vec::new()
    };
    places.into_iter().rev().take(MAX_KEYS).filter_map(|at| {
        let (before, behind) = json.split_at_checked(at)?;
        // Behind a backslash it is text.
        if before.last() == Some(&b'\\') {
            return None;
        }
        let behind = behind.get(key.0.needle().len()..)?;
        let value = behind.trim_ascii_start().strip_prefix(b":")?;
        // A sequence would be read as a struct by position.
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

/// How many objects and arrays end in `json`, which begins outside a string, that did not begin
/// in it; `None` where it ends within a string or with more open than closed.
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

    fn check(json: &str, expect: &[Value]) {
        let found: Vec<Value> = last_values(json.as_bytes(), &USAGE).collect();
        assert_eq!(found, expect, "{json}");
    }

    #[test]
    fn finds_what_stands_near_the_top_the_last_first() {
        check(r#"{"usage":1}"#, &[json!(1)]);
        check(r#"{"usage" : {"a":[1]} , "x":"}"}"#, &[json!({"a": [1]})]);
        check(r#"tail of a text"},"usage":1}]}"#, &[json!(1)]);
        check(
            r#"{"choices":[{"usage":1},{"usage":2}],"usage":null}"#,
            &[json!(null), json!(2), json!(1)],
        );
    }

    #[test]
    fn a_text_is_no_key() {
        check(r#"{"content":"\"usage\":1"}"#, &[]);
        check(r#"{"content":"say \"usage","b":1}"#, &[]);
        check(r#"{"content":"usage"}"#, &[]);
        check(r#"{"\"usage":1}"#, &[]);
    }

    #[test]
    fn what_a_text_quotes_opens_and_closes_nothing() {
        check(r#"{"usage":1,"b":"say \"}}}}\" twice"}"#, &[json!(1)]);
        check(r#"{"usage":1,"b":"say \"{[\" twice"}"#, &[json!(1)]);
        check(r#"{"usage":1,"b":"a path ends in \\"}"#, &[json!(1)]);
        check(r#"{"usage":1,"b":"\\\"","c":"}}}}"}"#, &[json!(1)]);
    }

    #[test]
    fn what_the_model_may_have_made_is_too_deep() {
        check(r#"{"choices":[{"message":{"usage":1}}]}"#, &[]);
    }

    #[test]
    fn a_sequence_is_none_of_these_values() {
        check(r#"{"usage": [100,5]}"#, &[]);
    }

    #[test]
    fn what_was_cut_off_is_not_read() {
        check(r#"{"usage":{"a":1"#, &[]);
        check(r#"{"usage":1"#, &[]);
        check(r#"{"usage":1,"b":"open}"#, &[]);
        check(r#"{"usage":1},"b":"open"#, &[]);
        check(r#"{"usage":1},{"b":2"#, &[]);
    }
}
