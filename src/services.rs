//! State that requests share.

pub(crate) mod build;
use std::sync::Arc;

use http::request::Parts;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::body::budget::BufferBudget;
use crate::config::Config;
use crate::costs::CostTracker;
use crate::dashboard::RecentConversations;
use crate::exchange::unknown_paths::UnknownPaths;
use crate::learned::model_knowledge::ModelKnowledge;
use crate::metrics::Metrics;
use crate::proxy::Proxy;
use crate::request::access_keys::AccessKeys;
use crate::request::scope::ScopeFactory;
use crate::store::Store;
use crate::summaries::{SummaryGuards, SummaryJobs, SummaryUpstream};
use crate::upstream::Upstream;
use longhaul_core::conversation::parse_cache::ParseCache;
use longhaul_core::units::scope::Scope;

/// State shared by all requests under one set of settings. Clones share the caches and stores.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Path prefix of this upstream's mount. `None` for the default upstream.
    pub(crate) mount: Option<Arc<str>>,
    /// Proxies of the mounted upstreams, longest path first.
    pub(crate) mounts: Vec<Proxy>,
    pub(crate) costs: Arc<CostTracker>,
    pub(crate) config: Config,
    pub(crate) budget: Arc<BufferBudget>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) scopes: Arc<ScopeFactory>,
    /// Cache of parsed messages.
    pub(crate) parse_cache: Arc<ParseCache>,
    /// Summary jobs in progress.
    pub(crate) summary_jobs: SummaryJobs,
    pub(crate) summary_guards: Arc<SummaryGuards>,
    pub(crate) keys: AccessKeys,
    pub(crate) knowledge: Arc<ModelKnowledge>,
    /// Separate endpoint for summaries. `None` to use the upstream.
    pub(crate) summary_endpoint: Option<Arc<SummaryUpstream>>,
    pub(crate) store: Arc<Store>,
    pub(crate) unknown_paths: Arc<UnknownPaths>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) recent: Arc<RecentConversations>,
    /// Permits for concurrent title calls.
    pub(crate) title_permits: Arc<Semaphore>,
}

impl Shared {
    /// Computes the scope of a request's caller.
    pub(crate) fn scope(&self, head: &Parts) -> Scope {
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
