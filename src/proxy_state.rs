//! State that requests share.

mod build;
pub(crate) mod cross_origin;
mod refused_upgrades;
mod unknown_paths;

use std::sync::Arc;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request};
use tokio::time::{Instant, timeout_at};

use crate::body::budget::BufferBudget;
use crate::body::client_body::ClientBody;
use crate::body::request_body::{RequestBody, TransferMeter};
use crate::callers::AcceptedCallers;
use crate::callers::ParseCaches;
use crate::callers::owners::{self, Owners};
use crate::config::{Config, Mode};
use crate::costs::spending::Spending;
use crate::costs::{CostTracker, PendingCost, RequestCost};
use crate::dashboard::RecentConversations;
use crate::error::Fault;
use crate::learned::learned_models::LearnedByCaller;
use crate::metrics::Metrics;
use crate::request::access_keys::{AccessKeys, Authentication};
use crate::request::login;
use crate::request::overrides::RequestOverrides;
use crate::request::peer_address::{PeerAddress, client_address};
use crate::request::receive::{ChatBodyReader, Received, RequestSlot, RequestSlots, read_dialect};
use crate::request::scope::{CallerFields, RequestCaller, ScopeFactory};
use crate::store::Store;
use crate::summaries::{RunningSummaries, SummaryGuards, SummaryUpstream};
use crate::upstream::Upstream;
use cross_origin::CrossOriginFields;
use longhaul_core::cost::pricing::{Cost, TokenPrices};
use longhaul_core::dialect::usage::Usage;
use longhaul_core::units::scope::Scope;
use refused_upgrades::RefusedUpgrades;
use unknown_paths::UnknownPaths;

/// State shared by all requests under one set of settings. Clones share the caches and stores.
#[derive(Clone)]
pub(crate) struct ProxyState {
    /// Path prefix of this upstream's mount. `None` for the default upstream.
    pub(crate) mount: Option<Arc<str>>,
    /// States of the mounted upstreams, longest path first.
    pub(crate) mounts: Vec<Arc<Self>>,
    /// State of the upstream for the Messages API, if there is a separate one.
    pub(crate) messages: Option<Arc<Self>>,
    /// State of the backend for `ChatGPT` logins, unless an upstream is set.
    pub(crate) login: Option<Arc<Self>>,
    pub(crate) costs: Arc<CostTracker>,
    pub(crate) spending: Arc<Spending>,
    pub(crate) config: Config,
    pub(crate) budget: Arc<BufferBudget>,
    pub(crate) request_slots: RequestSlots,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) scopes: Arc<ScopeFactory>,
    pub(crate) parse_caches: Arc<ParseCaches>,
    /// Summary jobs in progress.
    pub(crate) running_summaries: RunningSummaries,
    pub(crate) summary_guards: Arc<SummaryGuards>,
    pub(crate) keys: AccessKeys,
    pub(crate) learned: Arc<LearnedByCaller>,
    /// Callers of whom an upstream has accepted a request.
    pub(crate) accepted: Arc<AcceptedCallers>,
    /// Separate endpoint for summaries. `None` to use the upstream.
    pub(crate) summary_endpoint: Option<Arc<SummaryUpstream>>,
    pub(crate) store: Arc<Store>,
    pub(crate) unknown_paths: Arc<UnknownPaths>,
    pub(crate) refused_upgrades: Arc<RefusedUpgrades>,
    /// Cross-origin fields of this upstream's replies, for faults.
    pub(crate) cross_origin: Arc<CrossOriginFields>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) recent: Arc<RecentConversations>,
}

impl ProxyState {
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = &Self> {
        let others = self.mounts.iter().chain(&self.messages).chain(&self.login);
        std::iter::once(self).chain(others.map(|it| &**it))
    }

    /// Computes the scope of a request to the upstream's path and query `target`.
    pub(crate) fn scope(&self, target: &PathAndQuery, head: &Parts) -> Scope {
        let caller = head.extensions.get().copied();
        let caller: RequestCaller = caller.unwrap_or_else(|| {
            let base = &self.config.upstream.base;
            let fields = self.scopes.read(base, target.query(), &head.headers);
            self.scopes.caller(&fields, None)
        });
        caller.at(target, &self.accepted)
    }

    /// Settles the cost of a forwarded chat, and adds the cost to the metrics. Without `usage`, the
    /// cost is unknown.
    pub(crate) fn settle_cost(
        &self,
        open: &PendingCost,
        model: &str,
        usage: Option<&Usage>,
        prices: Option<TokenPrices>,
    ) -> RequestCost {
        let prices = prices.or_else(|| self.recent.prices.of(model));
        let settled = self.costs.settle(open, model, usage, prices);
        let costs = &self.metrics.costs;
        costs.record_chat(settled.cost, &settled.comparison);
        if let Some(payer) = open.payer {
            let usage = usage.copied().unwrap_or_else(|| open.estimated_usage());
            let at_prices = || Cost::from_usage(Some(&usage), self.config.prices(model).as_ref());
            let cost = settled.cost.amount().or_else(|| at_prices().amount());
            self.spending.add(self.config.caps, payer, cost, usage.total());
        }
        settled
    }

