//! Precedence of facts stated at the beginning, in the middle and at the end of a stream.

use super::*;

/// Creates a chunk without content that states `reason`.
fn ended(reason: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reason}"}}]}}"#)
}

const ROLE: &str = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
const PIECE: &str = r#"{"choices":[{"delta":{"content":"word"},"finish_reason":null}]}"#;

/// Reads a stream that begins with the events `first`, ends with `last`, and has `between` among
/// many pieces of text.
fn told(first: &[&str], between: &[&str], last: &[&str]) -> ReplyEnd {
    let pieces = [PIECE; 5].as_slice();
    let reply = stream(&[first, pieces, between, pieces, last].concat());
    assert!(reply.len() < TAIL_BYTES, "its beginning is kept");
    read(reply.as_bytes(), 50)
}

fn check_finish(first: &str, between: &str, last: &str, expect: FinishReason) {
    let found = told(&[first], &[between], &[last, "[DONE]"]).finish;
    assert_eq!(found, Some(expect), "{first} {between} {last}");
}

#[test]
fn the_last_finish_reason_wins_at_any_position() {
    let (length, stop) = (&ended("length"), &ended("stop"));
    check_finish(length, PIECE, PIECE, FinishReason::Length);
    check_finish(PIECE, length, PIECE, FinishReason::Length);
    check_finish(PIECE, PIECE, length, FinishReason::Length);
    check_finish(stop, length, PIECE, FinishReason::Length);
    check_finish(length, PIECE, stop, FinishReason::Stop);
    check_finish(PIECE, length, stop, FinishReason::Stop);
    check_finish(length, stop, PIECE, FinishReason::Stop);
}

#[test]
fn a_full_window_overrides_later_finish_reasons() {
    let (full, stop) = (&ended("model_context_window_exceeded"), &ended("stop"));
    check_finish(full, PIECE, stop, FinishReason::WindowFull);
    check_finish(PIECE, full, stop, FinishReason::WindowFull);
    check_finish(stop, PIECE, full, FinishReason::WindowFull);
    check_finish(stop, full, stop, FinishReason::WindowFull);
}

#[test]
fn content_is_detected_after_empty_events() {
    let reply = told(&[ROLE; 3], &[], &[&ended("stop"), ROLE, ROLE, "[DONE]"]);
    assert_eq!(reply, reply_end(None, Some(FinishReason::Stop), Verdict::Fine));
}

#[test]
fn a_reply_with_generated_tokens_has_content() {
    let said = |generated: u32| {
        let counts = format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":9,"completion_tokens":{generated}}}}}"#
        );
        read(stream(&[ROLE, &counts, "[DONE]"]).as_bytes(), 50).has_content
    };
    assert!(said(2) && !said(1));
}

fn check_error(event: &str, expect: Verdict) {
    let reply = format!("{}{event}{}", stream(&[CONTENT]), stream(&["[DONE]"]));
    check(event, &reply, reply_end(None, None, expect));
}

#[test]
fn an_error_after_content_is_recognised_by_event_name_or_shape() {
    let says = r#""message":"prompt is too long: 208732 tokens > 200000 maximum""#;
    check_error(&format!("event: error\ndata: {{{says}}}\n\n"), overflow());
    check_error(&format!("event: message\ndata: {{{says}}}\n\n"), Verdict::Fine);
    check_error(&format!("data: {{\"error\":{{{says}}}}}\n\n"), overflow());
    check_error(&format!("data: [{{\"code\":1261,{says}}}]\n\n"), overflow());
    check_error(&format!("data: {{{says}}}\n\n"), Verdict::Fine);
    let failed = format!(r#"{{"type":"response.failed","response":{{"error":{{{says}}}}}}}"#);
    check_error(&format!("data: {failed}\n\n"), overflow());
}
