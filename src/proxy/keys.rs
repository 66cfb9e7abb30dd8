//! Who is served, and with whose key: what clients show, and what the upstream gets in its place.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};

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
    /// `Token` where a token is asked for, and none that is known is shown.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<(), Fault> {
        if self.tokens.is_empty() {
            return Ok(());
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
