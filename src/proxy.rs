//! The life of a request: receive, read, plan, splice, send, judge, relay.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::body::client_body::ClientBody;
use crate::body::peeked_body::PeekedBody;
use crate::chat::attempt::{Attempt, RetryDecision};
use crate::chat::context::{Chat, ChatRequest};
use crate::chat::explanation;
use crate::chat::judge::{hold_policy, judge};
use crate::chat::learn::window_query::query_upstream_window;
use crate::chat::prepare::{prepare, prepare_unregistered, read};
use crate::chat::retry::next_step;
use crate::chat::rewrite::{head_for, retry_body, retry_head};
use crate::chat::unanswered_call::UnansweredCallGuard;
use crate::chat::{count, explicit_compaction, gateway, plan, settle};
use crate::config::{Mode, ResponsesWebSocket};
use crate::error::Fault;
use crate::exchange::client_connection::ConnectionUse;
use crate::exchange::fault_response::answer_fault;
use crate::exchange::relay::{ReplyBody, ReplySource, relay};
use crate::exchange::reply_gate::HoldPolicy;
use crate::exchange::request_log::RequestLog;
use crate::exchange::send::{self, Route};
use crate::exchange::tunnel::{TunnelSlot, upgrade};
use crate::metrics::{Action, RetryOutcome, RetryReason};
use crate::proxy_state::ProxyState;
use crate::proxy_state::cross_origin::CrossOriginFields;
use crate::recall;
use crate::report::ChatReport;
use crate::request::headers::{BodyFraming, is_clearly_framed, is_upgrade_request};
use crate::request::receive::Received;
use crate::request::{login, paths};
use crate::upstream::UpstreamBody;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::bypass::Bypass;

/// Answers a request with the upstream's reply, or with an error response for the [`Fault`]
/// that prevented one. Dropping the future, when the client disconnects, aborts the upstream
/// request.
pub(crate) async fn handle(
    state: &Arc<ProxyState>,
    request: Request<Incoming>,
    slot: &TunnelSlot,
    in_use: ConnectionUse,
) -> Response<ReplyBody> {
    let mut request = ClientBody::wrap(request);
    let state = select_upstream(state, &mut request);
    let mut log = RequestLog::start(&request, &state.metrics);
    log.connection = Some(in_use);
    log.mount.clone_from(&state.mount);
    let origin = CrossOriginFields::origin(request.headers());
    let is_clear = is_clearly_framed(request.headers());
    let acquired = is_clear.then(|| state.acquire_slot(&mut request));
    match acquired.unwrap_or(Err(Fault::TransferCoding)) {
        Ok(slot) => {
            request.body_mut().progress = Some(Arc::clone(&slot.progress));
            log.slot = Some(slot);
        }
        Err(fault) => {
            log.set_path(request.uri().path());
            return answer_fault(state, fault, origin.as_ref(), log);
        }
    }
    // A connection holds its request's future in memory for as long as the reply streams. State
    // that is needed only until the reply begins is boxed, so it is freed by then.
    let own = |reply: Response<Bytes>| reply.map(|body| ReplySource::Left(body.into()));
    let reply = if explicit_compaction::is_compact_request(&request) {
        Box::pin(explicit_compaction::answer(state, request, &mut log)).await.map(own)
    } else if gateway::is_compress_request(state, &request) {
        Box::pin(gateway::answer(state, request, &mut log)).await.map(own)
    } else if recall::is_recall_request(state, &request) {
        return match Box::pin(recall::answer(state, &request, &mut log)).await {
            Ok(reply) => relay(own(reply), log),
            Err(fault) => answer_fault(state, fault, None, log),
        };
    } else {
        let forward = Box::pin(forward(state, request, slot, &mut log));
        forward.await.map(|reply| reply.map(ReplySource::Right))
    };
    match reply {
        Ok(mut reply) => {
            if let Some(origin) = origin {
                state.cross_origin.record(&origin, reply.headers());
            }
            if state.config.report_headers {
                log.write_report_headers(reply.headers_mut());
            }
            relay(reply, log)
        }
        Err(fault) => answer_fault(state, fault, origin.as_ref(), log),
    }
}

