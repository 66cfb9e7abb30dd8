//! Messages of gateways: `POST /v1/compress` answers with the messages of a chat as longhaul would forward
//! them.
//!
//! The gateway sends them to the provider itself. longhaul sees no reply, so it learns nothing and mends no
//! refusal. The records have a space of their own for each caller and session.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::body::client_body::ClientBody;
use crate::callers::owners;
use crate::chat::context::{Chat, ChatRequest};
use crate::chat::explicit_compaction::{chat_route, receive_whole};
use crate::chat::learn::thinking;
use crate::chat::prepare::prepare_unregistered;
use crate::chat::{explanation, plan, settle};
use crate::config::Mode;
use crate::error::Fault;
use crate::exchange::request_log::RequestLog;
use crate::metrics::{Action, Label as _};
use crate::proxy_state::ProxyState;
use crate::request::buffered_body::BufferedBody;
use crate::request::peer_address::{PeerAddress, client_address};
use longhaul_core::dialect::compress_api::{
    BYPASS_HEADER, CompressRequest, PATH, SentPart, error_body,
};

/// Time that an answer may wait for the store. Gateways give up after ten seconds.
const STORE_WAIT: Duration = Duration::from_secs(5);

/// Whether a gateway requests smaller messages. If the setting is off, the path belongs to the upstream.
pub(crate) fn is_compress_request(state: &ProxyState, request: &Request<ClientBody>) -> bool {
    let is_asked = request.method() == Method::POST && request.uri().path() == PATH;
    is_asked && state.config.compress_enabled
}

/// Answers with the messages of the request: changed by the records in use and by the rules, or as they came.
/// Fails if the caller is not served, or the body cannot be read.
pub(crate) async fn answer(
    state: &Arc<ProxyState>,
    request: Request<ClientBody>,
    log: &mut RequestLog,
) -> Result<Response<Bytes>, Fault> {
    log.set_path(PATH);
    admit(state, &request)?;
    let (head, body) = request.into_parts();
    let body = receive_whole(state, &head, body, &log.meter).await?;
    let (status, reply) = match CompressRequest::parse(body.text()) {
        Ok(sent) if is_bypassed(state, &head.headers) => (StatusCode::OK, sent.unchanged()),
        Ok(sent) => {
            let bytes = body.text().len() as u64;
            let changed = compress(state, &head, &sent, bytes, log).await?;
            (StatusCode::OK, changed.unwrap_or_else(|| sent.unchanged()))
        }
        Err(why) => {
            state.metrics.faults.add(Fault::NotAChat);
            log.record_fault(Fault::NotAChat);
            (StatusCode::BAD_REQUEST, error_body(why))
        }
    };
    let mut reply = Response::new(Bytes::from(reply));
    *reply.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, json);
    Ok(reply)
}

/// Checks whether the sender is served: as every caller is, and without client tokens on this machine only.
fn admit(state: &ProxyState, request: &Request<ClientBody>) -> Result<(), Fault> {
    state.keys.admit(request)?;
    let trusted = &state.config.limits.trusted_proxies;
    let connected = request.extensions().get::<PeerAddress>();
    let client = connected.map(|peer| client_address(*peer, trusted, request.headers()));
    let is_local = client.is_some_and(PeerAddress::is_loopback);
    let is_served = is_local || !state.config.client_tokens.is_empty();
    is_served.then_some(()).ok_or(Fault::InvalidToken)
}

fn is_bypassed(state: &ProxyState, headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(BYPASS_HEADER).iter();
    values.any(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
        || state.mode(state.overrides(headers)) == Mode::Off
}

/// Plans the chat that `sent` is of, in a body of `bytes` bytes, and adopts its records. Returns the reply, or
/// `None` to return the messages as they came.
async fn compress(
    state: &Arc<ProxyState>,
    head: &Parts,
    sent: &CompressRequest<'_>,
    bytes: u64,
    log: &mut RequestLog,
) -> Result<Option<String>, Fault> {
    let owners = owners::of_request(&head.extensions);
    let caller = state.scope(&PathAndQuery::from_static(PATH), head);
    // The scope of a proxied request has one part: its path.
    let scope = caller.of_part(&sent.session);
    if owners.is_accepted {
        // longhaul has checked the caller's token, and no reply of an upstream will.
        state.accepted.insert(scope.tag(), &owners);
    }
    let mut reservation = state.budget.owned_by(owners).reservation();
    // The body of the chat, the changed one and the reply.
    reservation.grow_to(3 * bytes).map_err(|_| Fault::BuffersFull)?;
    let body = BufferedBody::plain(sent.chat_body().into()).with_reservation(reservation);
    let cache = state.parse_caches.for_caller(scope);
    let Ok(conversation) = sent.dialect.read_cached(body.text(), scope, cache) else {
        return Ok(None);
    };
    let route = chat_route(state, head, sent.dialect)?;
    let request = ChatRequest {
        state,
        route: &route,
        head,
        body: &body,
        conversation: &conversation,
        scope,
        overrides: state.overrides(&head.headers),
        meter: Arc::clone(&log.meter),
        from_gateway: Some(sent),
        parent: None,
    };
    let deadline = Instant::now() + STORE_WAIT;
    let Ok((chat, mut inputs)) = timeout_at(deadline, prepare_unregistered(request)).await else {
        return Ok(None);
    };
    if forbids_edits(&chat, sent.part) {
        return Ok(None);
    }
    inputs.prior_records = thinking::for_last_send(&chat, &inputs.prior_records);
    let (attempt, sending, report) = plan::first_send(&chat, inputs).await;
    explanation::record(&chat, &attempt, report.bypass(), log);
    if chat.mode == Mode::On {
        _ = timeout_at(deadline, settle::finish_for_gateway(&chat, &attempt)).await;
    }
    report.record_metrics(&state.metrics);
    let actions: Vec<&str> = report.actions().iter().map(|act| act.label()).collect();
    let is_shadow = report.actions().contains(&Action::Shadow);
    let sizes = (report.before, if is_shadow { report.before } else { report.after });
    log.report = report;
    let changed = sending.body.into_bytes();
    let changed = str::from_utf8(&changed).ok();
    Ok(changed.and_then(|changed| sent.changed(changed, sizes, &actions)))
}

/// Whether the provider may refuse thinking after an edit, and the thinking cannot leave with the edit.
fn forbids_edits(chat: &Chat<'_>, part: SentPart) -> bool {
    let conversation = chat.request.conversation;
    let stays = match part {
        SentPart::Messages => conversation.has_bound_thinking() && !chat.settings.remove_thinking,
        // The gateway withholds the thinking, too.
        SentPart::Results => true,
    };
    conversation.has_thinking_without_rule() || (stays && thinking::may_bind(chat))
}
