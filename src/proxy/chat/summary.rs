//! Summaries for a chat: waited for where it does not fit without one, prepared where it soon will
//! not.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use tokio::time::{Instant, timeout_at};

use super::super::headers::{self, Hop};
use super::making::Making;
use super::{Chat, window};
use crate::config::{Style, Summariser};
use crate::metrics::Purpose;
use crate::models;
use crate::rewrite::brief::{CALLS_IN_BACKGROUND, CALLS_IN_FOREGROUND, live, rebuilds};
use crate::rewrite::chain::RecordKey;
use crate::rewrite::cut_point::{self, Kept};
use crate::rewrite::pace::Pace;
use crate::rewrite::plan::{Need, Outlook, Summaries, plan_now, plan_untouched, plan_with_digest};
use crate::rewrite::policy::Profile;
use crate::rewrite::splice::Splice;
use crate::rewrite::tokens::Tokens;
use crate::rewrite::view::View;
use crate::rewrite::window::Refused;
use crate::summarise::{CALL, Job, Place, Ticket, Till};
use crate::traces::Origin;
use crate::upstream::{Meter, Outgoing};
use crate::wall_clock;

impl Chat<'_> {
    /// How the request goes on. Where it does not fit as it stands, a summary is waited for, and
    /// where none comes in time, a digest serves.
    pub(in crate::proxy) async fn plan(&mut self) -> Outlook {
        if self.compact_now {
            return self.plan_now().await;
        }
        if self.shared().store.is_form_refused(&self.chains) {
            return plan_untouched(self.conversation, &self.policy);
        }
        let outlook = self.outlook();
        let Need::Now(covers) = outlook.need else {
            return outlook;
        };
        self.wait_for_summary(covers).await;
        let outlook = self.outlook();
        if matches!(outlook.need, Need::Now(_)) {
            return plan_with_digest(self.conversation, &self.policy, &self.known);
        }
        outlook
    }

    /// The manual way: compacted at once, whatever the marks say.
    async fn plan_now(&mut self) -> Outlook {
        match self.compacted_now().await {
            Some(outlook) => outlook,
            None => self.outlook(),
        }
    }

    /// Who asks for a compaction and for nothing else waits for the summary as long as one may take.
    pub(in crate::proxy) async fn compacted_at_leisure(&mut self) -> Option<Outlook> {
        let wait = self.shared().config.summary.wait.max(CALL);
        self.deadline = Some(Instant::now() + wait);
        self.compacted_now().await
    }

    /// Compacted at once, whatever the marks say; `None` if that would gain nothing.
    async fn compacted_now(&mut self) -> Option<Outlook> {
        let messages = self.conversation.messages().len();
        let known = [&self.known.ready, &self.known.adopted]
            .into_iter()
            .flatten();
        let last = known.max_by_key(|found| found.record.compacted_message_count);
        let covered = last.map(|found| found.record.compacted_message_count);
        let kept = Kept::of(self.conversation, &self.policy, self.known.adopted.as_ref());
        let cut = if last.is_some_and(|found| found.record.pace.is_at(messages)) {
            // The same request again, which may be counted differently by now, is not paid for again.
            covered
        } else {
            cut_point::find(self.conversation, &self.policy, kept, messages)
                .or_else(|| cut_point::deepest(self.conversation, kept, messages))
                .or(covered)
        }?;
        // Nor is what a record covers already.
        if self.summaries() == Summaries::Model && covered.is_none_or(|covered| cut > covered) {
            self.wait_for_summary(cut).await;
        }
        plan_now(self.conversation, &self.policy, &self.known, cut)
    }

    /// Waits for the summary of what is before `covers`, with everyone else who needs it. What came
    /// of it is known afterwards.
    pub(super) async fn wait_for_summary(&mut self, covers: usize) {
        let shared = self.shared();
        let Some(key) = self.chains.key_at(covers) else {
            return;
        };
        let ticket = self.ticket(key);
        // One that is under way is paid for already.
        if !shared.desk.is_running(key) && !shared.guards.allows(&ticket) {
            return;
        }
        let Some(job) = self.job(covers, CALLS_IN_FOREGROUND) else {
            return;
        };
        let deadline = *self
            .deadline
            .get_or_insert_with(|| Instant::now() + shared.config.summary.wait);
        tracing::info!(
            tokens = self.conversation.tokens().get(),
            messages = covers,
            "compacting …"
        );
        let mut waiter = shared.desk.join(key, self.making(key, ticket, job).make());
        let began = Instant::now();
        let ended = timeout_at(deadline, waiter.ended());
        if self.meter.waiting(ended).await.is_err() {
            waiter.let_it_run();
        }
        shared.metrics.summary_wait.add(began.elapsed());
        self.known = shared.store.known(&self.chains);
    }

    /// Has the summary of what is before `covers` made behind the request's back, which was forwarded
    /// in `view`.
    pub(super) fn prepare_summary(&self, covers: usize, view: &View) {
        let shared = self.shared();
        // On one's own machine a summary would take the model from the agent.
        if self.wishes.profile == Profile::Local {
            return;
        }
        let Some(key) = self.chains.key_at(covers) else {
            return;
        };
        if shared.desk.is_running(key) {
            return;
        }
        let Some(ticket) = shared.guards.begin_behind(self.ticket(key)) else {
            return;
        };
        if let Some(mut job) = self.job(covers, CALLS_IN_BACKGROUND) {
            job.live = self.live(covers, view);
            tracing::debug!(messages = covers, "preparing a summary");
            shared.desk.start(key, self.making(key, ticket, job).make());
        }
    }

    /// How fast this conversation fills, with one more compaction here.
    fn pace(&self) -> Pace {
        let adopted = self.known.adopted.as_ref();
        let pace = adopted.map(|found| found.record.pace).unwrap_or_default();
        pace.compacted_at(self.conversation, self.conversation.messages().len())
    }

    /// What the guards go by for a summary up to `cut`.
    pub(super) fn ticket(&self, cut: RecordKey) -> Ticket {
        let tokens = self.conversation.tokens();
        let guards = &self.shared().guards;
        guards.ticket(self.scope, &self.chains, cut, tokens)
    }

    /// The head of a call for a summary: with the caller's own credentials, but for an endpoint of
    /// its own.
    pub(super) fn summary_head(&self) -> Option<(Parts, Place)> {
        if let Some(endpoint) = &self.shared().summariser {
            return Some((endpoint.head(), Place::Elsewhere));
        }
        let empty = Outgoing::whole(Bytes::new(), &Arc::new(Meter::default()));
        let request = self
            .proxy
            .request(self.head.clone(), self.route, empty, Hop::Counted(0))
            .ok()?;
        let (mut head, _) = request.into_parts();
        head.headers = headers::for_summary(&head.headers);
        Some((head, Place::Upstream))
    }

    /// The model that is asked, if not the conversation's own, and what it holds.
    fn summariser(&self) -> (Option<String>, Tokens) {
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
            Summariser::Nobody | Summariser::Own => (None, set.unwrap_or(self.policy.marks.window)),
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
        let parent = self.parent.clone()?;
        Some(Origin::new(parent, purpose, model))
    }

    /// Where the calls of a summary are paid.
    fn till(&self) -> Till {
        let shared = self.shared();
        let prices = models::prices(self.summary_host(), self.writer());
        Till::new(&shared.metrics, Purpose::Summary, prices)
    }

    /// The body of a call that repeats the conversation as it was forwarded in `view`, where that is
    /// wanted and possible.
    fn live(&self, covers: usize, view: &View) -> Option<String> {
        let summary = &self.shared().config.summary;
        let adopted = self.known.adopted.as_ref();
        let count = adopted.map_or(0, |base| base.record.compaction_count);
        // What is live shows only the last summary of what it stands for.
        if summary.style != Style::Cached || rebuilds(count) {
            return None;
        }
        let spliced = match view.plan(self.conversation) {
            Some(plan) => Some(Splice::of(self.conversation, &plan)?.apply()),
            None => None,
        };
        let forwarded = match &spliced {
            Some(bytes) => str::from_utf8(bytes).ok()?,
            None => self.conversation.body(),
        };
        let (policy, prompts) = (&self.policy, &summary.prompts);
        live(self.conversation, forwarded, covers, policy, prompts)
    }

    /// What the summariser is told.
    fn job(&self, covers: usize, calls: usize) -> Option<Job> {
        let shared = self.shared();
        let (head, place) = self.summary_head()?;
        let (model, window) = self.summariser();
        let adopted = self.known.adopted.as_ref().map(|found| &*found.record);
        Some(Job {
            body: self.body.text().clone(),
            head,
            covers,
            // The newest summary there is, in use or not, is what the next one carries on from.
            base: self
                .known
                .ready
                .clone()
                .or_else(|| self.known.adopted.clone()),
            policy: self.policy.clone(),
            prompts: shared.config.summary.prompts.clone(),
            model,
            window,
            place,
            live: None,
            till: Arc::new(self.till()),
            origin: self.origin(Purpose::Summary, self.writer()),
            calls,
            // What the provider counts is for each time to be scaled anew.
            learned: match window::sayings(shared, &self.model, adopted).refused {
                Some(Refused::Estimated(_)) => Some(self.policy.rule_marks.window),
                Some(Refused::Counted { .. }) | None => None,
            },
            now: wall_clock::seconds(),
        })
    }

    /// The job as a task.
    fn making(&self, key: RecordKey, ticket: Ticket, job: Job) -> Making {
        Making {
            proxy: self.proxy.clone(),
            ticket,
            key,
            near: self.chains.nearer_than(job.covers),
            pace: self.pace(),
            sighting: self.sighting.clone(),
            _room: self.body.room(),
            job,
        }
    }
}
