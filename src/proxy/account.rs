//! What is said about one request when it is over: one log line, one count. A guard, because a
//! client that leaves drops whatever served it.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use tokio::time::Instant;

use super::bills::Spent;
use super::observe::Observer;
use super::recent::Sighting;
use super::report::Report;
use super::{paths, receive};
use crate::error::Fault;
use crate::metrics::{Ending, Label, Metrics, Status};
use crate::rewrite::bypass::Bypass;
use crate::rewrite::conversation::Conversation;
use crate::rewrite::overflow::Verdict;
use crate::traces::{Asks, Errand, Trace};
use crate::upstream::Meter;

/// The account of one request; writes its line when dropped.
pub(crate) struct Account {
    method: Method,
    path: String,
    /// Where its upstream is mounted, if it is.
    mount: Option<Arc<str>>,
    began: Instant,
    status: Option<StatusCode>,
    sent: Arc<Meter>,
    received_bytes: u64,
    ending: Ending,
    /// Whether the answer is of our own making, for want of another.
    faulted: bool,
    report: Report,
    /// Its conversation, where that is shown.
    sighting: Option<Sighting>,
    /// Who looks at the answer as it passes.
    observer: Option<Box<Observer>>,
    /// What it cost, once its answer was seen to its end.
    spent: Option<Spent>,
    trace: Trace,
    metrics: Arc<Metrics>,
}

impl Account {
    /// Until something else is said, the client has left.
    pub(super) fn open<B>(request: &Request<B>, metrics: &Arc<Metrics>) -> Self {
        metrics.in_flight.add(1_u64);
        Self {
            method: request.method().clone(),
            path: String::new(),
            mount: None,
            began: Instant::now(),
            status: None,
            sent: Arc::default(),
            received_bytes: 0,
            ending: Ending::ClientLeft,
            faulted: false,
            report: Report::default(),
            sighting: None,
            observer: None,
            spent: None,
            trace: Trace::open(request.headers()),
            metrics: Arc::clone(metrics),
        }
    }

    /// The path that the upstream is asked for, without its query.
    pub(super) fn mapped_to(&mut self, path: &str) {
        path.clone_into(&mut self.path);
        self.trace.asks(|| asks(&self.method, path));
    }

    /// It is for the upstream that is mounted there.
    pub(super) fn at(&mut self, mount: Option<Arc<str>>) {
        self.mount = mount;
    }

