//! Client tokens and upstream keys: who is served, and which credentials are sent upstream instead
//! of the client's.

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request};

use crate::config::{ClientTokens, Config};
use crate::error::Fault;
use crate::request::key_paths::KeyPaths;
use crate::request::page_guard::PageGuard;
use crate::request::scope::CREDENTIALS;

#[derive(Clone)]
pub(crate) struct AccessKeys {
    /// Tokens accepted from clients; empty if no token is required.
    tokens: ClientTokens,
    /// Key sent upstream in place of the client's credentials.
    upstream_key: Option<HeaderValue>,
    /// Paths that receive that key.
    key_paths: KeyPaths,
    /// Guard against web pages of other sites, where no token is required.
    page_guard: PageGuard,
    /// Whether the guard refuses all requests of other sites' pages, and those for unknown host names too.
    /// Otherwise the operator has opened the listener, and a request with a credential of the page passes. Such a
    /// chat can spend no key of the settings, but may reach a model that needs no key.
    guards_all: bool,
}

/// Proof of who sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Authentication<'r> {
    /// longhaul, by this token.
    ClientToken(&'r [u8]),
    /// Nothing: longhaul removes the credentials, or no token is valid.
    None,
    /// The upstream, by the credentials of the request.
    Upstream,
}

impl AccessKeys {
    pub(crate) fn new(config: &Config) -> Self {
        let ours = config.upstream.authorization.clone();
        let endpoint = config.summary.endpoint.as_ref();
        let summarisers = endpoint.and_then(|endpoint| endpoint.authorization.as_ref());
        Self {
            // Chats may spend the upstream's key, and the key for summaries.
            guards_all: ours.is_some() || summarisers.is_some() || config.is_for_this_machine,
            tokens: config.client_tokens.clone(),
            page_guard: PageGuard::new(&config.allowed_hosts),
            upstream_key: ours,
            key_paths: KeyPaths::new(&config.upstream.base, &config.upstream.key_paths),
        }
    }

    /// Checks whether the sender of `request` is served.
    ///
    /// # Errors
    /// - `InvalidToken` if a token is required and the request presents no valid one.
    /// - `ForeignPage` or `UnknownHost` if a page of another site may have caused the request.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), Fault> {
        if self.tokens.is_empty() {
            let headers = request.headers();
            // A browser sends a credential in a header only for a page that the upstream's answer to a
            // preflight allows. A key in the query or in a WebSocket's protocol needs no such answer, and
            // any page can invent one.
            let is_allowed = || is_preflight(request.method(), headers) || has_credential(headers);
            return if self.guards_all {
                self.page_guard.admit(request)
            } else if is_allowed() {
                Ok(())
            } else {
                self.page_guard.admit_page(headers)
            };
        }
        if is_preflight(request.method(), request.headers()) {
            return Ok(());
        }
        let token = self.valid_token(request.headers());
        token.map(drop).ok_or(Fault::InvalidToken)
    }

    /// Returns the client token of a request; `None` without a valid one.
    fn valid_token<'r>(&self, headers: &'r HeaderMap) -> Option<&'r [u8]> {
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        // With two values, it is unclear which one an upstream would use.
        let (Some(only), None) = (shown.next(), shown.next()) else {
            return None;
        };
        bearer_token(only.as_bytes()).filter(|token| self.tokens.contains(token))
    }

    /// Returns the proof of who sends a request.
    pub(crate) fn authentication<'r>(&self, headers: &'r HeaderMap) -> Authentication<'r> {
        if !self.tokens.is_empty() {
            let token = self.valid_token(headers);
            return token.map_or(Authentication::None, Authentication::ClientToken);
        }
        if self.holds_upstream_key() { Authentication::None } else { Authentication::Upstream }
    }

    /// Whether longhaul's own key is sent upstream in place of the caller's credentials.
    pub(crate) fn holds_upstream_key(&self) -> bool {
        self.upstream_key.is_some()
    }

    /// Whether `headers` carry a credential of the caller's own, and every path of the upstream receives it.
    pub(crate) fn forwards_credential(&self, headers: &HeaderMap) -> bool {
        self.tokens.is_empty() && self.upstream_key.is_none() && has_credential(headers)
    }

    /// Checks whether a token's owner may request the upstream's path `path`. Only paths that
    /// receive the key of the settings are open to tokens; a preflight shows none. Fails
    /// with `KeyPath` for any other path.
    pub(crate) fn admit_path<B>(&self, request: &Request<B>, path: &str) -> Result<(), Fault> {
        let is_open = self.tokens.is_empty()
            || self.upstream_key.is_none()
            || is_preflight(request.method(), request.headers())
            || self.key_paths.contains(path);
        if is_open { Ok(()) } else { Err(Fault::KeyPath) }
    }

    /// Whether the upstream's path `path` is an endpoint that runs models.
    pub(crate) fn is_endpoint(&self, path: &str) -> bool {
        self.key_paths.contains(path)
    }

    /// Returns `headers` for the upstream: with the key of the settings, and without client tokens.
    /// If neither is set, or if the key is not for `path`, the client's credentials are kept.
    ///
    /// `path` is the upstream's path.
    /// `head` is the admitted request head: `headers` may lack the fields on which admission was
    /// based.
    pub(crate) fn replace_credentials(
        &self,
        head: &Parts,
        path: &str,
        headers: HeaderMap,
    ) -> HeaderMap {
        let has_shown = self.tokens.is_empty() || !is_preflight(&head.method, &head.headers);
        let ours = self.upstream_key.as_ref();
        let ours = ours.filter(|_| has_shown && self.key_paths.contains(path));
        if ours.is_none() && self.tokens.is_empty() {
            return headers;
        }
        let mut kept = HeaderMap::with_capacity(headers.keys_len() + 1);
        for (name, value) in &headers {
            if !CREDENTIALS.contains(name) {
                kept.append(name, value.clone());
            } else if let Some(ours) = ours {
                // The key takes the place of the client's own credentials, if any.
                kept.insert(AUTHORIZATION, ours.clone());
            }
        }
        if let Some(ours) = ours {
            kept.insert(AUTHORIZATION, ours.clone());
        }
        kept
    }
}

