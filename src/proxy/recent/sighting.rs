//! A request's hold on its conversation among the recent ones.

use std::sync::Arc;

use http::StatusCode;

use super::super::bills::RequestCost;
use super::super::report::ChatReport;
use super::RecentConversations;
use super::seen::DashboardEntry;
use super::told::RequestPoint;
use crate::metrics::Label as _;
use crate::rewrite::chain::{PrefixKeys, RecordKey};
use crate::rewrite::conversation::Conversation;
use crate::rewrite::title::Title;
use crate::rewrite::tokens::Tokens;
use crate::summarise::{CostMeter, SummaryError};
use crate::wall_clock;

/// A request that has arrived.
pub(in crate::proxy) struct DashboardRequest<'a> {
    pub(in crate::proxy) conversation: &'a Conversation<'a>,
    pub(in crate::proxy) chains: &'a PrefixKeys,
    pub(in crate::proxy) window: Tokens,
    /// The text that stands for its history, if it may be shown.
    pub(in crate::proxy) summary: Option<Arc<str>>,
}

/// One conversation among the recent ones.
#[derive(Clone)]
pub(in crate::proxy) struct DashboardHandle {
    recent: Arc<RecentConversations>,
    key: RecordKey,
    window: Tokens,
}

/// While this lives, a summary of a conversation is being made; then what its calls cost is told.
pub(in crate::proxy) struct CompactionGuard {
    handle: DashboardHandle,
    since: u64,
    meter: Arc<CostMeter>,
}

impl DashboardHandle {
    /// A request of the conversation `key`, whose model is taken to hold `window`.
    pub(super) fn new(recent: &Arc<RecentConversations>, key: RecordKey, window: Tokens) -> Self {
        let recent = Arc::clone(recent);
        Self {
            recent,
            key,
            window,
        }
    }

    /// The request has reached the upstream.
    pub(in crate::proxy) fn record_forwarded(&self, report: &ChatReport) {
        self.update(|seen| {
            seen.dto.tokens_before += u64::from(report.before.get());
            seen.dto.tokens_after += u64::from(report.after.get());
        });
    }

    /// The request has ended.
    pub(in crate::proxy) fn record_end(
        &self,
        report: &ChatReport,
        status: Option<StatusCode>,
        spent: Option<&RequestCost>,
    ) {
        let (before, after) = (
            u64::from(report.before.get()),
            u64::from(report.after.get()),
        );
        self.update(|seen| {
            let rewritten = seen.is_rewritten(before, after);
            if let Some(spent) = spent {
                seen.dto.money.add(spent);
            }
            seen.record_end(RequestPoint {
                at: wall_clock::unix_millis(),
                before,
                after,
                window: u64::from(self.window.get()),
                status: status.map(|status| status.as_u16()),
                acts: report.actions().iter().map(|act| act.label()).collect(),
                rewritten,
            });
        });
    }

    /// A request of it was left before it was answered, and is charged all the same.
    pub(in crate::proxy) fn record_abandoned(&self, spent: &RequestCost) {
        self.update(|seen| seen.dto.money.add(spent));
    }

    /// So many of its newest calls ask for what was cleared.
    pub(in crate::proxy) fn record_refetches(&self, calls: usize) {
        self.update(|seen| seen.dto.rereads += calls as u64);
    }

    /// Begins to have a model say what the conversation is called, now that it has so many messages:
    /// whether that is due. If so it counts as asked.
    pub(in crate::proxy) fn begin_title(&self, messages: usize) -> bool {
        self.recent.titles.begin(self.key, messages)
    }

    /// Whether it is due, without beginning it.
    pub(in crate::proxy) fn lacks_title(&self, messages: usize) -> bool {
        self.recent.titles.needs_title(self.key, messages)
    }

    /// This model was asked, and that is what it said, if anything, and what it cost. Says whether
    /// the operator is to hear that it could not be asked.
    #[must_use]
    pub(in crate::proxy) fn record_title(
        &self,
        model: &str,
        title: Result<Option<Title>, SummaryError>,
        till: &CostMeter,
    ) -> Option<SummaryError> {
        let (paid, unknown) = till.total();
        let failure = title.as_ref().err().copied();
        let is_news = self
            .recent
            .titles
            .should_log_failure(model, failure.is_some());
        let title = title.ok().flatten();
        let title = title.map(Arc::new);
        if let Some(title) = &title {
            self.recent.titles.set_title(self.key, Arc::clone(title));
        }
        self.update(|seen| {
            seen.dto.money.titles += paid;
            seen.dto.money.calls_unknown += unknown;
            seen.title = title.or_else(|| seen.title.take());
        });
        failure.filter(|_| is_news)
    }

    /// A summary of the conversation is being made from now on.
    pub(in crate::proxy) fn begin_compaction(self, till: &Arc<CostMeter>) -> CompactionGuard {
        let since = wall_clock::unix_millis();
        self.update(|seen| seen.compacting.push(since));
        CompactionGuard {
            handle: self,
            since,
            meter: Arc::clone(till),
        }
    }

    fn update(&self, change: impl FnOnce(&mut DashboardEntry)) {
        self.recent.update(self.key, change);
    }
}

impl Drop for CompactionGuard {
    fn drop(&mut self) {
        let since = self.since;
        let (paid, unknown) = self.meter.total();
        self.handle.update(|seen| {
            seen.dto.money.summaries += paid;
            seen.dto.money.calls_unknown += unknown;
            if let Some(at) = seen.compacting.iter().position(|at| *at == since) {
                seen.compacting.swap_remove(at);
            }
        });
    }
}
