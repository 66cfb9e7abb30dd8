//! Summaries for a chat: waited for where it does not fit without one, prepared where it soon will
//! not.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use tokio::time::{Instant, timeout_at};

use super::super::headers::{self, Hop};
use super::attempt::{Attempt, Basis};
use super::making::Making;
use super::{Arrived, Chat, window};
use crate::config::{Style, Summariser};
use crate::metrics::Purpose;
use crate::models;
use crate::rewrite::brief::{CALLS_IN_BACKGROUND, CALLS_IN_FOREGROUND, live, rebuilds};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::cut_point::{self, Kept};
use crate::rewrite::pace::Pace;
use crate::rewrite::plan::{
    Need, Outlook, Summaries, plan, plan_now, plan_untouched, plan_with_digest,
};
use crate::rewrite::policy::Profile;
use crate::rewrite::record::Known;
use crate::rewrite::splice::Splice;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::window::Refused;
use crate::store::Takes;
use crate::summarise::{CALL, Job, Place, Ticket, Till, Waiter};
use crate::traces::Origin;
use crate::upstream::{Meter, Outgoing};
use crate::wall_clock;

impl Chat<'_> {
    /// How the request goes on. Where it does not fit as it stands, a summary is waited for, and
    /// where none comes in time, a digest serves.
    pub(super) async fn plan(&self, basis: &mut Basis) -> Outlook {
        if self.compact_now {
            return self.plan_now(basis).await;
        }
        match self.shared().store.takes(&self.chains) {
            Takes::All => {}
            Takes::Cleared => return self.cleared(basis),
            Takes::Nothing => return plan_untouched(self.came.conversation, &basis.policy),
        }
        let outlook = self.outlook(basis);
        let Need::Now(covers) = outlook.need else {
            return outlook;
        };
        let still = |basis: &Basis| match self.outlook(basis).need {
            Need::Now(covers) => Some(covers),
            Need::Nothing | Need::Soon(_) => None,
        };
        self.wait_for_any_summary(basis, covers, still).await;
        let outlook = self.outlook(basis);
        if matches!(outlook.need, Need::Now(_)) {
            return plan_with_digest(self.came.conversation, &basis.policy, &basis.known);
        }
        outlook
    }

    /// By clearing alone, for a model that refused summaries: none is used, and none is bought.
    fn cleared(&self, basis: &Basis) -> Outlook {
        let conversation = self.came.conversation;
        let known = Known {
            ready: None,
            ..basis.known.clone()
        };
        let outlook = plan(conversation, &basis.policy, &known, self.summaries());
        if outlook.view.is_summarised() {
            return plan_untouched(conversation, &basis.policy);
        }
        Outlook {
            need: Need::Nothing,
            ..outlook
        }
    }

    /// The manual way: compacted at once, whatever the marks say.
    async fn plan_now(&self, basis: &mut Basis) -> Outlook {
        match self.compacted_now(basis).await {
            Some(outlook) => outlook,
            None => self.outlook(basis),
        }
    }

    /// How the request is forwarded by what is known.
    fn outlook(&self, basis: &Basis) -> Outlook {
        let Basis { policy, known, .. } = basis;
        plan(self.came.conversation, policy, known, self.summaries())
    }

    /// Who asks for a compaction and for nothing else waits for the summary as long as one may take.
    pub(super) async fn compacted_at_leisure(&self, basis: &mut Basis) -> Option<Outlook> {
        let wait = self.shared().config.summary.wait.max(CALL);
        basis.deadline = Some(Instant::now() + wait);
        self.compacted_now(basis).await
    }

    /// Compacted at once, whatever the marks say; `None` if that would gain nothing.
    async fn compacted_now(&self, basis: &mut Basis) -> Option<Outlook> {
        let conversation = self.came.conversation;
        let messages = conversation.messages().len();
        let Basis { policy, known, .. } = &*basis;
        let records = [&known.ready, &known.adopted].into_iter().flatten();
        let last = records.max_by_key(|found| found.record.compacted_message_count);
        let covered = last.map(|found| found.record.compacted_message_count);
        let kept = Kept::of(conversation, policy, known.adopted.as_ref());
        let cut = if last.is_some_and(|found| found.record.pace.is_at(messages)) {
            // The same request again, which may be counted differently by now, is not paid for again.
            covered
        } else {
            cut_point::find(conversation, policy, kept, messages)
                .or_else(|| cut_point::deepest(conversation, kept, messages))
                .or(covered)
        }?;
        // Nor is what a record covers already.
        if self.summaries() == Summaries::Model && covered.is_none_or(|covered| cut > covered) {
            self.wait_for_summary(basis, cut).await;
        }
        plan_now(conversation, &basis.policy, &basis.known, cut)
    }

    /// Waits for the summary of what is before `covers`, but first for one of another part of this
    /// history that is under way: it is paid for already, and may do, which `still` says with what is
    /// known then.
    pub(super) async fn wait_for_any_summary(
        &self,
        basis: &mut Basis,
        mut covers: usize,
        still: impl Fn(&Basis) -> Option<usize>,
    ) {
        let shared = self.shared();
        let prefixes = self.chains.newest_first();
        let more = prefixes.take_while(|(at, _)| Some(*at) > basis.known.covered());
        let others = more.filter(|(at, _)| *at != covers).map(|(_, key)| key);
        if let Some(waiter) = shared.desk.join_any(others) {
            self.wait_for(waiter, basis).await;
            let Some(more) = still(basis) else { return };
            if basis.deadline.is_some_and(|until| until <= Instant::now()) {
                return;
            }
            covers = more;
        }
        self.wait_for_summary(basis, covers).await;
    }

    /// Waits for the summary of what is before `covers`, with everyone else who needs it. What came
    /// of it is known afterwards.
    async fn wait_for_summary(&self, basis: &mut Basis, covers: usize) {
        let shared = self.shared();
        let Some(key) = self.chains.key_at(covers) else {
            return;
        };
        let ticket = self.ticket(key);
        // One that is under way is paid for already.
        if !shared.desk.is_running(key) && !shared.guards.allows(&ticket) {
            return;
        }
        let Some(job) = self.job(basis, covers, CALLS_IN_FOREGROUND) else {
            return;
        };
        tracing::info!(
            tokens = self.came.conversation.tokens().get(),
            messages = covers,
            "compacting …"
        );
        let making = self.making(basis, key, ticket, job);
        let waiter = shared.desk.join(key, making.make());
        self.wait_for(waiter, basis).await;
    }

    /// Waits for a job, but not beyond the deadline; it then goes on without.
    async fn wait_for(&self, mut waiter: Waiter, basis: &mut Basis) {
        let shared = self.shared();
        let began = Instant::now();
        let wait = shared.config.summary.wait;
        let deadline = *basis.deadline.get_or_insert_with(|| began + wait);
        let ended = timeout_at(deadline, waiter.ended());
        if self.came.meter.waiting(ended).await.is_err() {
            waiter.let_it_run();
        }
        shared.metrics.summary_wait.add(began.elapsed());
        basis.known = shared.store.known(&self.chains);
    }

    /// Has the summary of what is before `covers` made behind the request's back, which was forwarded
    /// as `attempt`.
    pub(super) fn prepare_summary(&self, attempt: &Attempt, covers: usize) {
        let shared = self.shared();
        // On one's own machine it would take the machine from the agent, whichever model writes it.
        if self.wishes.profile == Profile::Local {
            return;
        }
        let Some(key) = self.chains.key_at(covers) else {
            return;
        };
        // One may have been made while this request was on its way.
        let now = shared.store.known(&self.chains);
        if shared.desk.is_running(key) || now.has_news_since(&attempt.basis.known) {
            return;
        }
        let Some(ticket) = shared.guards.begin_behind(self.ticket(key)) else {
            return;
        };
        if let Some(mut job) = self.job(&attempt.basis, covers, CALLS_IN_BACKGROUND) {
            job.live = self.live(attempt, covers);
            tracing::debug!(messages = covers, "preparing a summary");
            let making = self.making(&attempt.basis, key, ticket, job);
            shared.desk.start(key, making.make());
        }
    }

    /// How fast this conversation fills, with one more compaction here.
    fn pace(&self, basis: &Basis) -> Pace {
        let conversation = self.came.conversation;
        let pace = basis.adopted().map(|record| record.pace);
        let pace = pace.unwrap_or_default();
        pace.compacted_at(conversation, conversation.messages().len())
    }

    /// What the guards go by for a summary up to `cut`.
    pub(super) fn ticket(&self, cut: RecordKey) -> Ticket {
        let tokens = self.came.conversation.tokens();
        let guards = &self.shared().guards;
        guards.ticket(self.came.scope, &self.chains, cut, tokens)
    }

    /// The head of a call for a summary: with the caller's own credentials, but for an endpoint of
    /// its own.
    pub(super) fn summary_head(&self) -> Option<(Parts, Place)> {
        if let Some(endpoint) = &self.shared().summariser {
            return Some((endpoint.head(), Place::Elsewhere));
        }
        let empty = Outgoing::whole(Bytes::new(), &Arc::new(Meter::default()));
        let Arrived {
            proxy, head, route, ..
        } = &self.came;
        let request = proxy.request(Parts::clone(head), route, empty, Hop::Counted(0));
        let (mut head, _) = request.ok()?.into_parts();
        head.headers = headers::for_summary(&head.headers);
        Some((head, Place::Upstream))
    }

    /// The model that is asked, if not the conversation's own, and what it holds.
    fn summariser(&self, basis: &Basis) -> (Option<String>, Tokens) {
        let shared = self.shared();
        let set = shared.config.summary.window;
        match &shared.config.summary.model {
            Summariser::Named(name) => {
                let marks = || {
                    let sayings = window::sayings(shared, name, None);
                    sayings.policy(&self.wishes).marks
                };
                (Some(name.clone()), set.unwrap_or_else(|| marks().window))
            }
            Summariser::Nobody | Summariser::Own => {
                (None, set.unwrap_or(basis.policy.marks.window))
            }
        }
    }

    /// Who is asked for summaries.
    pub(super) fn summary_host(&self) -> &str {
        let config = &self.shared().config;
        let endpoint = config.summary.endpoint.as_ref();
        let base = endpoint.map_or(&config.upstream.base, |endpoint| &endpoint.base);
        base.authority().host()
    }

    /// The model that writes a summary.
    fn writer(&self) -> &str {
        match &self.shared().config.summary.model {
            Summariser::Named(name) => name,
            Summariser::Nobody | Summariser::Own => &self.model,
        }
    }

    /// Where the calls for it are recorded, if they are.
    pub(super) fn origin(&self, purpose: Purpose, model: &str) -> Option<Origin> {
        let parent = self.came.parent.clone()?;
        Some(Origin::new(parent, purpose, model))
    }

    /// Where the calls of a summary are paid.
    fn till(&self) -> Till {
        let shared = self.shared();
        let prices = models::prices(self.summary_host(), self.writer());
        Till::new(&shared.metrics, Purpose::Summary, prices)
    }

    /// The body of a call that repeats the conversation as it was forwarded, where that is wanted and
    /// possible.
    fn live(&self, attempt: &Attempt, covers: usize) -> Option<String> {
        let summary = &self.shared().config.summary;
        let (basis, conversation) = (&attempt.basis, self.came.conversation);
        let count = basis.adopted().map_or(0, |base| base.compaction_count);
        // What is live shows only the last summary of what it stands for.
        if summary.style != Style::Cached || rebuilds(count) {
            return None;
        }
        let spliced = match attempt.view().plan(conversation) {
            Some(plan) => Some(Splice::of(conversation, &plan)?.apply()),
            None => None,
        };
        let forwarded = match &spliced {
            Some(bytes) => str::from_utf8(bytes).ok()?,
            None => conversation.body(),
        };
        let (policy, prompts) = (&basis.policy, &summary.prompts);
        live(conversation, forwarded, covers, policy, prompts)
    }

    /// What the summariser is told.
    fn job(&self, basis: &Basis, covers: usize, calls: usize) -> Option<Job> {
        let shared = self.shared();
        let (head, place) = self.summary_head()?;
        let (model, window) = self.summariser(basis);
        let Basis { policy, known, .. } = basis;
        Some(Job {
            body: self.came.body.text().clone(),
            head,
            covers,
            // The newest summary there is, in use or not, is what the next one carries on from.
            base: known.ready.clone().or_else(|| known.adopted.clone()),
            policy: policy.clone(),
            prompts: shared.config.summary.prompts.clone(),
            model,
            window,
            place,
            live: None,
            till: Arc::new(self.till()),
            origin: self.origin(Purpose::Summary, self.writer()),
            calls,
            // What the provider counts is for each time to be scaled anew.
            learned: match window::sayings(shared, &self.model, basis.adopted()).refused {
                Some(Refused::Estimated(_)) => Some(policy.rule_marks.window),
                Some(Refused::Counted { .. }) | None => None,
            },
            now: wall_clock::seconds(),
        })
    }

    /// The job as a task.
    fn making(&self, basis: &Basis, key: RecordKey, ticket: Ticket, job: Job) -> Making {
        Making {
            proxy: self.came.proxy.clone(),
            ticket,
            key,
            near: self.chains.nearer_than(job.covers),
            pace: self.pace(basis),
            sighting: self.sighting.clone(),
            writer: self.writer().to_owned(),
            _room: self.came.body.room(),
            job,
        }
    }
}

#[cfg(test)]
mod tests;
