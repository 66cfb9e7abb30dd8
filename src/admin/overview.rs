//! Data of the dashboard, as JSON.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::dashboard::{ConversationDto, RecentConversations};
use crate::learned::learned_models::{HeldWindow, LearnedByCaller, LearnedModels};
use crate::metrics::quota::Quota;
use crate::metrics::{
    Action, Counters, DurableStoreOutcome, Label, LostBy, Metrics, PriceSource, RetryOutcome,
    RetryReason, StatusClass, SummaryOutcome,
};
use crate::proxy_state::ProxyState;
use crate::store::Store;
use crate::summaries::{GuardHealth, SummaryGuards};

/// Sources of the dashboard's data.
pub(crate) struct Overview {
    pub(super) metrics: Arc<Metrics>,
    pub(super) recent: Arc<RecentConversations>,
    store: Arc<Store>,
    guards: Arc<SummaryGuards>,
    /// Base URL that agents on this machine use.
    agent_url: String,
    /// Facts about the models of each upstream.
    learned: Vec<Arc<LearnedByCaller>>,
}

/// State of the process, and the conversations that changed.
#[derive(Serialize)]
struct OverviewDto<'o> {
    /// Revision after these changes.
    revision: u64,
    /// Base URL that agents on this machine use.
    agent_url: &'o str,
    totals: ActivityTotals,
    money: CostTotals,
    store: StoreHealth,
    summaries: GuardHealth,
    quota: Vec<Quota>,
    conversations: Vec<ConversationDto>,
    /// Identifiers of conversations that are not kept any more.
    evicted: Vec<String>,
    /// Number of conversations that are not kept any more, since the start.
    evicted_count: u64,
}

/// Totals since the start of service.
#[derive(Serialize)]
struct ActivityTotals {
    /// Requests of every kind that have ended.
    requests: u64,
    /// Requests without an answer, or with an error for an answer. A 404 to a request other than a chat
    /// does not count.
    errors: u64,
    /// Requests that longhaul answered with its own fault.
    faults: u64,
    /// Requests that were refused as too large, and then answered.
    mended: u64,
    chats: u64,
    /// By the plain estimate.
    tokens_before: u64,
    tokens_after: u64,
    /// Prompt tokens reported by the providers, and likewise the next two.
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
    retries: u64,
    gave_up: u64,
    rereads: u64,
    lost_reasoning: u64,
    summaries: u64,
    summaries_failed: u64,
    in_flight: u64,
}

/// Amounts since the start of service, in billionths of a dollar. Unknown amounts are not included.
#[derive(Serialize)]
struct CostTotals {
    /// Cost of chats as reported by their providers.
    reported: u64,
    /// Cost of the input of other chats, at list prices.
    listed: u64,
    /// Number of chats whose cost is unknown.
    unknown: u64,
    saved: u64,
    /// Removed tokens whose price is unknown.
    saved_unknown: u64,
    rewrites: u64,
    summaries: u64,
    /// Number of summary calls whose cost is unknown.
    calls_unknown: u64,
}

#[derive(Serialize)]
struct StoreHealth {
    /// `memory` without a durable store; otherwise `answers` or `away`.
    state: &'static str,
    answered: u64,
    failed: u64,
    late: u64,
    dropped: u64,
}

