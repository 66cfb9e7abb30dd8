//! What the dashboard shows, as JSON.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::metrics::{Act, FarStore, Metrics, Summary};
use crate::proxy::{Proxy, Recent, Told};
use crate::store::Store;

/// Where it comes from.
pub(crate) struct Overview {
    pub(super) metrics: Arc<Metrics>,
    recent: Arc<Recent>,
    store: Arc<Store>,
}

#[derive(Serialize)]
struct List {
    totals: Totals,
    store: StoreHealth,
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
    summaries: u64,
    summaries_failed: u64,
    in_flight: u64,
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
        }
    }

    /// The totals and the conversations of late.
    pub(super) fn conversations(&self) -> Bytes {
        json(&List {
            totals: self.totals(),
            store: self.store_health(),
            conversations: self.recent.list(),
        })
    }

    /// One of them, with its requests and files.
    pub(super) fn conversation(&self, id: &str) -> Option<Bytes> {
        self.recent.whole(id).map(|whole| json(&whole))
    }

    fn totals(&self) -> Totals {
        let metrics = &self.metrics;
        let (chats, tokens_before, tokens_after) = metrics.chats.sums();
        let summaries = |of: fn(Summary) -> bool| {
            let counts = metrics.summaries.iter();
            let wanted = counts.filter(|(outcome, _)| of(*outcome));
            wanted.map(|(_, count)| count).sum()
        };
        Totals {
            chats,
            tokens_before,
            tokens_after,
            prompt_tokens: metrics.counted.prompt.get(),
            cached_tokens: metrics.counted.cached.get(),
            completion_tokens: metrics.counted.output.get(),
            retries: metrics.acts.of(Act::Retry),
            gave_up: metrics.acts.of(Act::GaveUp),
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

fn json(value: &impl Serialize) -> Bytes {
    // Texts and numbers of ours: there is nothing in them that JSON has no form for.
    serde_json::to_vec(value).unwrap_or_default().into()
}
