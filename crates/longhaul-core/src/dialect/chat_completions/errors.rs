//! Error replies in the format of the API.

use serde::Serialize;

/// Error reply of the `OpenAI` API, with members in the order that the API uses.
#[derive(Serialize)]
struct ErrorEnvelope<'a> {
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    param: Option<&'a str>,
    code: &'a str,
}

/// Formats the body of an error reply.
pub(in crate::dialect) fn body(status: u16, code: &str, message: &str) -> Vec<u8> {
    let error = ErrorObject {
        message,
        kind: if status < 500 {
            "invalid_request_error"
        } else {
            "proxy_error"
        },
        param: None,
        code,
    };
    // The value holds nothing but text, so serialising cannot fail.
    serde_json::to_vec(&ErrorEnvelope { error }).unwrap_or_default()
}
