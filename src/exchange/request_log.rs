//! The log line and metrics of one request, written when the request is over. [`RequestLog`] is a
//! guard: if the client leaves, the server drops whatever served the request, and the guard with
//! it.

use std::sync::Arc;

use http::{HeaderMap, Method, Request, StatusCode};
use tokio::time::Instant;

use crate::body::request_body::TransferMeter;
use crate::costs::RequestCost;
use crate::dashboard::{DashboardHandle, EndedRequest};
use crate::error::Fault;
use crate::exchange::client_connection::ConnectionUse;
use crate::exchange::error_reply::ErrorReply;
use crate::exchange::reply_observer::ReplyObserver;
use crate::explanation::report::history_text;
use crate::explanation::{ConversationId, Refusal, RequestId, StoredExplanation, verdict};
use crate::limits::RECALL_PATH;
use crate::metrics::{Action, Ending, Label, Metrics, StatusClass};
use crate::report::ChatReport;
use crate::request::receive::RequestSlot;
use crate::request::{paths, receive};
use crate::traces::{Operation, RequestTrace};
use longhaul_console::word::Word;
use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::units::tokens::Tokens;
use longhaul_core::units::usd::Usd;
use longhaul_core::window::source::SourcedWindow;

#[derive(Debug)]
pub(crate) struct ChatFacts {
    pub(crate) model: Arc<str>,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) window: SourcedWindow,
    /// Size from which on a record is prepared.
    pub(crate) soft: Tokens,
    /// Size from which on a record is used.
    pub(crate) hard: Tokens,
}

/// Accumulates the log line, metrics and trace of one request; writes them when dropped.
pub(crate) struct RequestLog {
    method: Method,
    path: String,
    /// Path under which the upstream is mounted, if any.
    pub(crate) mount: Option<Arc<str>>,
    started: Instant,
    status: Option<StatusCode>,
    pub(crate) meter: Arc<TransferMeter>,
    received_bytes: u64,
    ending: Ending,
    /// Fault with which longhaul answers instead of the upstream, if any.
    fault: Option<Fault>,
    /// Identifier in the log, in the report headers, in the trace and on the dashboard.
    pub(crate) id: RequestId,
    /// Report on the chat. Set before the chat is sent: a client that leaves ends the log.
    pub(crate) report: ChatReport,
    /// Facts about the chat, once it was planned.
    chat: Option<ChatFacts>,
    /// Explanation of the chat as it was sent last, if anybody can request one.
    explanation: Option<StoredExplanation>,
    /// Refusal of the first attempt as too large.
    pub(crate) refusal: Option<Refusal>,
    /// Handle of the conversation on the dashboard, if the dashboard is in use.
    pub(crate) dashboard: Option<DashboardHandle>,
    /// Observer of the response body as it passes.
    pub(crate) observer: Option<Box<ReplyObserver>>,
    /// Beginning of the provider's error reply.
    error_reply: Option<Box<ErrorReply>>,
    /// Cost of the request, once the end of the response was observed.
    cost: Option<RequestCost>,
    /// Items of reasoning that the reply reports as dropped.
    dropped_reasoning: usize,
    pub(crate) trace: RequestTrace,
    metrics: Arc<Metrics>,
    /// The client's connection, in use until the reply has ended.
    pub(crate) connection: Option<ConnectionUse>,
    /// Place of the request among those under way, until the reply has ended.
    pub(crate) slot: Option<RequestSlot>,
}

impl RequestLog {
    /// Starts the log of `request`. The ending is `ClientLeft` until the response ends otherwise.
    /// The log is boxed: the body of the reply, which holds the log, moves ten times on its way.
    pub(crate) fn start<B>(request: &Request<B>, metrics: &Arc<Metrics>) -> Box<Self> {
        metrics.in_flight.add(1_u64);
        Box::new(Self {
            method: request.method().clone(),
            path: String::new(),
            mount: None,
            started: Instant::now(),
            status: None,
            meter: Arc::default(),
            received_bytes: 0,
            ending: Ending::ClientLeft,
            fault: None,
            id: RequestId::draw(),
            report: ChatReport::default(),
            chat: None,
            explanation: None,
            refusal: None,
            dashboard: None,
            observer: None,
            error_reply: None,
            cost: None,
            dropped_reasoning: 0,
            trace: RequestTrace::start(request.headers()),
            metrics: Arc::clone(metrics),
            connection: None,
            slot: None,
        })
    }

