//! Extracts the HTTP status that an error in the body of a successful reply corresponds to.

use std::borrow::Cow;

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Statuses for codes and types given as words. Only rate limits and overload matter to the caller.
const STATUS_KEYWORDS: [(&str, StatusCode); 5] = [
    ("overloaded", StatusCode::SERVICE_UNAVAILABLE),
    ("quota", StatusCode::TOO_MANY_REQUESTS),
    ("rate_limit", StatusCode::TOO_MANY_REQUESTS),
    ("throttl", StatusCode::TOO_MANY_REQUESTS),
    ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
];

/// The members of an error that may state a status.
#[derive(Deserialize)]
struct Stated<'a> {
    #[serde(default, borrow)]
    code: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "type")]
    kind: Option<&'a RawValue>,
}

pub(super) fn from_error_json(error: &str) -> Option<StatusCode> {
    // serde would read an array by position.
    let object = error.starts_with('{').then_some(error)?;
    let Stated { code, kind } = serde_json::from_str(object).ok()?;
    [code, kind].into_iter().flatten().find_map(parse_status)
}

/// Maps a number, quoted or not, or a keyword to a status.
fn parse_status(code: &RawValue) -> Option<StatusCode> {
    let text: Cow<'_, str> =
        serde_json::from_str(code.get()).unwrap_or_else(|_| Cow::Borrowed(code.get()));
    if let Ok(number) = text.parse() {
        let status = StatusCode::from_u16(number).ok();
        return status.filter(|status| status.is_client_error() || status.is_server_error());
    }
    let text = text.to_ascii_lowercase();
    let mut known = STATUS_KEYWORDS.iter();
    let (_, status) = known.find(|(word, _)| text.contains(word))?;
    Some(*status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: &str, expect: Option<u16>) {
        let found = from_error_json(error).map(|status| status.as_u16());
        assert_eq!(found, expect, "{error}");
    }

    #[test]
    fn error_code_or_type_determines_its_status() {
        check(r#"{"code":429,"message":"Rate limited"}"#, Some(429));
        check(r#"{"code":"402"}"#, Some(402));
        check(r#"{"code":null,"type":"rate_limit_error"}"#, Some(429));
        check(r#"{"type":"overloaded_error","message":"m"}"#, Some(503));
        check(r#"{"code":"Throttling.AllocationQuota"}"#, Some(429));
        check(r#"{"code":"api_error","type":"insufficient_quota"}"#, Some(429));
        for unknown in [
            r#"{"code":200}"#,
            r#"{"code":1261}"#,
            r#"{"code":99999999}"#,
            r#"{"code":{"a":[429]}}"#,
            r#"{"message":"429"}"#,
            r#""429""#,
            "true",
            "[]",
            "[429]",
        ] {
            check(unknown, None);
        }
    }
}
