//! The endpoint dedicated to summaries, with the operator's own credential.

use std::sync::Arc;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request};

use crate::config::{BaseUrl, SummaryApi, SummaryConfig, UpstreamConfig};
use crate::error::Problem;
use crate::upstream::Upstream;
use longhaul_core::dialect::Dialect;

/// Destination of summaries if it is not the conversation's upstream.
pub(crate) struct SummaryUpstream {
    pub(crate) upstream: Arc<Upstream>,
    base: BaseUrl,
    /// API that the endpoint speaks.
    pub(crate) api: SummaryApi,
    headers: HeaderMap,
}

impl SummaryUpstream {
    /// Creates the endpoint that `summary` names, with the connection settings of `like`. Returns
    /// `None` if `summary` names no endpoint. Opens no connection. Fails if the certificate file
    /// cannot be used.
    pub(crate) fn new(
        summary: &SummaryConfig,
        like: &UpstreamConfig,
    ) -> Result<Option<Self>, Problem> {
        let Some(endpoint) = &summary.endpoint else {
            return Ok(None);
        };
        let base = &endpoint.base;
        let mut config = like.clone();
        config.base = base.clone();
        let mut headers = HeaderMap::new();
        headers.insert(HOST, base.host().clone());
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(authorization) = &endpoint.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        Ok(Some(Self {
            upstream: Arc::new(Upstream::new(&config, None)?),
            base: base.clone(),
            api: endpoint.api,
            headers,
        }))
    }

    /// Returns the head of a request to the endpoint in this dialect. The head holds nothing from a
    /// caller.
    pub(crate) fn request_head(&self, dialect: Dialect) -> Parts {
        let path = [self.base.path(), dialect.path()].concat();
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::POST;
        // A valid base always gives a valid target. If it ever did not, calls would fail to connect.
        head.uri = self.base.url_of(path).unwrap_or_default();
        head.headers = self.headers.clone();
        adapt_headers(dialect, &mut head.headers);
        head
    }
}

/// Adds the headers that `dialect` requires, and moves a key to the header in which its servers expect
/// the key.
fn adapt_headers(dialect: Dialect, headers: &mut HeaderMap) {
    for (name, value) in dialect.facts().required_headers {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    let bearer = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let token = bearer.and_then(|value| value.strip_prefix(b"Bearer "));
    let key = token.filter(|token| dialect.is_plain_key(token));
    let (Some(name), Some(Ok(mut key))) =
        (dialect.facts().key_header, key.map(HeaderValue::from_bytes))
    else {
        return;
    };
    key.set_sensitive(true);
    headers.remove(AUTHORIZATION);
    headers.insert(name, key);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(token: &str, expect: (Option<&str>, Option<&str>)) {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(token).unwrap());
        adapt_headers(Dialect::Messages, &mut headers);
        let found = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!((found("authorization"), found("x-api-key")), expect);
        assert_eq!(found("anthropic-version"), Some("2023-06-01"));
    }

    #[test]
    fn a_key_of_anthropic_moves_to_its_own_header() {
        check("Bearer sk-ant-api03-a", (None, Some("sk-ant-api03-a")));
        check("Bearer sk-ant-oat01-a", (Some("Bearer sk-ant-oat01-a"), None));
        check("Bearer local", (Some("Bearer local"), None));
    }
}