impl Overview {
    /// Collects the data of `state`, which starts to record conversations.
    ///
    /// `agent_url` is the base URL that agents on this machine use.
    pub(crate) fn from_state(state: &ProxyState, agent_url: String) -> Self {
        state.recent.enable();
        Self {
            metrics: Arc::clone(&state.metrics),
            recent: Arc::clone(&state.recent),
            store: Arc::clone(&state.store),
            guards: Arc::clone(&state.summary_guards),
            agent_url,
            learned: state.upstreams().map(|it| Arc::clone(&it.learned)).collect(),
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

    /// Returns the totals and the conversations that changed after `revision`, with the new revision.
    pub(super) fn changes_since(&self, revision: u64) -> (u64, Bytes) {
        let change = self.recent.changes_since(revision);
        let revision = change.revision;
        let page = json(&OverviewDto {
            revision,
            agent_url: &self.agent_url,
            totals: self.totals(),
            money: self.money(),
            store: self.store_health(),
            summaries: self.guards.health(),
            quota: self.metrics.quotas.all(),
            conversations: change.changed,
            evicted: change.evicted,
            evicted_count: change.evicted_count,
        });
        (revision, page)
    }

    fn totals(&self) -> ActivityTotals {
        let metrics = &self.metrics;
        let chats = &metrics.chats;
        let summaries = |of: fn(SummaryOutcome) -> bool| {
            let counts = metrics.summaries.iter();
            let wanted = counts.filter(|(outcome, _)| of(*outcome));
            wanted.map(|(_, count)| count).sum()
        };
        let ended = |of: fn(StatusClass) -> bool| {
            let counts = metrics.responses.iter();
            let wanted = counts.filter(|(_, class, _)| of(*class));
            wanted.map(|(.., count)| count).sum()
        };
        let retries = metrics.retries.iter();
        let mended = retries.filter(|(why, outcome, _)| {
            *why == RetryReason::Compacted && *outcome == RetryOutcome::Accepted
        });
        let errors =
            ended(|class| matches!(class, StatusClass::ClientError | StatusClass::ServerError));
        ActivityTotals {
            requests: ended(|_| true),
            // An agent requests many paths that an upstream does not have.
            errors: errors.saturating_sub(metrics.missing_paths.get()),
            faults: sum(&metrics.faults),
            mended: mended.map(|(.., count)| count).sum(),
            chats: chats.count.get(),
            tokens_before: chats.before.get(),
            tokens_after: chats.after.get(),
            prompt_tokens: metrics.provider_tokens.prompt.get(),
            cached_tokens: metrics.provider_tokens.cached.get(),
            completion_tokens: metrics.provider_tokens.output.get(),
            retries: metrics.actions.get(Action::Retry),
            gave_up: metrics.actions.get(Action::GaveUp),
            rereads: metrics.rereads.get(),
            lost_reasoning: LostBy::ALL.iter().map(|by| metrics.lost_reasoning.get(*by)).sum(),
            summaries: summaries(|outcome| outcome == SummaryOutcome::Made),
            summaries_failed: summaries(|outcome| {
                !matches!(
                    outcome,
                    SummaryOutcome::Made | SummaryOutcome::Elsewhere | SummaryOutcome::Aborted
                )
            }),
            in_flight: metrics.in_flight.get(),
        }
    }

    fn money(&self) -> CostTotals {
        let money = &self.metrics.costs;
        CostTotals {
            reported: money.chats.get(PriceSource::Provider),
            listed: money.chats.get(PriceSource::Table),
            unknown: sum(&money.chats_unknown),
            saved: money.saved.get(),
            saved_unknown: money.saved_unknown.get(),
            rewrites: money.rewrites.get(),
            summaries: sum(&money.summaries),
            calls_unknown: sum(&money.summaries_unknown),
        }
    }

    fn store_health(&self) -> StoreHealth {
        let calls = &self.metrics.durable_store;
        StoreHealth {
            state: match self.store.is_available() {
                None => "memory",
                Some(true) => "answers",
                Some(false) => "away",
            },
            answered: calls.get(DurableStoreOutcome::Answered),
            failed: calls.get(DurableStoreOutcome::Failed),
            late: calls.get(DurableStoreOutcome::Late),
            dropped: calls.get(DurableStoreOutcome::Dropped),
        }
    }
}

fn sum<L: Label>(counters: &Counters<L>) -> u64 {
    counters.iter().map(|(_, count)| count).sum()
}

pub(super) fn json(value: &impl Serialize) -> Bytes {
    // The data consists of texts and numbers, so serialising cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}
