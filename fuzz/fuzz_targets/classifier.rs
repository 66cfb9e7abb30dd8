//! Fuzzes the classifier of each API with raw HTTP replies. The verdict must not depend on how the body is
//! split, its numbers must match the verdict, and text from a model must never produce a verdict. Words about a
//! small request must decide nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::dialect::Dialect;
use longhaul_core::overflow::{
    ClassifierRules, ClassifierStep, Evidence, ReplyClassifier, RequestFacts, RequestText, Verdict,
};

fuzz_target!(|input: &[u8]| {
    let (status, body) = reply(input);
    for dialect in [Dialect::ChatCompletions, Dialect::Messages, Dialect::Responses] {
        check(dialect, status, body);
        check_judge(dialect, status, body);
        // Text of a model with these bytes is an answer, not an error.
        let text = serde_json::to_string(&String::from_utf8_lossy(body)).unwrap();
        if text.len() > 2 {
            for answer in answers(dialect, &text) {
                assert_eq!(read(dialect, 200, answer.as_bytes(), 61), Verdict::Fine);
            }
        }
    }
});

/// Checks that the verdict of a reply depends on no chunk size, and that its numbers match.
fn check(dialect: Dialect, status: u16, body: &[u8]) {
    let whole = read(dialect, status, body, body.len().max(1));
    for size in [1, 7, 61] {
        assert_eq!(read(dialect, status, body, size), whole, "in chunks of {size}");
    }
    if let Verdict::OutputTooLarge { limit, input, output } = whole {
        match input {
            Some(input) => assert!(input < limit && input.saturating_add(output) > limit),
            None => assert!(output >= limit),
        }
    }
}

/// Returns replies with a text of the model, whole and as the first event of a stream.
fn answers(dialect: Dialect, text: &str) -> [String; 2] {
    match dialect {
        Dialect::ChatCompletions => [
            format!(r#"{{"choices":[{{"message":{{"content":{text}}}}}]}}"#),
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{text}}}}}]}}\n\n"),
        ],
        Dialect::Messages => [
            format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"text","text":{text}}}]}}"#
            ),
            format!(
                "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
                 \"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}}}\n\n"
            ),
        ],
        Dialect::Responses => [
            format!(
                r#"{{"object":"response","output":[{{"type":"message","content":[{{"type":"output_text","text":{text}}}]}}]}}"#
            ),
            format!(
                "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\
                 \"delta\":{text}}}\n\n"
            ),
        ],
    }
}

/// Judges the reply by its evidence: to a small request, to a large one, and to one with the same text.
fn check_judge(dialect: Dialect, status: u16, body: &[u8]) {
    let facts = |tokens, text| RequestFacts {
        tokens,
        text: RequestText::new(text, "/v1/chat/completions"),
        body_tokens: 150_321,
        window: Some(200_000),
        largest_accepted: 100_000,
        model: "acme/nova",
        is_partial: false,
        has_compaction: false,
        output: None,
    };
    for size in [7, body.len().max(1)] {
        judge(dialect, status, body, size, facts(150_321, b"{}"));
        judge(dialect, status, body, size, facts(150_321, body));
    }
    let small = judge(dialect, status, body, 61, facts(1_000, b"{}"));
    if let Verdict::Overflow(overflow) = small {
        let is_suspected = matches!(overflow.evidence, Evidence::Suspected { .. });
        assert!(!is_suspected, "words decide only together with the size");
    }
}

fn judge(
    dialect: Dialect,
    status: u16,
    body: &[u8],
    size: usize,
    facts: RequestFacts<'_>,
) -> Verdict {
    let rules = ClassifierRules::standard();
    let reading = ReplyClassifier::new(dialect, status, rules, Some(facts));
    finish(reading, body, size)
}

fn read(dialect: Dialect, status: u16, body: &[u8], size: usize) -> Verdict {
    let rules = ClassifierRules::standard();
    let reading = ReplyClassifier::new(dialect, status, rules, None);
    finish(reading, body, size)
}

fn finish(reading: Option<ReplyClassifier<'_>>, body: &[u8], size: usize) -> Verdict {
    let Some(mut reading) = reading else {
        return Verdict::Fine;
    };
    for chunk in body.chunks(size) {
        if let ClassifierStep::Settled(verdict) = reading.push(chunk) {
            return verdict;
        }
    }
    reading.finish()
}

/// Returns the status and body of a raw reply, without chunk sizes, as in the recorded replies.
fn reply(raw: &[u8]) -> (u16, &[u8]) {
    let digits = raw.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    let status = digits.and_then(|digits| digits.parse().ok()).unwrap_or(400);
    let end = raw.windows(4).position(|four| four == b"\r\n\r\n");
    let body = end.map_or(raw, |end| &raw[end + 4..]);
    let line = body.windows(2).position(|two| two == b"\r\n");
    let is_size = |line: &usize| *line > 0 && body[..*line].iter().all(u8::is_ascii_hexdigit);
    (status, line.filter(is_size).map_or(body, |line| &body[line + 2..]))
}
