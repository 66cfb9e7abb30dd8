//! Client tokens and upstream keys: who is served, and which credentials are sent upstream instead
//! of the client's.

use http::header::{ACCEPT_LANGUAGE, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use crate::config::{ClientTokens, Config};
use crate::error::Fault;
use crate::request::host_check::targets_ip_or_localhost;
use crate::request::key_paths::KeyPaths;
use crate::request::scope::CREDENTIALS;
use crate::upstream::is_loopback_host;

/// Fetch metadata that browsers send. A page can neither set nor omit these fields.
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The keys of the settings.
#[derive(Clone)]
pub(crate) struct AccessKeys {
    /// Tokens accepted from clients; empty if no token is required.
    tokens: ClientTokens,
    /// Key sent upstream in place of the client's credentials.
    upstream_key: Option<HeaderValue>,
    /// Paths that receive that key.
    key_paths: KeyPaths,
    /// Whether a chat may spend a key of the settings: this one, or the key for summaries and
    /// titles.
    has_spendable_key: bool,
}

impl AccessKeys {
    pub(crate) fn new(config: &Config) -> Self {
        let ours = config.upstream.authorization.clone();
        let endpoint = config.summary.endpoint.as_ref();
        let summarisers = endpoint.and_then(|endpoint| endpoint.authorization.as_ref());
        Self {
            tokens: config.client_tokens.clone(),
            has_spendable_key: ours.is_some() || summarisers.is_some(),
            upstream_key: ours,
            key_paths: KeyPaths::new(&config.upstream.base, &config.upstream.key_paths),
        }
    }

    /// Checks whether the sender of `request` is served.
    ///
    /// # Errors
    /// - `InvalidToken` if a token is required and the request presents no valid one.
    /// - `ForeignPage` if a page of another site would spend a key of the settings.
    pub(crate) fn admit<B>(&self, request: &Request<B>) -> Result<(), Fault> {
        if self.tokens.is_empty() {
            let spends = self.has_spendable_key && is_from_foreign_page(request);
            return if spends {
                Err(Fault::ForeignPage)
            } else {
                Ok(())
            };
        }
        if is_preflight(request.method(), request.headers()) {
            return Ok(());
        }
        let mut shown = request.headers().get_all(AUTHORIZATION).iter();
        // With two values, it is unclear which one an upstream would use.
        let (Some(only), None) = (shown.next(), shown.next()) else {
            return Err(Fault::InvalidToken);
        };
        let token = bearer_token(only.as_bytes()).filter(|token| self.tokens.contains(token));
        token.map(drop).ok_or(Fault::InvalidToken)
    }

    /// Whether longhaul's own key is sent upstream in place of the caller's credentials.
    pub(crate) fn holds_upstream_key(&self) -> bool {
        self.upstream_key.is_some()
    }

    /// Checks whether a token's owner may request the upstream's path `path`. Only paths that
    /// receive the key of the settings are open to tokens; a preflight shows none.
    ///
    /// # Errors
    /// `KeyPath` if the key is not for this path.
    pub(crate) fn admit_path<B>(&self, request: &Request<B>, path: &str) -> Result<(), Fault> {
        let is_open = self.tokens.is_empty()
            || self.upstream_key.is_none()
            || is_preflight(request.method(), request.headers())
            || self.key_paths.contains(path);
        if is_open { Ok(()) } else { Err(Fault::KeyPath) }
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
        let ours = self
            .upstream_key
            .as_ref()
            .filter(|_| has_shown && self.key_paths.contains(path));
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

/// Whether a browser asks what a page may send (CORS preflight). The browser sends a preflight
/// before the page's own request, and never with credentials. If preflights required a token, no
/// page could send the request that follows.
fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && !CREDENTIALS.iter().any(|name| headers.contains_key(name))
}

/// Whether a page of another site sends the request.
///
/// Without tokens only this machine can connect, but any page in a local browser may send what a
/// form can. A page whose name was made to point here can also read the response (DNS rebinding).
/// Programs send no origin, and no page can assume the origin of an app or extension.
///
/// A browser omits the origin when it loads a page, an image or a script, and when it takes the
/// request for same-origin. Such requests are recognised by the site and the host that they name.
fn is_from_foreign_page<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let mut origins = headers.get_all(ORIGIN).iter().peekable();
    if origins.peek().is_none() {
        return is_cross_site(headers) || is_dns_rebinding(request);
    }
    origins.any(|origin| match Uri::try_from(origin.as_bytes()) {
        Ok(origin) => {
            let scheme = origin.scheme_str().unwrap_or_default();
            matches!(scheme, "" | "http" | "https") && !origin.host().is_some_and(is_loopback_host)
        }
        Err(_) => origin == "null",
    })
}

/// Whether a browser reports that the request was initiated by another site, or another port.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    sites.any(|site| site == "cross-site" || site == "same-site")
}

/// Whether a browser requests a host name that anybody could have made to point to this machine.
///
/// Programs may use such a name: behind a reverse proxy that forwards its public name, in a
/// container, or through the hosts file. Browsers are recognised by `Accept-Language`, which a page
/// can change but not omit. Of programs, Node's `fetch` sends that field too, with `Sec-Fetch-Mode`
/// but without `Sec-Fetch-Site`. Browsers send both or, to a name without TLS, neither.
fn is_dns_rebinding<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let is_browser = headers.contains_key(SEC_FETCH_SITE)
        || (headers.contains_key(ACCEPT_LANGUAGE) && !headers.contains_key(SEC_FETCH_MODE));
    is_browser && !targets_ip_or_localhost(request)
}

