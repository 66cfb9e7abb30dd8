//! An endpoint for summaries alone, with a credential of the operator's own.

use std::sync::Arc;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Uri};

use crate::config::{SummaryConfig, UpstreamConfig};
use crate::error::Problem;
use crate::upstream::Upstream;

/// Where summaries are asked for, if not where the conversation is.
pub(crate) struct Endpoint {
    pub(crate) upstream: Arc<Upstream>,
    head: Parts,
}

impl Endpoint {
    /// The endpoint that `summary` names, reached as the upstream of `like` is; connects to nothing.
    ///
    /// # Errors
    /// The certificate file cannot be used, or the base makes no target.
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
        let path = format!("{}/chat/completions", base.path());
        let uri = PathAndQuery::try_from(path).ok().and_then(|path| {
            Uri::builder()
                .scheme(base.scheme().clone())
                .authority(base.authority().clone())
                .path_and_query(path)
                .build()
                .ok()
        });
        // A base that was read makes a target; if ever it does not, no summary is asked for.
        let (mut head, ()) = Request::post(uri.unwrap_or_default())
            .body(())
            .map(Request::into_parts)
            .unwrap_or_else(|_| Request::new(()).into_parts());
        head.headers.insert(HOST, base.host().clone());
        let json = HeaderValue::from_static("application/json");
        head.headers.insert(CONTENT_TYPE, json);
        head.headers
            .insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(authorization) = &endpoint.authorization {
            head.headers.insert(AUTHORIZATION, authorization.clone());
        }
        Ok(Some(Self {
            upstream: Arc::new(Upstream::new(&config)?),
            head,
        }))
    }

    /// The head of a request to it: nothing in it is a caller's.
    pub(crate) fn head(&self) -> Parts {
        self.head.clone()
    }
}
