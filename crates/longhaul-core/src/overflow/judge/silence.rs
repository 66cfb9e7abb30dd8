//! Errors that say nothing but that there is an error.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::error_details::ErrorDetails;
use crate::overflow::judge::vetoes::compile;

/// Texts and codes that every refusal may carry.
const GENERIC: &str = r"(?x)^[\W_]*(?:
    (?:an?\ )? (?:(?:unknown|unexpected|upstream|provider|api|client|server|generic|http|internal)[\ _-]?)*
        (?:error|exception|failure|failed) (?:\ (?:occurred|from\ (?:provider|upstream)))?
    | (?:provider|upstream|server|backend) \ returned \ (?:an?\ )? error
    | (?:the\ )? (?:request|completion|generation|call) \ (?:has\ )? (?:failed|rejected|refused|(?:is|was)\ (?:rejected|refused|invalid))
    | (?:http\ )? bad [\ _-]? request (?:[\ _-]? error)?
    | invalid [\ _-]? request (?:[\ _-]? (?:error|data|body))?
    | unprocessable (?:[\ _-]? (?:entity|content))?
    | (?:error|invalid|failed|failure|unknown|null|none|false|fail)
    | (?:bad\ )? (?:response\ )? (?:status) (?:\ code)?
    )?
    (?:[\W_]* (?:(?:with\ )?(?:status\ )?(?:code:?\ )? (?:400|413|422)) (?:\ (?:bad\ request|unprocessable\ (?:entity|content)))? )?
    [\W_]*$";

/// Whether an error says nothing about its cause. A parameter that the error names is a cause.
pub(super) fn says_nothing(details: &ErrorDetails) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| compile(GENERIC));
    details.params.is_empty()
        && !details.is_cut_off()
        && details.texts_and_codes().all(|text| PATTERN.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&str], expect: bool) {
        let mut details = ErrorDetails::default();
        for text in texts {
            details.add_text(text);
        }
        assert_eq!(says_nothing(&details), expect, "{texts:?}");
    }

    #[test]
    fn a_bare_error_says_nothing() {
        for text in [
            "",
            "Bad Request",
            "400 Bad Request",
            "Error",
            "Provider returned error",
            "An unknown error occurred",
            "Request failed with status code 400",
            "upstream error: 400",
            "invalid_request_error",
            "BadRequestError",
            "internal_error",
            "Invalid request.",
            "error code: 400",
        ] {
            check(&[text], true);
        }
        check(&["Bad Request", "bad_request"], true);
    }

    #[test]
    fn a_cause_is_something() {
        for text in [
            "invalid request: messages must alternate",
            "model not found",
            "Invalid value for temperature",
            "Bad Request: tools",
            "503",
            "schema",
        ] {
            check(&[text], false);
        }
        check(&["Bad Request", "unsupported_value"], false);
    }
}
