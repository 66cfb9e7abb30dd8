//! The server span of one client request, and the span of its current upstream call.

use http::{HeaderMap, Method, Request, Response, StatusCode};
use serde_json::Value;

use super::{CallSpan, Operation, ParentContext, TraceSpan};
use crate::error::Fault;
use crate::metrics::{Ending, Label as _, RetryReason};
use longhaul_core::dialect::Dialect;
use longhaul_core::overflow::Verdict;

/// Trace of one request, if the request is recorded. Boxed, because few requests may be recorded.
#[derive(Debug)]
pub(crate) struct RequestTrace(Option<Box<RecordedRequest>>);

#[derive(Debug)]
struct RecordedRequest {
    span: TraceSpan,
    operation: Operation,
    call: Option<CallSpan>,
    /// Number of upstream calls so far.
    calls: u32,
    fault: Option<Fault>,
}

impl RequestTrace {
    /// Begins the trace of a request with these headers.
    pub(crate) fn start(headers: &HeaderMap) -> Self {
        let span = TraceSpan::start_request(headers);
        Self(span.map(|span| {
            Box::new(RecordedRequest {
                span,
                operation: Operation::Other(None),
                call: None,
                calls: 0,
                fault: None,
            })
        }))
    }

    /// Whether the request is recorded. If not, callers need not compute attributes.
    pub(crate) fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn parent(&self) -> Option<ParentContext> {
        self.0.as_ref()?.span.parent()
    }

    pub(crate) fn set_operation(&mut self, asks: impl FnOnce() -> Operation) {
        if let Some(open) = &mut self.0 {
            open.operation = asks();
        }
    }

    /// Records that a chat for `model` was read, and whether its answer is streamed.
    pub(crate) fn record_chat(&mut self, dialect: Dialect, model: &str, streaming: bool) {
        self.set_operation(|| Operation::chat(dialect, model, Some(streaming)));
    }

    /// Begins the span of a call that sends `request` upstream: the client's request, or its retry
    /// for this reason.
    pub(crate) fn record_send<B>(&mut self, retry: Option<RetryReason>, request: &Request<B>) {
        if let Some(open) = &mut self.0 {
            let attempt = retry.map_or("first", RetryReason::label);
            let parent = open.span.parent();
            open.calls += 1;
            open.call = parent
                .and_then(|parent| CallSpan::begin(&parent, attempt, &open.operation, request));
        }
    }

    /// Records the head of the upstream's reply, or the fault that prevented a reply.
    pub(crate) fn record_reply<B>(&mut self, reply: &Result<Response<B>, Fault>) {
        if let Some(attempt) = self.current_call() {
            match reply {
                Ok(reply) => attempt.record_status(reply.status()),
                Err(fault) => attempt.fail(fault.label()),
            }
        }
    }

    /// Records the verdict on the upstream's reply. A reply without an answer ends the call's span:
    /// another call or a fault follows.
    pub(crate) fn record_verdict(&mut self, verdict: Verdict) {
        if let Some(open) = &mut self.0
            && verdict != Verdict::Fine
            && let Some(mut attempt) = open.call.take()
        {
            attempt.record_verdict(verdict);
        }
    }

    pub(crate) fn current_call(&mut self) -> Option<&mut CallSpan> {
        self.0.as_mut()?.call.as_mut()
    }

    /// Records that the client gets a fault of longhaul's own.
    pub(crate) fn record_fault(&mut self, fault: Fault) {
        if let Some(open) = &mut self.0 {
            open.fault = Some(fault);
        }
    }

    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(open) = &mut self.0 {
            open.span.set(key, value);
        }
    }

    /// Ends the trace, with the response's status, if a response was sent, and its ending.
    pub(crate) fn finish(&mut self, method: &Method, status: Option<StatusCode>, ending: Ending) {
        let Some(open) = &mut self.0 else { return };
        if let Some(mut attempt) = open.call.take() {
            match ending {
                Ending::ClientLeft => {}
                Ending::Complete => attempt.finish(),
                Ending::UpstreamBroke => attempt.fail(Fault::UpstreamBroke.label()),
            }
        }
        let RecordedRequest { span, operation: asks, calls: attempts, fault, .. } = &mut **open;
        span.set_name(asks.name(method));
        asks.set_attributes(span, method);
        span.set("http.route", asks.route());
        span.set("http.response.status_code", status.map(|status| u32::from(status.as_u16())));
        span.set("longhaul.ended", ending.label());
        span.set("longhaul.attempts", *attempts);
        let broke = (ending == Ending::UpstreamBroke).then(|| Fault::UpstreamBroke.label());
        let of_server = status.filter(StatusCode::is_server_error);
        let why = fault.map(Fault::label).or(broke);
        span.set("error.type", why.or_else(|| of_server.as_ref().map(StatusCode::as_str)));
        if broke.is_some() || of_server.is_some() {
            span.fail();
        }
    }
}