    /// Measures the request's body.
    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.sent
    }

    /// What is recorded of it.
    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// It is a chat that was read.
    pub(super) fn reads(&mut self, conversation: &Conversation<'_>) {
        if self.trace.is_recorded() {
            let streaming = conversation.envelope().streaming;
            self.trace.reads(&conversation.model(), streaming);
        }
    }

    /// A request goes to the upstream.
    pub(super) fn sends<B>(&mut self, errand: Errand, request: &Request<B>) {
        self.trace.sends(errand, request);
    }

    /// The upstream has answered it, or cannot be reached.
    pub(super) fn hears<B>(&mut self, reply: &Result<Response<B>, Fault>) {
        self.trace.hears(reply);
    }

    /// The upstream's answer was judged.
    pub(super) fn judged(&mut self, verdict: Verdict) {
        self.trace.judged(verdict);
    }

    /// The answer is a fault of ours.
    pub(super) fn faulted(&mut self, fault: Fault) {
        self.faulted = true;
        self.trace.faulted(fault);
    }

    /// What was done to the chat.
    pub(super) fn report(&mut self, report: Report) {
        self.report = report;
    }

    /// It is one of a conversation that is shown.
    pub(super) fn seen(&mut self, sighting: Option<Sighting>) {
        self.sighting = sighting;
    }

    /// The head of the answer goes out. What was ours of the time until now is all that was not
    /// spent waiting for somebody else.
    pub(super) fn answered(&mut self, status: StatusCode) {
        self.status = Some(status);
        let ours = self.began.elapsed().saturating_sub(self.sent.waited());
        self.metrics.overhead.add(ours);
    }

    /// The answer is looked at as it passes.
    pub(super) fn observe(&mut self, observer: Option<Box<Observer>>) {
        self.observer = observer;
    }

    /// A part of the answer's body goes out.
    pub(super) fn relayed(&mut self, chunk: &[u8]) {
        self.received_bytes += chunk.len() as u64;
        if let Some(observer) = &mut self.observer
            && !observer.pass(chunk)
        {
            self.spent = Some(observer.lose_sight());
            self.observer = None;
        }
    }

    /// The answer has ended. A client that closes at the last event, before the body has ended, as some
    /// do, has its whole answer.
    pub(super) fn end(&mut self, ending: Ending) {
        let observer = self.observer.take();
        let heard_all = || observer.as_ref().is_some_and(|seen| seen.has_heard_all());
        self.ending = match ending {
            Ending::ClientLeft if heard_all() => Ending::Complete,
            Ending::ClientLeft | Ending::Complete | Ending::UpstreamBroke => ending,
        };
        let Some(observer) = observer else {
            return;
        };
        self.spent = match self.ending {
            Ending::ClientLeft => Some(observer.lose_sight()),
            Ending::Complete => observer.end(self.trace.attempt()),
            Ending::UpstreamBroke => Some(observer.break_off()),
        };
    }

    /// Whether the upstream has got anything of it, as far as we know: what was made of a chat that went
    /// nowhere saved nobody anything, and the client comes again with the same.
    fn went_on(&self) -> bool {
        self.sent.bytes() > 0 && !self.faulted
    }

    /// The log line's fields, where the request is recorded too.
    fn tell_trace(&mut self) {
        let Self { trace, report, .. } = self;
        if !trace.is_recorded() {
            return;
        }
        trace.set("longhaul.mount", self.mount.as_deref());
        trace.set("longhaul.sent_bytes", self.sent.bytes());
        trace.set("longhaul.received_bytes", self.received_bytes);
        let action = report.action();
        trace.set("longhaul.action", action.as_deref());
        let bypass = report.bypass();
        trace.set("longhaul.bypass", bypass.map(Bypass::label));
        if action.is_some() || bypass.is_some() {
            trace.set("longhaul.pruned", report.pruned);
            trace.set("longhaul.reclaimed_tokens", report.reclaimed.get());
            trace.set("longhaul.tokens_before", report.before.get());
            trace.set("longhaul.tokens_after", report.after.get());
        }
        trace.close(&self.method, self.status, self.ending);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.observer.is_some() {
            self.end(Ending::ClientLeft);
        }
        let took = self.began.elapsed();
        let status = Status::of(self.status);
        self.metrics.in_flight.less_one();
        self.metrics.requests.add(self.ending);
        self.metrics.answers.add(self.report.principal(), status);
        self.metrics.duration.add(took);
        let went_on = self.went_on();
        if went_on {
            self.report.count(&self.metrics);
        }
        if let Some(sighting) = &self.sighting {
            if went_on {
                sighting.went_on(&self.report);
            }
            sighting.ended(&self.report, self.status, self.spent.as_ref());
        }
        self.tell_trace();
        tracing::info!(
            method = %self.method,
            path = self.path,
            mount = self.mount.as_deref(),
            status = self.status.map(|status| status.as_u16()),
            sent_bytes = self.sent.bytes(),
            received_bytes = self.received_bytes,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            ended = self.ending.label(),
            action = self.report.action(),
            bypass = self.report.bypass().map(Bypass::label),
            pruned = self.report.pruned,
            reclaimed_tokens = self.report.reclaimed.get(),
            tokens_before = self.report.before.get(),
            tokens_after = self.report.after.get(),
            "request"
        );
    }
}

/// What a path asks for, as a span says it.
fn asks(method: &Method, path: &str) -> Asks {
    if receive::is_chat_at(method, path) {
        Asks::Chat {
            model: None,
            streaming: None,
        }
    } else {
        Asks::Other(paths::route(path))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use bytes::Bytes;
    use http_body::Body as _;

    use super::*;
    use crate::metrics::Act;
    use crate::rewrite::tokens::Tokens;
    use crate::upstream::Outgoing;

    fn goes_on(account: &mut Account) {
        let mut body = Outgoing::whole(Bytes::from_static(b"{}"), account.meter());
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_ready());
    }

    /// What is counted as saved of a chat of 100 tokens that was made one of 40, and so treated.
    #[track_caller]
    fn check(treat: impl FnOnce(&mut Account), saved: u64) {
        let metrics = Arc::<Metrics>::default();
        let request = Request::post("/v1/chat/completions").body(()).unwrap();
        let mut account = Account::open(&request, &metrics);
        let mut report = Report::default();
        (report.before, report.after) = (Tokens::new(100), Tokens::new(40));
        report.add(Act::Prune);
        account.report(report);
        treat(&mut account);
        drop(account);
        assert_eq!(metrics.chats.saved(), saved);
        let chats = u64::from(saved > 0);
        let all = &metrics.chats;
        assert_eq!(all.count(), chats);
        assert_eq!((all.before(), all.after()), (100 * chats, 40 * chats));
        assert_eq!(metrics.acts.of(Act::Prune), chats);
    }

    #[test]
    fn only_what_went_on_and_was_not_answered_by_us_counts_as_saved() {
        check(goes_on, 60);
        check(|_| (), 0);
        check(|account| account.faulted(Fault::UpstreamUnreachable), 0);
        let unanswered = |account: &mut Account| {
            goes_on(account);
            account.faulted(Fault::UpstreamTimedOut);
        };
        check(unanswered, 0);
    }
}
