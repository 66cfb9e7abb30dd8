//! The upstream's base URL, parsed once.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr as _;

use http::HeaderValue;
use http::uri::{Authority, PathAndQuery, Scheme, Uri};

use crate::models::HostKind;
use longhaul_core::dialect::Dialect;

/// An `http://` or `https://` base URL.
///
/// Invariant: the path is empty, or begins with `/` and does not end with one.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    scheme: Scheme,
    authority: Authority,
    host: HeaderValue,
    host_kind: HostKind,
    path: String,
}

impl BaseUrl {
    /// Parses a base URL. A host without a scheme gets `https://`, or `http://` if the host is on
    /// this machine or its network.
    ///
    /// Errors never include the text, which may contain a key.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let with_scheme = with_scheme(text.trim()).ok_or(NO_SCHEME)?;
        let text = with_scheme.as_ref();
        if text.contains(['?', '#']) {
            return Err("a base URL ends with its path, without a query or fragment".into());
        }
        let uri: Uri = text.parse().map_err(|_| NOT_A_URL)?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.ok_or(NO_SCHEME)?;
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(NO_SCHEME.into());
        }
        let authority = parts.authority.ok_or(NOT_A_URL)?;
        if authority.as_str().contains('@') {
            let advice = "agents send their own key";
            return Err(format!("a base URL cannot contain a user or password; {advice}"));
        }
        // The URI parser reports a port that is not a number as absent.
        let has_port = authority.as_str().len() > authority.host().len();
        if authority.host().is_empty() || authority.port().is_some() != has_port {
            return Err(NOT_A_URL.into());
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| NOT_A_URL)?;
        let path = parts
            .path_and_query
            .map_or_else(String::new, |path| path.path().trim_end_matches('/').to_owned());
        if let Some(dialect) = Dialect::of_path(&path) {
            return Err(format!(
                "a base URL does not include {}, which agents append; give the part before it",
                dialect.path()
            ));
        }
        Ok(Self { scheme, host_kind: HostKind::from_host(authority.host()), authority, host, path })
    }

    pub(crate) fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the kind of the host, computed once because each request needs it.
    pub(crate) fn host_kind(&self) -> HostKind {
        self.host_kind
    }

    /// Returns the authority as a value of the Host header.
    pub(crate) fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Returns the path without a trailing slash; empty if the URL has none.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns scheme, host and port, which are safe to show to anyone.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// Returns the URL of `target`, a path with its query, at this host. Fails if they form no valid URL.
    pub(crate) fn url_of<T>(&self, target: T) -> http::Result<Uri>
    where
        T: TryInto<PathAndQuery, Error: Into<http::Error>>,
    {
        let uri = Uri::builder().scheme(self.scheme.clone());
        let uri = uri.authority(self.authority.clone());
        uri.path_and_query(target).build()
    }

    /// Returns the port: explicit, or the default of the scheme.
    pub(crate) fn port(&self) -> u16 {
        let implied = if self.scheme == Scheme::HTTPS { 443 } else { 80 };
        self.authority.port_u16().unwrap_or(implied)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// Returns scheme, host and port of `uri`. The path and the user may be secrets.
pub(crate) fn uri_origin(uri: &Uri) -> String {
    let (scheme, host) = (uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default());
    let port = uri.port().map(|port| format!(":{port}"));
    format!("{scheme}://{host}{}", port.unwrap_or_default())
}

const NOT_A_URL: &str = "expected a URL like https://openrouter.ai/api/v1";
const NO_SCHEME: &str = "expected a URL that begins with http:// or https://, or a host name, like \
                         openrouter.ai/api/v1";

/// Returns `text` as a URL. `None` if the text has no scheme and does not begin with a host. A key
/// that was given in place of a URL must not become the name of a host.
fn with_scheme(text: &str) -> Option<Cow<'_, str>> {
    if text.contains("://") {
        return Some(Cow::Borrowed(text));
    }
    let authority: Authority = text.split('/').next()?.parse().ok()?;
    let host = authority.host();
    let is_host = host.eq_ignore_ascii_case("localhost")
        || (!host.is_empty() && authority.port_u16().is_some())
        || IpAddr::from_str(host.trim_matches(['[', ']'])).is_ok()
        || is_domain(host);
    let scheme = match HostKind::from_host(host) {
        HostKind::Local => "http",
        HostKind::Provider(_) | HostKind::Unknown => "https",
    };
    is_host.then(|| Cow::Owned(format!("{scheme}://{text}")))
}

/// Whether `host` is a name with a top-level domain. A label has at most 63 characters, as the
/// domain name system demands.
fn is_domain(host: &str) -> bool {
    let mut labels = host.rsplit('.');
    let top = labels.next().unwrap_or_default();
    let plain = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let mut below = labels.peekable();
    top.len() >= 2
        && top.bytes().all(|byte| byte.is_ascii_alphabetic())
        && below.peek().is_some()
        && below.all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expect: Result<&str, &str>) {
        let found = BaseUrl::parse(input).map(|base| base.to_string());
        match (found, expect) {
            (Ok(found), expect) => assert_eq!(Ok(&*found), expect, "{input}"),
            (Err(why), expect) => assert!(why.contains(expect.unwrap_err()), "{input}: {why}"),
        }
    }

    #[test]
    fn accepts_http_and_https_urls_and_strips_trailing_slashes() {
        check("https://api.openai.com/v1", Ok("https://api.openai.com/v1"));
        check("http://localhost:11434/", Ok("http://localhost:11434"));
        check(" http://[::1]:8000/api/v1// ", Ok("http://[::1]:8000/api/v1"));
    }

    #[test]
    fn a_host_without_a_scheme_gets_the_one_that_its_place_implies() {
        check("openrouter.ai/api/v1", Ok("https://openrouter.ai/api/v1"));
        check("gateway.example:8443/v1/", Ok("https://gateway.example:8443/v1"));
        check("localhost:11434/v1", Ok("http://localhost:11434/v1"));
        check("vllm:8000/v1", Ok("http://vllm:8000/v1"));
        check("192.168.1.9:8000", Ok("http://192.168.1.9:8000"));
        check("[::1]:8000/v1", Ok("http://[::1]:8000/v1"));
    }

    #[test]
    fn a_key_in_place_of_a_url_does_not_become_a_host() {
        for text in ["sk-hunter2", "sk-hunter2.8", "/v1", "v1", ":8000", "hunter2/v1"] {
            check(text, Err(NO_SCHEME));
        }
        check("user:key@example.com", Err("a user or password"));
    }

    #[test]
    fn rejects_invalid_base_urls_with_the_reason() {
        check("ftp://example.com", Err(NO_SCHEME));
        check("https://", Err(NOT_A_URL));
        check("https://example.com:http/", Err(NOT_A_URL));
        check("https://user:key@example.com", Err("a user or password"));
        check("https://example.com/v1?api-version=1", Err("a query"));
        check("", Err(NO_SCHEME));
        for whole in ["https://h/v1/chat/completions", "https://h/chat/completions/"] {
            check(whole, Err("include /chat/completions"));
        }
    }

    #[test]
    fn port_defaults_by_scheme() {
        let port = |text: &str| BaseUrl::parse(text).unwrap().port();
        assert_eq!(port("https://example.com"), 443);
        assert_eq!(port("http://example.com"), 80);
        assert_eq!(port("https://example.com:8443"), 8443);
    }
}
