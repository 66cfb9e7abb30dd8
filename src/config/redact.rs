//! Redaction of texts that may contain a password.

use std::borrow::Cow;

/// Returns `text` without the credentials of a URL: the part between scheme and host, and the
/// query, which holds the password of a socket URL. If an `@` could be in either part, both are
/// hidden, and so is everything between them.
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

/// Like [`without_credentials`], for a URL whose scheme may be missing.
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
    fn redacts_the_user_and_query_of_a_url() {
        check("redis://u:p@h:1/0", "redis://…@h:1/0");
        check("redis://u:p@q@h:1/0", "redis://…@h:1/0");
        check("redis+unix:///s?pass=p&db=1", "redis+unix:///s?…");
        check("redis+unix:///s?pass=p@q", "redis+unix://…");
        check("redis://u:p?q@h", "redis://…");
        check("https://h/v1", "https://h/v1");
        check("what is it?", "what is it?");
    }

    #[test]
    fn redacts_the_user_of_a_url_without_a_scheme() {
        assert_eq!(redacted_url("http://u:p@h/v1"), "http://…@h/v1");
        assert_eq!(redacted_url("u:p@h/v1"), "…@h/v1");
        assert_eq!(redacted_url("h/v1"), "h/v1");
    }
}
