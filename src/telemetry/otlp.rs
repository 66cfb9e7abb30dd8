//! Exports spans to a collector: in batches, on its own thread, never on a request's path.
//!
//! The limits are those of the SDK, and its variables change them:
//!
//! - 2,048 spans are queued ([`OTEL_BSP_MAX_QUEUE_SIZE`]); further ones are dropped.
//! - A batch has 512 spans. It is sent every 5 s, or as soon as it is full.
//! - An export has up to three retries within its timeout.
//!
//! [`OTEL_BSP_MAX_QUEUE_SIZE`]: opentelemetry_sdk::trace::OTEL_BSP_MAX_QUEUE_SIZE

pub(crate) mod collector_client;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;

use super::collector::Collector;
use crate::traces;
use collector_client::CollectorClient;

/// Time for the last spans to arrive once all requests have ended. A live collector takes
/// milliseconds. A supervisor that waits for this process to exit waits no longer than that for the
/// spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Default service name.
const SERVICE_NAME: &str = env!("CARGO_PKG_NAME");

/// A running trace export.
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
        if self.client.is_failing() {
            return;
        }
        // The shutdown blocks on the export thread, which in turn needs this runtime.
        let flush = move || self.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        if !tokio::task::spawn_blocking(flush)
            .await
            .is_ok_and(|flushed| flushed.is_ok())
        {
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
