//! Exchange with the upstream: builds the upstream request, and the client's reply or error
//! response.

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri, Version};

use crate::body::request_body::RequestBody;
use crate::error::Fault;
use crate::exchange::relay::ReplyBody;
use crate::exchange::request_log::RequestLog;
use crate::exchange::{fault_response, relay};
use crate::proxy::Proxy;
use crate::report::ChatReport;
use crate::request::headers::BodyFraming;
use crate::request::{headers, paths};
use crate::traces::CallPurpose;
use crate::upstream::UpstreamBody;

/// The requested path, its path at the upstream, and the client's HTTP version.
pub(crate) struct Route {
    pub(crate) requested: PathAndQuery,
    pub(crate) mapped: PathAndQuery,
    /// HTTP version of the client.
    pub(crate) client_version: Version,
}

impl Proxy {
    /// Maps the request to its upstream path, if its key is admitted.
    pub(crate) fn route<B>(
        &self,
        request: &Request<B>,
        account: &mut RequestLog,
    ) -> Result<Route, Fault> {
        let asked = requested_path(request)?;
        account.set_path(asked.path());
        self.0.keys.admit(request)?;
        let mapped = paths::map(&self.0.config.upstream.base, &asked)?;
        account.set_path(mapped.path());
        Ok(Route {
            requested: asked,
            mapped,
            client_version: request.version(),
        })
    }

    /// Sends a request and returns its reply with the headers for the client.
    pub(crate) async fn send(
        &self,
        route: &Route,
        head: Parts,
        body: RequestBody,
        hop: BodyFraming,
        errand: CallPurpose,
        account: &mut RequestLog,
    ) -> Result<Response<UpstreamBody>, Fault> {
        let request = self.upstream_request(head, route, body, hop)?;
        account.record_send(errand, &request);
        let meter = account.meter();
        let reply = meter.measure_wait(self.0.upstream.send(request)).await;
        let reply = reply.map_err(|fault| {
            if meter.has_client_failed() {
                Fault::RequestBodyBroken
            } else {
                fault
            }
        });
        account.record_reply(&reply);
        Ok(self.client_reply(reply?, route))
    }

    /// Builds the upstream request. Extensions are kept: hyper stores the original spelling of
    /// header names in them.
    pub(crate) fn upstream_request(
        &self,
        mut head: Parts,
        route: &Route,
        body: RequestBody,
        hop: BodyFraming,
    ) -> Result<Request<RequestBody>, Fault> {
        let base = &self.0.config.upstream.base;
        let kept = headers::request(&head, base.host(), hop);
        head.headers = self.0.keys.replace_credentials(&head, kept);
        if let Some(name) = self.0.scopes.caller_header() {
            head.headers = headers::without_field(&head.headers, name);
        }
        head.version = Version::HTTP_11;
        head.uri = Uri::builder()
            .scheme(base.scheme().clone())
            .authority(base.authority().clone())
            .path_and_query(route.mapped.clone())
            .build()
            .map_err(|_| Fault::InvalidTarget)?;
        Ok(Request::from_parts(head, body))
    }

    /// Builds the client's reply, with the upstream body unchanged.
    pub(crate) fn client_reply(
        &self,
        reply: Response<UpstreamBody>,
        route: &Route,
    ) -> Response<UpstreamBody> {
        if route.requested != route.mapped {
            let (asked, became) = (route.requested.path(), route.mapped.path());
            self.0
                .unknown_paths
                .record_status(reply.status(), asked, became);
        }
        let (mut head, body) = reply.into_parts();
        head.headers = headers::reply(&head, route.client_version);
        head.version = Version::HTTP_11;
        Response::from_parts(head, body)
    }

    /// Adds headers that report the actions, if any were taken and reporting is enabled.
    pub(crate) fn with_report_headers<B>(
        &self,
        mut reply: Response<B>,
        report: &ChatReport,
    ) -> Response<B> {
        if self.0.config.report_headers {
            report.write_headers(reply.headers_mut());
        }
        reply
    }

    pub(crate) fn fault_response(
        &self,
        fault: Fault,
        mut account: RequestLog,
    ) -> Response<ReplyBody> {
        self.0.metrics.faults.add(fault);
        account.record_fault(fault);
        let origin = self.0.config.upstream.base.origin();
        fault_response::log_fault(fault, &origin);
        relay::respond(fault_response::fault_response(fault, &origin), account)
    }
}

/// Returns the requested path and query. A tunnel (`CONNECT`) has none.
fn requested_path<B>(request: &Request<B>) -> Result<PathAndQuery, Fault> {
    if request.method() == Method::CONNECT {
        return Err(Fault::NotAForwardProxy);
    }
    Ok(request
        .uri()
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/")))
}
