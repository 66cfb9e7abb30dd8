//! Puts a proxy together: what all requests share, what belongs to one upstream, and what changes
//! with the settings.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::Proxy;
use super::bills::Bills;
use super::budget::Budget;
use super::forms::Forms;
use super::keys::Keys;
use super::lessons::Lessons;
use super::scope::Scopes;
use super::shared::Shared;
use crate::config::Config;
use crate::error::Problem;
use crate::metrics::Metrics;
use crate::rewrite::chain::Scope;
use crate::store::Store;
use crate::summarise::{Desk, Endpoint, Guards};
use crate::upstream::{Asked, Upstream, Windows};

/// Titles that are asked for at once; a conversation that finds no place has another chance with its
/// next request.
const TITLES: usize = 2;

impl Proxy {
    /// A proxy for the upstreams of `config`; connects to nothing.
    ///
    /// # Errors
    /// The certificate file or the store cannot be used.
    pub(crate) fn new(config: Config) -> Result<Self, Problem> {
        let metrics = Arc::<Metrics>::default();
        let store = Arc::new(Store::open(&config.store, &metrics)?);
        let scopes = Scopes::new(store.secret().clone(), config.store.scope.clone());
        let lessons = lessons(&store, scopes.of_models(&config.upstream.base));
        let summariser = Endpoint::new(&config.summary, &config.upstream)?;
        let mut shared = Shared {
            mount: None,
            mounts: Vec::new(),
            bills: bills(&config),
            budget: Arc::new(Budget::new(config.limits.buffered)),
            guards: Arc::new(Guards::new(config.summary.per_hour, &metrics)),
            metrics,
            recall: Arc::new(scopes.recall()),
            scopes: Arc::new(scopes),
            desk: Desk::default(),
            keys: Keys::new(&config),
            lessons,
            summariser: summariser.map(Arc::new),
            store,
            unknown: Arc::default(),
            upstream: Arc::new(Upstream::new(&config.upstream)?),
            recent: Arc::default(),
            titling: Arc::new(Semaphore::new(TITLES)),
            config,
        };
        let mounts = shared.config.mounts.iter();
        shared.mounts = mounts
            .map(|mount| {
                let own = shared.config.at(mount);
                Self(Arc::new(shared.towards(&mount.path, own)))
            })
            .collect();
        Ok(Self(Arc::new(shared)))
    }

    /// A proxy under other settings that knows all that this one does. What a process is built on
    /// stays as it is, whatever `config` says of it: upstreams and store, and bounds on a whole.
    ///
    /// # Errors
    /// The summariser's endpoint cannot be used.
    pub(crate) fn renewed(&self, config: Config) -> Result<Self, Problem> {
        let summariser = Endpoint::new(&config.summary, &config.upstream)?.map(Arc::new);
        self.0.recent.show_summaries(config.admin_shows_content);
        let mounts = self.0.mounts.iter().zip(&config.mounts);
        let mounts = mounts.map(|(proxy, mount)| {
            let mut own = proxy.0.under(config.at(mount));
            own.summariser.clone_from(&summariser);
            Self(Arc::new(own))
        });
        let mounts = mounts.collect();
        let mut shared = self.0.under(config);
        shared.mounts = mounts;
        shared.summariser = summariser;
        Ok(Self(Arc::new(shared)))
    }
}

/// What is learned of the models of one upstream.
fn lessons(store: &Arc<Store>, scope: Scope) -> Arc<Lessons> {
    Arc::new(Lessons {
        asked: Asked::default(),
        forms: Forms::default(),
        windows: Windows::default(),
        store: Arc::clone(store),
        scope,
    })
}

/// What one upstream charges: prices go by its host.
fn bills(config: &Config) -> Arc<Bills> {
    Arc::new(Bills::new(config.upstream.base.authority().host()))
}

impl Shared {
    /// The same towards another upstream, of whose models nothing is known yet.
    fn towards(&self, mount: &str, config: Config) -> Self {
        Self {
            mount: Some(mount.into()),
            bills: bills(&config),
            lessons: lessons(&self.store, self.scopes.of_models(&config.upstream.base)),
            unknown: Arc::default(),
            ..self.under(config)
        }
    }

    /// The same under other settings.
    fn under(&self, config: Config) -> Self {
        Self {
            mounts: Vec::new(),
            keys: Keys::new(&config),
            config,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Base, Mount};
    use crate::rewrite::chain::Chains;
    use crate::rewrite::chat_completions::read;
    use crate::rewrite::money::{Billed, Cost};
    use crate::rewrite::tokens::Tokens;
    use crate::rewrite::usage::Usage;

    /// What `proxy` takes a request to have cost.
    fn cost(proxy: &Proxy) -> Cost {
        const MODEL: &str = "openai/gpt-5";
        let chat = read(br#"{"messages":[{"role":"user","content":"go"}]}"#).unwrap();
        let chains = Chains::of(&chat, Scope::new(&[0; 32], &[]));
        let billed = Billed {
            before: Tokens::new(1_000),
            after: Tokens::new(1_000),
            window: Tokens::new(400_000),
        };
        let usage = Usage {
            input: 1_000,
            ..Usage::default()
        };
        let bills = &proxy.0.bills;
        let open = bills.open(&chains, MODEL, billed);
        bills.close(&open, MODEL, Some(&usage)).cost
    }

    #[tokio::test]
    async fn a_mount_is_billed_as_its_own_upstream_bills() {
        let base = ("upstream.base", "http://127.0.0.1:9/v1");
        let mounted = || {
            let mut config = Config::default_with([base]).unwrap();
            config.mounts.push(Mount {
                path: "/own".into(),
                base: Base::parse("https://openrouter.ai/api/v1").unwrap(),
                authorization: None,
            });
            config
        };
        let proxy = Proxy::new(mounted()).unwrap();
        let renewed = proxy.renewed(mounted()).unwrap();
        for proxy in [proxy, renewed] {
            assert_eq!(cost(&proxy), Cost::NotListed);
            assert!(cost(&proxy.0.mounts[0]).known().is_some());
        }
    }
}
