//! Proxies between longhaul and its upstreams, named by the same variables as in other programs.

use std::fmt;

use http::Uri;

use super::redact::redacted_url;

/// Proxies for reaching upstreams.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Proxies {
    /// Proxy for http:// upstreams.
    pub http: Option<ProxyUrl>,
    /// Proxy for https:// upstreams.
    pub https: Option<ProxyUrl>,
    /// Proxy for both schemes, unless one has its own.
    pub all: Option<ProxyUrl>,
    /// Hosts that are reached without a proxy.
    pub no_proxy: String,
}

/// URL of a proxy. It may contain a password, which `Debug` leaves out.
#[derive(Clone, Eq, PartialEq)]
pub struct ProxyUrl(String);

impl ProxyUrl {
    /// Returns the URL with the password. The scheme is one of `http`, `https`, `socks5` and
    /// `socks5h`.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Parses a proxy URL. The error states what was expected and leaves out the text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected a URL like http://proxy.example:3128, with the scheme \
                                http, https or socks5";
        let text = text.trim();
        let (scheme, place) = text.split_once("://").unwrap_or(("http", text));
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => "http",
            "https" => "https",
            // Unversioned `socks` has meant version 5 for decades.
            "socks" | "socks5" => "socks5",
            "socks5h" => "socks5h",
            _ => return Err(EXPECTED.into()),
        };
        let url = format!("{scheme}://{place}");
        let uri: Uri = url.parse().map_err(|_| EXPECTED)?;
        if uri.host().is_none_or(str::is_empty) {
            return Err(EXPECTED.into());
        }
        Ok(Self(url))
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted_url(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        let found = ProxyUrl::parse(text);
        assert_eq!(found.as_ref().ok().map(ProxyUrl::expose), expect, "{text}");
        let shown = format!("{found:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_proxy_is_a_url_or_a_host_and_a_port() {
        check("http://proxy:3128", Some("http://proxy:3128"));
        check(" proxy:3128 ", Some("http://proxy:3128"));
        check("HTTPS://proxy", Some("https://proxy"));
        check("socks://[::1]:1080/", Some("socks5://[::1]:1080/"));
        check("socks5h://proxy", Some("socks5h://proxy"));
    }

    #[test]
    fn a_password_is_kept_and_never_shown() {
        check("http://me:hunter2@proxy:1", Some("http://me:hunter2@proxy:1"));
        check("me:hunter2@proxy:1", Some("http://me:hunter2@proxy:1"));
        for wrong in ["socks4://hunter2", "ftp://me:hunter2@p", "http://", "http://hunter2 x"] {
            check(wrong, None);
        }
    }
}
