//! Classification of recorded replies: the fixtures are the oracle.

mod bounds;
mod configured;
mod evidence;
mod failed;
mod figures;
mod messages;
mod needed;
mod replies;
mod reported;
mod responses;
mod rules;
mod shadow;
mod stated;
pub(super) mod unseen;
mod vocabulary;
mod wordings;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use replies::{Fixture, fixtures};
use wordings::wordings;

/// Maps every verdict that leaves the reply alone to [`Verdict::Fine`]. Only code that rewrote the
/// request needs the difference.
fn left_alone(verdict: Verdict) -> Verdict {
    if matches!(verdict, Verdict::Failed | Verdict::Unexplained(_)) {
        Verdict::Fine
    } else {
        verdict
    }
}

/// Classifies a reply as the proxy does, from these pieces.
fn read<'a>(status: u16, pieces: impl IntoIterator<Item = &'a [u8]>) -> Verdict {
    left_alone(judged(status, pieces))
}

fn judged<'a>(status: u16, pieces: impl IntoIterator<Item = &'a [u8]>) -> Verdict {
    let rules = ClassifierRules::standard();
    let reading = ReplyClassifier::new(Dialect::ChatCompletions, status, rules, None);
    finish(reading, pieces)
}

/// Returns the verdict of a classifier on these pieces. No classifier leaves the reply alone.
fn finish<'a>(
    reading: Option<ReplyClassifier<'_>>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Verdict {
    let Some(mut reading) = reading else {
        return Verdict::Fine;
    };
    for piece in pieces {
        if let ClassifierStep::Settled(verdict) = reading.push(piece) {
            return verdict;
        }
    }
    reading.finish()
}

fn check(fixture: &Fixture) {
    let found = read(fixture.status, [fixture.body.as_bytes()]);
    let Fixture { expected, body, .. } = fixture;
    assert_eq!(found, expected.verdict(), "{}: {body}", expected.file);
}

#[test]
fn every_fixture_has_its_verdict_and_its_numbers() {
    fixtures().iter().for_each(check);
}

#[test]
fn every_wording_has_its_verdict_and_its_numbers() {
    wordings().iter().for_each(check);
}

#[test]
fn renumbered_fixtures_keep_their_verdict() {
    for fixture in fixtures() {
        check(&fixture.renumbered());
    }
}

#[test]
fn other_models_and_request_ids_change_nothing() {
    let names = [
        ("gpt-4o", "acme/nova-2.1:free"),
        ("claude-opus-5", "context-window-xl"),
        ("claude-opus-4-20250514", "zeta_1m"),
        ("llama-3.3-70b-versatile", "qwen4-400b"),
        ("cmpl-abc123", "cmpl-429"),
        ("021740000000", "402413429"),
        ("req_011", "req_429"),
        ("req_x", "8f14e45f-ceea-467f-9f6c-1b2d3e4f5a6b"),
        ("org-x", "org-credit-union"),
        ("call_abc", "call_zz9"),
    ];
    for (from, to) in names {
        let mut renamed = fixtures();
        renamed.retain(|fixture| fixture.body.contains(from));
        assert!(!renamed.is_empty(), "{from} is in no fixture");
        for mut fixture in renamed {
            fixture.body = fixture.body.replace(from, to);
            check(&fixture);
        }
    }
}

/// Returns the error object of a JSON body without its wrapping.
fn inner(body: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(body).ok()?;
    let node = if value.is_array() { value.get(0)? } else { &value };
    match node.get("error") {
        Some(Value::Object(error)) => Some(Value::Object(error.clone())),
        Some(Value::String(message)) => Some(json!({ "message": message })),
        None => node.get("message").is_some().then(|| node.clone()),
        Some(_) => None,
    }
}

