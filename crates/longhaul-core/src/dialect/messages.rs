//! The dialect of `POST …/v1/messages`: the meaning of each key.

mod block;
pub(super) mod client;
mod keys;
mod reader;
pub(super) mod reply;
pub(super) mod server_tools;
pub(super) mod summary_request;
mod turns;
pub(super) mod writer;

use serde_json::json;

use crate::units::tokens::Tokens;
pub(super) use reader::read_with;
pub use reader::{has_own_shape, read};

/// End of the path, after the version of the API. Gateways serve both below a path of their own.
pub(super) const PATH: &str = "/messages";
/// [`PATH`] after the version. Other APIs have paths that end alike.
pub(super) const DISTINCT_PATH: &str = "/v1/messages";
/// End of the path that counts the tokens of a request, after [`PATH`].
pub(super) const COUNT_PATH: &str = "/count_tokens";
/// Endpoints that run models.
pub(super) const KEY_PATHS: &[&str] = &["messages", "messages/count_tokens"];
/// Key of a mark up to which the provider caches the prompt.
pub(super) const CACHE_MARK_KEY: &str = "cache_control";
/// Keys of the output limit.
pub(super) const OUTPUT_LIMIT_KEYS: &[&str] = &["max_tokens"];
/// Added to the form version, so that it differs from those of the other dialects.
pub(super) const FORM: u32 = 2 << 16;
/// Lowest output limit that longhaul sets: the floor at which Claude Code compacts instead.
pub(super) const MIN_OUTPUT: Tokens = Tokens::new(3_000);

/// Formats the body of an error reply, with members in the order that the API uses. The API's own
/// errors have no `code`.
pub(super) fn error_body(status: u16, code: &str, message: &str) -> Vec<u8> {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let error = json!({"type": kind, "message": message, "code": code});
    json!({"type": "error", "error": error})
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_type_of_its_status() {
        let error = |status| String::from_utf8(error_body(status, "c", "say \"x\"")).unwrap();
        let expect =
            r#"{"type":"error","error":{"type":"api_error","message":"say \"x\"","code":"c"}}"#;
        assert_eq!(error(502), expect);
        for (status, kind) in [
            (400, "invalid_request_error"),
            (413, "request_too_large"),
            (429, "rate_limit_error"),
            (504, "timeout_error"),
        ] {
            assert!(error(status).contains(kind), "{status}");
        }
    }
}
