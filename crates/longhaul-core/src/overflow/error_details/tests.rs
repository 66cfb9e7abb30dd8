//! Detection of stated errors, and normalisation of texts.

use serde_json::json;

use super::*;
use crate::overflow::stated_error::states_error;

fn check_states(expect: bool, replies: &[Value]) {
    for reply in replies {
        assert_eq!(states_error(reply, "choices"), expect, "{reply}");
    }
}

#[test]
fn recognises_errors_by_key_or_by_type() {
    check_states(
        true,
        &[
            json!({"error": {"message": "m"}}),
            json!({"error": "m"}),
            json!({"error": true}),
            json!({"error": 0}),
            json!({"errors": [{"message": "m"}]}),
            json!({"error_message": "m"}),
            json!({"error_type": "t"}),
            json!({"object": "error", "message": "m"}),
            json!({"type": "error", "message": "m"}),
            json!({"type": "response.failed", "response": {"error": {"code": "c"}}}),
            json!({"code": 1261, "message": "m"}),
            json!([{"id": 1}, {"error": "m"}]),
            json!({"Error": "m"}),
            json!({"error_msg": "m"}),
            json!({"code": 400, "msg": "m", "data": null}),
            json!({"choices": null, "base_resp": {"status_code": 2013, "status_msg": "m"}}),
            json!({"choices": [{"message": {"content": ""}, "error": {"code": 400}}]}),
        ],
    );
}

#[test]
fn an_empty_error_is_no_error() {
    check_states(
        false,
        &[
            json!({}),
            json!({"error": null}),
            json!({"error": false}),
            json!({"error": ""}),
            json!({"error": []}),
            json!({"error": {}}),
            json!({"response": {"error": null}}),
        ],
    );
}

#[test]
fn values_that_only_resemble_errors_are_no_errors() {
    check_states(
        false,
        &[
            json!(null),
            json!("error"),
            json!([]),
            json!([{"id": 1}, "error"]),
            json!({"object": "chat.completion", "id": "error"}),
            json!({"type": "message"}),
            json!({"message": "m"}),
            json!({"code": 1261}),
            json!({"code": "", "message": "m"}),
            json!({"code": 1261, "message": ""}),
            json!({"code": 0, "message": "m", "choices": []}),
            json!({"code": 200, "msg": "m", "data": {}}),
            json!({"code": "Success", "message": "m"}),
            json!({"choices": [{"message": {}}], "base_resp": {"status_code": 0}}),
            json!({"choices": [{"message": {}, "error": null}]}),
        ],
    );
}

#[test]
fn only_separators_of_thousands_are_removed_and_case_space_and_apostrophes_are_normalised() {
    for (text, expect) in [
        ("208,732 tokens", "208732 tokens"),
        ("12,345,678", "12345678"),
        ("1_048_576", "1048576"),
        ("12345,678", "12345678"),
        (" Model\u{2019}s\n\t MAXIMUM  É ", "model's maximum É"),
    ] {
        let found = String::from_utf8(normalise(text)).unwrap();
        assert_eq!(found, expect, "{text}");
    }
    let kept = "1,2345 10,2345 10,23 a,234 ,234 10,2a4 10.234 max_tokens_200";
    for text in kept.split(' ') {
        assert_eq!(normalise(text), text.as_bytes(), "{text}");
    }
}

/// Checks whether a text at one place of an envelope is read.
fn check_read(expect: bool, envelope: &Value) {
    let mut details = ErrorDetails::default();
    details.add_value(envelope);
    let found = details.texts.iter().any(|text| text == b"too long");
    assert_eq!(found, expect, "{envelope}");
}

#[test]
fn reads_details_from_every_error_envelope() {
    for envelope in [
        json!({"Message": "too long"}),
        json!({"error_msg": "too long"}),
        json!({"response": {"data": {"Error": {"msg": "too long"}}}}),
        json!({"base_resp": {"status_msg": "too long"}}),
        json!({"title": "too long"}),
        json!({"error": {"type": "too long"}}),
        json!({"choices": [{"error": {"message": "too long"}}]}),
    ] {
        check_read(true, &envelope);
    }
}

#[test]
fn reads_no_details_from_request_output_or_names() {
    for envelope in [
        json!({"choices": [{"message": {"content": "too long"}, "text": "too long"}]}),
        json!({"message": {"role": "assistant", "content": "too long"}}),
        json!({"detail": [{"input": "too long", "loc": ["body", "too long"]}]}),
        json!({"error": {"Model": "too long", "failed_generation": "too long"}}),
        json!({"request": {"body": "too long"}, "request_id": "too long"}),
    ] {
        check_read(false, &envelope);
    }
}