/// Returns the token of `Bearer TOKEN`.
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::request::headers::{BodyFraming, request as as_sent};

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn keys(settings: &[(&str, &str)]) -> AccessKeys {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{TOKEN}").unwrap();
        let path = file.path().to_str().unwrap();
        let settings = settings
            .iter()
            .map(|&(key, value)| (key, if value == "FILE" { path } else { value }));
        AccessKeys::new(&Config::default_with(settings).unwrap())
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
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
        let kept = as_sent(
            &head,
            &HeaderValue::from_static("h"),
            BodyFraming::Unchanged,
        );
        keys.replace_credentials(&head, "/v1/chat/completions", kept)
    }

    #[test]
    fn where_tokens_are_set_who_shows_none_of_them_is_not_served() {
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
            assert_eq!(
                admits(&keys, fields),
                Err(Fault::InvalidToken),
                "{fields:?}"
            );
        }
    }

    #[test]
    fn a_page_of_another_site_does_not_spend_our_key() {
        let ours = keys(&[("upstream.api_key_file", "FILE")]);
        for (origin, expect) in [
            ("http://localhost:3000", Ok(())),
            ("http://LOCALHOST:3000", Ok(())),
            ("http://[::ffff:127.0.0.1]:3000", Ok(())),
            ("https://127.0.0.1", Ok(())),
            ("http://[::1]:8484", Ok(())),
            ("vscode-webview://1a2b", Ok(())),
            ("file://", Ok(())),
            ("null", Err(Fault::ForeignPage)),
            ("https://example.org", Err(Fault::ForeignPage)),
            ("http://localhost.example.org:8484", Err(Fault::ForeignPage)),
            ("http://203.0.113.5", Err(Fault::ForeignPage)),
        ] {
            let asks = [("origin", origin)];
            assert_eq!(admits(&ours, &asks), expect, "{origin}");
            assert_eq!(admits(&keys(&[]), &asks), Ok(()), "with the page's own key");
        }
        assert_eq!(admits(&ours, &[]), Ok(()));
        let foreign = [("origin", "https://example.org")];
        let endpoint = [
            ("summary.upstream", "http://127.0.0.1:9/v1"),
            ("summary.model", "small"),
            ("summary.api_key_file", "FILE"),
        ];
        let summariser = |settings| admits(&keys(settings), &foreign);
        assert_eq!(summariser(&endpoint), Err(Fault::ForeignPage));
        assert_eq!(
            summariser(&endpoint[..2]),
            Ok(()),
            "the endpoint has no key to spend"
        );
        let tokens = keys(&[
            ("client_tokens_file", "FILE"),
            ("upstream.api_key_file", "FILE"),
        ]);
        let token = format!("Bearer {TOKEN}");
        let page = [("origin", "https://example.org"), ("authorization", &token)];
        assert_eq!(admits(&tokens, &page), Ok(()));
    }

    /// Checks whether a request with these fields, separated by `|`, is served with the key of the
    /// settings.
    fn check(fields: &str, expect: Result<(), Fault>) {
        let ours = keys(&[("upstream.api_key", "sk-1")]);
        let mut request = Request::new(());
        for field in fields.split('|') {
            let (name, value) = field.split_once(": ").unwrap();
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, value.parse().unwrap());
        }
        assert_eq!(ours.admit(&request), expect, "{fields}");
    }

    #[test]
    fn what_a_page_of_another_site_has_a_browser_get_does_not_spend_our_key() {
        for site in ["cross-site", "same-site"] {
            let image =
                format!("host: 127.0.0.1:8484|sec-fetch-mode: no-cors|sec-fetch-site: {site}");
            check(&image, Err(Fault::ForeignPage));
            // A page of this machine, or an app: a browser lets it read the response.
            for origin in ["http://localhost:3000", "app://main"] {
                check(&format!("{image}|origin: {origin}"), Ok(()));
            }
        }
        for site in ["none", "same-origin"] {
            let own = format!("host: localhost:8484|sec-fetch-mode: cors|sec-fetch-site: {site}");
            check(&own, Ok(()));
        }
    }

    #[test]
    fn a_page_whose_name_was_made_to_point_here_does_not_spend_our_key() {
        for browser in [
            "accept-language: en",
            "accept-language: ",
            "accept-language: *|user-agent: node",
            "sec-fetch-site: same-origin|sec-fetch-mode: cors",
        ] {
            let rebound = format!("host: example.org:8484|{browser}");
            check(&rebound, Err(Fault::ForeignPage));
            check(&format!("host: 127.0.0.1:8484|{browser}"), Ok(()));
        }
    }

    #[test]
    fn a_program_may_ask_for_this_machine_by_any_name() {
        for host in ["host.docker.internal:8484", "llm.example.org", "gpu", ""] {
            check(&format!("host: {host}|user-agent: Mozilla/5.0"), Ok(()));
            let node = "accept-language: *|sec-fetch-mode: cors";
            check(&format!("host: {host}|{node}"), Ok(()));
        }
        check("accept-language: en", Ok(()));
    }

    #[test]
    fn a_token_of_ours_goes_no_further_and_the_upstreams_key_takes_its_place() {
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
    fn what_a_gateway_asks_for_beside_the_key_goes_on() {
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
        assert_eq!(
            put(&keys, &asking("POST", &[]))[AUTHORIZATION],
            "Bearer sk-1"
        );
    }

    #[test]
    fn a_browser_that_asks_what_a_page_may_send_needs_no_token_and_gets_no_key() {
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
            assert_eq!(
                keys(&both).admit(&other),
                Err(Fault::InvalidToken),
                "{other:?}"
            );
        }
        let token = format!("Bearer {TOKEN}");
        let shown = asking("OPTIONS", &[page, wish, ("authorization", &token)]);
        let keys = keys(&both);
        assert_eq!(keys.admit(&shown), Ok(()));
        assert_eq!(put(&keys, &shown)[AUTHORIZATION], "Bearer sk-1");
    }
}
