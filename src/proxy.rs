//! The life of a request: receive, read, plan, splice, send, judge, relay.

mod account;
mod answer;
mod bills;
mod budget;
mod build;
mod chat;
mod coding;
mod exchange;
mod forms;
mod headers;
mod host;
mod keys;
mod lessons;
mod manual;
mod observe;
mod paths;
mod receive;
mod recent;
mod relay;
mod report;
mod scope;
mod shared;
mod titles;
mod tunnel;
mod unknown;
mod watch;
mod whole;
mod wish;

use std::sync::Arc;

use http::{Request, Response, Uri};
use hyper::body::Incoming;

pub(crate) use host::names_no_domain;
pub(crate) use manual::Compacted;
#[cfg(fuzzing)]
pub(crate) use paths::{map as mapped_path, under as path_under};
pub(crate) use recent::{Recent, Told};
pub(crate) use relay::Reply;
pub(crate) use tunnel::Slot;

use crate::error::Fault;
use crate::metrics::{Act, AgainOutcome};
use crate::traces::Errand;
use crate::upstream::{Download, Held, Upload};
use account::Account;
use chat::{Arrived, Attempt, Chat, Next};
use headers::Hop;
use receive::Received;
use report::Report;
use shared::Shared;
use watch::{Holding, Judged};

/// Serves requests. Clones share everything.
#[derive(Clone)]
pub(crate) struct Proxy(Arc<Shared>);

impl Proxy {
    /// Answers a request: with the upstream's reply, or with the fault that kept us from it.
    /// Dropped when the client leaves, which ends the upstream's request with it.
    pub(crate) async fn handle(&self, request: Request<Incoming>, slot: &Slot) -> Response<Reply> {
        let mut request = Upload::of(request);
        let own = self.mounted(request.uri_mut());
        let mut account = Account::open(&request, &own.0.metrics);
        account.at(own.0.mount.clone());
        if manual::is_asked(&request) {
            return match Box::pin(own.compact(request, &mut account)).await {
                Ok(reply) => relay::own(reply, account),
                Err(fault) => own.fault(fault, account),
            };
        }
        // A connection keeps the room of its request's future for as long as the reply streams. What
        // is needed only until the reply begins stands apart, and is freed by then.
        match Box::pin(own.forward(request, slot, &mut account)).await {
            Ok(reply) => relay::relay(reply, account),
            Err(fault) => own.fault(fault, account),
        }
    }

    /// Whose request to this target it is; a mount's own path is taken off.
    fn mounted(&self, target: &mut Uri) -> &Self {
        for proxy in &self.0.mounts {
            let mount = proxy.0.mount.as_deref().unwrap_or_default();
            if let Some(rest) = paths::under(target, mount) {
                *target = rest;
                return proxy;
            }
        }
        self
    }

    /// Answers a request that is not to be served.
    pub(crate) fn refuse(&self, request: Request<Incoming>, why: Fault) -> Response<Reply> {
        let request = Upload::of(request);
        let mut account = Account::open(&request, &self.0.metrics);
        account.mapped_to(request.uri().path());
        self.fault(why, account)
    }

    async fn forward(
        &self,
        mut request: Request<Upload>,
        slot: &Slot,
        account: &mut Account,
    ) -> Result<Response<Held<Download>>, Fault> {
        let shared = &*self.0;
        let route = self.route(&request, account)?;
        let upgrade = headers::asks_upgrade(&request).then(|| hyper::upgrade::on(&mut request));
        let (head, body) = request.into_parts();
        if let Some(client) = upgrade {
            let tunnel = (client, slot);
            let reply = self.upgrade(&route, head, body, tunnel, account).await?;
            return Ok(reply.map(Held::new));
        }

        // A reservation is held until the head of the reply is here, or a summary is made of the body
        // if that takes longer: by then the body was written, or the upstream has answered early and
        // most often takes no more of it.
        let meter = account.meter();
        let received = meter.waiting(self.receive(&head, body, account)).await?;
        let (body, hop, _reservation) = match received {
            Received::Chat(body) => {
                let scope = shared.scope(&head);
                let why = match chat::read(shared, &head, body.text(), scope) {
                    Ok(conversation) => {
                        let came = Arrived {
                            proxy: self,
                            route: &route,
                            head: &head,
                            body: &body,
                            conversation: &conversation,
                            scope,
                            meter: Arc::clone(meter),
                            parent: account.trace().parent(),
                        };
                        return Box::pin(self.chat(came, account)).await;
                    }
                    Err(why) => why,
                };
                account.report(Report::bypassed(why));
                body.passing(account.meter())
            }
            Received::Passing {
                body, reservation, ..
            } => {
                let hop = Hop::of_passing(&head, &body);
                (body, hop, reservation)
            }
        };
        let reply = self
            .send(&route, head, body, hop, Errand::First, account)
            .await?;
        Ok(reply.map(Held::new))
    }

    /// The life of a chat that was read: plan → splice → send → judge → relay, and where it was
    /// refused, once [`again`](Self::again).
    async fn chat(
        &self,
        came: Arrived<'_>,
        account: &mut Account,
    ) -> Result<Response<Held<Download>>, Fault> {
        account.reads(came.conversation);
        let (chat, basis) = Chat::meet(came).await;
        account.seen(chat.sighting.clone());
        let (mut first, body) = chat.first(basis).await;
        account.report(first.report.clone());

        let (route, head) = (chat.came.route, chat.came.head.clone());
        let (body, hop) = body.over(account.meter());
        let unheard = chat.unheard(&first);
        let sent = self.send(route, head, body, hop, first.errand(), account);
        let reply = sent.await.inspect_err(|_| unheard.over())?;
        chat.ask_what_it_holds(reply.status());
        let judged = self.judge(reply, chat.holding(&first), account).await;
        unheard.over();
        match chat.next(&first, judged.verdict).await {
            Next::GiveUp => first.report.add(Act::GaveUp),
            Next::Relay => {}
            Next::Send(second) => {
                let refused = self.with_report(judged.response, &first.report);
                return Ok(self.again(&chat, &second, refused, account).await);
            }
        }
        Ok(chat.close(&first, judged, account).await)
    }

    /// The second form: splice → send, once. Where nothing comes of it, the first reply is relayed,
    /// which `refused` it.
    async fn again(
        &self,
        chat: &Chat<'_>,
        second: &Attempt,
        refused: Response<Held<Download>>,
        account: &mut Account,
    ) -> Response<Held<Download>> {
        let Some(body) = chat.sending_again(second) else {
            chat.count(second, AgainOutcome::Unsound);
            return refused;
        };
        let (route, head) = (chat.came.route, chat.head_again());
        let (body, hop) = body.over(account.meter());
        let unheard = chat.unheard(second);
        let sent = self.send(route, head, body, hop, second.errand(), account);
        let Ok(reply) = sent.await.inspect_err(|_| unheard.over()) else {
            chat.count(second, AgainOutcome::Unreachable);
            return refused;
        };
        let judged = self.judge(reply, Holding::Everything, account).await;
        unheard.over();
        chat.close(second, judged, account).await
    }

    /// Holds a reply until it is clear what it is.
    async fn judge(
        &self,
        reply: Response<Download>,
        holding: Holding,
        account: &mut Account,
    ) -> Judged<Download> {
        let shared = &*self.0;
        let judging = watch::judge(reply, holding, &shared.config.rules, &shared.budget);
        let judged = account.meter().waiting(judging).await;
        account.judged(judged.verdict);
        judged
    }
}
