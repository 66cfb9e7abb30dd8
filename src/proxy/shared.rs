//! State that requests share.

use std::sync::Arc;

use http::request::Parts;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::Proxy;
use super::bills::CostTracker;
use super::budget::BufferBudget;
use super::keys::AccessKeys;
use super::lessons::ModelKnowledge;
use super::recent::RecentConversations;
use super::scope::ScopeFactory;
use super::unknown::UnknownPaths;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::rewrite::chain::Scope;
use crate::rewrite::recall::ParseCache;
use crate::store::Store;
use crate::summarise::{SummaryGuards, SummaryJobs, SummaryUpstream};
use crate::upstream::Upstream;

/// State shared by all requests under one set of settings. Clones share the caches and stores.
#[derive(Clone)]
pub(super) struct Shared {
    /// Path prefix of this upstream's mount. `None` for the default upstream.
    pub(super) mount: Option<Arc<str>>,
    /// Proxies of the mounted upstreams, longest path first.
    pub(super) mounts: Vec<Proxy>,
    pub(super) costs: Arc<CostTracker>,
    pub(super) config: Config,
    pub(super) budget: Arc<BufferBudget>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) scopes: Arc<ScopeFactory>,
    /// Cache of parsed messages.
    pub(super) parse_cache: Arc<ParseCache>,
    /// Summary jobs in progress.
    pub(super) summary_jobs: SummaryJobs,
    pub(super) summary_guards: Arc<SummaryGuards>,
    pub(super) keys: AccessKeys,
    pub(super) knowledge: Arc<ModelKnowledge>,
    /// Separate endpoint for summaries. `None` to use the upstream.
    pub(super) summary_endpoint: Option<Arc<SummaryUpstream>>,
    pub(super) store: Arc<Store>,
    pub(super) unknown_paths: Arc<UnknownPaths>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) recent: Arc<RecentConversations>,
    /// Permits for concurrent title calls.
    pub(super) title_permits: Arc<Semaphore>,
}

impl Shared {
    /// Computes the scope of a request's caller.
    pub(super) fn scope(&self, head: &Parts) -> Scope {
        self.scopes
            .for_request(&self.config.upstream.base, &head.headers)
    }
}

impl Proxy {
    /// Returns the metrics of this proxy's requests.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.0.metrics)
    }

    /// Returns the recent conversations, for the dashboard.
    pub(crate) fn recent(&self) -> Arc<RecentConversations> {
        Arc::clone(&self.0.recent)
    }

    /// Returns the guards that limit summaries.
    pub(crate) fn guards(&self) -> Arc<SummaryGuards> {
        Arc::clone(&self.0.summary_guards)
    }

    /// Returns the store of compaction records.
    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.0.store)
    }

    /// Waits until the store can be queried, before the first request.
    pub(crate) async fn wait_until_ready(&self) {
        self.0.store.wait_until_ready().await;
    }

    /// Finishes after the last request. Summaries in progress are paid for, so waits for them until
    /// `until`, but only if the store outlives the process. Then closes the store.
    pub(crate) async fn close(&self, until: Instant) {
        let (desk, store) = (&self.0.summary_jobs, &self.0.store);
        let summaries = desk.running_count();
        if summaries > 0 && store.is_durable() {
            tracing::info!(summaries, "waiting for summaries in progress");
            if timeout_at(until, desk.wait_until_idle()).await.is_err() {
                tracing::warn!("the drain ended before all summaries; aborting the rest");
            }
        }
        store.close().await;
    }
}
