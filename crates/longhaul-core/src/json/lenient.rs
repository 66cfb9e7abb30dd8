//! Lenient reading of small JSON: a value of another type than expected counts as absent.

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::value::RawValue;

/// A value, or `None` if the JSON has another type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lenient<T>(pub(crate) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(from).map(|json| Self(parse(json)))
    }
}

/// Parses a value other than an array, which serde would read as a struct by position. Returns
/// `None` if the JSON has another type.
pub(crate) fn parse<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    let json = Some(json.get()).filter(|json| !json.starts_with('['))?;
    serde_json::from_str(json).ok()
}

/// Parses a JSON object. Returns `None` for anything else; serde would read an array by position.
pub(crate) fn parse_object<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    let is_object = json.trim_ascii_start().starts_with(b"{");
    is_object.then(|| serde_json::from_slice(json).ok())?
}

/// Whether a value is non-empty: `null`, `false`, `""`, `[]` and `{}` are empty.
pub(crate) fn is_non_empty(json: &RawValue) -> bool {
    match json.get() {
        "null" | "false" | "\"\"" => false,
        text => text.strip_prefix(['[', '{']).is_none_or(|rest| rest.trim_start().len() > 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_false_and_empty_containers_are_empty() {
        let check = |json: &str, expect: bool| {
            let json: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(is_non_empty(json), expect, "{json}");
        };
        for empty in ["null", "false", r#""""#, "[]", "{}", "[ \n]", "{ }"] {
            check(empty, false);
        }
        for filled in ["true", "0", "-7", r#"" ""#, "[0]", "[[]]", r#"{"a":0}"#] {
            check(filled, true);
        }
    }

    #[test]
    fn a_value_of_another_type_reads_as_none() {
        let read = |json: &str| serde_json::from_str::<Lenient<u64>>(json).unwrap().0;
        assert_eq!(read("7"), Some(7));
        for odd in ["null", "true", "-7", "0.5", r#""7""#, "{}", "[7]"] {
            assert_eq!(read(odd), None, "{odd}");
        }
        assert!(serde_json::from_str::<Lenient<u64>>("{").is_err());
    }
}
