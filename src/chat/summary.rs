//! Summaries for a chat: waits for one if the chat does not fit without it, and prepares one in the
//! background if the chat soon will not fit.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use tokio::time::{Instant, timeout_at};

use crate::body::request_body::{RequestBody, TransferMeter};
use crate::chat::attempt::{Attempt, PlanInputs};
use crate::chat::summary_task::SummaryTask;
use crate::chat::{Chat, ChatRequest, window};
use crate::config::{SummaryModel, SummaryStyle};
use crate::metrics::AuxiliaryPurpose;
use crate::models;
use crate::request::headers;
use crate::request::headers::BodyFraming;
use crate::store::RewriteTolerance;
use crate::summaries::{
    CALL_TIMEOUT, CostMeter, JobHandle, SummaryJob, SummaryPermit, SummaryTarget,
};
use crate::traces::CallContext;
use crate::wall_clock;
use longhaul_core::planning::plan::{
    RequestPlan, SummaryNeed, SummarySource, plan, plan_explicit_compaction, plan_unmodified,
    plan_with_digest,
};
use longhaul_core::planning::splice::Splice;
use longhaul_core::policy::Profile;
use longhaul_core::policy::cut_point;
use longhaul_core::policy::cut_point::PinnedHead;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::thrash::ThrashDetector;
use longhaul_core::summary::request::{
    MAX_BACKGROUND_CALLS, MAX_FOREGROUND_CALLS, cached_style_body, is_rebuild_due,
};
use longhaul_core::units::scope::RecordKey;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::window::RefusalWindow;