/// Selects the upstream whose mount is a prefix of the target, and strips that prefix. Without a
/// mount, the request's API selects the upstream, and then the form of its credential.
fn select_upstream<'s, B>(
    state: &'s Arc<ProxyState>,
    request: &mut Request<B>,
) -> &'s Arc<ProxyState> {
    for mounted in &state.mounts {
        let mount = mounted.mount.as_deref().unwrap_or_default();
        if let Some(rest) = paths::strip_mount(request.uri(), mount) {
            *request.uri_mut() = rest;
            return mounted;
        }
    }
    let messages = state.messages.as_ref();
    let login = state.login.as_ref();
    messages
        .filter(|_| paths::belongs_to_own_upstream(request))
        .or_else(|| {
            let is_login = || login::is_chatgpt_login(request.headers());
            login.filter(|_| state.config.selects_by_credential() && is_login())
        })
        .unwrap_or(state)
}

/// Answers a request that must not be served with the fault `why`.
pub(crate) fn refuse(
    state: &ProxyState,
    request: Request<Incoming>,
    why: Fault,
) -> Response<ReplyBody> {
    let request = ClientBody::wrap(request);
    let mut log = RequestLog::start(&request, &state.metrics);
    log.set_path(request.uri().path());
    answer_fault(state, why, None, log)
}

/// Forwards a request: a chat by [`serve_chat`], every other request unchanged.
async fn forward(
    state: &Arc<ProxyState>,
    mut request: Request<ClientBody>,
    slot: &TunnelSlot,
    log: &mut RequestLog,
) -> Result<Response<PeekedBody<UpstreamBody>>, Fault> {
    let route = send::route(state, &request, log)?;
    let client = is_upgrade_request(&request, &state.config.upstream.upgrades)
        .then(|| hyper::upgrade::on(&mut request));
    let (head, body) = request.into_parts();
    if let Some(client) = client {
        if refuses_websocket(state, &route, &head) {
            return Err(Fault::WebSocketRefused);
        }
        let reply = upgrade(state, &route, head, body, (client, slot), log).await?;
        return Ok(reply.map(PeekedBody::new));
    }

    let overrides = state.overrides(&head.headers);
    let meter = &log.meter;
    let received = meter.measure_wait(pin!(state.receive(&head, overrides, body, meter))).await?;
    // The reservation of a whole body is held until the reply head arrives. By then the body has been
    // written, or the upstream has answered early and usually reads no more of the body.
    let (body, framing, _reservation) = match received {
        Received::Chat(body) => {
            let scope = state.scope(&route.mapped, &head);
            if Dialect::of_path(head.uri.path()).is_some_and(|it| it.facts().has_websocket) {
                state.refused_upgrades.record_http(scope, &head.headers);
            }
            let why = match read(state, &head, body.text(), scope) {
                Ok(conversation) => {
                    let request = ChatRequest {
                        state,
                        route: &route,
                        head: &head,
                        body: &body,
                        conversation: &conversation,
                        scope,
                        overrides,
                        meter: Arc::clone(meter),
                        from_gateway: None,
                        parent: log.trace.parent(),
                    };
                    return if Dialect::counted_path(head.uri.path()).is_some() {
                        Box::pin(serve_count(request, log)).await
                    } else {
                        Box::pin(serve_chat(request, log)).await
                    };
                }
                Err(why) => why,
            };
            let report = ChatReport::bypassed(why);
            let is_count = Dialect::counted_path(head.uri.path()).is_some();
            log.report = if is_count { report.of_count() } else { report };
            body.into_request_body(&log.meter)
        }
        Received::Streamed { body, .. } => {
            let framing = BodyFraming::for_streamed(&head, &body);
            (body, framing, None)
        }
    };
    let accepted = state.owners_to_accept(&head, route.mapped.path());
    let reply = send::send(state, &route, &head, body, framing, None, log).await?;
    if let Some(owners) = accepted.filter(|_| reply.status().is_success()) {
        state.record_accepted(&owners);
    }
    Ok(reply.map(PeekedBody::new))
}

/// Whether to refuse an upgrade: over a WebSocket, the upstream keeps the history, and longhaul can do
/// nothing for it.
fn refuses_websocket(state: &ProxyState, route: &Route, head: &Parts) -> bool {
    let has_websocket =
        Dialect::of_path(head.uri.path()).is_some_and(|it| it.facts().has_websocket);
    let overrides = state.overrides(&head.headers);
    has_websocket
        && state.mode(overrides) == Mode::On
        && state.config.responses_websocket == ResponsesWebSocket::Refuse
        && state.refused_upgrades.refuse(state.scope(&route.mapped, head), &head.headers)
}

