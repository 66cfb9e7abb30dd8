//! Sends a request upstream and builds the client's reply.

use std::pin::pin;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, Version};

use crate::body::request_body::RequestBody;
use crate::error::Fault;
use crate::exchange::request_log::RequestLog;
use crate::metrics::RetryReason;
use crate::metrics::quota::Quota;
use crate::models::hosts;
use crate::proxy_state::ProxyState;
use crate::request::headers::BodyFraming;
use crate::request::{headers, login, paths};
use crate::upstream::UpstreamBody;
use crate::wall_clock;

/// The requested path, its path at the upstream, and the client's HTTP version.
pub(crate) struct Route {
    pub(crate) requested: PathAndQuery,
    pub(crate) mapped: PathAndQuery,
    pub(crate) client_version: Version,
}

/// Maps the request to its upstream path, if its key is admitted there.
pub(crate) fn route<B>(
    state: &ProxyState,
    request: &Request<B>,
    log: &mut RequestLog,
) -> Result<Route, Fault> {
    // A tunnel has neither path nor query.
    if request.method() == Method::CONNECT {
        return Err(Fault::NotAForwardProxy);
    }
    let requested = request.uri().path_and_query().cloned();
    let requested = requested.unwrap_or_else(|| PathAndQuery::from_static("/"));
    log.set_path(requested.path());
    state.keys.admit(request)?;
    let mapped = paths::map(&state.config.upstream.base, &requested)?;
    log.set_path(mapped.path());
    let is_signed =
        headers::has_host_signature(request.headers()) && !state.keys.holds_upstream_key();
    if is_signed && hosts::checks_signatures(state.config.upstream.base.authority().host()) {
        return Err(Fault::ForeignSignature);
    }
    state.keys.admit_path(request, mapped.path())?;
    Ok(Route { requested, mapped, client_version: request.version() })
}

/// Sends a request, or its retry, and returns its reply with the headers for the client.
pub(crate) async fn send(
    state: &ProxyState,
    route: &Route,
    head: &Parts,
    body: RequestBody,
    framing: BodyFraming,
    retry: Option<RetryReason>,
    log: &mut RequestLog,
) -> Result<Response<UpstreamBody>, Fault> {
    let request = upstream_request(state, head, route, body, framing)?;
    let foreign = login::wrong_base(request.headers(), &state.config.upstream.base);
    log.trace.record_send(retry, &request);
    let meter = &log.meter;
    let sending = pin!(state.upstream.send(request));
    let reply = meter.measure_wait(sending).await;
    let reply = reply.map_err(|fault| meter.client_fault().unwrap_or(fault));
    log.trace.record_reply(&reply);
    let reply = reply?;
    state.recent.end_outage(|| state.config.upstream.base.origin());
    if let (Some(foreign), 401 | 403) = (foreign, reply.status().as_u16()) {
        let sentence = foreign.sentence(&state.config.upstream.base);
        tracing::warn!("wrong base: {sentence}");
    }
    record_quota(state, route, head, reply.headers());
    client_reply(state, reply, route)
}

/// Records the quota that a reply states, if any, and whether it pauses calls in the background.
fn record_quota(state: &ProxyState, route: &Route, head: &Parts, reply: &HeaderMap) {
    let now = wall_clock::unix_seconds();
    let Some(quota) = Quota::read(reply, now) else {
        return;
    };
    let scope = state.scope(&route.mapped, head);
    // A separate summary endpoint uses no quota.
    if state.summary_endpoint.is_none() {
        let pause = quota.pause(state.config.summary.max_quota, now);
        state.summary_guards.record_quota(scope, pause);
    }
    let chats = &state.metrics.chats;
    let tokens = [chats.before.get(), chats.after.get()];
    state.metrics.quotas.record(scope.tag(), quota, tokens);
}

/// Builds the upstream request. Extensions are kept: hyper stores the original spelling of
/// header names in them.
pub(crate) fn upstream_request(
    state: &ProxyState,
    head: &Parts,
    route: &Route,
    body: RequestBody,
    framing: BodyFraming,
) -> Result<Request<RequestBody>, Fault> {
    let base = &state.config.upstream.base;
    let kept = headers::request(head, base.host(), framing);
    let mut fields = state.keys.replace_credentials(head, route.mapped.path(), kept);
    if let Some(name) = state.scopes.caller_header() {
        fields = headers::without_field(&fields, name);
    }
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.headers_mut() = fields;
    *request.extensions_mut() = head.extensions.clone();
    let url = base.url_of(route.mapped.clone());
    *request.uri_mut() = url.map_err(|_| Fault::InvalidTarget)?;
    Ok(request)
}

/// Builds the client's reply, with the upstream body unchanged. Fails if the transfer codings of
/// the reply leave its end open to doubt, or the client cannot read them.
pub(crate) fn client_reply(
    state: &ProxyState,
    reply: Response<UpstreamBody>,
    route: &Route,
) -> Result<Response<UpstreamBody>, Fault> {
    if !headers::reply_codings_pass(reply.headers(), route.client_version) {
        return Err(Fault::UpstreamMalformed);
    }
    if route.requested != route.mapped {
        let (requested, mapped) = (route.requested.path(), route.mapped.path());
        state.unknown_paths.record_status(reply.status(), requested, mapped);
    }
    let (mut head, body) = reply.into_parts();
    head.headers = headers::reply(&head, route.client_version);
    head.version = Version::HTTP_11;
    Ok(Response::from_parts(head, body))
}
