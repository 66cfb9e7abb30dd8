//! Error replies in the format of the API.

use serde_json::json;

/// Formats the body of an error reply, with members in the order that the API uses.
pub(in crate::dialect) fn body(status: u16, code: &str, message: &str) -> Vec<u8> {
    let kind = if status < 500 {
        "invalid_request_error"
    } else {
        "proxy_error"
    };
    let error = json!({"message": message, "type": kind, "param": null, "code": code});
    json!({ "error": error }).to_string().into_bytes()
}
