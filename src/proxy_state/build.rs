//! Builds the state: state shared by all requests, state of one upstream, and state that changes with
//! the settings.

use std::sync::Arc;

use crate::body::budget::BufferBudget;
use crate::callers::AcceptedCallers;
use crate::config::Config;
use crate::costs::CostTracker;
use crate::costs::spending::Spending;
use crate::error::Problem;
use crate::learned::learned_models::LearnedByCaller;
use crate::metrics::Metrics;
use crate::proxy_state::ProxyState;
use crate::proxy_state::refused_upgrades::RefusedUpgrades;
use crate::request::access_keys::AccessKeys;
use crate::request::receive::RequestSlots;
use crate::request::scope::ScopeFactory;
use crate::store::Store;
use crate::summaries::{RunningSummaries, SummaryGuards, SummaryUpstream};
use crate::upstream::Upstream;

impl ProxyState {
    /// Creates the state for the upstreams of `config`, without connecting. Fails if the
    /// certificate file or the store cannot be used.
    pub(crate) fn new(config: Config) -> Result<Self, Problem> {
        let metrics = Arc::<Metrics>::default();
        let accepted = Arc::<AcceptedCallers>::default();
        let store = Arc::new(Store::open(&config.store, &metrics, &accepted)?);
        let scopes = ScopeFactory::new(
            store.secret().clone(),
            config.store.scope.clone(),
            &config.limits.credentials,
        );
        let summariser = SummaryUpstream::new(&config.summary, &config.upstream)?;
        let budget = BufferBudget::new(config.limits.buffered_bytes);
        let mut state = Self {
            mount: None,
            mounts: Vec::new(),
            messages: None,
            login: None,
            costs: Arc::new(CostTracker::new(&accepted)),
            spending: Arc::new(Spending::new(&accepted)),
            upstream: Arc::new(Upstream::new(&config.upstream, Some(&budget))?),
            budget: Arc::new(budget),
            request_slots: RequestSlots::new(config.limits.requests),
            summary_guards: Arc::new(SummaryGuards::new(
                config.summary.max_per_hour,
                &metrics,
                &accepted,
            )),
            metrics,
            parse_caches: Arc::new(scopes.parse_caches(&accepted)),
            scopes: Arc::new(scopes),
            running_summaries: RunningSummaries::new(&accepted),
            keys: AccessKeys::new(&config),
            learned: Arc::new(LearnedByCaller::new(&accepted)),
            refused_upgrades: Arc::new(RefusedUpgrades::new(&accepted)),
            accepted,
            summary_endpoint: summariser.map(Arc::new),
            store,
            unknown_paths: Arc::default(),
            cross_origin: Arc::default(),
            recent: Arc::default(),
            config,
        };
        let mounts = state.config.mounts.iter();
        state.mounts = mounts
            .map(|mount| {
                let own = state.config.for_mount(mount);
                Arc::new(state.for_mount(Some(&mount.path), own))
            })
            .collect();
        let apart = &state.config.upstream;
        let messages = state.config.for_upstream(apart.messages.as_ref());
        let login = state.config.for_upstream(apart.login.as_ref());
        state.messages = messages.map(|own| Arc::new(state.for_mount(None, own)));
        state.login = login.map(|own| Arc::new(state.for_mount(None, own)));
        Ok(state)
    }

    /// Returns a copy with new settings that shares all state. Upstreams, store and global limits
    /// keep their values, whatever `config` sets. Fails if the summariser's endpoint cannot be
    /// used.
    pub(crate) fn with_config(&self, config: Config) -> Result<Self, Problem> {
        let endpoint = SummaryUpstream::new(&config.summary, &config.upstream)?.map(Arc::new);
        self.recent.set_content_visible(config.admin_show_content);
        let renewed = |(state, own): (&Arc<Self>, Config)| {
            Arc::new(Self { summary_endpoint: endpoint.clone(), ..state.with_own_config(own) })
        };
        let mounts = config.mounts.iter().map(|mount| config.for_mount(mount));
        let mounts = self.mounts.iter().zip(mounts).map(renewed);
        let messages =
            self.messages.iter().zip(config.for_upstream(config.upstream.messages.as_ref()));
        let login = self.login.iter().zip(config.for_upstream(config.upstream.login.as_ref()));
        Ok(Self {
            messages: messages.map(renewed).last(),
            login: login.map(renewed).last(),
            mounts: mounts.collect(),
            summary_endpoint: endpoint.clone(),
            ..self.with_own_config(config)
        })
    }

    /// Returns a copy for another upstream, without learned facts about its models. `mount` is the
    /// path of the upstream, if the upstream has one.
    fn for_mount(&self, mount: Option<&str>, config: Config) -> Self {
        Self {
            mount: mount.map(Arc::from),
            costs: Arc::new(CostTracker::new(&self.accepted)),
            learned: Arc::new(LearnedByCaller::new(&self.accepted)),
            unknown_paths: Arc::default(),
            cross_origin: Arc::default(),
            ..self.with_own_config(config)
        }
    }

    /// Returns a copy with other settings, without mounts.
    fn with_own_config(&self, config: Config) -> Self {
        Self {
            mounts: Vec::new(),
            messages: None,
            login: None,
            keys: AccessKeys::new(&config),
            config,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BaseUrl, Mount};
    use longhaul_core::cost::comparison::BilledRequest;
    use longhaul_core::cost::pricing::Cost;
    use longhaul_core::dialect::chat_completions::read;
    use longhaul_core::dialect::usage::Usage;
    use longhaul_core::prefix::keys::PrefixKeys;
    use longhaul_core::units::scope::Scope;
    use longhaul_core::units::tokens::Tokens;

    /// Returns the cost that `state` computes for a request.
    fn cost(state: &ProxyState) -> Cost {
        const MODEL: &str = "openai/gpt-5";
        let scope = Scope::new(&[0; 32], &[]);
        let chat = read(br#"{"messages":[{"role":"user","content":"go"}]}"#).unwrap();
        let prefix_keys = PrefixKeys::new(&chat, scope);
        let billed = BilledRequest {
            before: Tokens::new(1_000),
            after: Tokens::new(1_000),
            window: Tokens::new(400_000),
        };
        let usage = Usage { input: 1_000, ..Usage::default() };
        let bills = &state.costs;
        let open = bills.begin((scope, &prefix_keys), MODEL, billed);
        bills.settle(&open, MODEL, Some(&usage), state.config.prices(MODEL)).cost
    }

    #[tokio::test]
    async fn mount_is_billed_at_the_prices_of_its_own_upstream() {
        let base = ("upstream.base", "http://127.0.0.1:9/v1");
        let mounted = || {
            let mut config = Config::default_with([base]).unwrap();
            config.mounts.push(Mount {
                path: "/own".into(),
                base: BaseUrl::parse("https://openrouter.ai/api/v1").unwrap(),
                authorization: None,
            });
            config
        };
        let state = ProxyState::new(mounted()).unwrap();
        let renewed = state.with_config(mounted()).unwrap();
        for state in [state, renewed] {
            assert_eq!(cost(&state), Cost::NotListed);
            assert!(cost(&state.mounts[0]).amount().is_some());
        }
    }
}
