//! Placeholder for trace export in builds without it.

use crate::telemetry::collector::Collector;

/// A running trace export, which never exists in this build.
pub(crate) enum TraceExport {}

impl TraceExport {
    pub(super) fn start(_collector: &Collector) -> Result<Self, String> {
        Err(crate::telemetry::collector::NOT_BUILT.to_owned())
    }

    #[expect(clippy::unused_async, reason = "the build with trace export waits for the collector")]
    pub(crate) async fn shutdown(self) {
        match self {}
    }
}
