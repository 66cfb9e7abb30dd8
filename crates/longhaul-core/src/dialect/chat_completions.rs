//! The dialect of `POST …/chat/completions`: the meaning of each key.

pub(super) mod bound_thinking;
mod keys;
mod reader;
pub(super) mod reply;
pub(super) mod summary_request;
pub(super) mod writer;

use serde_json::json;

use crate::units::tokens::Tokens;
pub use reader::read;
pub(super) use reader::read_with;

/// End of the path. Azure and gateways serve chats under longer paths.
pub(super) const PATH: &str = "/chat/completions";
/// Endpoints that run models. Stored chats belong to the account.
pub(super) const KEY_PATHS: &[&str] = &["chat/completions"];
/// Key of a mark up to which the provider caches the prompt.
pub(super) const CACHE_MARK_KEY: &str = "cache_control";
/// Keys of the output limit.
pub(super) const OUTPUT_LIMIT_KEYS: &[&str] = &["max_tokens", "max_completion_tokens"];
/// Lowest output limit that longhaul sets.
pub(super) const MIN_OUTPUT: Tokens = Tokens::new(1_024);

/// Formats the body of an error reply, with members in the order that the API uses.
pub(super) fn error_body(status: u16, code: &str, message: &str) -> Vec<u8> {
    let kind = if status < 500 {
        "invalid_request_error"
    } else {
        "proxy_error"
    };
    let error = json!({"message": message, "type": kind, "param": null, "code": code});
    json!({ "error": error }).to_string().into_bytes()
}
