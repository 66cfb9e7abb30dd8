//! The output limit of a request.

use serde::Deserialize;

/// See [`Dialect::has_negative_output_limit`](crate::dialect::Dialect::has_negative_output_limit).
pub(in crate::dialect) fn is_negative(body: &str) -> bool {
    #[derive(Deserialize)]
    struct OutputLimit {
        max_tokens: Option<i64>,
    }
    let limit: Option<OutputLimit> = serde_json::from_str(body).ok();
    let limit = limit.and_then(|limit| limit.max_tokens);
    limit.is_some_and(i64::is_negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_a_negative_limit() {
        for (body, expect) in [
            (r#"{"messages":[],"max_tokens":-7232}"#, true),
            (r#"{"max_tokens":7232}"#, false),
            (r#"{"max_tokens":null}"#, false),
            (r#"{"metadata":{"max_tokens":-1}}"#, false),
            ("", false),
        ] {
            assert_eq!(is_negative(body), expect, "{body}");
        }
    }
}
