//! Wishes in a request's own headers: texts to keep in its conversation, and texts to take back.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode;

use crate::store::KeptTexts;

const KEEP: HeaderName = HeaderName::from_static("x-longhaul-keep");
const UNKEEP: HeaderName = HeaderName::from_static("x-longhaul-unkeep");

pub(crate) fn are_present(headers: &HeaderMap) -> bool {
    headers.contains_key(KEEP) || headers.contains_key(UNKEEP)
}

/// Applies the wishes of a request to the texts of its conversation. A text that is not valid, or exceeds a
/// bound, is left out.
pub(crate) fn apply(headers: &HeaderMap, kept: &mut KeptTexts) {
    for value in headers.get_all(UNKEEP) {
        if let Some(text) = text(value) {
            kept.take_back(&text, false);
        }
    }
    for value in headers.get_all(KEEP) {
        let is_kept = text(value).is_some_and(|text| kept.keep(&text, false).is_ok());
        if !is_kept {
            tracing::debug!("ignoring x-longhaul-keep: no text, or beyond the bounds");
        }
    }
}

/// Decodes a value: UTF-8, where `%0A` and the like stand for bytes.
fn text(value: &HeaderValue) -> Option<Cow<'_, str>> {
    percent_decode(value.as_bytes()).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(fields: &[(HeaderName, &[u8])]) -> Vec<String> {
        let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).unwrap();
        let fields = fields.iter();
        let headers: HeaderMap = fields.map(|(name, bytes)| (name.clone(), value(bytes))).collect();
        let mut kept = KeptTexts::default();
        kept.keep("old", false).unwrap();
        kept.keep("wish", true).unwrap();
        apply(&headers, &mut kept);
        kept.texts().iter().map(|kept| kept.text.clone()).collect()
    }

    #[test]
    fn headers_add_and_take_back_texts_in_utf_8_plain_or_encoded() {
        let keep = |text: &'static str| (KEEP, text.as_bytes());
        assert_eq!(
            applied(&[keep("n\u{e9}ver"), keep("a%0Ab 100%"), keep("n%C3%A9ver")]),
            ["old", "wish", "n\u{e9}ver", "a\nb 100%"]
        );
        let taken = [(UNKEEP, &b"wi%73h"[..]), (UNKEEP, b"other"), keep("new")];
        assert_eq!(applied(&taken), ["old", "new"]);
        let wrong = [(KEEP, &b"\xff"[..]), (KEEP, b"%FF"), (KEEP, b"%00"), (KEEP, b" ")];
        assert_eq!(applied(&wrong), ["old", "wish"]);
    }
}
