//! Recorded replies of the Messages API, by the action that each one calls for.

use crate::dialect::Dialect;
use crate::dialect::reply::FinishReason;
use crate::overflow::tests::unseen::{LARGE, Reply, fixture, judge_in};
use crate::overflow::{ClassifierRules, Overflow, ReplyTail, RequestFacts, Verdict};

fn recorded() -> Vec<Reply> {
    fixture!("reports/messages_overflow.jsonl")
}

/// Judges an answer to a request of `tokens` tokens.
fn judge_answer(status: u16, body: &str, tokens: u32) -> Verdict {
    let facts = RequestFacts { tokens, body_tokens: tokens, window: Some(tokens), ..LARGE };
    judge_in(Dialect::Messages, status, body, facts, usize::MAX)
}

fn judge(reply: &Reply) -> Verdict {
    let above = reply.limit_tokens.map(|limit| limit / 8 * 9);
    let tokens = reply.requested_tokens.or(above).unwrap_or(LARGE.tokens);
    judge_answer(reply.status, reply.body(), tokens)
}

#[test]
fn every_reply_leads_to_its_action() {
    // The request decides about the answer to a client's own order to compact: it is never changed.
    let is_own = |reply: &Reply| reply.who.starts_with("client's own compaction");
    for reply in recorded().into_iter().filter(|reply| !is_own(reply)) {
        let verdict = judge(&reply);
        let is_output = matches!(verdict, Verdict::OutputTooLarge { .. });
        let is_overflow = matches!(verdict, Verdict::Overflow(_));
        let is_right = match &*reply.action {
            "compact" | "compact_if_near_limit" | "floor_decide_by_estimate" => {
                // The retry compacts if too little room is left for an output.
                is_overflow || is_output && reply.who.contains("room too small")
            }
            "retry_without_stale_thinking" => verdict == Verdict::StaleThinking,
            "compact_bytes" => matches!(verdict, Verdict::BodyTooLarge(_)),
            "shrink_item" => verdict == Verdict::TooMuchMedia,
            "shrink_max_tokens" => is_output || is_overflow,
            // Either leads back to the original.
            "bug_in_editor" => matches!(verdict, Verdict::Malformed | Verdict::Unexplained(_)),
            _ => !is_output && !is_overflow && !matches!(verdict, Verdict::BodyTooLarge(_)),
        };
        assert!(is_right, "{}: {}, {verdict:?}", reply.who, reply.action);
    }
}

#[test]
fn stated_limits_of_refusals_are_read() {
    let states_both = |reply: &&Reply| {
        let body = reply.body();
        let states = |number: Option<u32>| number.is_some_and(|it| body.contains(&it.to_string()));
        reply.action == "compact" && states(reply.limit_tokens)
    };
    let all = recorded();
    let stated: Vec<&Reply> = all.iter().filter(states_both).collect();
    assert!(stated.len() > 10);
    for reply in stated {
        let limit = match judge(reply) {
            Verdict::Overflow(overflow) => overflow.limit,
            Verdict::OutputTooLarge { limit, .. } => Some(limit),
            Verdict::Failed
            | Verdict::Fine
            | Verdict::Malformed
            | Verdict::StaleThinking
            | Verdict::TextTooLong { .. }
            | Verdict::BodyTooLarge(_)
            | Verdict::TooMuchMedia
            | Verdict::OutputAboveCap(_)
            | Verdict::Unexplained(_) => None,
        };
        assert_eq!(limit, reply.limit_tokens, "{}", reply.who);
    }
}

#[test]
fn a_full_window_is_recognised_at_the_end_of_a_reply() {
    let full = recorded();
    let says_so = |it: &&Reply| it.body().contains(FinishReason::WINDOW_FULL);
    let full = full.iter().filter(|it| it.action == "mark_full_no_retry");
    let full = full.filter(says_so);
    assert!(full.clone().count() > 0);
    for reply in full {
        let mut tail = ReplyTail::new(Dialect::Messages);
        tail.push(reply.body().as_bytes());
        let end = tail.finish(ClassifierRules::standard(), None);
        let full = Some(FinishReason::WindowFull);
        assert_eq!(end.finish, full, "{}", reply.body());
    }
}

#[test]
fn extra_usage_refusal_is_an_overflow_only_for_a_long_request() {
    let unpaid = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Extra usage is required for long context requests."}}"#;
    let judge = |tokens: u32, body: &str| judge_answer(429, body, tokens);
    let limit = Overflow::stated(Some(200_000), None);
    assert_eq!(judge(200_001, unpaid), Verdict::Overflow(limit));
    // Newer tokenizers count 1.3 times the estimate.
    assert_eq!(judge(155_816, unpaid), Verdict::Overflow(limit));
    assert_eq!(judge(22_905, unpaid), Verdict::Fine);
    let throttled = r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute"}}"#;
    assert_eq!(judge(900_000, throttled), Verdict::Fine);
}