    /// Sets the upstream path, without its query.
    pub(crate) fn set_path(&mut self, path: &str) {
        // An ID opens the original that it names, so no log shows one.
        // A string searcher costs more to set up than the few windows of a short path.
        let mut windows = path.as_bytes().windows(RECALL_PATH.len());
        let recall = windows.position(|window| window == RECALL_PATH.as_bytes());
        self.path = match recall.and_then(|start| path.get(..start)) {
            Some(before) => format!("{before}{RECALL_PATH}…"),
            None => path.to_owned(),
        };
        self.trace.set_operation(|| operation(&self.method, &self.path));
    }

    /// Formats the body of longhaul's own error reply to the request.
    pub(crate) fn error_body(&self, fault: Fault, message: &str) -> Vec<u8> {
        Dialect::error_reply(&self.path, fault.status().as_u16(), fault.label(), message)
    }

    /// Records that the body was read as a chat.
    pub(crate) fn record_chat(&mut self, conversation: &Conversation<'_>) {
        if self.trace.is_recorded() {
            let streaming = conversation.params().streaming;
            let dialect = conversation.dialect();
            self.trace.record_chat(dialect, &conversation.model(), streaming);
        }
    }

    /// Records that the response is a fault of longhaul's own.
    pub(crate) fn record_fault(&mut self, fault: Fault) {
        self.fault = Some(fault);
        self.trace.record_fault(fault);
    }

    /// Sets the facts about the chat and its explanation, as of the last send.
    pub(crate) fn set_chat(&mut self, facts: ChatFacts, explanation: Option<StoredExplanation>) {
        let text = history_text(self.report.actions().contains(&Action::Digest));
        log_plan(self.id, &facts, explanation.as_ref(), text);
        self.chat = Some(facts);
        self.explanation = explanation;
    }

    /// Adds the headers that report what was done to the chat, if anything was.
    pub(crate) fn write_report_headers(&self, headers: &mut HeaderMap) {
        let conversation = self.chat.as_ref().and_then(|chat| chat.conversation);
        self.report.write_headers(headers, self.id, conversation);
    }

    /// Records that the head of the response goes out. The proxy's overhead is the time until now,
    /// less the time spent waiting for others.
    pub(crate) fn record_response_head(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.status = Some(status);
        if self.fault.is_none() && (status.is_client_error() || status.is_server_error()) {
            self.error_reply = ErrorReply::new(headers).map(Box::new);
        }
        let ours = self.started.elapsed().saturating_sub(self.meter.wait_time());
        self.metrics.overhead.0.observe(ours);
    }

    pub(crate) fn record_chunk(&mut self, chunk: &[u8]) {
        self.received_bytes += chunk.len() as u64;
        if let Some(error) = &mut self.error_reply {
            error.push(chunk);
        }
        if let Some(observer) = &mut self.observer
            && !observer.observe(chunk)
        {
            self.cost = Some(observer.charge_unknown_cost());
            self.observer = None;
        }
    }

    /// Records the end of the response. Some clients close at the last event, before the body has
    /// ended; such a client has its whole response.
    pub(crate) fn end(&mut self, ending: Ending) {
        let observer = self.observer.take();
        let heard_all = || observer.as_ref().is_some_and(|seen| seen.is_complete());
        self.ending = match ending {
            Ending::ClientLeft if heard_all() => Ending::Complete,
            Ending::ClientLeft | Ending::Complete | Ending::UpstreamBroke => ending,
        };
        let Some(observer) = observer else {
            return;
        };
        self.dropped_reasoning = observer.dropped_reasoning();
        self.cost = match self.ending {
            Ending::ClientLeft => Some(observer.charge_unknown_cost()),
            Ending::Complete => observer.finish(self.trace.current_call()),
            Ending::UpstreamBroke => Some(observer.finish_broken()),
        };
    }