#[test]
fn every_error_is_recognised_in_every_envelope() {
    let mut moved = 0;
    for fixture in fixtures() {
        let Some(error) = inner(&fixture.body) else {
            continue;
        };
        let wrapped = json!({ "error": error });
        let raw = wrapped.to_string();
        let prefixed = format!("BadRequestError: upstream said {raw} (after 1 attempt)");
        let bodies = [
            raw.clone(),
            format!("\u{feff}\r\n {raw}\n"),
            json!([wrapped]).to_string(),
            error.to_string(),
            json!({ "error": { "message": "Provider returned error", "metadata": { "raw": raw } } })
                .to_string(),
            json!({ "error": { "message": "Provider returned error", "metadata": { "raw": wrapped } } })
                .to_string(),
            json!({ "detail": prefixed }).to_string(),
            json!({ "error": prefixed }).to_string(),
            json!({ "success": false, "errors": [error] }).to_string(),
            json!(raw).to_string(),
            prefixed.clone(),
            format!("event: error\ndata: {error}\n\n"),
        ];
        // Error bodies need an error status: a recorded 200 becomes a 400.
        let status = fixture.status.max(400);
        for body in bodies {
            check(&Fixture { status, body, ..fixture.clone() });
        }
        // With a 200, if the verdict does not depend on the status.
        if matches!(fixture.status, 400 | 422) {
            for body in [
                raw.clone(),
                json!([wrapped]).to_string(),
                format!("data: {raw}\n\ndata: [DONE]\n\n"),
                format!(": PROCESSING\n\nevent:error\r\n: 400\r\ndata:{error}\r\n\r\n"),
                format!("data: {{\"choices\":[],\"error\":{error}}}"),
                format!("data: {{\"choices\":null,\"error_message\":{}}}\n\n", json!(raw)),
            ] {
                check(&Fixture { status: 200, body, ..fixture.clone() });
            }
        }
        moved += 1;
    }
    assert!(moved > 100, "{moved}");
}

#[test]
fn model_output_never_triggers_a_verdict() {
    for fixture in fixtures().iter().filter(|fixture| !fixture.body.is_empty()) {
        let text = &fixture.body;
        let call = json!([{ "function": { "name": "log", "arguments": text } }]);
        let answers = [
            json!({ "content": text }),
            json!({ "reasoning": text }),
            json!({ "tool_calls": call }),
        ];
        for answer in answers {
            let body = json!({ "id": "c", "choices": [{ "index": 0, "message": answer }] });
            assert_eq!(judged(200, [body.to_string().as_bytes()]), Verdict::Fine);
            let last = json!({ "error": {}, "choices": [{ "message": answer }] });
            assert_eq!(judged(200, [last.to_string().as_bytes()]), Verdict::Fine);
            let chunk = json!({ "choices": [{ "index": 0, "delta": answer }] });
            let stream = format!(
                "data: {chunk}\n\ndata: {{\"error\":{{\"message\":\"prompt is too long\"}}}}\n\n"
            );
            assert_eq!(judged(200, [stream.as_bytes()]), Verdict::Fine);
            let refused =
                json!({ "error": { "message": "no" }, "choices": [{ "message": answer }] });
            assert_eq!(read(400, [refused.to_string().as_bytes()]), Verdict::Fine);
        }
    }
}

#[test]
fn every_fixture_has_the_same_verdict_in_any_split() {
    for fixture in fixtures() {
        let bytes = fixture.body.as_bytes();
        let file = &fixture.expected.file;
        let whole = read(fixture.status, [bytes]);
        assert_eq!(read(fixture.status, bytes.chunks(1)), whole, "{file}");
        for at in 0..=bytes.len() {
            let (before, after) = bytes.split_at(at);
            let found = read(fixture.status, [before, after]);
            assert_eq!(found, whole, "{file} at {at}");
        }
    }
}

/// Reads `fixtures/malformed.jsonl`, each message in OpenAI's envelope.
fn refused_lists() -> impl Iterator<Item = (u16, String)> {
    #[derive(Deserialize)]
    struct PatternError {
        status: u16,
        error: String,
    }
    let lines =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/malformed.jsonl"))
            .lines();
    lines.map(|line| {
        let PatternError { status, error } = serde_json::from_str(line).unwrap();
        let body = json!({ "error": { "message": error, "type": "invalid_request_error" } });
        (status, body.to_string())
    })
}

#[test]
fn every_refused_message_list_is_classified_as_malformed() {
    for (status, body) in refused_lists() {
        let found = read(status, [body.as_bytes()]);
        assert_eq!(found, Verdict::Malformed, "{body}");
    }
}

proptest! {
    #[test]
    fn classifies_any_bytes_without_panic(status in 100u16..600, bytes: Vec<u8>) {
        read(status, [bytes.as_slice()]);
        classify_stated_error(Dialect::ChatCompletions, Event { name: b"error", data: &bytes, dropped: 0 }, RuleSet::table_only(ClassifierRules::standard()));
    }

    #[test]
    fn a_damaged_fixture_has_the_same_verdict_in_any_chunking(
        which: prop::sample::Index,
        at: prop::sample::Index,
        byte: u8,
        piece in 1usize..40,
    ) {
        let mut fixtures = fixtures();
        let which = which.index(fixtures.len());
        let Fixture { status, body, .. } = fixtures.swap_remove(which);
        let mut bytes = body.into_bytes();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assert_eq!(read(status, bytes.chunks(piece)), read(status, [bytes.as_slice()]));
    }
}
