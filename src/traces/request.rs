//! One request of a client: the span of the server that we are there, and that of its call under way.

use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::{AttributeValue, CallPurpose, CallSpan, Operation, ParentContext, SpanBox, TraceSpan};
use crate::error::Fault;
use crate::metrics::{Ending, Label as _};
use crate::rewrite::overflow::Verdict;

/// What is recorded of one request, if anything is.
#[derive(Debug)]
pub(crate) struct RequestTrace(Option<SpanBox<RecordedRequest>>);

#[derive(Debug)]
struct RecordedRequest {
    span: TraceSpan,
    operation: Operation,
    /// The call of the upstream under way.
    call: Option<CallSpan>,
    /// Calls of the upstream so far.
    calls: u32,
    fault: Option<Fault>,
}

impl RequestTrace {
    /// A request with these headers is here.
    pub(crate) fn start(headers: &HeaderMap) -> Self {
        let span = TraceSpan::start_request(headers);
        Self(span.and_then(|span| {
            SpanBox::new(RecordedRequest {
                span,
                operation: Operation::Other(None),
                call: None,
                calls: 0,
                fault: None,
            })
        }))
    }

    /// Whether anything is recorded: what is not need not be worked out.
    pub(crate) fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// What spans of further calls stand under.
    pub(crate) fn parent(&self) -> Option<ParentContext> {
        self.0.as_ref()?.span.parent()
    }

    /// It is seen what is asked for.
    pub(crate) fn set_operation(&mut self, asks: impl FnOnce() -> Operation) {
        if let Some(open) = &mut self.0 {
            open.operation = asks();
        }
    }

    /// A chat was read: it is for `model`, and is answered as a stream or not.
    pub(crate) fn record_chat(&mut self, model: &str, streaming: bool) {
        self.set_operation(|| Operation::chat(model, Some(streaming)));
    }

    /// `request` goes to the upstream.
    pub(crate) fn record_send<B>(&mut self, errand: CallPurpose, request: &Request<B>) {
        if let Some(open) = &mut self.0 {
            let parent = open.span.parent();
            open.calls += 1;
            open.call = parent
                .and_then(|parent| CallSpan::begin(&parent, errand, &open.operation, request));
        }
    }

    /// The upstream has answered that, or it cannot be reached.
    pub(crate) fn record_reply<B>(&mut self, reply: &Result<Response<B>, Fault>) {
        if let Some(attempt) = self.current_call() {
            match reply {
                Ok(reply) => attempt.record_status(reply.status()),
                Err(fault) => attempt.fail(fault.code()),
            }
        }
    }

    /// The upstream's reply was judged. One that is no answer is over with that: what follows is
    /// another call, or ours.
    pub(crate) fn record_verdict(&mut self, verdict: Verdict) {
        if let Some(open) = &mut self.0
            && verdict != Verdict::Fine
            && let Some(mut attempt) = open.call.take()
        {
            attempt.record_verdict(verdict);
        }
    }

    /// The call of the upstream whose reply is on its way.
    pub(crate) fn current_call(&mut self) -> Option<&mut CallSpan> {
        self.0.as_mut()?.call.as_mut()
    }

    /// The client gets a fault of ours.
    pub(crate) fn record_fault(&mut self, fault: Fault) {
        if let Some(open) = &mut self.0 {
            open.fault = Some(fault);
        }
    }

    /// Says something of the request.
    pub(crate) fn set<'v>(&mut self, key: &'static str, value: impl Into<AttributeValue<'v>>) {
        if let Some(open) = &mut self.0 {
            open.span.set(key, value);
        }
    }

    /// The answer has ended: with this status, if any went out, and in this way.
    pub(crate) fn finish(&mut self, method: &Method, status: Option<StatusCode>, ending: Ending) {
        let Some(open) = &mut self.0 else { return };
        if let Some(mut attempt) = open.call.take() {
            match ending {
                Ending::ClientLeft => {}
                Ending::Complete => attempt.finish(),
                Ending::UpstreamBroke => attempt.fail(Fault::UpstreamBroke.code()),
            }
        }
        let RecordedRequest {
            span,
            operation: asks,
            calls: attempts,
            fault,
            ..
        } = &mut **open;
        span.set_name(asks.name(method));
        asks.set_attributes(span, method);
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
        assert_eq!(size_of::<RequestTrace>(), 0);
        assert_eq!(size_of::<Option<ParentContext>>(), 0);
    }
}