    /// Copies the fields of the log line to the trace, if the request is recorded, and closes the
    /// trace.
    fn finish_trace(&mut self) {
        let Self { trace, report, .. } = self;
        if !trace.is_recorded() {
            return;
        }
        trace.set("longhaul.request_id", self.id.to_string());
        let chat = self.chat.as_ref();
        let conversation = chat.and_then(|chat| chat.conversation).map(|id| id.to_string());
        trace.set("longhaul.conversation", conversation.as_deref());
        trace.set("longhaul.mount", self.mount.as_deref());
        trace.set("longhaul.sent_bytes", self.meter.bytes());
        trace.set("longhaul.received_bytes", self.received_bytes);
        let action = report.action_labels();
        trace.set("longhaul.action", action.as_deref());
        let bypass = report.bypass();
        trace.set("longhaul.bypass", bypass.map(Bypass::label));
        if action.is_some() || bypass.is_some() {
            trace.set("longhaul.pruned", report.pruned as u64);
            trace.set("longhaul.reclaimed_tokens", report.reclaimed.get());
            trace.set("longhaul.tokens_before", report.before.get());
            trace.set("longhaul.tokens_after", report.after.get());
        }
        trace.finish(&self.method, self.status, self.ending);
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        if self.observer.is_some() {
            self.end(Ending::ClientLeft);
        }
        let took = self.started.elapsed();
        let status = StatusClass::from_code(self.status);
        self.metrics.in_flight.decrement();
        self.metrics.requests.add(self.ending);
        self.metrics.responses.add(self.report.main_action(), status);
        if self.status == Some(StatusCode::NOT_FOUND) && self.chat.is_none() {
            self.metrics.missing_paths.add(1_u64);
        }
        self.metrics.duration.observe(took);
        let dropped = self.dropped_reasoning as u64;
        self.metrics.dropped_reasoning.add(dropped);
        // A rewrite that was never sent saved nothing, and the client will send the same request again.
        let went_on = self.meter.bytes() > 0 && self.fault.is_none();
        if went_on {
            self.report.record_metrics(&self.metrics);
        }
        let error = self.error_reply.take().and_then(|error| error.name());
        if let Some(dashboard) = &self.dashboard {
            dashboard.record_end(EndedRequest {
                id: self.id,
                report: &self.report,
                explanation: self.explanation.take(),
                refusal: self.refusal,
                window: self.chat.as_ref().map(|chat| chat.window),
                status: self.status,
                fault: self.fault,
                error: error.as_deref(),
                ending: self.ending,
                cost: self.cost.as_ref(),
                dropped_reasoning: self.dropped_reasoning,
                took,
                went_on,
            });
        }
        self.finish_trace();
        let chat = self.chat.as_ref();
        let usage = self.cost.as_ref().and_then(|spent| spent.usage);
        let cost = self.cost.as_ref().and_then(|spent| spent.cost.amount());
        // The level of an event is part of its static metadata.
        macro_rules! log_line {
            ($level:ident) => {
        tracing::$level!(
            request_id = %self.id,
            model = chat.map(|chat| &*chat.model),
            conversation = chat.and_then(|chat| chat.conversation).map(tracing::field::display),
            method = %self.method,
            path = self.path,
            mount = self.mount.as_deref(),
            status = self.status.map(|status| status.as_u16()),
            sent_bytes = self.meter.bytes(),
            received_bytes = self.received_bytes,
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            fault = self.fault.map(Fault::label),
            error,
            ended = self.ending.label(),
            action = self.report.action_labels(),
            bypass = self.report.bypass().map(Bypass::label),
            pruned = self.report.pruned,
            reclaimed_tokens = self.report.reclaimed.get(),
            tokens_before = self.report.before.get(),
            tokens_after = self.report.after.get(),
            window = chat.map(|chat| chat.window.tokens.get()),
            window_source = chat.map(|chat| chat.window.source.label()),
            refused_tokens = self.refusal.map(|refusal| refusal.size()),
            refused_limit = self.refusal.and_then(|it| it.limit),
            counted_tokens = usage.map(|usage| usage.input),
            cached_tokens = usage.and_then(|usage| usage.cached),
            dropped_reasoning = Some(self.dropped_reasoning).filter(|items| *items > 0),
            cost_nano_usd = cost.map(Usd::as_nanos),
            "request"
        )
            };
        }
        // A fault has a warning of its own.
        if self.fault.is_none() && self.status.is_some_and(|status| status.is_server_error()) {
            log_line!(warn);
        } else {
            log_line!(info);
        }
    }
}

