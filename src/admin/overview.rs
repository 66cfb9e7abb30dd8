//! Data of the dashboard, as JSON.

use std::path::Path;

use bytes::Bytes;
use serde::Serialize;

use crate::config::StoreLocation;
use crate::dashboard::days::DayRow;
use crate::dashboard::{ListChange, Outage, shared};
use crate::learned::learned_models::{HeldWindow, LearnedModels};
use crate::metrics::quota::Quota;
use crate::proxy_state::ProxyState;
use crate::store::totals_file;
use crate::summaries::GuardHealth;
use crate::wall_clock;
use longhaul_core::policy::KeptText;
use longhaul_core::units::scope::RecordKey;

/// Sources of the dashboard's data.
pub(crate) struct Overview {
    /// State of the process, with the settings of its start.
    pub(super) state: ProxyState,
    /// Base URL that agents on this machine use.
    agent_url: String,
    /// Start of service, in milliseconds since 1970.
    pub(super) started: u64,
}

/// State of the process, and the conversations that changed.
#[derive(Serialize)]
struct OverviewDto<'o> {
    /// Base URL that agents on this machine use.
    agent_url: &'o str,
    version: &'static str,
    started: u64,
    /// Other longhauls of the user.
    peers: Vec<u32>,
    outage: Option<Outage>,
    /// `memory` without a durable store; otherwise `answers` or `away`.
    store: &'static str,
    /// Whether the page takes commands.
    commands: bool,
    summaries: GuardHealth,
    quota: Vec<Quota>,
    #[serde(flatten)]
    change: ListChange,
}

impl Overview {
    /// Collects the data of `state`, which starts to record conversations.
    ///
    /// `agent_url` is the base URL that agents on this machine use.
    pub(crate) fn from_state(state: &ProxyState, agent_url: String) -> Self {
        state.recent.enable();
        state.recent.set_content_visible(state.config.admin_show_content);
        Self { state: state.clone(), agent_url, started: wall_clock::unix_millis() }
    }

    /// Returns the user's state folder, in which the other longhauls of the user have their sockets.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.state.config.state_folder.as_deref()
    }

    /// Whether the page takes commands.
    pub(super) fn takes_commands(&self) -> bool {
        self.state.config.admin_commands && self.folder().is_some()
    }

    /// Returns the learned windows of all upstreams.
    pub(super) fn held_windows(&self) -> Vec<HeldWindow> {
        let windows = self.state.upstreams().flat_map(|it| it.learned.held_windows());
        let mut windows: Vec<_> = windows.collect();
        windows.sort();
        windows
    }

    /// Returns the totals by day and model. A reader `beside` has the rows of the file that the user's longhauls share.
    pub(super) fn days(&self, beside: bool) -> Vec<DayRow> {
        let store = &self.state.config.store;
        let is_known = beside && store.location == StoreLocation::Memory;
        let kept = if is_known { Vec::new() } else { totals_file::days(store) };
        [kept, self.state.recent.days()].concat()
    }

    /// Drops the learned limits of `model` at all upstreams. Returns the windows dropped.
    pub(super) fn forget(&self, model: &str) -> Vec<HeldWindow> {
        let publish = |learned: &LearnedModels| self.state.store.publish(learned, model);
        self.state.upstreams().flat_map(|it| it.learned.forget(model, publish)).collect()
    }

    /// Returns the texts of a list that commands may take back: those of people, and where content is shown,
    /// those of agents.
    pub(super) fn kept(&self, keys: &[RecordKey]) -> Vec<KeptText> {
        let kept = self.state.store.kept_texts(keys);
        let is_shown = |kept: &&KeptText| !kept.by_agent || self.state.recent.shows_content();
        kept.texts().iter().filter(|_| self.takes_commands()).filter(is_shown).cloned().collect()
    }

    /// Returns the state of the process and the conversations that changed after `revision`, with the new revision.
    pub(super) fn changes_since(&self, revision: u64) -> (u64, Bytes) {
        let change = self.state.recent.changes_since(revision);
        let revision = change.revision;
        let page = json(&OverviewDto {
            agent_url: &self.agent_url,
            version: env!("CARGO_PKG_VERSION"),
            started: self.started,
            peers: self.folder().map(shared::processes).unwrap_or_default(),
            outage: self.state.recent.outage(),
            store: match self.state.store.is_available() {
                None => "memory",
                Some(true) => "answers",
                Some(false) => "away",
            },
            commands: self.takes_commands(),
            summaries: self.state.summary_guards.health(),
            quota: self.state.metrics.quotas.all(),
            change,
        });
        (revision, page)
    }
}

pub(super) fn json(value: &impl Serialize) -> Bytes {
    // The data consists of texts and numbers, so serialising cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}