impl Chat<'_> {
    /// Plans the request. If the conversation does not fit, waits for a summary; if none arrives in
    /// time, uses a digest.
    pub(super) async fn plan(&self, basis: &mut PlanInputs) -> RequestPlan {
        if self.compact_now {
            return self.plan_immediate_compaction(basis).await;
        }
        match self.shared().store.rewrite_tolerance(&self.prefix_keys) {
            RewriteTolerance::All => {}
            RewriteTolerance::ClearingOnly => return self.plan_clearing_only(basis),
            RewriteTolerance::Nothing => {
                return plan_unmodified(self.request.conversation, &basis.policy);
            }
        }
        let outlook = self.current_plan(basis);
        let SummaryNeed::Now(covers) = outlook.need else {
            return outlook;
        };
        let still = |basis: &PlanInputs| match self.current_plan(basis).need {
            SummaryNeed::Now(covers) => Some(covers),
            SummaryNeed::Nothing | SummaryNeed::InBackground(_) => None,
        };
        self.wait_for_any_summary(basis, covers, still).await;
        let outlook = self.current_plan(basis);
        if matches!(outlook.need, SummaryNeed::Now(_)) {
            return plan_with_digest(
                self.request.conversation,
                &basis.policy,
                &basis.prior_records,
            );
        }
        outlook
    }

    /// Plans by clearing alone, for a model that refused summaries. No summary is used or
    /// requested.
    fn plan_clearing_only(&self, basis: &PlanInputs) -> RequestPlan {
        let conversation = self.request.conversation;
        let known = PriorRecords {
            ready: None,
            ..basis.prior_records.clone()
        };
        let outlook = plan(conversation, &basis.policy, &known, self.summaries());
        if outlook.view.is_summarised() {
            return plan_unmodified(conversation, &basis.policy);
        }
        RequestPlan {
            need: SummaryNeed::Nothing,
            ..outlook
        }
    }

    /// Plans an immediate compaction, regardless of thresholds.
    async fn plan_immediate_compaction(&self, basis: &mut PlanInputs) -> RequestPlan {
        match self.compact_immediately(basis).await {
            Some(outlook) => outlook,
            None => self.current_plan(basis),
        }
    }

    /// Plans the request from the records known now.
    fn current_plan(&self, basis: &PlanInputs) -> RequestPlan {
        let PlanInputs {
            policy,
            prior_records: known,
            ..
        } = basis;
        plan(self.request.conversation, policy, known, self.summaries())
    }

    /// Plans an explicit compaction. Waits for the summary as long as a call may take.
    pub(super) async fn compact_explicitly(&self, basis: &mut PlanInputs) -> Option<RequestPlan> {
        let wait = self.shared().config.summary.wait_limit.max(CALL_TIMEOUT);
        basis.deadline = Some(Instant::now() + wait);
        self.compact_immediately(basis).await
    }

    /// Compacts immediately, regardless of thresholds. Returns `None` if that would save nothing.
    async fn compact_immediately(&self, basis: &mut PlanInputs) -> Option<RequestPlan> {
        let conversation = self.request.conversation;
        let messages = conversation.messages().len();
        let PlanInputs {
            policy,
            prior_records: known,
            ..
        } = &*basis;
        let records = [&known.ready, &known.adopted].into_iter().flatten();
        let last = records.max_by_key(|found| found.record.compacted_message_count);
        let covered = last.map(|found| found.record.compacted_message_count);
        let kept = PinnedHead::new(conversation, policy, known.adopted.as_ref());
        let cut = if last.is_some_and(|found| found.record.pace.was_compacted_at(messages)) {
            // Do not pay again for a repeated request, even if it is counted differently by now.
            covered
        } else {
            cut_point::find(conversation, policy, kept, messages)
                .or_else(|| cut_point::deepest(conversation, kept, messages))
                .or(covered)
        }?;
        // Do not pay for a range that a record already covers.
        if self.summaries() == SummarySource::Model && covered.is_none_or(|covered| cut > covered) {
            self.wait_for_summary(basis, cut).await;
        }
        plan_explicit_compaction(conversation, &basis.policy, &basis.prior_records, cut)
    }

    /// Waits for the summary of the messages before `covers`. First joins a running summary of
    /// another part of this history, if any: that call is paid for already and may suffice.
    /// Afterwards `still` returns the boundary that is still needed with the records known then.
    pub(super) async fn wait_for_any_summary(
        &self,
        basis: &mut PlanInputs,
        mut covers: usize,
        still: impl Fn(&PlanInputs) -> Option<usize>,
    ) {
        let shared = self.shared();
        let prefixes = self.prefix_keys.newest_first();
        let more =
            prefixes.take_while(|(at, _)| Some(*at) > basis.prior_records.summarised_until());
        let others = more.filter(|(at, _)| *at != covers).map(|(_, key)| key);
        if let Some(waiter) = shared.summary_jobs.join_any(others) {
            self.wait_for_job(waiter, basis).await;
            let Some(more) = still(basis) else { return };
            if basis.deadline.is_some_and(|until| until <= Instant::now()) {
                return;
            }
            covers = more;
        }
        self.wait_for_summary(basis, covers).await;
    }

    /// Waits, shared with other requests, for the summary of the messages before `covers`.
    /// Afterwards `basis` holds the updated records.
    async fn wait_for_summary(&self, basis: &mut PlanInputs, covers: usize) {
        let shared = self.shared();
        let Some(key) = self.prefix_keys.key_at(covers) else {
            return;
        };
        let ticket = self.summary_permit(key);
        // A running job is paid for already.
        if !shared.summary_jobs.is_running(key) && !shared.summary_guards.allows(&ticket) {
            return;
        }
        let Some(job) = self.job(basis, covers, MAX_FOREGROUND_CALLS) else {
            return;
        };
        tracing::info!(
            tokens = self.request.conversation.tokens().get(),
            messages = covers,
            "compacting …"
        );
        let making = self.summary_task(basis, key, ticket, job);
        let waiter = shared.summary_jobs.join(key, making.run());
        self.wait_for_job(waiter, basis).await;
    }

    /// Waits for a job until the deadline. After the deadline the request continues without the
    /// summary, and the job keeps running.
    async fn wait_for_job(&self, mut waiter: JobHandle, basis: &mut PlanInputs) {
        let shared = self.shared();
        let began = Instant::now();
        let wait = shared.config.summary.wait_limit;
        let deadline = *basis.deadline.get_or_insert_with(|| began + wait);
        let ended = timeout_at(deadline, waiter.completed());
        if self.request.meter.measure_wait(ended).await.is_err() {
            waiter.detach();
        }
        shared.metrics.summary_wait.observe(began.elapsed());
        basis.prior_records = shared.store.prior_records(&self.prefix_keys);
    }

    /// Starts a background summary of the messages before `covers`. The request itself was
    /// forwarded as `attempt`.
    pub(super) fn prepare_summary(&self, attempt: &Attempt, covers: usize) {
        let shared = self.shared();
        // With the local profile, the call would compete with the agent for the machine, whichever
        // model writes the summary.
        if self.settings.profile == Profile::Local {
            return;
        }
        let Some(key) = self.prefix_keys.key_at(covers) else {
            return;
        };
        // A summary may have been made while this request was in flight.
        let now = shared.store.prior_records(&self.prefix_keys);
        if shared.summary_jobs.is_running(key)
            || now.covers_more_than(&attempt.inputs.prior_records)
        {
            return;
        }
        let Some(ticket) = shared
            .summary_guards
            .try_acquire_background(self.summary_permit(key))
        else {
            return;
        };
        if let Some(mut job) = self.job(&attempt.inputs, covers, MAX_BACKGROUND_CALLS) {
            job.cached_style_body = self.cached_style_body(attempt, covers);
            tracing::debug!(messages = covers, "preparing a summary");
            let making = self.summary_task(&attempt.inputs, key, ticket, job);
            shared.summary_jobs.start_detached(key, making.run());
        }
    }

    /// Returns the thrash detector with one more compaction at this point.
    fn next_thrash_detector(&self, basis: &PlanInputs) -> ThrashDetector {
        let conversation = self.request.conversation;
        let pace = basis.adopted().map(|record| record.pace);
        let pace = pace.unwrap_or_default();
        pace.after_compaction(conversation, conversation.messages().len())
    }

    /// Creates the permit for a summary up to `cut`.
    pub(super) fn summary_permit(&self, cut: RecordKey) -> SummaryPermit {
        let tokens = self.request.conversation.tokens();
        let guards = &self.shared().summary_guards;
        guards.permit(self.request.scope, &self.prefix_keys, cut, tokens)
    }

    /// Builds the head of a summary call: with the caller's own credentials, or with those of the
    /// summary endpoint if one is configured.
    pub(super) fn summary_head(&self) -> Option<(Parts, SummaryTarget)> {
        if let Some(endpoint) = &self.shared().summary_endpoint {
            return Some((endpoint.request_head(), SummaryTarget::Dedicated));
        }
        let empty = RequestBody::from_bytes(Bytes::new(), &Arc::new(TransferMeter::default()));
        let ChatRequest {
            proxy, head, route, ..
        } = &self.request;
        let request =
            proxy.upstream_request(Parts::clone(head), route, empty, BodyFraming::Length(0));
        let (mut head, _) = request.ok()?.into_parts();
        head.headers = headers::for_summary(&head.headers);
        Some((head, SummaryTarget::Conversation))
    }

    /// Returns the summarising model and its window. The name is `None` for the conversation's own
    /// model.
    fn summariser(&self, basis: &PlanInputs) -> (Option<String>, Tokens) {
        let shared = self.shared();
        let set = shared.config.summary.window;
        match &shared.config.summary.model {
            SummaryModel::Named(name) => {
                let marks = || {
                    let sayings = window::window_sources(shared, name, None);
                    sayings.policy(&self.settings).thresholds
                };
                (Some(name.clone()), set.unwrap_or_else(|| marks().window))
            }
            SummaryModel::Disabled | SummaryModel::SameAsConversation => {
                (None, set.unwrap_or(basis.policy.thresholds.window))
            }
        }
    }

    /// Returns the host that writes summaries.
    pub(super) fn summary_host(&self) -> &str {
        let config = &self.shared().config;
        let endpoint = config.summary.endpoint.as_ref();
        let base = endpoint.map_or(&config.upstream.base, |endpoint| &endpoint.base);
        base.authority().host()
    }

    /// Returns the model that writes summaries.
    fn summary_model(&self) -> &str {
        match &self.shared().config.summary.model {
            SummaryModel::Named(name) => name,
            SummaryModel::Disabled | SummaryModel::SameAsConversation => &self.model,
        }
    }

    /// Returns the trace origin of additional calls, or `None` if the request is not traced.
    pub(super) fn origin(&self, purpose: AuxiliaryPurpose, model: &str) -> Option<CallContext> {
        let parent = self.request.parent.clone()?;
        Some(CallContext::new(parent, purpose, model))
    }

    /// Creates the cost meter of a summary's calls.
    fn cost_meter(&self) -> CostMeter {
        let shared = self.shared();
        let prices = models::prices(self.summary_host(), self.summary_model());
        CostMeter::new(&shared.metrics, AuxiliaryPurpose::Summary, prices)
    }

    /// Builds the body of a summary call in `cached` style, which repeats the conversation as
    /// forwarded. Returns `None` if the style is not configured or not possible.
    fn cached_style_body(&self, attempt: &Attempt, covers: usize) -> Option<String> {
        let summary = &self.shared().config.summary;
        let (basis, conversation) = (&attempt.inputs, self.request.conversation);
        let count = basis.adopted().map_or(0, |base| base.compaction_count);
        // A rebuilt summary needs the raw history, but the forwarded conversation has only its last
        // summary.
        if summary.style != SummaryStyle::Cached || is_rebuild_due(count) {
            return None;
        }
        let spliced = match attempt.view().replacements(conversation) {
            Some(plan) => Some(Splice::new(conversation, &plan)?.apply()),
            None => None,
        };
        let forwarded = match &spliced {
            Some(bytes) => str::from_utf8(bytes).ok()?,
            None => conversation.body(),
        };
        let (policy, prompts) = (&basis.policy, &summary.prompts);
        cached_style_body(conversation, forwarded, covers, policy, prompts)
    }

    /// Builds the summary job.
    fn job(&self, basis: &PlanInputs, covers: usize, calls: usize) -> Option<SummaryJob> {
        let shared = self.shared();
        let (head, place) = self.summary_head()?;
        let (model, window) = self.summariser(basis);
        let PlanInputs {
            policy,
            prior_records: known,
            ..
        } = basis;
        Some(SummaryJob {
            body: self.request.body.text().clone(),
            head,
            summarised_until: covers,
            // The next summary extends the newest one, whether or not that is in use.
            base_record: known.ready.clone().or_else(|| known.adopted.clone()),
            policy: policy.clone(),
            prompts: shared.config.summary.prompts.clone(),
            model,
            window,
            target: place,
            cached_style_body: None,
            cost_meter: Arc::new(self.cost_meter()),
            call_context: self.origin(AuxiliaryPurpose::Summary, self.summary_model()),
            max_calls: calls,
            // A limit in provider tokens is rescaled for each call.
            learned_window: match window::window_sources(shared, &self.model, basis.adopted())
                .refusal
            {
                Some(RefusalWindow::Estimated(_)) => Some(policy.prune_thresholds.window),
                Some(RefusalWindow::Stated { .. }) | None => None,
            },
            now: wall_clock::unix_seconds(),
        })
    }

    /// Wraps the job in a task.
    fn summary_task(
        &self,
        basis: &PlanInputs,
        key: RecordKey,
        ticket: SummaryPermit,
        job: SummaryJob,
    ) -> SummaryTask {
        SummaryTask {
            proxy: self.request.proxy.clone(),
            permit: ticket,
            key,
            renewal_key: self.prefix_keys.closer_than(job.summarised_until),
            thrash_detector: self.next_thrash_detector(basis),
            dashboard: self.dashboard.clone(),
            writer: self.summary_model().to_owned(),
            _reservation: self.request.body.reservation(),
            job,
        }
    }
}

#[cfg(test)]
mod tests;
