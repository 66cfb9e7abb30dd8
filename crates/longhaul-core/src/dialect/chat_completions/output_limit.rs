//! The output limit of a request.

use serde::Deserialize;

/// See [`Dialect::has_negative_output_limit`](crate::dialect::Dialect::has_negative_output_limit).
pub(in crate::dialect) fn is_negative(body: &str) -> bool {
    #[derive(Deserialize)]
    struct OutputLimits {
        max_completion_tokens: Option<i64>,
        max_tokens: Option<i64>,
    }
    let limits: Option<OutputLimits> = serde_json::from_str(body).ok();
    limits.is_some_and(|limits| {
        let numbers = [limits.max_completion_tokens, limits.max_tokens];
        numbers.into_iter().flatten().any(i64::is_negative)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_a_negative_limit_in_either_key() {
        for (body, expect) in [
            (r#"{"messages":[],"max_tokens":-7232}"#, true),
            (r#"{"max_tokens":null,"max_completion_tokens" : -1}"#, true),
            (r#"{"max_tokens":7232}"#, false),
            (r#"{"max_tokens":0.5}"#, false),
            (r#"{"metadata":{"max_tokens":-1}}"#, false),
            ("{}", false),
            ("", false),
        ] {
            assert_eq!(is_negative(body), expect, "{body}");
        }
    }
}