/// Serves a parsed chat: prepare → plan → send → judge → settle, with at most one [`retry`] after a
/// refusal. The log has the report from before the send on, since a client may leave at any time.
async fn serve_chat(
    request: ChatRequest<'_>,
    log: &mut RequestLog,
) -> Result<Response<PeekedBody<UpstreamBody>>, Fault> {
    log.record_chat(request.conversation);
    let state = request.state;
    let (chat, inputs) = prepare(request).await;
    log.dashboard.clone_from(&chat.dashboard);
    chat.check_caps()?;
    let (first, body, report) = plan::first_send(&chat, inputs).await;
    explanation::record(&chat, &first, report.bypass(), log);
    log.report = report;

    let (route, head) = (chat.request.route, chat.request.head);
    let (body, framing) = body.into_request_body(&log.meter);
    let guard = UnansweredCallGuard::new(&chat, &first);
    let head = head_for(head, chat.request.conversation.dialect(), first.view());
    let sent = send::send(state, route, &head, body, framing, None, log);
    let reply = sent.await.inspect_err(|_| guard.disarm())?;
    query_upstream_window(&chat, reply.status());
    let judged = judge(&chat, &first, reply, hold_policy(&chat, &first), log).await;
    guard.disarm();
    log.refusal = explanation::refusal(&chat, &first, &judged);
    match next_step(&chat, &first, judged.response.status(), judged.verdict).await {
        RetryDecision::GiveUp => log.report.add(Action::GaveUp),
        RetryDecision::Relay => {}
        RetryDecision::Retry(second) => {
            return Ok(retry(&chat, &second, judged.response, log).await);
        }
    }
    Ok(settle::finish(&chat, &first, judged, log).await)
}

/// Serves a request that counts the tokens of a chat. If the upstream refuses the rewritten body, the
/// original is counted: a count that works without longhaul never fails.
async fn serve_count(
    request: ChatRequest<'_>,
    log: &mut RequestLog,
) -> Result<Response<PeekedBody<UpstreamBody>>, Fault> {
    let state = request.state;
    let (chat, inputs) = prepare_unregistered(request).await;
    let (rewritten, view, report) = count::counted_body(&chat, &inputs);
    log.report = report;
    let (route, head) = (chat.request.route, chat.request.head);
    let is_original = rewritten.is_none();
    let body = rewritten.unwrap_or_else(|| chat.request.body.original());
    let (body, framing) = body.into_request_body(&log.meter);
    let counted = head_for(head, chat.request.conversation.dialect(), &view);
    let sent = send::send(state, route, &counted, body, framing, None, log);
    let reply = sent.await?.map(PeekedBody::new);
    if is_original || !count::refuses_body(reply.status()) {
        return Ok(reply);
    }
    let conversation = chat.request.conversation;
    log.report = ChatReport::untouched(conversation, Bypass::Nothing).of_count();
    log.report.add(Action::Original);
    let original = count::original_body(&chat, &inputs);
    let (body, framing) = original.into_request_body(&log.meter);
    let (head, why) = (retry_head(head), Some(RetryReason::Original));
    let sent = send::send(state, route, &head, body, framing, why, log);
    Ok(sent.await.map_or(reply, |second| second.map(PeekedBody::new)))
}

/// Retries the chat once: splice → send. Never calls [`next_step`], so that a chat is sent at most twice.
/// Returns `refused`, the reply to the first attempt, if the retry cannot be built or sent, or if the
/// retry refutes its suspicion.
async fn retry(
    chat: &Chat<'_>,
    second: &Attempt,
    refused: Response<PeekedBody<UpstreamBody>>,
    log: &mut RequestLog,
) -> Response<PeekedBody<UpstreamBody>> {
    let Some(body) = retry_body(&chat.request, second) else {
        settle::count_retry(chat, second, RetryOutcome::Unsound);
        return refused;
    };
    let state = chat.request.state;
    let (route, head) = (chat.request.route, retry_head(chat.request.head));
    let head = head_for(&head, chat.request.conversation.dialect(), second.view());
    let (body, framing) = body.into_request_body(&log.meter);
    let guard = UnansweredCallGuard::new(chat, second);
    let sent = send::send(state, route, &head, body, framing, second.retry_reason(), log);
    let Ok(reply) = sent.await.inspect_err(|_| guard.disarm()) else {
        settle::count_retry(chat, second, RetryOutcome::Unreachable);
        return refused;
    };
    let judged = judge(chat, second, reply, HoldPolicy::Everything, log).await;
    guard.disarm();
    settle::finish_retry(chat, second, judged, refused, log).await
}
