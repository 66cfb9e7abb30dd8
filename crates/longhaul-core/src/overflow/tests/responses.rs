//! Replies of the Responses API, read in their own dialect.

use crate::dialect::Dialect;
use crate::dialect::reply::FinishReason;
use crate::overflow::tests::shadow::facts_of;
use crate::overflow::tests::unseen::{LARGE, Reply, fixture, judge_in};
use crate::overflow::{ClassifierRules, Overflow, ReplyTail, Verdict};

/// Judges a reply in chunks of `size` bytes, as the proxy does.
fn judge(reply: &Reply, size: usize) -> Verdict {
    let tokens = reply.requested_tokens.unwrap_or(LARGE.tokens);
    let facts = facts_of(tokens);
    judge_in(Dialect::Responses, reply.status, reply.body(), facts, size)
}

/// Replies that state how much was requested, and only one part of the sum.
const OPEN_STATEMENTS: [&str; 2] =
    ["openrouter responses stream", "openrouter responses, failed object with error_type"];

#[test]
fn every_recorded_reply_has_its_verdict_in_any_chunking() {
    for reply in fixture!("reports/responses_overflow.jsonl") {
        let verdict = judge(&reply, usize::MAX);
        let is_right = match &*reply.action {
            "compact" | "compact_if_near_limit" | "floor_decide_by_estimate" => {
                matches!(verdict, Verdict::Overflow(_))
            }
            "shrink_max_tokens" => matches!(verdict, Verdict::OutputTooLarge { .. }),
            "bug_in_editor" => verdict == Verdict::Malformed,
            "shrink_item" => matches!(verdict, Verdict::TextTooLong { characters: 10_485_760 }),
            "deliver_and_mark_full"
            | "silent_truncation_check"
            | "mark_full_no_retry"
            | "pass_through" => {
                !matches!(verdict, Verdict::Overflow(_) | Verdict::OutputTooLarge { .. })
                    || reply.overflow
            }
            other => panic!("{other}"),
        };
        assert!(is_right, "{} {} {verdict:?} {:?}", reply.who, reply.action, reply.body);
        if let (Verdict::Overflow(overflow), "compact") = (verdict, &*reply.action) {
            let Overflow { limit, used, output, .. } = overflow;
            assert_eq!(limit, reply.limit_tokens, "{}", reply.who);
            // Some statements count the output too, and one wording leaves open whether it does.
            let requested = used.map(|used| used + output.unwrap_or_default());
            let is_open = OPEN_STATEMENTS.contains(&&*reply.who);
            let expect = reply.requested_tokens.filter(|_| !is_open);
            assert_eq!(requested, expect, "{}", reply.who);
        }
        for size in [1, 7, 100] {
            assert_eq!(judge(&reply, size), verdict, "{} {size}", reply.who);
        }
    }
}

#[test]
fn the_end_of_a_recorded_stream_shows_a_full_window() {
    for reply in fixture!("reports/responses_overflow.jsonl") {
        let mut tail = ReplyTail::new(Dialect::Responses);
        tail.push(reply.body().as_bytes());
        let end = tail.finish(ClassifierRules::standard(), None);
        match &*reply.action {
            "mark_full_no_retry" => {
                assert!(matches!(end.verdict, Verdict::Overflow(_)), "{}", reply.who);
            }
            "deliver_and_mark_full" => {
                assert_eq!(end.finish, Some(FinishReason::Length), "{}", reply.who);
                assert!(end.usage.is_some_and(|usage| usage.output.is_some()));
            }
            _ => {}
        }
    }
}

/// A reply that repeats a request in which every text quotes an error.
fn quoting(event: &str) -> String {
    let error =
        "Error: Your input exceeds the context window of this model. context_length_exceeded";
    let echo = format!(
        r#""instructions":"{error}","tools":[{{"type":"function","name":"f","description":"{error}"}}],"metadata":{{"error":"{error}"}},"text":{{"format":{{"type":"text","description":"{error}"}}}},"prompt":{{"id":"{error}"}}"#
    );
    event.replace("ECHO", &echo)
}

#[test]
fn request_text_echoed_in_a_reply_is_not_an_overflow() {
    let item =
        r#"{"type":"message","content":[{"type":"output_text","text":"context_length_exceeded"}]}"#;
    for body in [
        r#"{"object":"response","status":"completed","error":null,ECHO,"output":[],"usage":{"input_tokens":9,"output_tokens":3}}"#.to_owned(),
        format!(r#"{{"object":"response","status":"completed","error":null,ECHO,"output":[{item}]}}"#),
        "data: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\",\"error\":null,ECHO}}\n\ndata: {\"type\":\"response.output_item.added\",\"item\":{}}\n\n".to_owned(),
        "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"Slow down.\"},ECHO}}\n\n".to_owned(),
        r#"{"object":"response","status":"failed","error":{"code":"server_error","message":"An error occurred."},ECHO,"output":[]}"#.to_owned(),
    ] {
        let facts = facts_of(LARGE.tokens);
        let verdict = judge_in(Dialect::Responses, 200, &quoting(&body), facts, usize::MAX);
        assert!(matches!(verdict, Verdict::Fine | Verdict::Failed), "{verdict:?} {body}");
    }
}
