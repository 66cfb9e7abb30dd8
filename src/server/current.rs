//! What requests are served under: settings that are read again take the place of those before,
//! for the requests that come after.

use std::sync::Arc;

use super::certificates::Certificates;
use crate::admin::Admin;
use crate::config::Config;
use crate::error::Problem;
use crate::lock::RwLock;
use crate::proxy::Proxy;

/// A hold on a server that serves. Clones hold the same one.
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

    /// Who serves a request that comes now.
    pub(super) fn proxy(&self) -> Proxy {
        self.proxy.read().clone()
    }

    /// Has requests that come from here on served under `config`, and `settings` shown for it.
    /// Those under way end as they began.
    ///
    /// # Errors
    /// As for a start. Nothing has changed then.
    pub(crate) fn reload(&self, config: Config, settings: String) -> Result<(), Problem> {
        let renewed = self.proxy().with_config(config)?;
        *self.proxy.write() = renewed;
        if let Some(admin) = &self.admin {
            admin.set_settings(settings);
        }
        Ok(())
    }

    /// Reads the certificate again that clients are shown, if they are shown one.
    pub(crate) fn reload_certificate(&self) {
        if let Some(certificates) = &self.certificates {
            certificates.reload();
        }
    }
}
