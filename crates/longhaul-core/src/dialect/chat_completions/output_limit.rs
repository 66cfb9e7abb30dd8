//! The output limit of a request.

use crate::conversation::OutputLimit;
use crate::dialect::bypass::Bypass;
use crate::json::scanner::{Literal, Scanner};
use crate::units::tokens::Tokens;
use serde::Deserialize;

/// Reads a limit of output tokens. Returns `None` unless the value is a non-negative integer; the
/// upstream refuses other values itself.
pub(in crate::dialect) fn read_output_limit(
    scanner: &mut Scanner<'_>,
    key: Literal,
) -> Result<Option<OutputLimit>, Bypass> {
    let span = scanner.value()?;
    let number = span.slice(scanner.text()).parse().ok();
    Ok(number.map(|tokens| OutputLimit {
        key,
        span,
        tokens: Tokens::new(tokens),
    }))
}

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
    fn a_negative_number_is_known_in_either_key() {
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
