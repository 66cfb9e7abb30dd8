//! Decisive numbers, each at the last value on either side of the bound.

use serde_json::{Value, json};

use crate::overflow::tests::read;
use crate::overflow::{Overflow, Verdict};

const WORDS: &str = "prompt is too long";

fn is_overflow(status: u16, body: &Value) -> bool {
    let verdict = read(status, [body.to_string().as_bytes()]);
    matches!(verdict, Verdict::Overflow(_))
}

/// Returns the verdict on a window, a prompt and a requested output.
fn weighed(limit: u32, input: u32, output: u32) -> Verdict {
    let message = format!(
        "You passed {input} input tokens and requested {output} output tokens. However, the model's context length is only {limit} tokens"
    );
    let body = json!({ "message": message }).to_string();
    read(400, [body.as_bytes()])
}

fn overflow(limit: u32, used: Option<u32>, output: u32) -> Verdict {
    Verdict::Overflow(Overflow { output: Some(output), ..Overflow::stated(Some(limit), used) })
}

fn smaller(limit: u32, input: Option<u32>, output: u32) -> Verdict {
    Verdict::OutputTooLarge { limit, input, output }
}

#[test]
fn a_prompt_that_fits_alone_makes_the_output_too_large() {
    for (input, output, expect) in [
        (999, 500, smaller(1000, Some(999), 500)),
        (1000, 500, overflow(1000, Some(1000), 500)),
        // The sum fits.
        (500, 500, overflow(1000, Some(500), 500)),
        (999, u32::MAX, smaller(1000, Some(999), u32::MAX)),
        // The sum exceeds the limit by one: the upstream stopped counting.
        (501, 500, overflow(1000, None, 500)),
        (502, 500, smaller(1000, Some(502), 500)),
        // The output alone fills the window.
        (1, 1000, smaller(1000, None, 1000)),
        (2, 999, overflow(1000, None, 999)),
    ] {
        assert_eq!(weighed(1000, input, output), expect, "{input} {output}");
    }
}

#[test]
fn statuses_below_400_are_no_refusals() {
    let body = json!({ "message": WORDS });
    assert!(is_overflow(400, &body) && !is_overflow(399, &body));
}

#[test]
fn reads_at_most_sixteen_nested_levels() {
    let mut body = json!({ "message": WORDS });
    for _ in 0..7 {
        body = json!({ "error": body.to_string() });
    }
    assert!(is_overflow(400, &body));
    assert!(is_overflow(400, &json!([body])));
    assert!(!is_overflow(400, &json!([[body]])));
}

#[test]
fn reads_at_most_sixteen_objects_in_one_text() {
    let is_overflow_behind = |objects: usize| {
        let inner = json!({ "code": "tokens_limit_reached" });
        let text = format!("upstream said {}{inner}", r#"{"id":1} "#.repeat(objects));
        matches!(read(400, [text.as_bytes()]), Verdict::Overflow(_))
    };
    assert!(is_overflow_behind(15) && !is_overflow_behind(16));
}

#[test]
fn reads_at_most_sixteen_elements_of_an_array() {
    let among = |before: usize| {
        let mut errors = vec![json!({ "message": "no" }); before];
        errors.push(json!({ "message": WORDS }));
        json!({ "errors": errors })
    };
    assert!(is_overflow(400, &among(15)) && !is_overflow(400, &among(16)));
    let among = |before: usize| {
        let mut errors = vec![json!({ "id": 1 }); before];
        errors.push(json!({ "error": { "message": WORDS } }));
        Value::from(errors)
    };
    assert!(is_overflow(200, &among(15)) && !is_overflow(200, &among(16)));
}

#[test]
fn tries_at_most_four_positions_of_a_text_for_json() {
    let behind = |openings: usize| {
        let inner = json!({ "code": "tokens_limit_reached" });
        json!({ "error": format!("{}{inner}", "{ ".repeat(openings)) })
    };
    assert!(is_overflow(400, &behind(3)) && !is_overflow(400, &behind(4)));
}

#[test]
fn keeps_at_most_64_texts_and_64_codes() {
    for (key, filler, last) in [("message", "no", WORDS), ("code", "no", "tokens_limit_reached")] {
        let behind = |before: usize| {
            let all: Vec<Value> =
                (0..before).map(|_| json!({ key: filler })).chain([json!({ key: last })]).collect();
            let groups: Vec<Value> = all.chunks(16).map(|group| json!(group)).collect();
            Value::from(groups)
        };
        assert!(is_overflow(400, &behind(63)) && !is_overflow(400, &behind(64)));
    }
}

#[test]
fn reads_at_most_four_kibibytes_of_a_text() {
    let at_the_end = |bytes: usize| {
        let filler = "x".repeat(bytes - WORDS.len() - 1);
        json!({ "message": format!("{filler} {WORDS}") })
    };
    assert!(is_overflow(400, &at_the_end(4096)) && !is_overflow(400, &at_the_end(4097)));
}
