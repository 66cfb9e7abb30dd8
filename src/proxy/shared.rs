//! What requests share.

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

/// What requests under one set of settings share. A clone knows all that this one does.
#[derive(Clone)]
pub(super) struct Shared {
    /// The path under which the upstream is mounted, if it is another one's beside the general.
    pub(super) mount: Option<Arc<str>>,
    /// The proxies of further upstreams; the longest path comes first.
    pub(super) mounts: Vec<Proxy>,
    pub(super) costs: Arc<CostTracker>,
    pub(super) config: Config,
    pub(super) budget: Arc<BufferBudget>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) scopes: Arc<ScopeFactory>,
    /// Messages that were met before.
    pub(super) parse_cache: Arc<ParseCache>,
    /// Summaries under way.
    pub(super) summary_jobs: SummaryJobs,
    pub(super) summary_guards: Arc<SummaryGuards>,
    pub(super) keys: AccessKeys,
    pub(super) knowledge: Arc<ModelKnowledge>,
    /// Where summaries are asked for, if not of the upstream.
    pub(super) summary_endpoint: Option<Arc<SummaryUpstream>>,
    pub(super) store: Arc<Store>,
    pub(super) unknown_paths: Arc<UnknownPaths>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) recent: Arc<RecentConversations>,
    /// Titles under way.
    pub(super) title_permits: Arc<Semaphore>,
}

impl Shared {
    /// Whose request it is.
    pub(super) fn scope(&self, head: &Parts) -> Scope {
        self.scopes
            .for_request(&self.config.upstream.base, &head.headers)
    }
}

impl Proxy {
    /// What is counted of its requests.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.0.metrics)
    }

    /// The conversations of late, for whoever shows them.
    pub(crate) fn recent(&self) -> Arc<RecentConversations> {
        Arc::clone(&self.0.recent)
    }

    /// What keeps summaries from doing harm.
    pub(crate) fn guards(&self) -> Arc<SummaryGuards> {
        Arc::clone(&self.0.summary_guards)
    }

    /// Where its records are kept.
    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.0.store)
    }

    /// Waits until what was kept elsewhere can be asked for, before the first request.
    pub(crate) async fn wait_until_ready(&self) {
        self.0.store.wait_until_ready().await;
    }

    /// Keeps what is left to be kept, once nothing is served any more: summaries under way are paid
    /// for, and are waited for, but not beyond `until`, nor where they would end with this process.
    pub(crate) async fn close(&self, until: Instant) {
        let (desk, store) = (&self.0.summary_jobs, &self.0.store);
        let summaries = desk.running_count();
        if summaries > 0 && store.is_durable() {
            tracing::info!(summaries, "waiting for summaries under way");
            if timeout_at(until, desk.wait_until_idle()).await.is_err() {
                tracing::warn!("summaries were cut at the end of the drain");
            }
        }
        store.close().await;
    }
}
