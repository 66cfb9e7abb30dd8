//! Sends spans to a collector: in batches, by a thread of its own, never on a request's way.
//!
//! The bounds are the SDK's: 2,048 spans wait ([`OTEL_BSP_MAX_QUEUE_SIZE`]), further ones are dropped;
//! 512 go at once, every 5 s or as soon as there are so many; one export has up to three further tries
//! within its time. The variables of the SDK move them.
//!
//! [`OTEL_BSP_MAX_QUEUE_SIZE`]: opentelemetry_sdk::trace::OTEL_BSP_MAX_QUEUE_SIZE

mod courier;

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
use courier::CollectorClient;

/// What the last spans may take on their way once the requests have ended. A collector that is there
/// takes milliseconds; what waits for the end of this process waits no longer than that for it.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The name of this service where nobody gives it one.
const SERVICE_NAME: &str = env!("CARGO_PKG_NAME");

/// Spans on their way to a collector.
pub(crate) struct TraceExport {
    provider: SdkTracerProvider,
    client: Arc<CollectorClient>,
}

impl TraceExport {
    /// Has spans recorded and sent to `collector` by this runtime; connects to nothing yet.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(super) fn start(collector: &Collector) -> Result<Self, String> {
        let courier = Arc::new(CollectorClient::new(collector)?);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_shared_http_client(Arc::<CollectorClient>::clone(&courier))
            .with_endpoint(collector.endpoint.to_string())
            .build()
            .map_err(|error| error.to_string())?;
        let provider = SdkTracerProvider::builder()
            .with_resource(resource())
            .with_batch_exporter(exporter)
            .build();
        traces::install_tracer(provider.tracer(SERVICE_NAME));
        Ok(Self {
            provider,
            client: courier,
        })
    }

    /// Sends what is left, once nothing is served any more. A collector that took nothing of late is
    /// not waited for.
    pub(crate) async fn shutdown(self) {
        if self.client.is_failing() {
            return;
        }
        // It waits for the thread that sends, which waits for this runtime.
        let flush = move || self.provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        if !tokio::task::spawn_blocking(flush)
            .await
            .is_ok_and(|flushed| flushed.is_ok())
        {
            tracing::warn!("the last spans did not reach the collector in time");
        }
    }
}

/// Whose spans they are: what the environment says goes before what we say.
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
