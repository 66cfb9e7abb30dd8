//! Reads the settings again while they are in use.

use crate::config::{Config, ResolvedSettings, report_json};
use crate::error::Problem;
use crate::server::ReloadableProxy;

/// The settings in use, and how they are read.
pub(super) struct SettingsReloader<R> {
    pub(super) resolved: ResolvedSettings,
    pub(super) running: Config,
    pub(super) resolve: R,
}

impl<R: Fn() -> Result<ResolvedSettings, Vec<Problem>>> SettingsReloader<R> {
    /// Reads all that can be read again. Settings with anything wrong in them change nothing.
    pub(super) fn reload(&mut self, server: &ReloadableProxy) {
        server.reload_certificate();
        if let Err(problems) = self.reload_settings(server) {
            let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
            let problems = problems.join("; ");
            tracing::warn!("the settings stay as they were: {problems}");
        }
    }

    fn reload_settings(&mut self, server: &ReloadableProxy) -> Result<(), Vec<Problem>> {
        let changes = self.resolved.diff((self.resolve)()?);
        let config = changes.config(&self.running)?;
        server.reload(config.clone(), report_json(&changes.settings))?;
        self.running = config;
        self.resolved = changes.settings;
        let changed = changes.applied.join(", ");
        tracing::info!(
            changed,
            "the settings, and the files they name, were read again"
        );
        if !changes.deferred.is_empty() {
            let names = changes.deferred.join(", ");
            tracing::warn!("these settings change with the next start alone: {names}");
        }
        Ok(())
    }
}
