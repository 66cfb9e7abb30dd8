//! Who is served, and with whose key: what clients show, and what the upstream gets in its place.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};

use super::scope::CREDENTIALS;
use crate::config::{ClientTokens, Config};
use crate::error::Fault;

/// The keys of the settings.
pub(super) struct Keys {
    /// What clients must show.
    tokens: ClientTokens,
    /// What goes upstream in place of what they show.
    ours: Option<HeaderValue>,
}

impl Keys {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            tokens: config.client_tokens.clone(),
            ours: config.upstream.authorization.clone(),
        }
    }

    /// Whether who sent these fields is served.
    ///
    /// # Errors
    /// `Token` where a token is asked for, and none that is known is shown; `Page` where a page of
    /// another site would spend the key of the settings.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<(), Fault> {
        if self.tokens.is_empty() {
            let spends = self.ours.is_some() && is_of_foreign_page(headers);
            return if spends { Err(Fault::Page) } else { Ok(()) };
        }
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        // Of two it is not known which an upstream would have gone by.
        let (Some(only), None) = (shown.next(), shown.next()) else {
            return Err(Fault::Token);
        };
        let token = bearer(only.as_bytes()).filter(|token| self.tokens.has(token));
        token.map(drop).ok_or(Fault::Token)
    }

    /// The fields as the upstream gets them: with the key of the settings, and without what was for
    /// us. Without either they stay as they are.
    pub(super) fn put(&self, headers: HeaderMap) -> HeaderMap {
        if self.ours.is_none() && self.tokens.is_empty() {
            return headers;
        }
        let mut kept = HeaderMap::with_capacity(headers.keys_len() + 1);
        for (name, value) in &headers {
            if !CREDENTIALS.contains(name) {
                kept.append(name, value.clone());
            } else if let Some(ours) = &self.ours {
                // Where the client had its own, if it had any.
                kept.insert(AUTHORIZATION, ours.clone());
            }
        }
        if let Some(ours) = &self.ours {
            kept.insert(AUTHORIZATION, ours.clone());
        }
        kept
    }
}

/// Whether a browser says that a page of another site asks: any page may send what a form can, and
/// one whose name was made to point here reads the answer (DNS rebinding). Programs name no origin,
/// and those of apps and extensions no page can take on.
fn is_of_foreign_page(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    origins.any(|origin| match Uri::try_from(origin.as_bytes()) {
        Ok(origin) => {
            let scheme = origin.scheme_str().unwrap_or_default();
            matches!(scheme, "" | "http" | "https") && !origin.host().is_some_and(is_loopback)
        }
        Err(_) => origin == "null",
    })
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"Bearer ")
        .then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn keys(settings: &[(&str, &str)]) -> Keys {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{TOKEN}").unwrap();
        let path = file.path().to_str().unwrap();
        let settings = settings
            .iter()
            .map(|&(key, value)| (key, if value == "FILE" { path } else { value }));
        Keys::new(&Config::default_with(settings).unwrap())
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn where_tokens_are_set_who_shows_none_of_them_is_not_served() {
        let keys = keys(&[("client_tokens_file", "FILE")]);
        let right = format!("Bearer {TOKEN}");
        let (lower, longer) = (format!("bearer  {TOKEN}"), format!("{right}0"));
        for value in [&right, &lower] {
            assert_eq!(keys.admit(&headers(&[("authorization", value)])), Ok(()));
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
                keys.admit(&headers(fields)),
                Err(Fault::Token),
                "{fields:?}"
            );
        }
    }

    #[test]
    fn a_page_of_another_site_does_not_spend_our_key() {
        let ours = keys(&[("upstream.api_key_file", "FILE")]);
        for (origin, expect) in [
            ("http://localhost:3000", Ok(())),
            ("https://127.0.0.1", Ok(())),
            ("http://[::1]:8484", Ok(())),
            ("vscode-webview://1a2b", Ok(())),
            ("file://", Ok(())),
            ("null", Err(Fault::Page)),
            ("https://example.org", Err(Fault::Page)),
            ("http://localhost.example.org:8484", Err(Fault::Page)),
            ("http://203.0.113.5", Err(Fault::Page)),
        ] {
            let asks = headers(&[("origin", origin)]);
            assert_eq!(ours.admit(&asks), expect, "{origin}");
            assert_eq!(keys(&[]).admit(&asks), Ok(()), "with the page's own key");
        }
        assert_eq!(ours.admit(&headers(&[])), Ok(()));
        let tokens = keys(&[
            ("client_tokens_file", "FILE"),
            ("upstream.api_key_file", "FILE"),
        ]);
        let token = format!("Bearer {TOKEN}");
        let page = headers(&[("origin", "https://example.org"), ("authorization", &token)]);
        assert_eq!(tokens.admit(&page), Ok(()));
    }

    #[test]
    fn a_token_of_ours_goes_no_further_and_the_upstreams_key_takes_its_place() {
        let token = format!("Bearer {TOKEN}");
        let came = headers(&[
            ("host", "h"),
            ("authorization", &token),
            ("x-api-key", TOKEN),
            ("accept", "a"),
        ]);
        let sent = |keys: Keys| -> Vec<String> {
            let put = keys.put(came.clone());
            let field = |(name, value): (&http::HeaderName, &HeaderValue)| {
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
        assert_eq!(sent(keys(&[])).len(), 4);
    }

    #[test]
    fn a_client_without_credentials_gets_the_upstreams_key() {
        let put = keys(&[("upstream.api_key", "sk-1")]).put(headers(&[("host", "h")]));
        assert_eq!(put[AUTHORIZATION], "Bearer sk-1");
    }
}
