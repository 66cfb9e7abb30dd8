//! The life of a request, on one screen: receive, send, relay.

mod account;
mod answer;
mod budget;
mod headers;
mod paths;
mod receive;
mod relay;
mod tunnel;
mod unknown;

use std::sync::Arc;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;

pub(crate) use relay::Reply;
pub(crate) use tunnel::Slot;

use crate::config::{Config, Mode};
use crate::error::{Fault, Problem};
use crate::metrics::Metrics;
use crate::upstream::{Outgoing, Upstream};
use account::Account;
use budget::Budget;
use headers::Hop;
use receive::{Received, Receiver};
use unknown::UnknownPaths;

/// Serves requests. Clones share everything.
#[derive(Clone)]
pub(crate) struct Proxy(Arc<Shared>);

struct Shared {
    config: Config,
    budget: Budget,
    metrics: Arc<Metrics>,
    unknown: UnknownPaths,
    upstream: Upstream,
}

impl Proxy {
    /// A proxy for the upstream of `config`; connects to nothing.
    ///
    /// # Errors
    /// The certificate file cannot be used.
    pub(crate) fn new(config: Config) -> Result<Self, Problem> {
        Ok(Self(Arc::new(Shared {
            budget: Budget::new(config.limits.buffered),
            metrics: Arc::new(Metrics::default()),
            unknown: UnknownPaths::default(),
            upstream: Upstream::new(&config.upstream)?,
            config,
        })))
    }

    /// Answers a request: with the upstream's reply, or with the fault that kept us from it.
    /// Dropped when the client leaves, which ends the upstream's request with it.
    pub(crate) async fn handle(&self, request: Request<Incoming>, slot: &Slot) -> Response<Reply> {
        let mut account = Account::open(request.method(), &self.0.metrics);
        match self.forward(request, slot, &mut account).await {
            Ok(reply) => relay::relay(reply, account),
            Err(fault) => self.fault(fault, account),
        }
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
        slot: &Slot,
        account: &mut Account,
    ) -> Result<Response<Incoming>, Fault> {
        let shared = &*self.0;
        let asked = asked(&request)?;
        account.mapped_to(asked.path());
        let mapped = paths::map(&shared.config.upstream.base, &asked)?;
        account.mapped_to(mapped.path());
        let towards = request.version();
        let upgrade = headers::asks_upgrade(&request).then(|| hyper::upgrade::on(&mut request));
        let (head, body) = request.into_parts();

        if let Some(client) = upgrade {
            let body = Outgoing::stream(body, account.meter());
            let request = self.request(head, &mapped, body, Hop::Upgrade)?;
            let mut reply = shared.upstream.send_upgrade(request).await?;
            if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
                slot.fill(client, hyper::upgrade::on(&mut reply));
            }
            return Ok(self.reply(reply, &asked, &mapped, towards));
        }

        // Held until the head of the reply is here: by then the body was written.
        let (body, hop, _reservation) = match self.receive(&head, body, account).await? {
            Received::Chat { bytes, reservation } => {
                let hop = Hop::Counted(bytes.len());
                (
                    Outgoing::whole(bytes, account.meter()),
                    hop,
                    Some(reservation),
                )
            }
            Received::Passing { body, reservation } => (body, Hop::AsCame, reservation),
        };
        let request = self.request(head, &mapped, body, hop)?;
        let reply = shared.upstream.send(request).await.map_err(|fault| {
            if account.meter().is_broken() {
                Fault::BodyBroken
            } else {
                fault
            }
        })?;
        Ok(self.reply(reply, &asked, &mapped, towards))
    }

    /// Reads a chat's body; leaves every other as a stream.
    async fn receive(
        &self,
        head: &Parts,
        body: Incoming,
        account: &Account,
    ) -> Result<Received, Fault> {
        let shared = &*self.0;
        if shared.config.mode == Mode::Off || !receive::is_chat(head) {
            let body = Outgoing::stream(body, account.meter());
            return Ok(Received::Passing {
                body,
                reservation: None,
            });
        }
        let receiver = Receiver {
            budget: &shared.budget,
            limit: shared.config.limits.body,
            meter: account.meter(),
            metrics: &shared.metrics,
        };
        receiver.receive(head, body).await
    }

    /// The request as the upstream gets it. Extensions stay: hyper keeps the spelling of the
    /// header names in them.
    fn request(
        &self,
        mut head: Parts,
        mapped: &PathAndQuery,
        body: Outgoing,
        hop: Hop,
    ) -> Result<Request<Outgoing>, Fault> {
        let base = &self.0.config.upstream.base;
        head.headers = headers::request(&head, base.host(), hop);
        head.version = http::Version::HTTP_11;
        head.uri = Uri::builder()
            .scheme(base.scheme().clone())
            .authority(base.authority().clone())
            .path_and_query(mapped.clone())
            .build()
            .map_err(|_| Fault::Target)?;
        Ok(Request::from_parts(head, body))
    }

    /// The reply as the client gets it, its body still as it comes.
    fn reply(
        &self,
        reply: Response<Incoming>,
        asked: &PathAndQuery,
        mapped: &PathAndQuery,
        towards: http::Version,
    ) -> Response<Incoming> {
        if reply.status() == StatusCode::NOT_FOUND && asked != mapped {
            self.0.unknown.tell(asked.path(), mapped.path());
        }
        let (mut head, body) = reply.into_parts();
        head.headers = headers::reply(&head, towards);
        head.version = http::Version::HTTP_11;
        Response::from_parts(head, body)
    }

    fn fault(&self, fault: Fault, account: Account) -> Response<Reply> {
        self.0.metrics.faults.add(fault);
        let origin = self.0.config.upstream.base.origin();
        answer::log(fault, &origin);
        relay::own(answer::answer(fault, &origin), account)
    }
}

/// The path and query asked for; a tunnel has none.
fn asked(request: &Request<Incoming>) -> Result<PathAndQuery, Fault> {
    if request.method() == Method::CONNECT {
        return Err(Fault::Connect);
    }
    Ok(request
        .uri()
        .path_and_query()
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/")))
}
