//! Tests of the lines for people.

use super::*;

fn fields(message: &str, values: &[(&'static str, &str)]) -> EventFields {
    EventFields {
        message: message.into(),
        values: values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
    }
}

const PLAIN: ConsoleFormat = ConsoleFormat { has_colour: false };
const NOON: &str = "12:00:00+02:00";

#[test]
fn the_line_of_a_request_says_what_happened_in_the_order_of_the_questions() {
    let mended = fields(
        REQUEST,
        &[
            ("model", "gpt-4o"),
            ("conversation", "157975d7f5602cec"),
            ("action", "retry, prune"),
            ("pruned", "9"),
            ("tokens_before", "35855"),
            ("tokens_after", "3935"),
            ("refused_tokens", "35741"),
            ("refused_limit", "32768"),
            ("counted_tokens", "4000"),
            ("cached_tokens", "2080"),
            ("cost_nano_usd", "90000000"),
            ("status", "200"),
            ("duration_ms", "44"),
            ("ended", "complete"),
        ],
    );
    assert_eq!(
        PLAIN.line(NOON, Level::INFO, &mended),
        "12:00:00+02:00  gpt-4o  157975d7  refused at 35.7k (window 32.8k) → cleared 9 results, 35.9k → \
         3.9k, sent again  cache 52%  $0.090  200  44 ms"
    );
    let other =
        [("method", "GET"), ("path", "/v1/models"), ("status", "502"), ("duration_ms", "1")];
    assert_eq!(
        PLAIN.line("12:01:01+02:00", Level::INFO, &fields(REQUEST, &other)),
        "12:01:01+02:00  GET /v1/models  502  1 ms"
    );
}

#[test]
fn an_event_names_model_and_conversation_and_reads_as_words() {
    let learned = fields(
        "learned a window",
        &[
            ("model", "gpt-4o"),
            ("conversation", "e73613c6eb259e59"),
            ("refused_tokens", "37140"),
            ("was_source", "assumed"),
        ],
    );
    assert_eq!(
        PLAIN.line(NOON, Level::INFO, &learned),
        "12:00:00+02:00  gpt-4o  e73613c6  learned a window  refused tokens 37,140, was source assumed"
    );
    let failed = [
        ("model", "m"),
        ("conversation", "e7"),
        ("action", "digest"),
        ("tokens_before", "9"),
        ("tokens_after", "9"),
        ("status", "500"),
        ("error", "server_error"),
        ("duration_ms", "1"),
    ];
    assert_eq!(
        PLAIN.line(NOON, Level::WARN, &fields(REQUEST, &failed)),
        "12:00:00+02:00  m  e7  digest in use, 9 tokens  500  server_error  1 ms"
    );
}

#[test]
fn colours_are_on_a_terminal_only() {
    let warning = fields("no answer", &[("status", "502")]);
    assert_eq!(
        PLAIN.line(NOON, Level::WARN, &warning),
        "12:00:00+02:00  WARN  no answer  status 502"
    );
    let coloured = ConsoleFormat { has_colour: true };
    let line = coloured.line(NOON, Level::WARN, &warning);
    assert!(line.contains("\u{1b}[33mWARN\u{1b}[0m"), "{line}");
}

#[test]
fn what_a_client_chose_cannot_steer_the_terminal() {
    assert_eq!(printable_name("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
}
