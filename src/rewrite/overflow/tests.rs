//! Recorded replies, and what may be done about each: the fixtures are the oracle.

mod rules;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

/// One line of `fixtures/overflow.jsonl`: its fields are described beside it.
#[derive(Clone, Debug, Deserialize)]
struct Fixture {
    provider: String,
    status: u16,
    body: String,
    action: String,
    limit_tokens: Option<u32>,
    requested_tokens: Option<u32>,
    #[serde(default)]
    output_tokens_requested: Option<u32>,
    #[serde(default)]
    requested_is_floor: bool,
    /// Not in the file: what a reply says of an excess, or lets one subtract.
    #[serde(skip)]
    excess: Option<u32>,
}

/// What the file leaves to be said: these three give an excess, or a sum and no prompt.
const EXCESSES: [(&str, u32); 3] = [
    ("ollama cloud/MLX", 1824),
    ("cohere", 12_345),
    ("cloudflare workers ai", 35_000 - 24_000),
];

/// Overflows that say nothing: the notes in the file ask for the proxy's own estimate.
const SILENT: [&str; 4] = [
    "cerebras (empty body)",
    "llama.cpp only-DONE",
    "lm studio gguf zero deltas",
    "xiaomi mimo finish",
];

fn fixtures() -> Vec<Fixture> {
    let lines = include_str!("../../../fixtures/overflow.jsonl").lines();
    let fixtures: Vec<Fixture> = lines
        .map(|line| serde_json::from_str::<Fixture>(line).unwrap())
        .map(|fixture| Fixture {
            excess: EXCESSES
                .iter()
                .find(|(name, _)| *name == fixture.provider)
                .map(|(_, n)| *n),
            ..fixture
        })
        .collect();
    assert_eq!(fixtures.len(), 138);
    fixtures
}

impl Fixture {
    fn expected(&self) -> Verdict {
        let output = self.output_tokens_requested;
        let input = self
            .requested_tokens
            .and_then(|all| all.checked_sub(output.unwrap_or(0)));
        match self.action.as_str() {
            "bug_in_editor" => Verdict::Malformed,
            "compact_bytes" => Verdict::FewerBytes,
            "deliver_and_mark_full"
            | "mark_full_no_retry"
            | "pass_through"
            | "shrink_item"
            | "silent_truncation_check" => Verdict::Fine,
            "shrink_max_tokens" => Verdict::SmallerOutput {
                limit: self.limit_tokens.unwrap(),
                input,
                output: output.unwrap(),
            },
            "compact" | "compact_if_near_limit" | "floor_decide_by_estimate" => {
                // A prompt that was cut to the window measures the window.
                let is_unknown = self.requested_is_floor
                    || self.requested_tokens == self.limit_tokens
                    || self.excess.is_some();
                Verdict::Overflow(Overflow {
                    evidence: self.evidence(),
                    excess: self.excess,
                    limit: self.limit_tokens,
                    output,
                    used: if is_unknown { None } else { input },
                })
            }
            other => panic!("an action without a verdict: {other}"),
        }
    }

    fn evidence(&self) -> Evidence {
        if SILENT.contains(&self.provider.as_str()) {
            Evidence::Silent
        } else {
            Evidence::Stated
        }
    }

    fn map_numbers(&self, map: impl Fn(u32) -> u32 + Copy) -> Self {
        Self {
            body: map_numbers(&self.body, map),
            limit_tokens: self.limit_tokens.map(map),
            requested_tokens: self.requested_tokens.map(map),
            output_tokens_requested: self.output_tokens_requested.map(map),
            excess: self.excess.map(map),
            ..self.clone()
        }
    }
}

/// Maps each number of a body that is no status and no code.
fn map_numbers(body: &str, map: impl Fn(u32) -> u32) -> String {
    let mut mapped = String::new();
    let mut rest = body;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, tail) = rest.split_at(start);
        let end = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(end);
        mapped.push_str(before);
        let context: String = mapped.chars().rev().take(9).collect::<String>();
        let context = context.chars().rev().collect::<String>().to_lowercase();
        let is_code = context.contains("code") || context.contains("status");
        match digits.parse::<u32>() {
            Ok(number) if !is_code && number < 10_000_000 => {
                mapped.push_str(&map(number).to_string());
            }
            _ => mapped.push_str(digits),
        }
        rest = tail;
    }
    mapped + rest
}

/// Reads a reply as the proxy does, cut into these pieces.
fn read<'a>(status: u16, pieces: impl IntoIterator<Item = &'a [u8]>) -> Verdict {
    let Some(mut reading) = Reading::new(status) else {
        return Verdict::Fine;
    };
    for piece in pieces {
        if let Step::Settled(verdict) = reading.push(piece) {
            return verdict;
        }
    }
    reading.end()
}

fn check(fixture: &Fixture) {
    let mut found = read(fixture.status, [fixture.body.as_bytes()]);
    // "0 for the completion" is stated by one wording and left out by the file.
    if let Verdict::Overflow(overflow) = &mut found {
        overflow.output = overflow.output.filter(|&output| output > 0);
    }
    assert_eq!(
        found,
        fixture.expected(),
        "{}: {}",
        fixture.provider,
        fixture.body
    );
}

