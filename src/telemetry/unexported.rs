//! Traces where the program was built without them: they go nowhere.

use super::collector::Collector;

/// Spans on their way to a collector. There are none.
pub(crate) enum Exporting {}

impl Exporting {
    /// # Errors
    /// Always.
    pub(super) fn begin(_collector: &Collector) -> Result<Self, String> {
        Err(super::collector::UNBUILT.to_owned())
    }

    /// Sends what is left.
    #[expect(
        clippy::unused_async,
        reason = "the other build waits for the collector"
    )]
    pub(crate) async fn end(self) {
        match self {}
    }
}
