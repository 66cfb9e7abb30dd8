//! Handle by which a request updates its conversation on the dashboard.

use std::sync::Arc;

use http::StatusCode;

use crate::costs::RequestCost;
use crate::dashboard::RecentConversations;
use crate::dashboard::dto::RequestPoint;
use crate::dashboard::entry::DashboardEntry;
use crate::metrics::Label as _;
use crate::report::ChatReport;
use crate::summaries::{CostMeter, SummaryError};
use crate::wall_clock;
use longhaul_core::conversation::Conversation;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::summary::title::Title;
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;

/// A request to record.
pub(crate) struct DashboardRequest<'a> {
    pub(crate) conversation: &'a Conversation<'a>,
    pub(crate) prefix_keys: &'a PrefixKeys,
    pub(crate) window: Tokens,
    /// The summary that replaces the history, if it may be shown.
    pub(crate) summary: Option<Arc<str>>,
}

/// Handle to one of the recent conversations.
#[derive(Clone)]
pub(crate) struct DashboardHandle {
    recent: Arc<RecentConversations>,
    key: RecordKey,
    window: Tokens,
}

/// Marks a conversation as being summarised; adds the cost of the calls when dropped.
pub(crate) struct CompactionGuard {
    handle: DashboardHandle,
    since: u64,
    meter: Arc<CostMeter>,
}

impl DashboardHandle {
    /// Creates the handle for a request of the conversation `key`, whose model has the context
    /// `window`.
    pub(super) fn new(recent: &Arc<RecentConversations>, key: RecordKey, window: Tokens) -> Self {
        let recent = Arc::clone(recent);
        Self {
            recent,
            key,
            window,
        }
    }

    /// Records that the request has reached the upstream.
    pub(crate) fn record_forwarded(&self, report: &ChatReport) {
        self.update(|seen| {
            seen.dto.tokens_before += u64::from(report.before.get());
            seen.dto.tokens_after += u64::from(report.after.get());
        });
    }

    /// Records the end of the request.
    pub(crate) fn record_end(
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

    /// Records the cost of a request that the client left before it was answered: the provider
    /// charges for it all the same.
    pub(crate) fn record_abandoned(&self, spent: &RequestCost) {
        self.update(|seen| seen.dto.money.add(spent));
    }

    /// Adds the newest calls that request cleared results again.
    pub(crate) fn record_refetches(&self, calls: usize) {
        self.update(|seen| seen.dto.rereads += calls as u64);
    }

    /// Whether a title is due now that the conversation has `messages` messages. If so, the title
    /// counts as requested.
    pub(crate) fn begin_title(&self, messages: usize) -> bool {
        self.recent.titles.begin(self.key, messages)
    }

    /// Whether a title is due, without counting it as requested.
    pub(crate) fn lacks_title(&self, messages: usize) -> bool {
        self.recent.titles.needs_title(self.key, messages)
    }

    /// Records a title call to `model`: its result and its cost. Returns the failure if the
    /// operator should be informed of it.
    #[must_use]
    pub(crate) fn record_title(
        &self,
        model: &str,
        title: Result<Option<Title>, SummaryError>,
        meter: &CostMeter,
    ) -> Option<SummaryError> {
        let (paid, unknown) = meter.total();
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

    /// Records that a summary is being made, until the returned guard is dropped.
    pub(crate) fn begin_compaction(self, meter: &Arc<CostMeter>) -> CompactionGuard {
        let since = wall_clock::unix_millis();
        self.update(|seen| seen.compacting.push(since));
        CompactionGuard {
            handle: self,
            since,
            meter: Arc::clone(meter),
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
