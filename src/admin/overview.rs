//! Data of the dashboard, as JSON.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::dashboard::{ConversationDto, FeedRow, Outage, RecentConversations, shared};
use crate::learned::learned_models::{HeldWindow, LearnedByCaller, LearnedModels};
use crate::metrics::Metrics;
use crate::metrics::quota::Quota;
use crate::proxy_state::ProxyState;
use crate::store::Store;
use crate::summaries::{GuardHealth, SummaryGuards};
use crate::wall_clock;
use longhaul_core::policy::KeptText;
use longhaul_core::units::scope::RecordKey;

/// Sources of the dashboard's data.
pub(crate) struct Overview {
    pub(super) metrics: Arc<Metrics>,
    pub(super) recent: Arc<RecentConversations>,
    pub(super) store: Arc<Store>,
    guards: Arc<SummaryGuards>,
    /// Base URL that agents on this machine use.
    agent_url: String,
    /// The user's state folder, in which the other longhauls of the user have their sockets.
    pub(crate) folder: Option<PathBuf>,
    /// Start of service, in milliseconds since 1970.
    started: u64,
    /// Facts about the models of each upstream.
    learned: Vec<Arc<LearnedByCaller>>,
    /// Whether the page takes commands.
    pub(super) commands: bool,
}

/// State of the process, and the conversations that changed.
#[derive(Serialize)]
struct OverviewDto<'o> {
    /// Revision after these changes.
    revision: u64,
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
    conversations: Vec<ConversationDto>,
    /// Requests that have ended, oldest first.
    feed: Vec<FeedRow>,
    /// Identifiers of conversations that are not kept any more.
    evicted: Vec<String>,
    /// Number of conversations that are not kept any more, since the start.
    evicted_count: u64,
}

impl Overview {
    /// Collects the data of `state`, which starts to record conversations.
    ///
    /// `agent_url` is the base URL that agents on this machine use.
    pub(crate) fn from_state(state: &ProxyState, agent_url: String) -> Self {
        state.recent.enable();
        state.recent.set_content_visible(state.config.admin_show_content);
        Self {
            metrics: Arc::clone(&state.metrics),
            recent: Arc::clone(&state.recent),
            store: Arc::clone(&state.store),
            guards: Arc::clone(&state.summary_guards),
            agent_url,
            folder: state.config.state_folder.clone(),
            started: wall_clock::unix_millis(),
            learned: state.upstreams().map(|it| Arc::clone(&it.learned)).collect(),
            commands: state.config.admin_commands && state.config.state_folder.is_some(),
        }
    }

    /// Returns the learned windows of all upstreams.
    pub(super) fn held_windows(&self) -> Vec<HeldWindow> {
        let mut windows: Vec<HeldWindow> =
            self.learned.iter().flat_map(|it| it.held_windows()).collect();
        windows.sort();
        windows
    }

    /// Drops the learned limits of `model` at all upstreams. Returns the windows dropped.
    pub(super) fn forget(&self, model: &str) -> Vec<HeldWindow> {
        let publish = |learned: &LearnedModels| self.store.publish(learned, model);
        let learned = self.learned.iter();
        learned.flat_map(|it| it.forget(model, publish)).collect()
    }

    /// Returns the texts of a list that commands may take back: those of people, and where content is shown,
    /// those of agents.
    pub(super) fn kept(&self, keys: &[RecordKey]) -> Vec<KeptText> {
        let kept = self.store.kept_texts(keys);
        let is_shown = |kept: &&KeptText| !kept.by_agent || self.recent.shows_content();
        kept.texts().iter().filter(|_| self.commands).filter(is_shown).cloned().collect()
    }

    /// Returns the state of the process and the conversations that changed after `revision`, with the new revision.
    pub(super) fn changes_since(&self, revision: u64) -> (u64, Bytes) {
        let change = self.recent.changes_since(revision);
        let revision = change.revision;
        let page = json(&OverviewDto {
            revision,
            agent_url: &self.agent_url,
            version: env!("CARGO_PKG_VERSION"),
            started: self.started,
            peers: self.folder.as_deref().map(shared::processes).unwrap_or_default(),
            outage: self.recent.outage(),
            store: match self.store.is_available() {
                None => "memory",
                Some(true) => "answers",
                Some(false) => "away",
            },
            commands: self.commands,
            summaries: self.guards.health(),
            quota: self.metrics.quotas.all(),
            conversations: change.changed,
            feed: change.feed,
            evicted: change.evicted,
            evicted_count: change.evicted_count,
        });
        (revision, page)
    }
}

pub(super) fn json(value: &impl Serialize) -> Bytes {
    // The data consists of texts and numbers, so serialising cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}
