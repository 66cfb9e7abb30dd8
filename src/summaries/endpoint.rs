//! The endpoint dedicated to summaries, with the operator's own credential.

use std::sync::Arc;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};

use crate::config::{BaseUrl, SummaryConfig, UpstreamConfig};
use crate::error::Problem;
use crate::upstream::Upstream;
use longhaul_core::dialect::Dialect;

/// Destination of summaries if it is not the conversation's upstream.
pub(crate) struct SummaryUpstream {
    pub(crate) upstream: Arc<Upstream>,
    base: BaseUrl,
    headers: HeaderMap,
}

impl SummaryUpstream {
    /// Creates the endpoint that `summary` names, with the connection settings of `like`. Returns
    /// `None` if `summary` names no endpoint. Opens no connection.
    ///
    /// # Errors
    /// The certificate file cannot be used.
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
            upstream: Arc::new(Upstream::new(&config)?),
            base: base.clone(),
            headers,
        }))
    }

    /// Returns the head of a request to the endpoint. It holds nothing from a caller.
    pub(crate) fn request_head(&self, dialect: Dialect) -> Parts {
        let path = [self.base.path(), dialect.path()].concat();
        let uri = Uri::builder()
            .scheme(self.base.scheme().clone())
            .authority(self.base.authority().clone())
            .path_and_query(path)
            .build();
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::POST;
        // A valid base always gives a valid target. If it ever did not, calls would fail to connect.
        head.uri = uri.unwrap_or_default();
        head.headers = self.headers.clone();
        head
    }
}
