//! Finds a limit on the bytes of a request's body among the numbers of a statement.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::heuristics::RequestSizes;
use crate::overflow::vocabulary::{compile, matches, parse};

/// Smallest limit in bytes. Smaller numbers count something else.
const MIN_LIMIT: u64 = 1_024;

/// Whether a statement gives the body about `sent` bytes, and states a smaller limit. A statement that
/// names tokens counts no bytes.
pub(super) fn states_limit(text: &str, sent: u64) -> bool {
    if text.contains("token") || !matches("body", text) {
        return false;
    }
    let sizes: Vec<u64> = sizes(text.as_bytes()).collect();
    let is_sent = |one: &&u64| (sent / 4 * 3..=sent / 4 * 5).contains(*one) && sent >= MIN_LIMIT;
    let limits = |size: &u64| sizes.iter().any(|limit| (MIN_LIMIT..*size).contains(limit));
    sizes.iter().find(is_sent).is_some_and(limits)
}

/// Factor above which a number is no size of a request.
pub(super) const MAX_FACTOR: u64 = 128;

/// Whether a statement compares a size above the bytes of the body, and states no size of the body. No token
/// is shorter than a byte.
pub(super) fn counts_larger_body(text: &str, sent: &RequestSizes<'_>) -> bool {
    let (bytes, tokens) = (sent.bytes(), sent.tokens());
    let sizes: Vec<u64> = sizes(text.as_bytes()).collect();
    let near = |size: u64| size / 2..=size / 2 * 3;
    let is_own = |one: &u64| near(bytes).contains(one) || near(tokens).contains(one);
    let own = bytes + u64::from(sent.facts.output.unwrap_or_default());
    let larger = own..own * MAX_FACTOR;
    sizes.len() >= 2 && sizes.iter().any(|one| larger.contains(one)) && !sizes.iter().any(is_own)
}

/// Reads the numbers of a text that may be sizes, in bytes if they have such a unit. Prefixes count as powers of
/// 1,000, so that no limit is read as higher than stated.
pub(in crate::overflow) fn sizes(text: &[u8]) -> impl Iterator<Item = u64> {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
        compile(r"\b([0-9]{1,12})(?:\.[0-9]+)? ?(?:([kmg])i?b)?(?:\b|b\b|bytes?\b)")
    });
    let size = |one: regex::bytes::Captures<'_>| {
        let number: u64 = parse(one.get(1)?.as_bytes())?;
        let unit = match one.get(2).map(|unit| unit.as_bytes()) {
            Some(b"k") => 1_000,
            Some(b"m") => 1_000_000,
            Some(_) => 1_000_000_000,
            None => 1,
        };
        Some(number.saturating_mul(unit)).filter(|size| *size >= MIN_LIMIT)
    };
    NUMBER.captures_iter(text).filter_map(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_about_the_body_state_a_limit_of_bytes() {
        for text in [
            "body 812345 > 524288",
            "payload of 812000 bytes, at most 500000 bytes",
            "content-length 811900b exceeds 524288b",
            "请求体大小812345超过524288",
            "der anfragekörper hat 812345 byte, erlaubt sind 524288",
        ] {
            assert!(states_limit(text, 812_000), "{text}");
        }
        for text in [
            "812345 > 524288",
            "body 812345 < 924288",
            "body of 812345 tokens > 524288",
            "body 4096 > 1024",
            "body 812345",
            "",
        ] {
            assert!(!states_limit(text, 812_000), "{text}");
        }
    }
}
