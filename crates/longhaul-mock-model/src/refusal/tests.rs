//! Numbers and placeholders in refusals.

use super::*;

const OVERFLOW: OverflowNumbers = OverflowNumbers { limit: 1_000, prompt: 1_200, output: 50 };

fn check(body: &'static str, said: (Option<u64>, Option<u64>, Option<u64>), expect: &str) {
    let refusal =
        RefusalReply::new(400, "application/json", body).into_template(said.0, said.1, said.2);
    assert_eq!(refusal.with_numbers(OVERFLOW).body, expect);
}

#[test]
fn a_request_overflows_past_the_window_only() {
    for (prompt, output, overflows) in [(900, 100, false), (900, 101, true), (1_001, 0, true)] {
        let overflow = OverflowNumbers { limit: 1_000, prompt, output };
        assert_eq!(overflow.exceeds_limit(), overflows, "{overflow:?}");
    }
}

#[test]
fn puts_the_real_numbers_in_place_of_recorded_ones() {
    check("100 holds, 120 asked", (Some(100), Some(120), None), "1000 holds, 1200 asked");
    check("1000 holds, 100 asked", (Some(1_000), None, None), "1000 holds, 100 asked");
    check(
        "sum 130: 120 and 10 > 100",
        (Some(100), Some(130), Some(10)),
        "sum 1250: 1200 and 50 > 1000",
    );
}

#[test]
fn leaves_numbers_alone_that_are_part_of_a_word() {
    check("req_100 n100 100", (Some(100), None, None), "req_100 n100 1000");
}

#[test]
fn a_lower_bound_stays_a_lower_bound() {
    let body = "at least 91, 10 beside it, 100 holds, 101 in all, 90 left";
    check(
        body,
        (Some(100), Some(91), Some(10)),
        "at least 951, 50 beside it, 1000 holds, 1001 in all, 950 left",
    );
}

#[test]
fn no_refusal_contains_an_unfilled_placeholder() {
    // A misspelt placeholder stays in the text.
    let names = regex::Regex::new("<[a-z]+>").unwrap();
    for family in ErrorFamily::ALL {
        for refusal in [family.refusal(), family.sum_refusal()] {
            let body = refusal.with_numbers(OVERFLOW).body;
            let unfilled = |(name, _): &(&str, u64)| body.contains(name);
            assert_eq!(OVERFLOW.numbers().iter().find(|name| unfilled(name)), None, "{body}");
            assert!(!names.is_match(&body), "{body}");
        }
    }
}
