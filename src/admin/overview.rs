//! What the dashboard shows, as JSON.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::metrics::{Act, Counters, FarStore, Label, Metrics, PricedBy, Purpose, Summary};
use crate::proxy::{Proxy, Recent, Told};
use crate::store::Store;
use crate::summarise::{Guards, Health};

/// Where it comes from.
pub(crate) struct Overview {
    pub(super) metrics: Arc<Metrics>,
    recent: Arc<Recent>,
    store: Arc<Store>,
    guards: Arc<Guards>,
}

#[derive(Serialize)]
struct List {
    totals: Totals,
    money: Dollars,
    store: StoreHealth,
    summaries: SummaryHealth,
    conversations: Vec<Told>,
}

/// Since the process began to serve.
#[derive(Serialize)]
struct Totals {
    chats: u64,
    /// In the plain estimate.
    tokens_before: u64,
    tokens_after: u64,
    /// As the providers counted them.
    prompt_tokens: u64,
    cached_tokens: u64,
    completion_tokens: u64,
    retries: u64,
    gave_up: u64,
    rereads: u64,
    summaries: u64,
    summaries_failed: u64,
    in_flight: u64,
}

/// Since the process began to serve, in billionths of a dollar. What is not known is in no sum.
#[derive(Serialize)]
struct Dollars {
    /// What chats cost, as their providers said.
    said: u64,
    /// What the input of others did, at list prices.
    listed: u64,
    /// Chats of which that is not known.
    unknown: u64,
    saved: u64,
    /// Tokens taken out whose price is not known.
    saved_unknown: u64,
    rewrites: u64,
    summaries: u64,
    titles: u64,
    /// Calls of our own of which it is not known.
    calls_unknown: u64,
}

#[derive(Serialize)]
struct SummaryHealth {
    failing: usize,
    paused: usize,
    unused: usize,
    unused_callers: usize,
    spent: bool,
    spent_callers: usize,
}

#[derive(Serialize)]
struct StoreHealth {
    /// `memory` alone, or whether the store behind it `answers` or is `away`.
    state: &'static str,
    answered: u64,
    failed: u64,
    late: u64,
    dropped: u64,
}

impl Overview {
    /// What `proxy` does; from now on it keeps what is shown of conversations.
    pub(crate) fn of(proxy: &Proxy) -> Self {
        let recent = proxy.recent();
        recent.show();
        Self {
            metrics: proxy.metrics(),
            recent,
            store: proxy.store(),
            guards: proxy.guards(),
        }
    }

    /// The totals and the conversations of late.
    pub(super) fn conversations(&self) -> Bytes {
        json(&List {
            totals: self.totals(),
            money: self.money(),
            store: self.store_health(),
            summaries: self.summary_health(),
            conversations: self.recent.list(),
        })
    }

    /// One of them, with its requests and files.
    pub(super) fn conversation(&self, id: &str) -> Option<Bytes> {
        self.recent.whole(id).map(|whole| json(&whole))
    }

    fn totals(&self) -> Totals {
        let metrics = &self.metrics;
        let chats = &metrics.chats;
        let summaries = |of: fn(Summary) -> bool| {
            let counts = metrics.summaries.iter();
            let wanted = counts.filter(|(outcome, _)| of(*outcome));
            wanted.map(|(_, count)| count).sum()
        };
        Totals {
            chats: chats.count(),
            tokens_before: chats.before(),
            tokens_after: chats.after(),
            prompt_tokens: metrics.counted.prompt.get(),
            cached_tokens: metrics.counted.cached.get(),
            completion_tokens: metrics.counted.output.get(),
            retries: metrics.acts.of(Act::Retry),
            gave_up: metrics.acts.of(Act::GaveUp),
            rereads: metrics.rereads.get(),
            summaries: summaries(|outcome| outcome == Summary::Made),
            summaries_failed: summaries(|outcome| {
                !matches!(
                    outcome,
                    Summary::Made | Summary::Elsewhere | Summary::Aborted
                )
            }),
            in_flight: metrics.in_flight.get(),
        }
    }

    fn money(&self) -> Dollars {
        let money = &self.metrics.money;
        let aside = |of: Purpose| {
            let all = money.asides.iter().filter(|(purpose, ..)| *purpose == of);
            all.map(|(.., nanos)| nanos).sum()
        };
        Dollars {
            said: money.chats.of(PricedBy::Provider),
            listed: money.chats.of(PricedBy::Table),
            unknown: sum(&money.chats_unknown),
            saved: money.saved.get(),
            saved_unknown: money.saved_unknown.get(),
            rewrites: money.rewrites.get(),
            summaries: aside(Purpose::Summary),
            titles: aside(Purpose::Title),
            calls_unknown: money.asides_unknown.iter().map(|(.., calls)| calls).sum(),
        }
    }

    fn summary_health(&self) -> SummaryHealth {
        let Health {
            failing,
            paused,
            unused,
            unused_callers,
            spent,
            spent_callers,
        } = self.guards.health();
        SummaryHealth {
            failing,
            paused,
            unused,
            unused_callers,
            spent,
            spent_callers,
        }
    }

    fn store_health(&self) -> StoreHealth {
        let calls = &self.metrics.far_store;
        StoreHealth {
            state: match self.store.answers() {
                None => "memory",
                Some(true) => "answers",
                Some(false) => "away",
            },
            answered: calls.of(FarStore::Answered),
            failed: calls.of(FarStore::Failed),
            late: calls.of(FarStore::Late),
            dropped: calls.of(FarStore::Dropped),
        }
    }
}

fn sum<L: Label>(counters: &Counters<L>) -> u64 {
    counters.iter().map(|(_, count)| count).sum()
}

fn json(value: &impl Serialize) -> Bytes {
    // Texts and numbers of ours: there is nothing in them that JSON has no form for.
    serde_json::to_vec(value).unwrap_or_default().into()
}
