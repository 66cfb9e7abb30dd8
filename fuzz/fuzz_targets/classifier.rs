//! Fuzzes the classifier with raw HTTP replies. The verdict must not depend on how the body is
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
    let whole = read(status, body, body.len().max(1));
    for size in [1, 7, 61] {
        assert_eq!(read(status, body, size), whole, "in chunks of {size}");
    }
    if let Verdict::OutputTooLarge {
        limit,
        input,
        output,
    } = whole
    {
        match input {
            Some(input) => assert!(input < limit && input.saturating_add(output) > limit),
            None => assert!(output >= limit),
        }
    }
    check_judge(status, body);
    // Text of a model with these bytes is an answer, not an error.
    let text = serde_json::to_string(&String::from_utf8_lossy(body)).unwrap();
    if text.len() > 2 {
        let json = format!(r#"{{"choices":[{{"message":{{"content":{text}}}}}]}}"#);
        assert_eq!(read(200, json.as_bytes(), 61), Verdict::Fine);
        let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{text}}}}}]}}\n\n");
        assert_eq!(read(200, event.as_bytes(), 61), Verdict::Fine);
    }
});

/// Judges the reply by its evidence: to a small request, to a large one, and to one with the same text.
fn check_judge(status: u16, body: &[u8]) {
    let facts = |tokens, text| RequestFacts {
        tokens,
        text: RequestText::new(text, "/v1/chat/completions"),
        body_tokens: 150_321,
        window: Some(200_000),
        largest_accepted: 100_000,
        model: "acme/nova",
    };
    for size in [7, body.len().max(1)] {
        judge(status, body, size, facts(150_321, b"{}"));
        judge(status, body, size, facts(150_321, body));
    }
    let small = judge(status, body, 61, facts(1_000, b"{}"));
    if let Verdict::Overflow(overflow) = small {
        let is_suspected = matches!(overflow.evidence, Evidence::Suspected { .. });
        assert!(!is_suspected, "words decide only together with the size");
    }
}

fn judge(status: u16, body: &[u8], size: usize, facts: RequestFacts<'_>) -> Verdict {
    let rules = ClassifierRules::standard();
    let reading = ReplyClassifier::for_request(Dialect::ChatCompletions, status, rules, facts);
    finish(reading, body, size)
}

fn read(status: u16, body: &[u8], size: usize) -> Verdict {
    let rules = ClassifierRules::standard();
    let reading = ReplyClassifier::new(Dialect::ChatCompletions, status, rules);
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
    let digits = raw
        .get(9..12)
        .and_then(|digits| std::str::from_utf8(digits).ok());
    let status = digits.and_then(|digits| digits.parse().ok()).unwrap_or(400);
    let end = raw.windows(4).position(|four| four == b"\r\n\r\n");
    let body = end.map_or(raw, |end| &raw[end + 4..]);
    let line = body.windows(2).position(|two| two == b"\r\n");
    let is_size = |line: &usize| *line > 0 && body[..*line].iter().all(u8::is_ascii_hexdigit);
    (
        status,
        line.filter(is_size).map_or(body, |line| &body[line + 2..]),
    )
}
