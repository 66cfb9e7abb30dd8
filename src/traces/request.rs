//! One request of a client: the span of the server that we are there, and that of its call under way.

use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::{Asks, CallSpan, Errand, Kept, Parent, Span, Value};
use crate::error::Fault;
use crate::metrics::{Ending, Label as _};
use crate::rewrite::overflow::Verdict;

/// What is recorded of one request, if anything is.
#[derive(Debug)]
pub(crate) struct Trace(Option<Kept<Open>>);

#[derive(Debug)]
struct Open {
    span: Span,
    asks: Asks,
    /// The call of the upstream under way.
    attempt: Option<CallSpan>,
    /// Calls of the upstream so far.
    attempts: u32,
    fault: Option<Fault>,
}

impl Trace {
    /// A request with these headers is here.
    pub(crate) fn open(headers: &HeaderMap) -> Self {
        let span = Span::of_request(headers);
        Self(span.and_then(|span| {
            Kept::new(Open {
                span,
                asks: Asks::Other(None),
                attempt: None,
                attempts: 0,
                fault: None,
            })
        }))
    }

    /// Whether anything is recorded: what is not need not be worked out.
    pub(crate) fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// What spans of further calls stand under.
    pub(crate) fn parent(&self) -> Option<Parent> {
        self.0.as_ref()?.span.parent()
    }

    /// It is seen what is asked for.
    pub(crate) fn asks(&mut self, asks: impl FnOnce() -> Asks) {
        if let Some(open) = &mut self.0 {
            open.asks = asks();
        }
    }

    /// A chat was read: it is for `model`, and is answered as a stream or not.
    pub(crate) fn reads(&mut self, model: &str, streaming: bool) {
        self.asks(|| Asks::chat(model, Some(streaming)));
    }

    /// `request` goes to the upstream.
    pub(crate) fn sends<B>(&mut self, errand: Errand, request: &Request<B>) {
        if let Some(open) = &mut self.0 {
            let parent = open.span.parent();
            open.attempts += 1;
            open.attempt =
                parent.and_then(|parent| CallSpan::begin(&parent, errand, &open.asks, request));
        }
    }

    /// The upstream has answered that, or it cannot be reached.
    pub(crate) fn hears<B>(&mut self, reply: &Result<Response<B>, Fault>) {
        if let Some(attempt) = self.attempt() {
            match reply {
                Ok(reply) => attempt.replied(reply.status()),
                Err(fault) => attempt.failed(fault.code()),
            }
        }
    }

    /// The upstream's reply was judged. One that is no answer is over with that: what follows is
    /// another call, or ours.
    pub(crate) fn judged(&mut self, verdict: Verdict) {
        if let Some(open) = &mut self.0
            && verdict != Verdict::Fine
            && let Some(mut attempt) = open.attempt.take()
        {
            attempt.judged(verdict);
        }
    }

    /// The call of the upstream whose reply is on its way.
    pub(crate) fn attempt(&mut self) -> Option<&mut CallSpan> {
        self.0.as_mut()?.attempt.as_mut()
    }

    /// The client gets a fault of ours.
    pub(crate) fn faulted(&mut self, fault: Fault) {
        if let Some(open) = &mut self.0 {
            open.fault = Some(fault);
        }
    }

    /// Says something of the request.
    pub(crate) fn set<'v>(&mut self, key: &'static str, value: impl Into<Value<'v>>) {
        if let Some(open) = &mut self.0 {
            open.span.set(key, value);
        }
    }

    /// The answer has ended: with this status, if any went out, and in this way.
    pub(crate) fn close(&mut self, method: &Method, status: Option<StatusCode>, ending: Ending) {
        let Some(open) = &mut self.0 else { return };
        if let Some(mut attempt) = open.attempt.take() {
            match ending {
                Ending::ClientLeft => {}
                Ending::Complete => attempt.ended(),
                Ending::UpstreamBroke => attempt.failed(Fault::UpstreamBroke.code()),
            }
        }
        let Open {
            span,
            asks,
            attempts,
            fault,
            ..
        } = &mut **open;
        span.name(asks.name(method));
        asks.tell(span, method);
        span.set("http.route", asks.route());
        span.set(
            "http.response.status_code",
            status.map(|status| status.as_u16()),
        );
        span.set("longhaul.ended", ending.label());
        span.set("longhaul.attempts", *attempts);
        let broke = (ending == Ending::UpstreamBroke).then(|| Fault::UpstreamBroke.code());
        let of_server = status.filter(StatusCode::is_server_error);
        let why = fault.map(Fault::code).or(broke);
        span.set(
            "error.type",
            why.or_else(|| of_server.as_ref().map(StatusCode::as_str)),
        );
        if broke.is_some() || of_server.is_some() {
            span.fail();
        }
    }
}

#[cfg(all(test, not(feature = "otlp")))]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_traces_keeps_no_room_for_them() {
        assert_eq!(size_of::<Trace>(), 0);
        assert_eq!(size_of::<Option<Parent>>(), 0);
    }
}