/// Whether the request is a CORS preflight, which asks what a page may send. The browser sends it
/// before the page's own request, and never with credentials. If preflights required a token, no
/// page could send the request that follows.
fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && !has_credential(headers)
}

fn has_credential(headers: &HeaderMap) -> bool {
    CREDENTIALS.iter().any(|name| headers.contains_key(name))
}

pub(super) fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use http::HeaderName;

    use super::*;
    use crate::request::headers::{BodyFraming, request as as_sent};

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn keys(settings: &[(&str, &str)]) -> AccessKeys {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{TOKEN}").unwrap();
        let path = file.path().to_str().unwrap();
        let settings =
            settings.iter().map(|&(key, value)| (key, if value == "FILE" { path } else { value }));
        AccessKeys::new(&Config::default_with(settings).unwrap())
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn asking(method: &str, fields: &[(&'static str, &str)]) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = method.parse().unwrap();
        *request.headers_mut() = headers(fields);
        request
    }

    /// Returns whether a sender of these fields is served.
    fn admits(keys: &AccessKeys, fields: &[(&'static str, &str)]) -> Result<(), Fault> {
        keys.admit(&asking("GET", fields))
    }

    /// Returns the fields as the upstream receives them.
    fn put(keys: &AccessKeys, request: &Request<()>) -> HeaderMap {
        let head = request.clone().into_parts().0;
        let kept = as_sent(&head, &HeaderValue::from_static("h"), BodyFraming::Unchanged);
        keys.replace_credentials(&head, "/v1/chat/completions", kept)
    }

    #[test]
    fn rejects_requests_without_a_valid_client_token() {
        let keys = keys(&[("client_tokens_file", "FILE")]);
        let right = format!("Bearer {TOKEN}");
        let (lower, longer) = (format!("bearer  {TOKEN}"), format!("{right}0"));
        for value in [&right, &lower] {
            assert_eq!(admits(&keys, &[("authorization", value)]), Ok(()));
        }
        for fields in [
            &[][..],
            &[("authorization", TOKEN)],
            &[("authorization", &longer)],
            &[("authorization", "Bearer ")],
            &[("authorization", &right), ("authorization", "Bearer x")],
            &[("x-api-key", TOKEN)],
        ] {
            assert_eq!(admits(&keys, fields), Err(Fault::InvalidToken), "{fields:?}");
        }
    }

    #[test]
    fn rejects_foreign_pages_by_default_and_wherever_a_key_could_be_spent() {
        let foreign = [("origin", "https://example.org")];
        let check = |settings: &[(&str, &str)], expect| {
            assert_eq!(admits(&keys(settings), &foreign), expect, "{settings:?}");
        };
        check(&[], Err(Fault::ForeignPage));
        check(&[("allowed_hosts", "example.org")], Ok(()));
        let public = ("public", "true");
        check(&[public, ("upstream.api_key", "sk-1")], Err(Fault::ForeignPage));
        let endpoint = [
            public,
            ("summary.upstream", "http://127.0.0.1:9/v1"),
            ("summary.model", "small"),
            ("summary.api_key_file", "FILE"),
        ];
        check(&endpoint, Err(Fault::ForeignPage));
        let tokens = keys(&[("client_tokens_file", "FILE"), ("upstream.api_key_file", "FILE")]);
        let token = format!("Bearer {TOKEN}");
        let page = [("origin", "https://example.org"), ("authorization", &token)];
        assert_eq!(admits(&tokens, &page), Ok(()));
    }

    /// The image opens the listener, perhaps for a model that needs no key.
    #[test]
    fn an_open_listener_serves_foreign_pages_with_a_credential_and_any_host() {
        let open = keys(&[("public", "true"), ("listen", "0.0.0.0:8484")]);
        let foreign = ("origin", "https://example.org");
        let refused = Err(Fault::ForeignPage);
        let ask = |fields: &[_], expect| {
            assert_eq!(admits(&open, fields), expect, "{fields:?}");
        };
        ask(&[("host", "longhaul.example")], Ok(()));
        ask(&[("host", "longhaul.example"), foreign], refused);
        ask(&[("sec-fetch-site", "cross-site")], refused);
        ask(&[foreign, ("cookie", "session=1")], refused);
        ask(&[foreign, ("x-api-key-hint", "1")], refused);
        for name in ["authorization", "api-key", "x-api-key", "x-goog-api-key"] {
            ask(&[foreign, (name, "k")], Ok(()));
        }
        let mut keyed = asking("POST", &[foreign]);
        *keyed.uri_mut() = "/v1/chat/completions?key=1".parse().unwrap();
        assert_eq!(open.admit(&keyed), refused);
        let preflight = [foreign, ("access-control-request-method", "POST")];
        assert_eq!(open.admit(&asking("OPTIONS", &preflight)), Ok(()));
        let named = keys(&[("public", "true"), ("allowed_hosts", "example.org")]);
        assert_eq!(admits(&named, &[foreign]), Ok(()));
    }

    #[test]
    fn replaces_a_client_token_with_the_upstream_key() {
        let token = format!("Bearer {TOKEN}");
        let came = asking(
            "POST",
            &[
                ("host", "h"),
                ("authorization", &token),
                ("api-key", TOKEN),
                ("x-api-key", TOKEN),
                ("x-goog-api-key", TOKEN),
                ("accept", "a"),
            ],
        );
        let sent = |keys: AccessKeys| -> Vec<String> {
            let put = put(&keys, &came);
            let field = |(name, value): (&HeaderName, &HeaderValue)| {
                format!("{name}: {}", value.to_str().unwrap())
            };
            put.iter().map(field).collect()
        };
        let tokens = ("client_tokens_file", "FILE");
        let key = ("upstream.api_key", "sk-1");
        let with_key = ["host: h", "authorization: Bearer sk-1", "accept: a"];
        assert_eq!(sent(keys(&[tokens])), ["host: h", "accept: a"]);
        assert_eq!(sent(keys(&[key])), with_key);
        assert_eq!(sent(keys(&[tokens, key])), with_key);
        assert_eq!(sent(keys(&[])).len(), came.headers().len());
    }

    #[test]
    fn forwards_gateway_credentials_beside_the_upstream_key() {
        let came = [
            ("authorization", "Bearer own"),
            ("cf-aig-authorization", "Bearer gateway"),
            ("ocp-apim-subscription-key", "subscription"),
        ];
        let keys = keys(&[("upstream.api_key", "sk-1")]);
        let put = put(&keys, &asking("POST", &came));
        assert_eq!(put[AUTHORIZATION], "Bearer sk-1");
        assert_eq!(put["cf-aig-authorization"], "Bearer gateway");
        assert_eq!(put["ocp-apim-subscription-key"], "subscription");
    }

    #[test]
    fn a_client_without_credentials_gets_the_upstreams_key() {
        let keys = keys(&[("upstream.api_key", "sk-1")]);
        assert_eq!(put(&keys, &asking("POST", &[]))[AUTHORIZATION], "Bearer sk-1");
    }

    #[test]
    fn cors_preflight_needs_no_token_and_gets_no_key() {
        let tokens = [("client_tokens_file", "FILE")];
        let both = [tokens[0], ("upstream.api_key", "sk-1")];
        let page = ("origin", "https://app.example");
        let wish = ("access-control-request-method", "POST");
        // A field that `Connection` names is not forwarded, and must not unlock the key.
        for more in [("accept", "*/*"), ("connection", "origin")] {
            let preflight = asking("OPTIONS", &[page, wish, more]);
            for settings in [&tokens[..], &both] {
                let keys = keys(settings);
                assert_eq!(keys.admit(&preflight), Ok(()), "{more:?}");
                let put = put(&keys, &preflight);
                assert!(!put.contains_key(AUTHORIZATION), "{more:?}");
            }
        }
        for other in [
            asking("POST", &[page, wish]),
            asking("OPTIONS", &[page]),
            asking("OPTIONS", &[wish]),
            asking("OPTIONS", &[page, wish, ("authorization", "Bearer x")]),
            asking("OPTIONS", &[page, wish, ("x-api-key", TOKEN)]),
        ] {
            assert_eq!(keys(&both).admit(&other), Err(Fault::InvalidToken), "{other:?}");
        }
        let token = format!("Bearer {TOKEN}");
        let shown = asking("OPTIONS", &[page, wish, ("authorization", &token)]);
        let keys = keys(&both);
        assert_eq!(keys.admit(&shown), Ok(()));
        assert_eq!(put(&keys, &shown)[AUTHORIZATION], "Bearer sk-1");
    }
}
