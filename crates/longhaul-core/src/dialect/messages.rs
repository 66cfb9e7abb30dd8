//! The dialect of `POST …/v1/messages`: the meaning of each key.

mod block;
mod client;
pub(super) mod clouds;
mod keys;
mod reader;
pub(super) mod reply;
pub(super) mod server_tools;
pub(super) mod summary_request;
mod turns;

use serde_json::json;

use crate::dialect::chat_completions;
pub(super) use crate::dialect::chat_completions::writer;
use crate::dialect::facts::DialectFacts;
use crate::units::tokens::Tokens;
pub(super) use reader::has_own_blocks;
pub(super) use reader::read_with;
pub use reader::{has_own_shape, read};

/// End of the path, after the version of the API. Gateways serve both below a path of their own.
const PATH: &str = "/messages";
/// [`PATH`] after the version. Other APIs have paths that end alike.
const DISTINCT_PATH: &str = "/v1/messages";
/// End of the path that counts the tokens of a request, after [`PATH`].
pub(super) const COUNT_PATH: &str = "/count_tokens";

pub(super) static FACTS: DialectFacts = DialectFacts {
    path: PATH,
    distinct_path: DISTINCT_PATH,
    key_paths: &["messages", "messages/count_tokens", "model/*"],
    required_headers: client::REQUIRED_HEADERS,
    compaction_header: Some(client::COMPACTION_HEADER),
    key_header: Some(client::KEY_HEADER),
    may_have_own_upstream: true,
    form: 2 << 16,
    // Clients have to state an output limit, and state the same limit each time.
    output_limit_keys: &["max_tokens"],
    // The floor at which Claude Code compacts instead.
    min_output: Tokens::new(3_000),
    allows_user_behind_instructions: false,
    marks_results: true,
    call_signature: None,
    answer_key: "content",
    content_keys: "data name text thinking tool_use_id",
    counts_prompt_first: true,
    ..chat_completions::FACTS
};

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
    json!({"type": "error", "error": error}).to_string().into_bytes()
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
