//! Compares the heuristics with the table over all recorded replies.

use std::sync::LazyLock;

use crate::overflow::rules::ClassifierRules;
use crate::overflow::tests::left_alone;
use crate::overflow::tests::replies::{Answer, Fixture, fixtures};
use crate::overflow::tests::unseen::{LARGE, Reply, fixture, is_overflow, judge_by};
use crate::overflow::tests::wordings::wordings;
use crate::overflow::vocabulary::{WORDINGS, rows};
use crate::overflow::{LimitKind, RequestFacts, RequestText, Verdict};

/// A recorded reply: who sent it, status, body, and whether history must shrink.
struct Recorded {
    who: String,
    status: u16,
    body: String,
    overflow: bool,
    limit: Option<u32>,
    used: Option<u32>,
}

fn recorded() -> Vec<Recorded> {
    let ours = fixtures().into_iter().chain(wordings());
    let chat = ours.map(|fixture| {
        let Fixture { expected, status, body } = fixture;
        Recorded {
            who: expected.file,
            status,
            body,
            overflow: matches!(
                expected.answer,
                Answer::Compact | Answer::SmallerOutput | Answer::SmallerRequest
            ),
            limit: expected.limit,
            used: expected.used,
        }
    });
    let files = [
        ("responses", fixture!("reports/responses_overflow.jsonl")),
        ("messages", fixture!("reports/messages_overflow.jsonl")),
        ("reports", fixture!("reports/refusals.jsonl")),
    ];
    let others = files.into_iter().flat_map(|(file, replies)| {
        replies.into_iter().map(move |reply: Reply| Recorded {
            who: format!("{file}: {}", reply.who),
            status: reply.status,
            body: reply.body.unwrap_or_default(),
            overflow: reply.overflow
                || matches!(&*reply.action, "compact_if_near_limit" | "shrink_max_tokens"),
            limit: reply.limit_tokens,
            used: reply.requested_tokens,
        })
    });
    chat.chain(others).collect()
}

/// Returns the text of a request of this size.
fn text_of(tokens: u32) -> RequestText<'static> {
    static BODY: LazyLock<Vec<u8>> = LazyLock::new(|| vec![b' '; 16_000_000]);
    let bytes = BODY.len().min(tokens as usize * 4);
    RequestText::new(&BODY[..bytes], "")
}

/// Returns facts about a request as large as the window.
pub(super) fn facts_of(tokens: u32) -> RequestFacts<'static> {
    RequestFacts {
        tokens,
        body_tokens: tokens,
        text: text_of(tokens),
        window: Some(tokens),
        model: "",
        ..LARGE
    }
}

impl Recorded {
    /// Returns facts about the request that the reply answers.
    fn facts(&self) -> RequestFacts<'static> {
        let above = self.limit.map(|limit| limit / 8 * 9);
        RequestFacts {
            largest_accepted: 0,
            ..facts_of(self.used.or(above).unwrap_or(LARGE.tokens))
        }
    }

    fn judge(&self, rules: &ClassifierRules) -> Verdict {
        judge_by(rules, self.status, &self.body, self.facts())
    }
}

/// Returns the rules without the rows that name an overflow. Vetoes, byte limits and refused lists stay.
fn without_overflows() -> ClassifierRules {
    let rows = rows(WORDINGS).filter(|row| !row.list.starts_with("overflow"));
    ClassifierRules::from_rows(&rows.collect::<Vec<_>>())
}

/// Replies that only a row of the table recognises, by sender and text.
const LEFT_TO_THE_TABLE: [(&str, &str); 4] = [
    ("084-lm-studio.http", "n_keep"),
    ("vLLM 0.18 to 0.30", "Please request fewer output tokens"),
    ("NVIDIA NIM, vLLM", "max_tokens must be at least 1"),
    ("vLLM", "max_tokens must be at least 1"),
];

/// Replies that state the overflow after content, or in fields of a dialect that is not read yet.
const LEFT_TO_THE_DIALECT: [&str; 7] = [
    "responses: openrouter responses, turned into a success",
    "responses: overflow after content",
    "messages: llama.cpp stream, KV full after content",
    "messages: unsloth: context ran out while generating",
    "messages: stream that is full before any content",
    "messages: non-stream, window full, no content",
    "messages: cloudflare before anthropic, HTML",
];

fn is_left_to_others(reply: &Recorded) -> bool {
    let by_table = |(who, text): &(&str, &str)| reply.who == *who && reply.body.contains(text);
    LEFT_TO_THE_TABLE.iter().any(by_table) || LEFT_TO_THE_DIALECT.contains(&reply.who.as_str())
}

#[test]
fn the_heuristics_alone_agree_with_the_table() {
    let alone = without_overflows();
    let differing: Vec<String> = recorded()
        .into_iter()
        .filter(|reply| is_overflow(reply.judge(&alone)) != reply.overflow)
        .filter(|reply| !reply.overflow || !is_left_to_others(reply))
        .map(|reply| format!("{} {} {}", reply.who, reply.status, reply.body))
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn the_heuristics_change_no_verdict_of_the_table() {
    // The replies answer requests of other sizes.
    let facts = RequestFacts { is_partial: true, ..LARGE };
    for fixture in fixtures().into_iter().chain(wordings()) {
        let Fixture { expected, status, body } = fixture;
        if expected.answer == Answer::SmallerRequest {
            continue;
        }
        let verdict = left_alone(judge_by(ClassifierRules::standard(), status, &body, facts));
        assert_eq!(verdict, expected.verdict(), "{}: {body}", expected.file);
    }
}

#[test]
fn every_refusal_of_the_reports_is_an_overflow_with_its_numbers() {
    for reply in fixture!("reports/refusals.jsonl") {
        let facts = RequestFacts { model: "", ..LARGE };
        let Verdict::Overflow(overflow) = reply.judge(facts) else {
            panic!("{} {:?}", reply.who, reply.body)
        };
        if overflow.kind == LimitKind::Characters {
            continue;
        }
        let (limit, used) = (overflow.limit, overflow.used);
        if let Some(stated) = reply.limit_tokens {
            assert_eq!(limit, Some(stated), "{} {:?}", reply.who, reply.body);
        }
        assert_eq!(used, reply.requested_tokens, "{} {:?}", reply.who, reply.body);
    }
}
