//! Locations of stores and proxies, and how a store distinguishes callers.

use std::fmt;
use std::path::PathBuf;

use http::{HeaderName, Uri};

use super::redact::redacted_url;

/// Criterion that distinguishes callers. Records of different callers are kept apart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CallerIdentity {
    /// By their own credentials.
    Credentials,
    /// By this header, which something in front of longhaul sets and no client can.
    Header(HeaderName),
}

/// Durable location of records.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreLocation {
    /// A file.
    File(PathBuf),
    /// No durable location: records end with the process.
    Memory,
    /// A Redis or Valkey server.
    Redis(RedisUrl),
}

/// URL of a Redis or Valkey server. It may contain a password, which `Debug` and `Display` leave
/// out.
#[derive(Clone, Eq, PartialEq)]
pub struct RedisUrl(pub(super) String);

impl RedisUrl {
    /// Returns the URL as given, with the password.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("redis", &self.0));
        // A socket URL has its password after the path, a host URL before the host.
        let (user, place) = match rest.rsplit_once('@') {
            Some((_, place)) if !scheme.ends_with("+unix") => ("…@", place),
            _ => ("", rest),
        };
        let (place, query) = match place.split_once('?') {
            Some((place, _)) => (place, "?…"),
            None => (place, ""),
        };
        write!(f, "{scheme}://{user}{place}{query}")
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// URL schemes that Redis and Valkey clients use; `s` means TLS.
const REDIS_SCHEMES: &str = "redis redis+cluster redis+unix rediss rediss+cluster \
                             valkey valkey+cluster valkey+unix valkeys valkeys+cluster";

impl StoreLocation {
    /// Parses a location. The error states what was expected and leaves out the text, which may
    /// contain a password.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("memory") {
            return Ok(Self::Memory);
        }
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            if path.starts_with("~/") {
                return Err(
                    "found a path that begins with ~/, which only a shell expands; write it out, as \
                     file:/home/YOU/longhaul.db, or let the shell do it: file:$HOME/longhaul.db",
                );
            }
            return Ok(Self::File(path.into()));
        }
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        if scheme.is_some_and(|scheme| REDIS_SCHEMES.split(' ').any(|known| known == scheme)) {
            return Ok(Self::Redis(RedisUrl(text.to_owned())));
        }
        Err("expected memory, file:PATH, or redis://HOST:PORT, with rediss for TLS and \
             redis+cluster://HOST:PORT,HOST:PORT for a Cluster")
    }
}

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
