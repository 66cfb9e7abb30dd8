//! What requests share.

use std::sync::Arc;

use http::request::Parts;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::Proxy;
use super::bills::Bills;
use super::budget::Budget;
use super::keys::Keys;
use super::lessons::Lessons;
use super::recent::Recent;
use super::scope::Scopes;
use super::unknown::UnknownPaths;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::rewrite::chain::Scope;
use crate::rewrite::recall::Recall;
use crate::store::Store;
use crate::summarise::{Desk, Endpoint, Guards};
use crate::upstream::Upstream;

/// What requests under one set of settings share. A clone knows all that this one does.
#[derive(Clone)]
pub(super) struct Shared {
    /// The path under which the upstream is mounted, if it is another one's beside the general.
    pub(super) mount: Option<Arc<str>>,
    /// The proxies of further upstreams; the longest path comes first.
    pub(super) mounts: Vec<Proxy>,
    pub(super) bills: Arc<Bills>,
    pub(super) config: Config,
    pub(super) budget: Arc<Budget>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) scopes: Arc<Scopes>,
    /// Messages that were met before.
    pub(super) recall: Arc<Recall>,
    /// Summaries under way.
    pub(super) desk: Desk,
    pub(super) guards: Arc<Guards>,
    pub(super) keys: Keys,
    pub(super) lessons: Arc<Lessons>,
    /// Where summaries are asked for, if not of the upstream.
    pub(super) summariser: Option<Arc<Endpoint>>,
    pub(super) store: Arc<Store>,
    pub(super) unknown: Arc<UnknownPaths>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) recent: Arc<Recent>,
    /// Titles under way.
    pub(super) titling: Arc<Semaphore>,
}

impl Shared {
    /// Whose request it is.
    pub(super) fn scope(&self, head: &Parts) -> Scope {
        self.scopes.of(&self.config.upstream.base, &head.headers)
    }
}

impl Proxy {
    /// What is counted of its requests.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.0.metrics)
    }

    /// The conversations of late, for whoever shows them.
    pub(crate) fn recent(&self) -> Arc<Recent> {
        Arc::clone(&self.0.recent)
    }

    /// What keeps summaries from doing harm.
    pub(crate) fn guards(&self) -> Arc<Guards> {
        Arc::clone(&self.0.guards)
    }

    /// Where its records are kept.
    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.0.store)
    }

    /// Waits until what was kept elsewhere can be asked for, before the first request.
    pub(crate) async fn begun(&self) {
        self.0.store.begun().await;
    }

    /// Keeps what is left to be kept, once nothing is served any more: summaries under way are paid
    /// for, and are waited for, but not beyond `until`, nor where they would end with this process.
    pub(crate) async fn close(&self, until: Instant) {
        let (desk, store) = (&self.0.desk, &self.0.store);
        let summaries = desk.under_way();
        if summaries > 0 && store.outlives_the_process() {
            tracing::info!(summaries, "waiting for summaries under way");
            if timeout_at(until, desk.idle()).await.is_err() {
                tracing::warn!("summaries were cut at the end of the drain");
            }
        }
        store.close().await;
    }
}