/// Returns the operation that a span reports for `path`.
fn operation(method: &Method, path: &str) -> Operation {
    if let Some(dialect) = receive::chat_dialect(method, path) {
        Operation::Chat { dialect, model: None, streaming: None }
    } else {
        Operation::Other(paths::api_route(path))
    }
}

/// Logs the plan of a chat: its window and thresholds, and with an admin listener the explanation too. `text` names
/// what stands for history.
fn log_plan(id: RequestId, facts: &ChatFacts, explanation: Option<&StoredExplanation>, text: &str) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let why = explanation.map(|it| it.cause.sentence(&it.numbers, text));
    tracing::debug!(
        request_id = %id,
        model = &*facts.model,
        conversation = facts.conversation.map(tracing::field::display),
        window = facts.window.tokens.get(),
        window_source = facts.window.source.label(),
        soft = facts.soft.get(),
        hard = facts.hard.get(),
        tokens_before = explanation.map(|it| it.numbers.totals.before.get()),
        tokens_after = explanation.map(|it| it.numbers.totals.after.get()),
        changed = explanation.map(|it| it.numbers.changes().count()),
        why,
        "planned"
    );
    let Some(explanation) = explanation.filter(|_| tracing::enabled!(tracing::Level::TRACE)) else {
        return;
    };
    for row in &explanation.numbers.rows {
        tracing::trace!(
            request_id = %id,
            from = row.number,
            through = row.through.unwrap_or(row.number),
            tokens = row.tokens.get(),
            becomes = row.becomes.get(),
            verdict = %Word(row.decision),
            reason = verdict::explain(&explanation.numbers, row.decision, text),
            "message"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use bytes::Bytes;
    use http_body::Body as _;

    use super::*;
    use crate::body::request_body::RequestBody;
    use crate::metrics::Action;

    fn goes_on(log: &mut RequestLog) {
        let mut body = RequestBody::from_bytes(Bytes::from_static(b"{}"), &log.meter);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut body).poll_frame(&mut context).is_ready());
    }

    /// Checks the tokens counted as saved for a chat that was reduced from 100 tokens to 40 and
    /// then treated by `treat`.
    #[track_caller]
    fn check(treat: impl FnOnce(&mut RequestLog), saved: u64) {
        let metrics = Arc::<Metrics>::default();
        let request = Request::post("/v1/chat/completions").body(()).unwrap();
        let mut log = RequestLog::start(&request, &metrics);
        let mut report = ChatReport::default();
        (report.before, report.after) = (Tokens::new(100), Tokens::new(40));
        report.add(Action::Prune);
        log.report = report;
        treat(&mut log);
        drop(log);
        assert_eq!(metrics.chats.saved.get(), saved);
        let chats = u64::from(saved > 0);
        let all = &metrics.chats;
        assert_eq!(all.count.get(), chats);
        assert_eq!((all.before.get(), all.after.get()), (100 * chats, 40 * chats));
        assert_eq!(metrics.actions.get(Action::Prune), chats);
    }

    #[test]
    fn only_forwarded_requests_without_a_fault_count_as_saved() {
        check(goes_on, 60);
        check(|_| (), 0);
        check(|log| log.record_fault(Fault::UpstreamUnreachable), 0);
        let unanswered = |log: &mut RequestLog| {
            goes_on(log);
            log.record_fault(Fault::UpstreamTimedOut);
        };
        check(unanswered, 0);
    }
}
