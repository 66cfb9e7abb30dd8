//! The output limit of a request.

use serde::Deserialize;

/// See [`Dialect::has_negative_output_limit`](crate::dialect::Dialect::has_negative_output_limit).
pub(in crate::dialect) fn is_negative(body: &str) -> bool {
    #[derive(Deserialize)]
    struct OutputLimit {
        max_output_tokens: Option<i64>,
    }
    let limit: Option<OutputLimit> = serde_json::from_str(body).ok();
    let number = limit.and_then(|limit| limit.max_output_tokens);
    number.is_some_and(i64::is_negative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_limit_is_found_at_the_top_only() {
        for (body, expect) in [
            (r#"{"input":"a","max_output_tokens":-7}"#, true),
            (r#"{"input":"a","max_output_tokens":7}"#, false),
            (r#"{"input":[{"max_output_tokens":-7}]}"#, false),
            ("", false),
        ] {
            assert_eq!(is_negative(body), expect, "{body}");
        }
    }
}
