//! The server state that a reload replaces: later requests use the new settings.

use std::sync::Arc;

use crate::admin::Admin;
use crate::config::Config;
use crate::error::Problem;
use crate::proxy_state::ProxyState;
use crate::server::certificates::Certificates;
use parking_lot::RwLock;

/// Handle to a running server. Clones share the state.
#[derive(Clone)]
pub(crate) struct ReloadableProxy {
    state: Arc<RwLock<Arc<ProxyState>>>,
    pub(super) admin: Option<Arc<Admin>>,
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl ReloadableProxy {
    pub(super) fn new(state: ProxyState, certificates: Option<Certificates>) -> Self {
        Self {
            state: Arc::new(RwLock::new(Arc::new(state))),
            admin: None,
            certificates: certificates.map(Arc::new),
        }
    }

    /// Returns the state for a request that arrives now.
    pub(super) fn state(&self) -> Arc<ProxyState> {
        self.state.read().clone()
    }

    /// Serves later requests under `config`, and shows `settings` in the admin pages. Active
    /// requests keep their settings. If the settings cannot be used, nothing changes.
    pub(crate) fn reload(&self, config: Config, settings: String) -> Result<(), Problem> {
        let renewed = self.state().with_config(config)?;
        *self.state.write() = Arc::new(renewed);
        if let Some(admin) = &self.admin {
            admin.set_settings(settings);
        }
        Ok(())
    }

    /// Reloads the certificate shown to clients, if TLS is configured.
    pub(crate) fn reload_certificate(&self) {
        if let Some(certificates) = &self.certificates {
            certificates.reload();
        }
    }
}
