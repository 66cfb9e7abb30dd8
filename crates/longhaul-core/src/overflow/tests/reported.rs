//! Refusals and look-alikes of the kinds that people reported, in a new process and in a chat that grew.
//!
//! The held-out part yields counts only, so that no rule is built from it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::overflow::tests::unseen::{LARGE, judge};
use crate::overflow::{Evidence, RequestFacts, Verdict};

/// A line of `fixtures/reports/refusals2.jsonl`, or of `fixtures/unseen/blind_9.jsonl`.
#[derive(Deserialize)]
struct Reported {
    id: String,
    #[serde(alias = "family")]
    kind: String,
    #[serde(alias = "overflow")]
    is_overflow: bool,
    status: u16,
    body: String,
    limit_tokens: Option<u32>,
    cap: Option<u32>,
    #[serde(default)]
    sent: String,
    #[serde(alias = "modes")]
    fails_when: Vec<String>,
}

macro_rules! fixture_text {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/", $path))
    };
}

fn reported(lines: &str) -> Vec<Reported> {
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Whether a smaller request, or less output, follows the first or a second refusal.
fn is_mended(reported: &Reported, mode: &str) -> bool {
    let facts = RequestFacts {
        window: (mode == "told").then_some(262_144),
        largest_accepted: if mode == "grown" { 146_000 } else { 0 },
        tokens: match reported.sent.split(' ').next() {
            Some("30000") => 30_000,
            Some("190000") => 190_000,
            _ => LARGE.tokens,
        },
        output: reported.cap.map(|_| 200_000),
        ..LARGE
    };
    match judge(reported.status, &reported.body, facts) {
        Verdict::Overflow(overflow) => {
            let is_right = reported.limit_tokens.is_none_or(|limit| overflow.limit == Some(limit));
            let is_known = overflow.evidence != Evidence::EmptyReply || facts.explains_silence();
            is_right && (is_known || facts.explains_repetition())
        }
        // A range may end before its number.
        Verdict::OutputAboveCap(cap) => reported.cap.is_some_and(|stated| stated - cap <= 1),
        Verdict::OutputTooLarge { .. } | Verdict::BodyTooLarge(_) => true,
        Verdict::Unexplained(suspicion) => suspicion.is_some() && facts.explains_repetition(),
        Verdict::Failed
        | Verdict::Fine
        | Verdict::Malformed
        | Verdict::StaleThinking
        | Verdict::TextTooLong { .. }
        | Verdict::TooMuchMedia => false,
    }
}

#[test]
fn refusals_of_the_second_reports_are_mended_and_look_alikes_are_not() {
    let mut wrong = Vec::new();
    for one in reported(fixture_text!("reports/refusals2.jsonl")) {
        for mode in ["fresh", "grown", "told"] {
            let is_expected = !one.is_overflow || one.fails_when.iter().any(|fails| fails == mode);
            if is_expected && is_mended(&one, mode) != one.is_overflow {
                wrong.push(format!("{} {mode}", one.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn reaches_the_required_rate_on_held_out_refusals_and_look_alikes() {
    let mut rates = BTreeMap::<(String, String), (usize, usize)>::new();
    let second = reported(fixture_text!("unseen/blind_10.jsonl"));
    let third = reported(fixture_text!("unseen/blind_11.jsonl"));
    let fourth = reported(fixture_text!("unseen/blind_12_built.jsonl"));
    let first = reported(fixture_text!("unseen/blind_9.jsonl"));
    for one in first.into_iter().chain(second).chain(third).chain(fourth) {
        let is_smaller = one.is_overflow || one.cap.is_some();
        for mode in &one.fails_when {
            let group = if is_smaller { "refusals" } else { "look-alikes" };
            for name in [format!("{group}, {mode}"), format!("{}, {mode}", one.kind)] {
                let rate = rates.entry((group.to_owned(), name)).or_default();
                rate.0 += usize::from(is_mended(&one, mode) == is_smaller);
                rate.1 += 1;
            }
        }
    }
    for ((_, name), (right, all)) in &rates {
        println!("{name}: {right} of {all}");
    }
}
