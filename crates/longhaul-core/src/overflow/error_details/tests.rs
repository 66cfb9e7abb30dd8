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
fn an_error_stands_under_a_key_of_errors_or_in_a_type() {
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
fn an_error_that_says_nothing_is_none() {
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
fn what_only_looks_like_an_error_is_none() {
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

fn check_normalised(text: &str, expect: &str) {
    let found = String::from_utf8(normalise(text)).unwrap();
    assert_eq!(found, expect, "{text}");
}

#[test]
fn a_separator_of_thousands_is_no_part_of_a_number() {
    check_normalised("208,732 tokens", "208732 tokens");
    check_normalised("12,345,678", "12345678");
    check_normalised("1_048_576", "1048576");
    check_normalised("12345,678", "12345678");
}

#[test]
fn a_separator_of_anything_else_stays() {
    check_normalised("1,2345", "1,2345");
    check_normalised("10,2345", "10,2345");
    check_normalised("10,23", "10,23");
    check_normalised("a,234", "a,234");
    check_normalised(",234", ",234");
    check_normalised("10,2a4", "10,2a4");
    check_normalised("10.234", "10.234");
    check_normalised("max_tokens_200", "max_tokens_200");
}

#[test]
fn case_space_and_curled_apostrophes_make_no_difference() {
    check_normalised(" Model\u{2019}s\n\t MAXIMUM  É ", "model's maximum É");
}

/// Checks whether a text at one place of an envelope is read.
fn check_read(expect: bool, envelope: &Value) {
    let mut details = ErrorDetails::default();
    details.add_value(envelope);
    let found = details.texts.iter().any(|text| text == b"too long");
    assert_eq!(found, expect, "{envelope}");
}

#[test]
fn an_envelope_is_walked_whatever_its_keys() {
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
fn neither_the_request_nor_the_output_nor_a_name_is_read() {
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
