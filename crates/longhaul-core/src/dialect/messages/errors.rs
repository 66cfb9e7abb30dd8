//! Error replies in the format of the API.

use serde_json::json;

/// Formats the body of an error reply, with members in the order that the API uses. The API's own
/// errors have no `code`.
pub(in crate::dialect) fn body(status: u16, code: &str, message: &str) -> Vec<u8> {
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
        let error = |status| String::from_utf8(body(status, "c", "say \"x\"")).unwrap();
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
