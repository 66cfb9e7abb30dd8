//! Limits on the body of a request that a refusal states: its bytes, or the number of its messages.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::Verdict;
use crate::overflow::error_details::ErrorDetails;
use crate::overflow::heuristics::{RequestText, bytes};
use crate::overflow::vocabulary::{compile, matches, parse};
use crate::units::body_limits::BodyLimits;

/// Maximum ratio of a body to a limit that its refusal states.
const MAX_RATIO: usize = 64;

/// Returns the verdict on a refusal of `sent` with the limits on the body that the refusal states.
pub(super) fn stated(
    status: u16,
    details: &ErrorDetails,
    sent: &RequestText<'_>,
    cause: impl FnOnce() -> Verdict,
) -> Verdict {
    if let Some(limits) = stated_items(status, details, sent) {
        return Verdict::BodyTooLarge(limits);
    }
    let verdict = cause();
    if let Verdict::BodyTooLarge(_) = verdict {
        return Verdict::BodyTooLarge(stated_bytes(details, sent.bytes()));
    }
    verdict
}

/// Returns the limit in bytes that an error states, the smallest below the `sent` bytes.
fn stated_bytes(details: &ErrorDetails, sent: u64) -> BodyLimits {
    let is_limit = |it: &u64| *it < sent && *it >= sent / MAX_RATIO as u64;
    let figures = details.figures.iter().map(String::as_bytes);
    let texts = details.texts.iter().map(Vec::as_slice).chain(figures);
    let limit = texts.flat_map(bytes::sizes).filter(is_limit).min();
    let limit = limit.and_then(|it| usize::try_from(it).ok());
    limit.map_or(BodyLimits::UNKNOWN, BodyLimits::of_bytes)
}

/// Returns the maximum number of messages, if an error refuses the request for more. The error states the number
/// that was sent, or begins with the name of the list.
fn stated_items(status: u16, details: &ErrorDetails, sent: &RequestText<'_>) -> Option<BodyLimits> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| compile(r"\b[0-9]{1,6}\b"));
    if !matches!(status, 400 | 413 | 422) {
        return None;
    }
    let is_about_lists = |text: &&Vec<u8>| matches("list", text) && !matches("list-part", text);
    let mut texts = details.texts.iter().filter(is_about_lists);
    texts.find_map(|text| {
        let numbers = NUMBER.find_iter(text);
        let numbers: Vec<usize> = numbers.filter_map(|it| parse(it.as_bytes())).collect();
        let items = sent.items();
        let is_about_list = numbers.contains(&items) || matches("list-first", text);
        let limits = numbers.into_iter();
        let limit = limits.filter(|it| is_about_list && *it < items && *it > items / MAX_RATIO);
        limit.max().map(BodyLimits::of_items)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn details(message: &str) -> ErrorDetails {
        let mut details = ErrorDetails::default();
        details.add_value(&json!({"error": {"message": message}}));
        details
    }

    #[test]
    fn bytes_are_read_with_their_unit() {
        for (message, expect) in [
            ("Request body too large. Maximum is 700,000 bytes.", 700_000),
            ("body of 812345 bytes exceeds the limit of 512KB", 512_000),
            ("Max 4 MiB per request", usize::MAX),
            ("http: request body too large", usize::MAX),
            ("limit of 100 requests", usize::MAX),
            ("limit is 20971520", usize::MAX),
        ] {
            let limits = stated_bytes(&details(message), 812_345);
            assert_eq!(limits.bytes, expect, "{message}");
        }
    }

    #[test]
    fn only_a_limit_on_the_whole_list_counts() {
        let message = r#"{"role":"user","content":"x"}"#;
        let body = format!(r#"{{"messages":[{}]}}"#, vec![message; 130].join(","));
        let sent = RequestText::new(body.as_bytes(), "/v1/messages");
        for (message, expect) in [
            (
                "Invalid 'messages': array too long. Expected an array with maximum length 128, but got an array with length 130 instead.",
                Some(128),
            ),
            ("Too many messages in the request (130 > 100)", Some(100)),
            ("messages: List should have at most 64 items after validation", Some(64)),
            (
                "Invalid 'messages[3].tool_calls': array too long. Expected an array with maximum length 128, but got an array with length 130 instead.",
                None,
            ),
            ("Invalid 'messages': array too long.", None),
            ("messages: at most 20 images, got 130", None),
            ("30 messages are allowed", None),
        ] {
            let limits = stated_items(400, &details(message), &sent).map(|it| it.items);
            assert_eq!(limits, expect, "{message}");
        }
        assert_eq!(stated_items(429, &details("130 messages > 100 per day"), &sent), None);
    }
}
