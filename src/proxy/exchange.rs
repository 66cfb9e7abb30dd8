//! One exchange: the request as the upstream gets it, and the reply, or the fault in its place, as the
//! client does.

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri, Version};

use super::account::Account;
use super::headers::Hop;
use super::relay::Reply;
use super::report::Report;
use super::{Proxy, answer, headers, paths, relay};
use crate::error::Fault;
use crate::traces::Errand;
use crate::upstream::{Download, Outgoing};

/// Where a request was for, and where it goes.
pub(super) struct Route {
    pub(super) asked: PathAndQuery,
    pub(super) mapped: PathAndQuery,
    /// What the client speaks.
    pub(super) towards: Version,
}

impl Proxy {
    /// Where a request goes, if whoever sent it is admitted.
    pub(super) fn route<B>(
        &self,
        request: &Request<B>,
        account: &mut Account,
    ) -> Result<Route, Fault> {
        let asked = asked(request)?;
        account.mapped_to(asked.path());
        self.0.keys.admit(request)?;
        let mapped = paths::map(&self.0.config.upstream.base, &asked)?;
        account.mapped_to(mapped.path());
        Ok(Route {
            asked,
            mapped,
            towards: request.version(),
        })
    }

    /// Sends a request, and brings back its reply as the client gets it.
    pub(super) async fn send(
        &self,
        route: &Route,
        head: Parts,
        body: Outgoing,
        hop: Hop,
        errand: Errand,
        account: &mut Account,
    ) -> Result<Response<Download>, Fault> {
        let request = self.request(head, route, body, hop)?;
        account.sends(errand, &request);
        let meter = account.meter();
        let reply = meter.waiting(self.0.upstream.send(request)).await;
        let reply = reply.map_err(|fault| {
            if meter.is_broken() {
                Fault::BodyBroken
            } else {
                fault
            }
        });
        account.hears(&reply);
        Ok(self.reply(reply?, route))
    }

    /// The request as the upstream gets it. Extensions stay: hyper keeps the spelling of the
    /// header names in them.
    pub(super) fn request(
        &self,
        mut head: Parts,
        route: &Route,
        body: Outgoing,
        hop: Hop,
    ) -> Result<Request<Outgoing>, Fault> {
        let base = &self.0.config.upstream.base;
        let kept = headers::request(&head, base.host(), hop);
        head.headers = self.0.keys.put(&head, kept);
        if let Some(name) = self.0.scopes.header() {
            head.headers = headers::without(&head.headers, name);
        }
        head.version = Version::HTTP_11;
        head.uri = Uri::builder()
            .scheme(base.scheme().clone())
            .authority(base.authority().clone())
            .path_and_query(route.mapped.clone())
            .build()
            .map_err(|_| Fault::Target)?;
        Ok(Request::from_parts(head, body))
    }

    /// The reply as the client gets it, its body still as it comes.
    pub(super) fn reply(&self, reply: Response<Download>, route: &Route) -> Response<Download> {
        if route.asked != route.mapped {
            let (asked, became) = (route.asked.path(), route.mapped.path());
            self.0.unknown.hear(reply.status(), asked, became);
        }
        let (mut head, body) = reply.into_parts();
        head.headers = headers::reply(&head, route.towards);
        head.version = Version::HTTP_11;
        Response::from_parts(head, body)
    }

    /// The reply with fields that say what was done, if anything was and the client may know.
    pub(super) fn with_report<B>(&self, mut reply: Response<B>, report: &Report) -> Response<B> {
        if self.0.config.report_headers {
            report.put_into(reply.headers_mut());
        }
        reply
    }

    pub(super) fn fault(&self, fault: Fault, mut account: Account) -> Response<Reply> {
        self.0.metrics.faults.add(fault);
        account.faulted(fault);
        let origin = self.0.config.upstream.base.origin();
        answer::log(fault, &origin);
        relay::own(answer::answer(fault, &origin), account)
    }
}

/// The path and query asked for; a tunnel has none.
fn asked<B>(request: &Request<B>) -> Result<PathAndQuery, Fault> {
    if request.method() == Method::CONNECT {
        return Err(Fault::Connect);
    }
    Ok(request
        .uri()
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/")))
}
