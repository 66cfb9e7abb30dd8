//! Sends batches of spans to the collector, and logs when the collector starts or stops rejecting
//! them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::error::Problem;
use crate::telemetry::collector::Collector;
use crate::upstream::direct_connector;

/// Maximum size of a collector's reply in bytes. Collectors send an empty message or a sentence.
const MAX_REPLY_BYTES: usize = 64 * 1024;

/// The exporter's HTTP client. Its connections are its own and never use a proxy: a collector runs
/// nearby, and spans are not meant for intermediaries.
pub(super) struct CollectorClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Runtime for the requests, since the exporter's thread has none.
    runtime: Handle,
    timeout: Duration,
    origin: String,
    failing: AtomicBool,
}

impl CollectorClient {
    /// Creates a client on the current runtime.
    pub(super) fn new(collector: &Collector) -> Result<Self, String> {
        let connector = direct_connector(collector.ca_file.as_deref()).map_err(|problem| {
            let reason = if let Problem::CaFile { reason, .. } = problem {
                reason
            } else {
                problem.to_string()
            };
            format!(
                "OTEL_EXPORTER_OTLP_CERTIFICATE: {reason}; set it to a file of PEM certificates"
            )
        })?;
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            runtime: Handle::try_current().map_err(|error| error.to_string())?,
            timeout: collector.timeout,
            origin: collector.origin(),
            failing: AtomicBool::new(false),
        })
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Records the result of an export. Logs the first failure and the first success after it. The
    /// log line holds no text of the collector, which may repeat what it was sent.
    fn record_result(&self, answer: Option<&Response<Bytes>>) {
        let is_taken = answer.is_some_and(|answer| answer.status().is_success());
        if self.failing.swap(!is_taken, Ordering::Relaxed) != is_taken {
            return;
        }
        let (collector, status) = (&self.origin, answer.map(|answer| answer.status().as_u16()));
        if is_taken {
            tracing::info!(collector, "the collector takes spans again");
        } else {
            tracing::warn!(
                collector,
                status,
                "the collector takes no spans; spans are dropped until it does"
            );
        }
    }
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

type SendFuture<'c> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'c>>;

impl HttpClient for CollectorClient {
    fn send_bytes<'c, 'async_trait>(&'c self, request: Request<Bytes>) -> SendFuture<'async_trait>
    where
        'c: 'async_trait,
        Self: 'async_trait,
    {
        let (client, within) = (self.client.clone(), self.timeout);
        let whole = async move {
            let sent = client.request(request.map(Full::new));
            let (head, body) = sent.await?.into_parts();
            let body = Limited::new(body, MAX_REPLY_BYTES)
                .collect()
                .await?
                .to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        let task = self
            .runtime
            .spawn(async move { timeout(within, whole).await });
        Box::pin(async move {
            let answer = match task.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(late)) => Err(late.into()),
                Err(ended) => Err(ended.into()),
            };
            self.record_result(answer.as_ref().ok());
            answer
        })
    }
}
