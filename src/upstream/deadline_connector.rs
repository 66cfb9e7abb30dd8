//! A single deadline for all steps of connecting: DNS, TCP, proxy and TLS.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use tower_service::Service;

use crate::body::budget::BufferBudget;
use crate::upstream::proxy_connector::ProxyConnector;
use crate::upstream::read_ahead::ReadAhead;
use crate::upstream::upstream_stream::UpstreamStream;

type Tls = HttpsConnector<ProxyConnector>;
type BoxError = Box<dyn StdError + Send + Sync>;

/// Connects within a deadline.
#[derive(Clone)]
pub(super) struct DeadlineConnector {
    inner: Tls,
    timeout: Duration,
    /// Memory for what connections read ahead.
    budget: Option<BufferBudget>,
}

impl DeadlineConnector {
    pub(super) fn new(inner: Tls, within: Duration, budget: Option<BufferBudget>) -> Self {
        Self {
            inner,
            timeout: within,
            budget,
        }
    }
}

impl Service<Uri> for DeadlineConnector {
    type Response = ReadAhead<MaybeHttpsStream<UpstreamStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let connecting = self.inner.call(target);
        let (within, budget) = (self.timeout, self.budget.clone());
        Box::pin(async move {
            match tokio::time::timeout(within, connecting).await {
                Ok(connected) => connected.map(|io| ReadAhead::new(io, budget)),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}
