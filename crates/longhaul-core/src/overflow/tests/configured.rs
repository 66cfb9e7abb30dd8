//! Configured patterns.

use serde_json::json;

use crate::dialect::Dialect;
use crate::overflow::tests::finish;
use crate::overflow::{
    ClassifierRules, MAX_PATTERN_BYTES, MAX_PATTERNS, Overflow, ReplyClassifier, Verdict,
};

const WORDING: &str = "Bucket brim-full: 60,000 drops and 500 to come, holds 16,384.";

fn verdict(message: &str, patterns: &[&str]) -> Verdict {
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.into()).collect();
    let rules = ClassifierRules::with_patterns(&patterns).unwrap();
    let body = json!({ "error": { "message": message } }).to_string();
    let reading = ReplyClassifier::new(Dialect::ChatCompletions, 400, &rules, None);
    finish(reading, [body.as_bytes()])
}

fn overflow() -> Overflow {
    Overflow::stated(None, None)
}

#[test]
fn a_configured_pattern_recognises_an_unknown_wording_with_its_numbers() {
    assert_eq!(verdict(WORDING, &[]), Verdict::Unexplained(None));
    let bare = Verdict::Overflow(overflow());
    assert_eq!(verdict(WORDING, &["brim-full"]), bare);
    assert_eq!(verdict(WORDING, &["no", "Brim-Full: [0-9]{5} D"]), bare);
    let numbers = r"full: (?<input>\d+) drops and (?<output>\d+) to come, holds (?<limit>\d+)";
    let told =
        Overflow { limit: Some(16_384), output: Some(500), used: Some(60_000), ..overflow() };
    assert_eq!(verdict(WORDING, &["brim", numbers]), Verdict::Overflow(told));
}

#[test]
fn configured_total_and_excess_groups_are_read() {
    for (wording, pattern, excess) in [
        ("17000 of 16384 drops", r"(?<total>\d+) of (?<limit>\d+) drops", 616),
        ("616 drops too many", r"(?<excess>\d+) drops too many", 616),
    ] {
        let Verdict::Overflow(found) = verdict(wording, &[pattern]) else { panic!("{wording}") };
        assert_eq!((found.excess, found.used), (Some(excess), None), "{wording}");
    }
}

#[test]
fn a_configured_pattern_can_find_an_excessive_output() {
    let numbers = r"brim-full: (?<limit>\d+) drops and (?<output>\d+) to come, holds (?<input>\d+)";
    let smaller = Verdict::OutputTooLarge { limit: 60_000, input: Some(16_384), output: 50_000 };
    let wording = WORDING.replace("500", "50_000");
    assert_eq!(verdict(&wording, &[numbers]), smaller);
}

#[test]
fn numbers_of_a_configured_pattern_precede_those_of_the_table() {
    let known = "This model's maximum context length is 128000 tokens, or 99 drops.";
    let Verdict::Overflow(found) = verdict(known, &[r"or (?<limit>\d+) drops"]) else {
        panic!("{known}")
    };
    assert_eq!(found.limit, Some(99));
}

#[test]
fn a_veto_overrides_a_configured_pattern() {
    let throttled = format!("Rate limit reached. {WORDING}");
    assert_eq!(verdict(&throttled, &["brim-full"]), Verdict::Fine);
}

#[test]
fn rejects_an_invalid_pattern_with_its_position() {
    let check = |pattern: &str, expect: &str| {
        let refused = ClassifierRules::with_patterns(&["a".into(), pattern.into()]).unwrap_err();
        assert_eq!(refused, expect);
    };
    check("(", "pattern 2: unclosed group");
    check("", "pattern 2: matches every text");
    check("a*", "pattern 2: matches every text");
    check(
        r"(?<prompt>\d+)",
        "pattern 2: found the group `prompt`, expected excess, input, limit, output, total",
    );
    check(r"(a{1000}){1000}", "pattern 2: the compiled pattern exceeds 262144 bytes");
    let long = "a".repeat(MAX_PATTERN_BYTES + 1);
    check(&long, "pattern 2: found 1025 bytes, expected at most 1024");
    assert!(ClassifierRules::with_patterns(&["a".repeat(MAX_PATTERN_BYTES)]).is_ok());
    let many = vec!["a".to_owned(); MAX_PATTERNS + 1];
    assert_eq!(
        ClassifierRules::with_patterns(&many).unwrap_err(),
        "found 65 patterns, expected at most 64"
    );
    assert!(ClassifierRules::with_patterns(&many[1..]).is_ok());
}
