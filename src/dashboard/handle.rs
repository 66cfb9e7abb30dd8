//! Handle by which a request updates its conversation on the dashboard.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use crate::costs::RequestCost;
use crate::dashboard::RecentConversations;
use crate::dashboard::days::DayNumbers;
use crate::dashboard::dto::RequestPoint;
use crate::error::Fault;
use crate::explanation::{ConversationId, Refusal, RequestId, StoredExplanation};
use crate::metrics::{Action, Ending, Label as _};
use crate::report::ChatReport;
use crate::summaries::CostMeter;
use crate::wall_clock;
use longhaul_core::conversation::Conversation;
use longhaul_core::cost::pricing::Price;
use longhaul_core::prefix::keys::PrefixKeys;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;
use longhaul_core::window::source::SourcedWindow;

pub(crate) struct DashboardRequest<'a> {
    pub(crate) conversation: &'a Conversation<'a>,
    pub(crate) prefix_keys: &'a PrefixKeys,
    pub(crate) window: Tokens,
    /// The summary that replaces the history, if it may be shown.
    pub(crate) summary: Option<Arc<str>>,
    /// Whether the mode and the request's own headers allow a compaction.
    pub(crate) may_compact: bool,
    /// Price of cached input, if it is known.
    pub(crate) cached_price: Option<Price>,
    /// Product in the client's `User-Agent`.
    pub(crate) agent: String,
    /// Session that the client states.
    pub(crate) session: String,
    /// Pseudonym of the caller.
    pub(crate) caller: String,
}

pub(crate) struct EndedRequest<'a> {
    pub(crate) id: RequestId,
    pub(crate) report: &'a ChatReport,
    pub(crate) explanation: Option<StoredExplanation>,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) window: Option<SourcedWindow>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) fault: Option<Fault>,
    /// Class and code with which the provider named its error.
    pub(crate) error: Option<&'a str>,
    pub(crate) ending: Ending,
    pub(crate) cost: Option<&'a RequestCost>,
    /// Items of reasoning that the reply reports as dropped.
    pub(crate) dropped_reasoning: usize,
    pub(crate) took: Duration,
    /// Whether the upstream has received any of the request.
    pub(crate) went_on: bool,
}

/// Handle to one of the recent conversations.
#[derive(Clone)]
pub(crate) struct DashboardHandle {
    pub(super) recent: Arc<RecentConversations>,
    pub(super) id: ConversationId,
    pub(super) window: Tokens,
    pub(super) model: Arc<str>,
    /// Price of cached input, if it is known: of the tokens that mode shadow would have saved.
    pub(super) cached_price: Option<Price>,
    /// Whether a person wants this request to be compacted.
    pub(crate) compacts: bool,
}

/// Marks a conversation as being summarised; adds the cost of the calls when dropped.
pub(crate) struct CompactionGuard {
    handle: DashboardHandle,
    since: u64,
    meter: Arc<CostMeter>,
}

