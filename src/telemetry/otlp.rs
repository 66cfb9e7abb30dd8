//! Exports spans to a collector: in batches, on its own thread, never on a request's path.
//!
//! The client logs when the collector starts or stops rejecting spans. The limits are those of the SDK, and its variables change them:
//!
//! - 2,048 spans are queued ([`OTEL_BSP_MAX_QUEUE_SIZE`]); further ones are dropped.
//! - A batch has 512 spans. It is sent every 5 s, or as soon as it is full.
//! - An export has up to three retries within its timeout.
//!
//! [`OTEL_BSP_MAX_QUEUE_SIZE`]: opentelemetry_sdk::trace::OTEL_BSP_MAX_QUEUE_SIZE

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::collector::Collector;
use crate::traces;
use crate::upstream::direct_connector;

/// Time for the last spans to arrive once all requests have ended. A live collector takes
/// milliseconds. A supervisor that waits for this process to exit waits no longer than that for the
/// spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

const SERVICE_NAME: &str = env!("CARGO_PKG_NAME");

pub(crate) struct TraceExport {
    provider: SdkTracerProvider,
    client: Arc<CollectorClient>,
}

impl TraceExport {
    /// Starts recording spans and sending them to `collector` on the current runtime. Opens no
    /// connection yet.
    pub(super) fn start(collector: &Collector) -> Result<Self, String> {
        let client = Arc::new(CollectorClient::new(collector)?);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_shared_http_client(Arc::<CollectorClient>::clone(&client))
            .with_endpoint(collector.endpoint.to_string())
            .build()
            .map_err(|error| error.to_string())?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource())
            .with_batch_exporter(exporter)
            .build();
        traces::install_tracer(provider.tracer(SERVICE_NAME));
        Ok(Self { provider, client })
    }

    /// Sends the remaining spans after the last request. Does not wait for a collector whose last
    /// export failed.
    pub(crate) async fn shutdown(self) {
        if self.client.failing.load(Ordering::Relaxed) {
            return;
        }
        // The shutdown blocks on the export thread, which in turn needs this runtime.
        let flush = move || self.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        if !tokio::task::spawn_blocking(flush).await.is_ok_and(|flushed| flushed.is_ok()) {
            tracing::warn!("the last spans did not reach the collector in time");
        }
    }
}

/// Returns the resource of the spans. The environment overrides the defaults.
fn resource() -> Resource {
    let resource = Resource::builder_empty()
        .with_service_name(SERVICE_NAME)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        Ok(_) | Err(_) => resource.build(),
    }
}

/// Maximum size of a collector's reply in bytes. Collectors send an empty message or a sentence.
const MAX_REPLY_BYTES: usize = 64 * 1024;

/// The exporter's HTTP client. Its connections are its own and never use a proxy: a collector runs
/// nearby, and spans are not meant for intermediaries.
#[derive(Debug)]
struct CollectorClient {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Runtime for the requests, since the exporter's thread has none.
    runtime: Handle,
    timeout: Duration,
    origin: String,
    failing: AtomicBool,
}

impl CollectorClient {
    fn new(collector: &Collector) -> Result<Self, String> {
        let connector = direct_connector(collector.ca_file.as_deref()).map_err(|reason| {
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
            let body = Limited::new(body, MAX_REPLY_BYTES).collect().await?;
            let body = body.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        let task = self.runtime.spawn(async move { timeout(within, whole).await });
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