    /// Takes the place of a request among those under way, and memory for its head. Adds the [`Owners`] of
    /// what the request occupies to its extensions. A caller whose credentials nobody has accepted
    /// shares with its address: anyone can invent credentials, but not addresses.
    /// Fails if no place or memory is left, or none of an owner's share.
    pub(crate) fn acquire_slot<B>(&self, request: &mut Request<B>) -> Result<RequestSlot, Fault> {
        let (query, headers) = (request.uri().query(), request.headers());
        let fields = self.scopes.read(&self.config.upstream.base, query, headers);
        let subject = login::subject(&self.config.upstream.base, headers);
        let subject = subject.filter(|_| self.keys.forwards_credential(headers));
        let caller = self.scopes.caller(&fields, subject.as_deref());
        let owners = self.owners_of(request, &fields);
        let extensions = request.extensions_mut();
        extensions.insert(caller);
        extensions.insert(owners.clone());
        let mut memory = self.budget.owned_by(owners.clone()).reservation();
        // The number of requests bounds usual heads: a budget full of bodies refuses no request.
        let grown = memory.grow_to(head_bytes(request).saturating_sub(FREE_HEAD_BYTES));
        let taken = grown.and_then(|()| self.request_slots.take(owners, memory));
        taken.map_err(|_| Fault::TooManyRequests)
    }

    /// Returns the owners of a request of the caller with these fields.
    fn owners_of<B>(&self, request: &Request<B>, caller: &CallerFields<'_>) -> Owners {
        let connected = request.extensions().get::<PeerAddress>();
        let trusted = &self.config.limits.trusted_proxies;
        let client = connected.map(|peer| client_address(*peer, trusted, request.headers()));
        let peer = client.map(|client| client.peer);
        let mut owners = match self.keys.authentication(request.headers()) {
            Authentication::ClientToken(token) => self.scopes.owners_of_token(token, peer),
            Authentication::None if !caller.is_vouched_for => Owners::strangers(peer),
            Authentication::None | Authentication::Upstream => self.scopes.owners(caller, peer),
        };
        let is_accepted = |set| self.accepted.contains(set);
        owners.is_accepted = owners.is_accepted || owners.set().is_some_and(is_accepted);
        owners
    }

    /// Records that the upstream has accepted the credentials of a request.
    pub(crate) fn record_accepted(&self, owners: &Owners) {
        if let Some(set) = owners.set() {
            self.accepted.insert(set, owners);
        }
    }

    /// Returns the owners of a request whose acceptance shows that its credentials are valid: of a model
    /// endpoint. A list of models may be public, and OpenAI opens a WebSocket for any key and refuses an
    /// unknown one in an event. `path` is the upstream's.
    pub(crate) fn owners_to_accept(&self, head: &Parts, path: &str) -> Option<Owners> {
        let is_endpoint = head.method == Method::POST && self.keys.is_endpoint(path);
        is_endpoint.then(|| owners::of_request(&head.extensions))
    }

    /// Returns the overrides that count for a request with these headers.
    pub(crate) fn overrides(&self, headers: &HeaderMap) -> RequestOverrides {
        let asked = RequestOverrides::from_headers(headers);
        if self.may_raise(headers) { asked } else { asked.within(&self.config) }
    }

    /// Whether the settings allow a request with these headers to be compacted explicitly.
    pub(crate) fn may_compact(&self, headers: &HeaderMap) -> bool {
        self.mode(self.overrides(headers)) != Mode::Off
            && (self.config.compaction.proactive || self.may_raise(headers))
    }

    /// Whether a request's headers may do more than the settings. The operator has to permit it, and the
    /// caller's own key has to pay for all that follows.
    fn may_raise(&self, headers: &HeaderMap) -> bool {
        self.config.headers_may_raise
            && self.summary_endpoint.is_none()
            && self.keys.forwards_credential(headers)
    }

    /// Returns the mode that the request selects, or else the configured one.
    pub(crate) fn mode(&self, overrides: RequestOverrides) -> Mode {
        overrides.mode.unwrap_or(self.config.mode)
    }

    /// Buffers a chat's body; streams every other body.
    pub(crate) async fn receive(
        &self,
        head: &Parts,
        overrides: RequestOverrides,
        body: ClientBody,
        meter: &Arc<TransferMeter>,
    ) -> Result<Received, Fault> {
        if self.mode(overrides) == Mode::Off
            || read_dialect(&head.method, head.uri.path()).is_none()
        {
            let body = RequestBody::from_client(body, meter);
            return Ok(Received::Streamed { body, why: None });
        }
        self.body_reader(head, meter).receive(head, body).await
    }

    pub(crate) fn body_reader<'a>(
        &'a self,
        head: &Parts,
        meter: &'a Arc<TransferMeter>,
    ) -> ChatBodyReader<'a> {
        ChatBodyReader {
            budget: self.budget.owned_by(owners::of_request(&head.extensions)),
            limit: self.config.limits.body_bytes,
            meter,
            metrics: &self.metrics,
        }
    }

    /// Finishes after the last request. Summaries in progress are paid for, so waits for them until
    /// `until`, but only if the store outlives the process. Then closes the store.
    pub(crate) async fn close(&self, until: Instant) {
        let summaries = self.running_summaries.running_count();
        if summaries > 0 && self.store.is_durable() {
            tracing::info!(summaries, "waiting for summaries in progress");
            let idle = self.running_summaries.wait_until_idle();
            if timeout_at(until, idle).await.is_err() {
                tracing::warn!("the drain ended before all summaries; aborting the rest");
            }
        }
        self.store.close().await;
    }
}

/// Bytes of a head that count in no budget. Heads of agents take less.
const FREE_HEAD_BYTES: u64 = 8 * 1024;

/// Returns the memory that the head of a request takes: names, values and an entry of the map for each.
fn head_bytes<B>(request: &Request<B>) -> u64 {
    const ENTRY_BYTES: usize = 104;
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + ENTRY_BYTES);
    let target = request.uri().path_and_query().map_or(0, |it| it.as_str().len());
    u64::try_from(fields.sum::<usize>() + target).unwrap_or(u64::MAX)
}
