//! Traces where the program was built without them: they go nowhere.

use super::collector::Collector;

/// Spans on their way to a collector. There are none.
pub(crate) enum TraceExport {}

impl TraceExport {
    /// # Errors
    /// Always.
    pub(super) fn start(_collector: &Collector) -> Result<Self, String> {
        Err(super::collector::NOT_BUILT.to_owned())
    }

    /// Sends what is left.
    #[expect(
        clippy::unused_async,
        reason = "the other build waits for the collector"
    )]
    pub(crate) async fn shutdown(self) {
        match self {}
    }
}
