//! Texts that may hold a password, as they are shown.

use std::borrow::Cow;

/// A value without what stands between the scheme and the host of a URL, and behind its path, where
/// a socket has its password. Where it cannot be told which of the two an `@` is in, neither is
/// shown, nor what is between them.
pub(super) fn without_credentials(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Cow::Borrowed(text);
    };
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, place) = match before.rsplit_once('@') {
        Some((_, place)) => ("…@", place),
        None if query.contains('@') => return Cow::Owned(format!("{scheme}://…")),
        None => ("", before),
    };
    let query = if query.is_empty() { "" } else { "?…" };
    Cow::Owned(format!("{scheme}://{user}{place}{query}"))
}

/// The same of what should be a URL, and may lack its scheme.
pub(crate) fn redacted_url(text: &str) -> Cow<'_, str> {
    match text.rsplit_once('@') {
        Some((_, place)) if !text.contains("://") => Cow::Owned(format!("…@{place}")),
        Some(_) | None => without_credentials(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        assert_eq!(without_credentials(text), expect);
    }

    #[test]
    fn a_url_is_shown_without_its_user_and_its_query() {
        check("redis://u:p@h:1/0", "redis://…@h:1/0");
        check("redis://u:p@q@h:1/0", "redis://…@h:1/0");
        check("redis+unix:///s?pass=p&db=1", "redis+unix:///s?…");
        check("redis+unix:///s?pass=p@q", "redis+unix://…");
        check("redis://u:p?q@h", "redis://…");
        check("https://h/v1", "https://h/v1");
        check("what is it?", "what is it?");
    }

    #[test]
    fn what_is_a_url_or_should_be_one_needs_no_scheme_to_be_shown_without_its_user() {
        assert_eq!(redacted_url("http://u:p@h/v1"), "http://…@h/v1");
        assert_eq!(redacted_url("u:p@h/v1"), "…@h/v1");
        assert_eq!(redacted_url("h/v1"), "h/v1");
    }
}
