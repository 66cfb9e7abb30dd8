//! Explicit compaction: compacts a chat immediately and returns its new body. No upstream receives
//! the body.
//!
//! The records are adopted for the conversation: the agent continues with its own history, and its
//! next request starts from them.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Version};

use crate::body::client_body::ClientBody;
use crate::body::request_body::TransferMeter;
use crate::chat::context::ChatRequest;
use crate::chat::prepare::prepare;
use crate::chat::{plan, settle};
use crate::config::Mode;
use crate::error::Fault;
use crate::exchange::request_log::RequestLog;
use crate::exchange::send::Route;
use crate::metrics::UnreadReason;
use crate::proxy_state::ProxyState;
use crate::report::ChatReport;
use crate::request::buffered_body::BufferedBody;
use crate::request::overrides::RequestOverrides;
use crate::request::paths;
use crate::request::receive::Received;
use crate::traces::ParentContext;
use longhaul_core::dialect::Dialect;
use longhaul_core::dialect::bypass::Bypass;

/// Whether the client requests explicit compaction.
pub(crate) fn is_compact_request(request: &Request<ClientBody>) -> bool {
    request.method() == Method::POST && request.uri().path() == paths::COMPACT_PATH
}

/// Maps the reason that a body cannot be buffered to a fault.
fn unread_fault(why: UnreadReason) -> Fault {
    match why {
        UnreadReason::Bomb | UnreadReason::Large => Fault::ChatTooLarge,
        UnreadReason::Corrupt | UnreadReason::Encoded | UnreadReason::Trailers => Fault::NotAChat,
        UnreadReason::Crowded | UnreadReason::Share => Fault::BuffersFull,
        UnreadReason::Slow => Fault::RequestBodyBroken,
    }
}

/// Answers an explicit compaction request with the compacted body. Fails if the settings or the request
/// switch compaction off, or the body is not a valid chat or exceeds a limit.
pub(crate) async fn answer(
    state: &Arc<ProxyState>,
    request: Request<ClientBody>,
    log: &mut RequestLog,
) -> Result<Response<Bytes>, Fault> {
    log.set_path(paths::COMPACT_PATH);
    state.keys.admit(&request)?;
    let (head, body) = request.into_parts();
    if !state.may_compact(&head.headers) {
        return Err(Fault::CompactionOff);
    }
    let overrides = state.overrides(&head.headers);
    let meter = &log.meter;
    let body = receive_whole(state, &head, body, meter).await?;
    let parent = log.trace.parent();
    let (body, report) = compact_buffered(state, (head, overrides), &body, meter, parent).await?;
    let mut reply = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, json);
    log.report = report;
    Ok(reply)
}

/// Buffers the body of a request that longhaul answers itself. Fails if the body cannot be buffered whole.
pub(super) async fn receive_whole(
    state: &ProxyState,
    head: &Parts,
    body: ClientBody,
    meter: &Arc<TransferMeter>,
) -> Result<BufferedBody, Fault> {
    let reader = state.body_reader(head, meter);
    match meter.measure_wait(pin!(reader.receive(head, body))).await? {
        Received::Chat(body) => Ok(body),
        Received::Streamed { why, .. } => Err(why.map_or(Fault::NotAChat, unread_fault)),
    }
}

/// Compacts a body in memory for the operator, with the credentials in `head`. Returns the new body, or the
/// original if compaction would save nothing. Fails if the mode is off, or the body is not a valid chat or
/// exceeds a limit.
pub(crate) async fn compact_body(
    state: &Arc<ProxyState>,
    head: Parts,
    body: Bytes,
) -> Result<(Bytes, ChatReport), Fault> {
    let overrides = RequestOverrides::from_headers(&head.headers);
    if state.mode(overrides) == Mode::Off {
        return Err(Fault::CompactionOff);
    }
    let body = BufferedBody::plain(body);
    compact_buffered(state, (head, overrides), &body, &Arc::default(), None).await
}

async fn compact_buffered(
    state: &Arc<ProxyState>,
    (head, overrides): (Parts, RequestOverrides),
    body: &BufferedBody,
    meter: &Arc<TransferMeter>,
    parent: Option<ParentContext>,
) -> Result<(Bytes, ChatReport), Fault> {
    let fault = |why| if why == Bypass::TooLarge { Fault::ChatTooLarge } else { Fault::NotAChat };
    let conversation = Dialect::read_any(body.text()).map_err(fault)?;
    let route = chat_route(state, &head, conversation.dialect())?;
    let scope = state.scope(&route.mapped, &head);
    let (chat, inputs) = prepare(ChatRequest {
        state,
        route: &route,
        head: &head,
        body,
        conversation: &conversation,
        scope,
        overrides,
        meter: Arc::clone(meter),
        from_gateway: None,
        parent,
    })
    .await;
    // A compaction may pay for a summary.
    chat.check_caps()?;
    let Some((attempt, new, report)) = plan::explicit_compaction(&chat, inputs).await else {
        let report = ChatReport::untouched(&conversation, Bypass::Nothing);
        return Ok((body.text().clone(), report));
    };
    settle::finish_explicit_compaction(&chat, &attempt).await;
    Ok((new.body.into_bytes(), report))
}

/// Returns the route to the upstream's path for `dialect`, with the caller's own query. The summary
/// is requested there.
pub(super) fn chat_route(
    state: &ProxyState,
    head: &Parts,
    dialect: Dialect,
) -> Result<Route, Fault> {
    let mut target = format!("/v1{}", dialect.path());
    if let Some(query) = head.uri.query() {
        target.extend(["?", query]);
    }
    let target: PathAndQuery = target.parse().map_err(|_| Fault::InvalidTarget)?;
    Ok(Route {
        mapped: paths::map(&state.config.upstream.base, &target)?,
        requested: target,
        client_version: Version::HTTP_11,
    })
}
