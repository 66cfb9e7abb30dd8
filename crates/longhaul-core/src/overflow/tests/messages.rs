//! Recorded replies of the Messages API, by the action that each one calls for.

use crate::dialect::Dialect;
use crate::dialect::reply::FinishReason;
use crate::overflow::tests::unseen::LARGE;
use crate::overflow::{
    ClassifierRules, ClassifierStep, Overflow, ReplyClassifier, ReplyTail, RequestFacts, Verdict,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Recorded {
    provider: String,
    status: u16,
    body: Option<String>,
    action: String,
    limit_tokens: Option<u32>,
    requested_tokens: Option<u32>,
}

fn recorded() -> Vec<Recorded> {
    let lines = include_str!("../../../../../fixtures/reports/messages_overflow.jsonl");
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

impl Recorded {
    fn body(&self) -> &str {
        self.body.as_deref().unwrap_or_default()
    }

    fn judge(&self) -> Verdict {
        let above = self.limit_tokens.map(|limit| limit / 8 * 9);
        let tokens = self.requested_tokens.or(above).unwrap_or(LARGE.tokens);
        let facts = RequestFacts {
            tokens,
            body_tokens: tokens,
            window: Some(tokens),
            ..LARGE
        };
        let rules = ClassifierRules::standard();
        let reading = ReplyClassifier::for_request(Dialect::Messages, self.status, rules, facts);
        let Some(mut reading) = reading else {
            return Verdict::Fine;
        };
        match reading.push(self.body().as_bytes()) {
            ClassifierStep::Hold => reading.finish(),
            ClassifierStep::Settled(verdict) => verdict,
        }
    }
}

#[test]
fn every_reply_leads_to_its_action() {
    // The request decides about the answer to a client's own order to compact: it is never changed.
    let is_own = |reply: &Recorded| reply.provider.starts_with("client's own compaction");
    for reply in recorded().into_iter().filter(|reply| !is_own(reply)) {
        let verdict = reply.judge();
        let is_output = matches!(verdict, Verdict::OutputTooLarge { .. });
        let is_overflow = matches!(verdict, Verdict::Overflow(_));
        let is_right = match &*reply.action {
            "compact" | "compact_if_near_limit" | "floor_decide_by_estimate" => {
                // The retry compacts if too little room is left for an output.
                is_overflow || is_output && reply.provider.contains("room too small")
            }
            "retry_without_stale_thinking" => verdict == Verdict::StaleThinking,
            "compact_bytes" => matches!(verdict, Verdict::BodyTooLarge(_)),
            "shrink_item" => verdict == Verdict::TooMuchMedia,
            "shrink_max_tokens" => is_output || is_overflow,
            // Either leads back to the original.
            "bug_in_editor" => matches!(verdict, Verdict::Malformed | Verdict::Unexplained(_)),
            _ => !is_output && !is_overflow && !matches!(verdict, Verdict::BodyTooLarge(_)),
        };
        let Recorded {
            provider, action, ..
        } = &reply;
        assert!(is_right, "{provider}: {action}, {verdict:?}");
    }
}

#[test]
fn stated_limits_of_refusals_are_read() {
    let states_both = |reply: &&Recorded| {
        let body = reply.body();
        let states = |number: Option<u32>| number.is_some_and(|it| body.contains(&it.to_string()));
        reply.action == "compact" && states(reply.limit_tokens)
    };
    let all = recorded();
    let stated: Vec<&Recorded> = all.iter().filter(states_both).collect();
    assert!(stated.len() > 10);
    for reply in stated {
        let limit = match reply.judge() {
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
        assert_eq!(limit, reply.limit_tokens, "{}", reply.provider);
    }
}

#[test]
fn a_full_window_is_recognised_at_the_end_of_a_reply() {
    let full = recorded();
    let says_so = |it: &&Recorded| it.body().contains(FinishReason::WINDOW_FULL);
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
    let judge = |tokens: u32, body: &str| {
        let reply = Recorded {
            provider: String::new(),
            status: 429,
            body: Some(body.to_owned()),
            action: String::new(),
            limit_tokens: None,
            requested_tokens: Some(tokens),
        };
        reply.judge()
    };
    let limit = Overflow::stated(Some(200_000), None);
    assert_eq!(judge(200_001, unpaid), Verdict::Overflow(limit));
    // Newer tokenizers count 1.3 times the estimate.
    assert_eq!(judge(155_816, unpaid), Verdict::Overflow(limit));
    assert_eq!(judge(22_905, unpaid), Verdict::Fine);
    let throttled = r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute"}}"#;
    assert_eq!(judge(900_000, throttled), Verdict::Fine);
}
