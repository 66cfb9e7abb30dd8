//! Recorded replies and the expected verdict on each, as described in `fixtures/README.md`.

use std::fs;

use serde::Deserialize;

use crate::overflow::BODY_TOO_LARGE;
use crate::overflow::{Evidence, Overflow, Verdict};

/// A recorded reply.
#[derive(Clone, Debug)]
pub(super) struct Fixture {
    pub(super) expected: Expected,
    pub(super) status: u16,
    pub(super) body: String,
}

/// A line of `fixtures/replies.jsonl`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Expected {
    #[serde(default, alias = "who")]
    pub(super) file: String,
    pub(super) answer: Answer,
    pub(super) limit: Option<u32>,
    pub(super) used: Option<u32>,
    pub(super) output: Option<u32>,
    pub(super) excess: Option<u32>,
    /// A stated prompt size that is only a lower bound, and so not part of the verdict.
    pub(super) floor: Option<u32>,
    #[serde(default)]
    pub(super) silent: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    Compact,
    FewerBytes,
    FewerImages,
    Leave,
    Malformed,
    SmallerOutput,
    /// A text is longer than the API allows.
    ShorterText,
    /// A limit on one request, which the table alone leaves alone.
    SmallerRequest,
    WithoutThinking,
}

/// Reads all of `fixtures/replies`.
pub(super) fn fixtures() -> Vec<Fixture> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/replies");
    let fixtures: Vec<Fixture> =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/replies.jsonl"))
            .lines()
            .map(|line| {
                let expected: Expected = serde_json::from_str(line).unwrap();
                let raw = fs::read_to_string(format!("{folder}/{}", expected.file)).unwrap();
                let (status, body) = parse(&raw);
                Fixture { expected, status, body }
            })
            .collect();
    assert_eq!(fixtures.len(), fs::read_dir(folder).unwrap().count());
    fixtures
}

/// Returns the status and the body of a raw HTTP reply.
fn parse(raw: &str) -> (u16, String) {
    let (head, rest) = raw.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    if !head.contains("transfer-encoding: chunked") {
        let (_, length) = head.split_once("content-length: ").unwrap();
        assert_eq!(length, rest.len().to_string());
        return (status, rest.to_owned());
    }
    let mut body = String::new();
    let mut rest = rest;
    loop {
        let (size, tail) = rest.split_once("\r\n").unwrap();
        let (chunk, tail) = tail.split_at(usize::from_str_radix(size, 16).unwrap());
        body.push_str(chunk);
        rest = tail.strip_prefix("\r\n").unwrap();
        if chunk.is_empty() {
            assert_eq!(rest, "");
            return (status, body);
        }
    }
}

impl Expected {
    pub(super) fn verdict(&self) -> Verdict {
        match self.answer {
            Answer::Compact => Verdict::Overflow(Overflow {
                evidence: if self.silent { Evidence::EmptyReply } else { Evidence::Stated },
                excess: self.excess,
                output: self.output,
                ..Overflow::stated(self.limit, self.used)
            }),
            Answer::FewerBytes => BODY_TOO_LARGE,
            Answer::FewerImages => Verdict::TooMuchMedia,
            Answer::Leave | Answer::SmallerRequest => Verdict::Fine,
            Answer::Malformed => Verdict::Malformed,
            // The limit of the API, in characters.
            Answer::ShorterText => Verdict::TextTooLong { characters: 10_485_760 },
            Answer::WithoutThinking => Verdict::StaleThinking,
            Answer::SmallerOutput => Verdict::OutputTooLarge {
                limit: self.limit.unwrap(),
                input: self.used,
                output: self.output.unwrap(),
            },
        }
    }

    fn map(&self, map: impl Fn(u32) -> u32 + Copy) -> Self {
        Self {
            limit: self.limit.map(map),
            used: self.used.map(map),
            output: self.output.map(map),
            excess: self.excess.map(map),
            floor: self.floor.map(map),
            ..self.clone()
        }
    }
}

impl Fixture {
    /// Returns a copy of the reply with other numbers.
    pub(super) fn renumbered(&self) -> Self {
        let Expected { floor: Some(floor), limit, output: Some(_), .. } = self.expected else {
            return self.map_numbers(|number| number * 3);
        };
        // A lower bound is an equation: limit and prompt move together, the output stays.
        self.map_numbers(
            |number| {
                if number == floor || Some(number) == limit { number + 7 } else { number }
            },
        )
    }

    fn map_numbers(&self, map: impl Fn(u32) -> u32 + Copy) -> Self {
        Self {
            body: map_numbers(&self.body, map),
            expected: self.expected.map(map),
            ..self.clone()
        }
    }
}

/// Maps each number of a body that is neither a status nor a code.
fn map_numbers(body: &str, map: impl Fn(u32) -> u32) -> String {
    let mut mapped = String::new();
    let mut rest = body;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, tail) = rest.split_at(start);
        let end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
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
