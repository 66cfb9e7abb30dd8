//! Tests of the heuristics, statement by statement.

use super::*;
use crate::overflow::LimitKind;
use crate::overflow::tests::unseen::LARGE;

const FACTS: RequestFacts<'static> =
    RequestFacts { model: "acme/long-context-exceeded-7b", ..LARGE };

fn weigh(status: u16, text: &str, facts: &RequestFacts<'_>) -> Assessment {
    let mut details = ErrorDetails::default();
    details.add_text(text);
    assess(status, &details, &details, facts)
}

fn assess(
    status: u16,
    details: &ErrorDetails,
    unquoted: &ErrorDetails,
    facts: &RequestFacts<'_>,
) -> Assessment {
    let refusal = Refusal {
        status,
        details,
        unquoted,
        sizes: &RequestSizes::new(facts),
        rules: ClassifierRules::standard(),
    };
    refusal.assess()
}

fn weigh_text(status: u16, text: &str) -> Assessment {
    weigh(status, text, &FACTS)
}

fn check(status: u16, text: &str, confidence: Confidence) {
    let found = weigh_text(status, text).confidence;
    assert_eq!(found, confidence, "{status} {text}");
}

#[test]
fn a_pair_of_numbers_suffices_but_words_need_a_large_request() {
    check(400, "got 150321 tokens, allowed 131072", Confidence::Strong);
    check(400, "Prompt overlong, sorry: context too large", Confidence::Words);
    check(400, "worker 150321 failed: 131072", Confidence::Nothing);
    let words = weigh_text(400, "the conversation is too long");
    assert!(words.verdict(&FACTS).is_some());
    let small = RequestFacts { window: Some(1_000_000), largest_accepted: 150_000, ..FACTS };
    assert_eq!(words.verdict(&small), None);
}

#[test]
fn a_request_is_large_near_the_window_or_well_above_accepted_sizes() {
    let facts = |window, largest_accepted| RequestFacts {
        tokens: 80_000,
        window: Some(window),
        largest_accepted,
        ..FACTS
    };
    assert!(facts(100_000, 80_000).is_large());
    assert!(!facts(100_001, 80_000).is_large());
    assert!(facts(1_000_000, 64_000).is_large());
    assert!(facts(1_000_000, 64_000).explains_silence());
    assert!(!facts(1_000_000, 64_001).explains_silence());
    assert!(facts(1_000_000, 79_999).is_large());
    assert!(!facts(1_000_000, 80_000).is_large());
    let tiny = RequestFacts { tokens: 2_047, window: None, largest_accepted: 0, ..FACTS };
    assert!(!tiny.is_large());
}

#[test]
fn strong_evidence_overrides_a_401_but_not_a_vetoed_status() {
    check(401, "context_length_exceeded", Confidence::Strong);
    check(401, "k3 supports only 256K context.", Confidence::Words);
    check(401, "the message is too long", Confidence::Nothing);
    for status in [402, 404, 414, 429, 431] {
        check(status, "got 150321 tokens, allowed 131072", Confidence::Vetoed);
    }
}

#[test]
fn a_limit_on_one_request_is_no_window() {
    let text =
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000";
    let verdict = weigh_text(413, text).verdict(&FACTS);
    let Some(Verdict::Overflow(overflow)) = verdict else { panic!("{verdict:?}") };
    assert_eq!(overflow.kind, LimitKind::Request);
    assert_eq!((overflow.limit, overflow.excess), (Some(6_000), Some(3_000)));
    check(413, &text.replace("Limit 6000", "Limit 6000, Used 4000"), Confidence::Vetoed);
    check(429, text, Confidence::Strong);
    check(404, text, Confidence::Vetoed);
    check(413, &text.replace("9000", "6000"), Confidence::Vetoed);
}

#[test]
fn a_limit_in_characters_is_converted() {
    let text = "text length is 600120, which is outside the range (0, 400000]";
    let Some(Verdict::Overflow(overflow)) = weigh_text(400, text).verdict(&FACTS) else {
        panic!("no overflow")
    };
    assert_eq!(overflow.kind, LimitKind::Characters);
    assert_eq!((overflow.limit, overflow.used), (Some(100_000), Some(150_000)));
}

#[test]
fn model_names_links_and_help_are_no_evidence_or_veto() {
    for (text, confidence) in [
        ("The model acme/long-context-exceeded-7b is down", Confidence::Nothing),
        ("Prompt too large. Received Model Group=daily-driver", Confidence::Words),
        ("Prompt too large. Visit https://a.example/rate-limits", Confidence::Words),
        ("Prompt too large for the daily quota", Confidence::Vetoed),
        // The limit is far above the request.
        ("The context length cannot exceed 10000000", Confidence::Nothing),
    ] {
        check(400, text, confidence);
    }
}

#[test]
fn years_and_model_numbers_are_not_sizes() {
    let small = RequestFacts { tokens: 1_600, body_tokens: 1_600, ..FACTS };
    let text = "The chat model was retired in 2024. Migrate over to the 1106 release.";
    assert_eq!(weigh(400, text, &small).verdict(&small), None);
}

#[test]
fn an_excessive_output_limit_is_not_an_overflow() {
    let text =
        "input has 150000 tokens and max_completion_tokens: 65536 exceeds the context of 163840";
    let verdict = weigh_text(400, text).verdict(&FACTS);
    let expect = Verdict::OutputTooLarge { limit: 163_840, input: Some(150_000), output: 65_536 };
    assert_eq!(verdict, Some(expect));
}

#[test]
fn a_character_limit_scales_with_the_share_forwarded() {
    let rewritten = RequestFacts { tokens: 30_000, ..FACTS };
    let assessment = weigh(400, "prompt too long, at most 60k characters", &rewritten);
    // 30,000 of 150,000 tokens are 120,000 of 600,000 characters.
    assert_eq!(assessment.stated.limit, Some(15_000));
}

#[test]
fn words_only_quoted_from_the_request_count_like_an_empty_refusal() {
    let mut details = ErrorDetails::default();
    details.add_text("Bad content: 'the prompt exceeds the context of 4096 tokens'");
    let assessment = assess(400, &details, &ErrorDetails::default(), &FACTS);
    assert_eq!(assessment.confidence, Confidence::Quoted);
    let expect = Verdict::Overflow(Overflow::from_empty_reply());
    assert_eq!(assessment.verdict(&FACTS), Some(expect));
}
