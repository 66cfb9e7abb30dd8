//! Reloads the settings while they are in use.

use crate::config::{Config, ResolvedSettings, report_json};
use crate::error::Problem;
use crate::server::ReloadableProxy;

/// The settings in use and the function that reads them.
pub(super) struct SettingsReloader<R> {
    pub(super) resolved: ResolvedSettings,
    pub(super) running: Config,
    pub(super) resolve: R,
}

impl<R: Fn() -> Result<ResolvedSettings, Vec<Problem>>> SettingsReloader<R> {
    /// Reloads the certificate and the settings. If any setting has a problem, no setting changes.
    pub(super) fn reload(&mut self, server: &ReloadableProxy) {
        server.reload_certificate();
        if let Err(problems) = self.reload_settings(server) {
            let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
            let problems = problems.join("; ");
            tracing::warn!("settings not reloaded: {problems}");
        }
    }

    fn reload_settings(&mut self, server: &ReloadableProxy) -> Result<(), Vec<Problem>> {
        let changes = self.resolved.diff((self.resolve)()?);
        let config = changes.config(&self.running)?;
        server.reload(config.clone(), report_json(&changes.settings))?;
        self.running = config;
        self.resolved = changes.settings;
        let changed = changes.applied.join(", ");
        tracing::info!(changed, "reloaded the settings and the files they name");
        if !changes.deferred.is_empty() {
            let names = changes.deferred.join(", ");
            tracing::warn!("these settings change only on restart: {names}");
        }
        Ok(())
    }
}