impl DashboardHandle {
    pub(crate) fn record_end(&self, ended: EndedRequest<'_>) {
        let report = ended.report;
        let before = u64::from(report.before.get());
        let planned = u64::from(report.after.get());
        let is_shadow = report.actions().contains(&Action::Shadow);
        let shadow = is_shadow.then_some(planned);
        let after = if is_shadow { before } else { planned };
        let usage = ended.cost.and_then(|spent| spent.usage);
        // A refusal may have corrected the window since the request came.
        let explanation = ended.explanation.as_ref();
        let window = explanation.map_or(self.window, |explanation| explanation.numbers.window);
        let failed =
            ended.status.is_none_or(|status| status.is_client_error() || status.is_server_error());
        // A client that leaves in mid-reply is not an error: the client has what it needs.
        let is_error = failed || ended.ending == Ending::UpstreamBroke;
        let point = RequestPoint {
            id: ended.id,
            at: wall_clock::unix_millis(),
            duration_ms: u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX),
            before,
            after: if ended.went_on { after } else { 0 },
            shadow,
            window: u64::from(window.get()),
            window_note: ended.window,
            status: ended.status.map(|status| status.as_u16()),
            is_error,
            fault: ended.fault.map(|fault| fault.label().into()),
            error: ended.error.map(Into::into),
            went_on: ended.went_on,
            acts: report.actions().iter().map(|act| act.label().into()).collect(),
            cleared: report.pruned as u64,
            refused: ended.refusal.map(|refusal| u64::from(refusal.size())),
            refused_limit: ended.refusal.and_then(|it| it.limit).map(u64::from),
            prompt_tokens: usage.map(|usage| usage.input),
            cached_tokens: usage.and_then(|usage| usage.cached),
            cost: ended.cost.and_then(|spent| spent.cost.amount()).map(Usd::as_nanos),
            ..RequestPoint::default()
        };
        let mended =
            ended.refusal.is_some() && !is_error && report.actions().contains(&Action::Retry);
        let explanation = ended.explanation.filter(|_| ended.went_on);
        let sizes = if ended.went_on { [before, after, planned] } else { [0; 3] };
        // A request beyond the window is refused, and costs nothing.
        let would_save = sizes[1].min(u64::from(window.get())).saturating_sub(sizes[2]);
        let add = |numbers: &mut DayNumbers| {
            numbers.add(is_error, mended, sizes, ended.cost);
            numbers.add_shadow(would_save, self.cached_price);
        };
        self.recent.record_end(self.id, |seen, hidden| {
            let dto = &mut seen.dto;
            add(&mut dto.numbers);
            if ended.went_on {
                dto.newest_after = after;
            }
            // A failed request leaves the wish to the next one.
            dto.compacts_next |= self.compacts && is_error;
            dto.dropped_reasoning = dto.dropped_reasoning.max(ended.dropped_reasoning as u64);
            dto.window_note = ended.window.or(dto.window_note);
            let explanation = explanation.map(|mut explanation| {
                if hidden {
                    explanation.forget_content();
                }
                explanation
            });
            seen.record_end(point, explanation)
        });
        self.recent.record_total(&self.model, add);
    }

    /// Records the cost of a request that the client left before it was answered: the provider
    /// charges for it all the same.
    pub(crate) fn record_abandoned(&self, spent: &RequestCost) {
        self.recent.update(self.id, |seen| seen.dto.numbers.add_cost(spent));
        self.recent.record_total(&self.model, |numbers| numbers.add_cost(spent));
    }

    /// Adds the results that the newest calls reread after they were cleared.
    pub(crate) fn record_rereads(&self, results: &[usize]) {
        self.recent.update(self.id, |seen| seen.record_rereads(results));
    }

    /// Adds reasoning behind a new edit.
    pub(crate) fn record_lost_reasoning(&self, items: usize) {
        self.recent.update(self.id, |seen| seen.dto.lost_reasoning += items as u64);
    }

    /// Records that a summary is being made, until the returned guard is dropped.
    pub(crate) fn begin_compaction(self, meter: &Arc<CostMeter>) -> CompactionGuard {
        let since = wall_clock::unix_millis();
        self.recent.update(self.id, |seen| seen.compacting.push(since));
        CompactionGuard { handle: self, since, meter: Arc::clone(meter) }
    }
}

impl Drop for CompactionGuard {
    fn drop(&mut self) {
        let since = self.since;
        let (paid, unknown) = self.meter.total();
        let pay = |numbers: &mut DayNumbers| {
            numbers.summaries += paid;
            numbers.calls_unknown += unknown;
        };
        self.handle.recent.record_total(&self.handle.model, pay);
        self.handle.recent.update(self.handle.id, |seen| {
            pay(&mut seen.dto.numbers);
            if let Some(at) = seen.compacting.iter().position(|at| *at == since) {
                seen.compacting.swap_remove(at);
            }
        });
    }
}
