//! Finds a limit on the bytes of a request's body among the numbers of a statement.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::overflow::heuristics::numbers::compile;
use crate::overflow::vocabulary::matches;

/// Smallest limit in bytes. Smaller numbers count something else.
const MIN_LIMIT: u64 = 1_024;

/// Whether a statement gives the body a size of `sent` bytes, to a twentieth, and states a smaller
/// limit. A statement that names tokens counts no bytes.
pub(super) fn states_limit(text: &str, sent: u64) -> bool {
    static NUMBER: LazyLock<Regex> = LazyLock::new(|| compile(r"\b[0-9]{4,12}(\b|b\b|bytes?\b)"));
    if text.contains("token") || !matches("body", text) {
        return false;
    }
    let numbers = || {
        let found = NUMBER.find_iter(text.as_bytes());
        let digits = found.filter_map(|one| std::str::from_utf8(one.as_bytes()).ok());
        digits.filter_map(|one| {
            one.trim_end_matches(char::is_alphabetic)
                .parse::<u64>()
                .ok()
        })
    };
    let is_sent = |one: u64| one >= sent / 20 * 19 && one <= sent / 20 * 21;
    let mut sizes = numbers().filter(|&one| is_sent(one));
    let size = sizes.next().filter(|_| sent >= MIN_LIMIT);
    size.is_some_and(|size| numbers().any(|limit| limit < size && limit >= MIN_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: bool) {
        assert_eq!(states_limit(text, 812_000), expect, "{text}");
    }

    #[test]
    fn two_numbers_about_the_body_state_a_limit_of_bytes() {
        check("body 812345 > 524288", true);
        check("payload of 812000 bytes, at most 500000 bytes", true);
        check("content-length 811900b exceeds 524288b", true);
        check("请求体大小812345超过524288", true);
        check(
            "der anfragekörper hat 812345 byte, erlaubt sind 524288",
            true,
        );
    }

    #[test]
    fn other_numbers_state_no_limit_of_bytes() {
        check("812345 > 524288", false);
        check("body 812345 < 924288", false);
        check("body of 812345 tokens > 524288", false);
        check("body 4096 > 1024", false);
        check("body 812345", false);
        check("", false);
    }
}
