//! The credentials that a request carries, each without what a caller can vary at will.

use std::borrow::Cow;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::percent_decode;

use crate::request::listed;

/// Fields by which upstreams authenticate a caller; a question mark begins a query parameter.
static FIELDS: LazyLock<Vec<&str>> =
    LazyLock::new(|| listed(include_str!("data/credential_fields.txt")).collect());

/// Decodes each form of a text that a lenient server decodes.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Maximum credentials of one request. A client sends one or two; made-up ones must hide no valid one.
const MAX_CREDENTIALS: usize = 16;

/// The fields that carry credentials: the known ones, and those of the settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct CredentialFields {
    /// Names in lower case.
    further: Vec<String>,
}

impl CredentialFields {
    /// Creates the fields with `further` names of headers and query parameters.
    pub(crate) fn new(further: &[String]) -> Self {
        let further = further.iter().map(|name| name.to_ascii_lowercase());
        Self { further: further.collect() }
    }

    /// Whether the settings name a header or a query parameter `name`.
    pub(crate) fn has_further(&self, name: &str) -> bool {
        self.further.iter().any(|further| further == name)
    }

    /// Returns the values of all credentials among `fields`, each once. The name of a query parameter begins
    /// with a question mark. None of more than [`MAX_CREDENTIALS`] counts.
    pub(crate) fn values<'r>(&self, fields: &[(Cow<'r, str>, &'r [u8])]) -> Vec<Vec<u8>> {
        let mut unique = Vec::new();
        for (name, value) in fields {
            let is_credential = FIELDS.contains(&&**name)
                || self.has_further(name.strip_prefix('?').unwrap_or(name));
            let values = is_credential.then(|| words(name, value));
            for value in values.into_iter().flatten() {
                if !unique.contains(&value) {
                    unique.push(value);
                }
                if unique.len() > MAX_CREDENTIALS {
                    return Vec::new();
                }
            }
        }
        unique
    }
}

/// Returns the words of a field's value, less the scheme of an authorization. An upstream may read only
/// the first word of several.
fn words(name: &str, value: &[u8]) -> Vec<Vec<u8>> {
    let is_parameter = name.starts_with('?');
    let decoded: Cow<'_, [u8]> =
        if is_parameter { percent_decode(value).into() } else { value.into() };
    let ends_word = |byte: &u8| match byte {
        b',' => true,
        b'+' => is_parameter,
        byte => byte.is_ascii_whitespace(),
    };
    let words = decoded.split(ends_word).filter(|word| !word.is_empty());
    let mut words: Vec<&[u8]> = words.collect();
    if words.len() < 2 || !name.contains("auth") {
        return words.into_iter().map(<[u8]>::to_vec).collect();
    }
    let scheme = words.remove(0);
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return words.into_iter().map(<[u8]>::to_vec).collect();
    }
    words.into_iter().flat_map(name_and_password).collect()
}

/// Returns the name and the password of a `Basic` credential: an upstream may look at one of them only.
fn name_and_password(encoded: &[u8]) -> Vec<Vec<u8>> {
    let Ok(decoded) = BASE64.decode(encoded) else {
        return vec![encoded.to_vec()];
    };
    let parts = decoded.splitn(2, |byte| *byte == b':');
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(fields: &[(&'static str, &'static str)]) -> Vec<String> {
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| (Cow::Borrowed(*name), value.as_bytes())).collect();
        let further = CredentialFields::new(&["X-Own".into()]);
        let values = further.values(&fields).into_iter();
        values.map(|value| String::from_utf8(value).unwrap()).collect()
    }

    #[test]
    fn a_credential_is_the_same_in_every_form_and_field() {
        for field in [
            ("authorization", "Bearer KEY"),
            ("authorization", "bEaReR \t KEY "),
            ("authorization", "KEY"),
            ("x-api-key", " KEY"),
            ("?key", "K%45Y"),
            ("?key", "+KEY%20"),
            ("x-own", "KEY"),
            ("?x-own", "KEY"),
        ] {
            assert_eq!(values(&[field]), ["KEY"], "{field:?}");
        }
        let both = [("authorization", "Bearer KEY"), ("x-api-key", "KEY")];
        assert_eq!(values(&both), ["KEY"]);
    }

    /// An upstream may read the last of them, so a share for the first ones would be made up.
    #[test]
    fn a_flood_of_credentials_counts_as_none() {
        let many: Vec<String> = (0..=MAX_CREDENTIALS).map(|it| it.to_string()).collect();
        let many: &'static str = many.join(" ").leak();
        let fields = [("api-key", many), ("authorization", "Bearer KEY")];
        assert!(values(&fields).is_empty());
    }

    #[test]
    fn what_varies_next_to_a_credential_hides_it_nowhere() {
        for fields in [
            &[("authorization", "Bearer KEY 1")][..],
            &[("authorization", "Bearer KEY,1")],
            &[("authorization", "Bearer KEY"), ("x-api-key", "1")],
            &[("authorization", "Bearer KEY"), ("?key", "1")],
            &[("authorization", "Basic S0VZOjE=")],
            &[("authorization", "basic S0VZOjF")],
        ] {
            assert_eq!(values(fields), ["KEY", "1"], "{fields:?}");
        }
        assert!(values(&[("x-a-token", "1"), ("x-user-id", "1")]).is_empty());
    }
}
