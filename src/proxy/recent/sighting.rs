//! A request's hold on its conversation among the recent ones.

use std::sync::Arc;

use http::StatusCode;

use super::super::bills::Spent;
use super::super::report::Report;
use super::Recent;
use super::seen::Seen;
use super::told::Point;
use crate::metrics::Label as _;
use crate::rewrite::chain::{Chains, RecordKey};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::title::Title;
use crate::rewrite::tokens::Tokens;
use crate::summarise::{Failure, Till};
use crate::wall_clock;

/// A request that has arrived.
pub(in crate::proxy) struct Arrival<'a> {
    pub(in crate::proxy) conversation: &'a Conversation<'a>,
    pub(in crate::proxy) chains: &'a Chains,
    pub(in crate::proxy) window: Tokens,
    /// The text that stands for its history, if it may be shown.
    pub(in crate::proxy) summary: Option<Arc<str>>,
}

/// One conversation among the recent ones.
#[derive(Clone)]
pub(in crate::proxy) struct Sighting {
    recent: Arc<Recent>,
    key: RecordKey,
    window: Tokens,
}

/// While this lives, a summary of a conversation is being made; then what its calls cost is told.
pub(in crate::proxy) struct Compacting {
    sighting: Sighting,
    since: u64,
    till: Arc<Till>,
}

impl Sighting {
    /// A request of the conversation `key`, whose model is taken to hold `window`.
    pub(super) fn new(recent: &Arc<Recent>, key: RecordKey, window: Tokens) -> Self {
        let recent = Arc::clone(recent);
        Self {
            recent,
            key,
            window,
        }
    }

    /// The request has reached the upstream.
    pub(in crate::proxy) fn went_on(&self, report: &Report) {
        self.with(|seen| {
            seen.told.tokens_before += u64::from(report.before.get());
            seen.told.tokens_after += u64::from(report.after.get());
        });
    }

    /// The request has ended.
    pub(in crate::proxy) fn ended(
        &self,
        report: &Report,
        status: Option<StatusCode>,
        spent: Option<&Spent>,
    ) {
        let (before, after) = (
            u64::from(report.before.get()),
            u64::from(report.after.get()),
        );
        self.with(|seen| {
            let rewritten = seen.is_rewritten(before, after);
            if let Some(spent) = spent {
                seen.told.money.add(spent);
            }
            seen.end(Point {
                at: wall_clock::millis(),
                before,
                after,
                window: u64::from(self.window.get()),
                status: status.map(|status| status.as_u16()),
                acts: report.acts().iter().map(|act| act.label()).collect(),
                rewritten,
            });
        });
    }

    /// A request of it was left before it was answered, and is charged all the same.
    pub(in crate::proxy) fn left(&self, spent: &Spent) {
        self.with(|seen| seen.told.money.add(spent));
    }

    /// So many of its newest calls ask for what was cleared.
    pub(in crate::proxy) fn reread(&self, calls: usize) {
        self.with(|seen| seen.told.rereads += calls as u64);
    }

    /// Begins to have a model say what the conversation is called, now that it has so many messages:
    /// whether that is due. If so it counts as asked.
    pub(in crate::proxy) fn begin_title(&self, messages: usize) -> bool {
        self.recent.titles.begin(self.key, messages)
    }

    /// Whether it is due, without beginning it.
    pub(in crate::proxy) fn lacks_title(&self, messages: usize) -> bool {
        self.recent.titles.lacks(self.key, messages)
    }

    /// This model was asked, and that is what it said, if anything, and what it cost. Says whether
    /// the operator is to hear that it could not be asked.
    #[must_use]
    pub(in crate::proxy) fn titled(
        &self,
        model: &str,
        title: Result<Option<Title>, Failure>,
        till: &Till,
    ) -> Option<Failure> {
        let (paid, unknown) = till.total();
        let failure = title.as_ref().err().copied();
        let is_news = self.recent.titles.tells(model, failure.is_some());
        let title = title.ok().flatten();
        let title = title.map(Arc::new);
        if let Some(title) = &title {
            self.recent.titles.say(self.key, Arc::clone(title));
        }
        self.with(|seen| {
            seen.told.money.titles += paid;
            seen.told.money.calls_unknown += unknown;
            seen.title = title.or_else(|| seen.title.take());
        });
        failure.filter(|_| is_news)
    }

    /// A summary of the conversation is being made from now on.
    pub(in crate::proxy) fn compacting(self, till: &Arc<Till>) -> Compacting {
        let since = wall_clock::millis();
        self.with(|seen| seen.compacting.push(since));
        Compacting {
            sighting: self,
            since,
            till: Arc::clone(till),
        }
    }

    fn with(&self, change: impl FnOnce(&mut Seen)) {
        self.recent.with(self.key, change);
    }
}

impl Drop for Compacting {
    fn drop(&mut self) {
        let since = self.since;
        let (paid, unknown) = self.till.total();
        self.sighting.with(|seen| {
            seen.told.money.summaries += paid;
            seen.told.money.calls_unknown += unknown;
            if let Some(at) = seen.compacting.iter().position(|at| *at == since) {
                seen.compacting.swap_remove(at);
            }
        });
    }
}