#[test]
fn every_fixture_has_its_verdict_and_its_numbers() {
    fixtures().iter().for_each(check);
}

#[test]
fn other_numbers_give_the_same_verdict_with_those_numbers() {
    for fixture in fixtures() {
        let changed = if fixture.action == "floor_decide_by_estimate" {
            // A floor is an equation: limit and prompt move together, the output stays.
            let moves = [fixture.limit_tokens, fixture.requested_tokens];
            let shift = |n| if moves.contains(&Some(n)) { n + 7 } else { n };
            Fixture {
                output_tokens_requested: fixture.output_tokens_requested,
                ..fixture.map_numbers(shift)
            }
        } else {
            fixture.map_numbers(|n| n * 3)
        };
        check(&changed);
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
        let renamed: Vec<Fixture> = fixtures()
            .into_iter()
            .filter(|fixture| fixture.body.contains(from))
            .map(|fixture| Fixture {
                body: fixture.body.replace(from, to),
                ..fixture
            })
            .collect();
        assert!(!renamed.is_empty(), "{from} is in no fixture");
        renamed.iter().for_each(check);
    }
}

/// The error object of a JSON body, made flat.
fn inner(body: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(body).ok()?;
    let node = if value.is_array() {
        value.get(0)?
    } else {
        &value
    };
    match node.get("error") {
        Some(Value::Object(error)) => Some(Value::Object(error.clone())),
        Some(Value::String(message)) => Some(json!({ "message": message })),
        None => node.get("message").is_some().then(|| node.clone()),
        Some(_) => None,
    }
}

#[test]
fn every_error_is_known_in_every_envelope() {
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
        // These are error bodies: one that came with a 200 is given the status it stands for.
        let status = fixture.status.max(400);
        for body in bodies {
            check(&Fixture {
                status,
                body,
                ..fixture.clone()
            });
        }
        // With a 200, where the answer does not hang on the status.
        if matches!(fixture.status, 400 | 422) {
            for body in [
                raw.clone(),
                json!([wrapped]).to_string(),
                format!("data: {raw}\n\ndata: [DONE]\n\n"),
                format!(": PROCESSING\n\nevent:error\r\n: 400\r\ndata:{error}\r\n\r\n"),
                format!("data: {{\"choices\":[],\"error\":{error}}}"),
                format!(
                    "data: {{\"choices\":null,\"error_message\":{}}}\n\n",
                    json!(raw)
                ),
            ] {
                check(&Fixture {
                    status: 200,
                    body,
                    ..fixture.clone()
                });
            }
        }
        moved += 1;
    }
    assert!(moved > 100, "{moved}");
}

#[test]
fn what_the_model_says_never_triggers() {
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
            assert_eq!(read(200, [body.to_string().as_bytes()]), Verdict::Fine);
            let last = json!({ "error": {}, "choices": [{ "message": answer }] });
            assert_eq!(read(200, [last.to_string().as_bytes()]), Verdict::Fine);
            let chunk = json!({ "choices": [{ "index": 0, "delta": answer }] });
            let stream = format!(
                "data: {chunk}\n\ndata: {{\"error\":{{\"message\":\"prompt is too long\"}}}}\n\n"
            );
            assert_eq!(read(200, [stream.as_bytes()]), Verdict::Fine);
            let refused =
                json!({ "error": { "message": "no" }, "choices": [{ "message": answer }] });
            assert_eq!(read(400, [refused.to_string().as_bytes()]), Verdict::Fine);
        }
    }
}

#[test]
fn every_split_of_every_fixture_reads_the_same() {
    for fixture in fixtures() {
        let bytes = fixture.body.as_bytes();
        let whole = read(fixture.status, [bytes]);
        assert_eq!(
            read(fixture.status, bytes.chunks(1)),
            whole,
            "{}",
            fixture.provider
        );
        for at in 0..=bytes.len() {
            let (before, after) = bytes.split_at(at);
            assert_eq!(
                read(fixture.status, [before, after]),
                whole,
                "{} at {at}",
                fixture.provider
            );
        }
    }
}

#[test]
fn every_refused_message_list_is_malformed() {
    #[derive(Deserialize)]
    struct Refused {
        status: u16,
        error: String,
    }
    for line in include_str!("../../../fixtures/malformed.jsonl").lines() {
        let Refused { status, error } = serde_json::from_str(line).unwrap();
        let body = json!({ "error": { "message": error, "type": "invalid_request_error" } });
        let found = read(status, [body.to_string().as_bytes()]);
        assert_eq!(found, Verdict::Malformed, "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_have_a_verdict(status in 100u16..600, bytes: Vec<u8>) {
        read(status, [bytes.as_slice()]);
        classify(Reply::Body { status, bytes: &bytes });
        classify(Reply::Event(Event { name: b"error", data: &bytes, dropped: 0 }));
    }

    #[test]
    fn a_damaged_fixture_has_one_verdict_in_any_pieces(
        which in 0usize..138,
        at: prop::sample::Index,
        byte: u8,
        piece in 1usize..40,
    ) {
        let Fixture { status, body, .. } = fixtures().swap_remove(which);
        let mut bytes = body.into_bytes();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assert_eq!(read(status, bytes.chunks(piece)), read(status, [bytes.as_slice()]));
    }
}
