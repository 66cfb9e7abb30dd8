//! Reads the settings again while they are in use.

use crate::config::{Config, Resolved, report_json};
use crate::error::Problem;
use crate::server::Current;

/// The settings in use, and how they are read.
pub(super) struct Reload<R> {
    pub(super) found: Resolved,
    pub(super) running: Config,
    pub(super) read: R,
}

impl<R: Fn() -> Result<Resolved, Vec<Problem>>> Reload<R> {
    /// Reads all that can be read again. Settings with anything wrong in them change nothing.
    pub(super) fn again(&mut self, server: &Current) {
        server.reload_certificate();
        if let Err(problems) = self.settle(server) {
            let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
            let problems = problems.join("; ");
            tracing::warn!("the settings stay as they were: {problems}");
        }
    }

    fn settle(&mut self, server: &Current) -> Result<(), Vec<Problem>> {
        let changes = self.found.changes((self.read)()?);
        let config = changes.config(&self.running)?;
        server.renew(config.clone(), report_json(&changes.now))?;
        self.running = config;
        self.found = changes.now;
        let changed = changes.taken.join(", ");
        tracing::info!(
            changed,
            "the settings, and the files they name, were read again"
        );
        if !changes.waiting.is_empty() {
            let names = changes.waiting.join(", ");
            tracing::warn!("these settings change with the next start alone: {names}");
        }
        Ok(())
    }
}
