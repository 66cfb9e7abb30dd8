//! The server state that a reload replaces: later requests use the new settings.

use std::sync::Arc;

use crate::admin::Admin;
use crate::config::Config;
use crate::error::Problem;
use crate::proxy::Proxy;
use crate::server::certificates::Certificates;
use parking_lot::RwLock;

/// Handle to a running server. Clones share the state.
#[derive(Clone)]
pub(crate) struct ReloadableProxy {
    proxy: Arc<RwLock<Proxy>>,
    pub(super) admin: Option<Arc<Admin>>,
    pub(super) certificates: Option<Arc<Certificates>>,
}

impl ReloadableProxy {
    pub(super) fn new(proxy: Proxy, certificates: Option<Certificates>) -> Self {
        Self {
            proxy: Arc::new(RwLock::new(proxy)),
            admin: None,
            certificates: certificates.map(Arc::new),
        }
    }

    /// Returns the proxy for a request that arrives now.
    pub(super) fn proxy(&self) -> Proxy {
        self.proxy.read().clone()
    }

    /// Serves later requests under `config`, and shows `settings` in the admin pages. Active
    /// requests keep their settings. If the settings cannot be used, nothing changes.
    pub(crate) fn reload(&self, config: Config, settings: String) -> Result<(), Problem> {
        let renewed = self.proxy().with_config(config)?;
        *self.proxy.write() = renewed;
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
