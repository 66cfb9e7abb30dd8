//! The life of a request, on one screen: receive, read, plan, splice, send, judge, relay.

mod account;
mod answer;
mod bills;
mod budget;
mod build;
mod chat;
mod coding;
mod forms;
mod headers;
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
mod titles;
mod tunnel;
mod unknown;
mod watch;
mod whole;
mod wish;

use std::sync::Arc;

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

pub(crate) use manual::Compacted;
#[cfg(fuzzing)]
pub(crate) use paths::{map as mapped_path, under as path_under};
pub(crate) use recent::{Recent, Told};
pub(crate) use relay::Reply;
pub(crate) use tunnel::Slot;

use crate::config::{Config, Mode};
use crate::error::Fault;
use crate::metrics::{AgainOutcome, Metrics};
use crate::rewrite::chain::Scope;
use crate::rewrite::overflow::Verdict;
use crate::rewrite::recall::Recall;
use crate::store::Store;
use crate::summarise::{Desk, Endpoint, Guards};
use crate::traces::Errand;
use crate::upstream::{Asked, Download, Held, Outgoing, Upload, Upstream, Windows};
use account::Account;
use bills::Bills;
use budget::Budget;
use chat::{Chat, Next};
use forms::Forms;
use headers::Hop;
use keys::Keys;
use lessons::Lessons;
use observe::Observatory;
use receive::{Received, Receiver};
use report::Report;
use scope::Scopes;
use unknown::UnknownPaths;
use watch::Holding;
use whole::{Sending, Whole};

/// Serves requests. Clones share everything.
#[derive(Clone)]
pub(crate) struct Proxy(Arc<Shared>);

struct Shared {
    /// The path under which the upstream is mounted, if it is another one's beside the general.
    mount: Option<Arc<str>>,
    /// The proxies of further upstreams; the longest path comes first.
    mounts: Vec<Proxy>,
    asked: Asked,
    bills: Arc<Bills>,
    config: Config,
    budget: Arc<Budget>,
    metrics: Arc<Metrics>,
    scopes: Arc<Scopes>,
    /// Messages that were met before.
    recall: Arc<Recall>,
    /// Summaries under way.
    desk: Desk,
    /// Which form of a summary each model takes.
    forms: Arc<Forms>,
    guards: Arc<Guards>,
    keys: Keys,
    lessons: Arc<Lessons>,
    /// Where summaries are asked for, if not of the upstream.
    summariser: Option<Arc<Endpoint>>,
    store: Arc<Store>,
    unknown: Arc<UnknownPaths>,
    upstream: Arc<Upstream>,
    windows: Arc<Windows>,
    observatory: Observatory,
    recent: Arc<Recent>,
    /// Titles under way.
    titling: Arc<Semaphore>,
}

/// Titles that are asked for at once; a conversation that finds no place has another chance with its
/// next request.
const TITLES: usize = 2;

impl Shared {
    /// Whose request it is.
    fn scope(&self, head: &Parts) -> Scope {
        self.scopes.of(&self.config.upstream.base, &head.headers)
    }
}

/// Where a request was for, and where it goes.
struct Route {
    asked: PathAndQuery,
    mapped: PathAndQuery,
    /// What the client speaks.
    towards: Version,
}

impl Proxy {
    /// What is counted of its requests.
    pub(crate) fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.0.metrics)
    }

    /// The conversations of late, for whoever shows them.
    pub(crate) fn recent(&self) -> Arc<Recent> {
        Arc::clone(&self.0.recent)
    }

    /// What keeps summaries from doing harm.
    pub(crate) fn guards(&self) -> Arc<Guards> {
        Arc::clone(&self.0.guards)
    }

    /// Where its records are kept.
    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.0.store)
    }

    /// Waits until what was kept elsewhere can be asked for, before the first request.
    pub(crate) async fn begun(&self) {
        self.0.store.begun().await;
    }

    /// Keeps what is left to be kept, once nothing is served any more: summaries under way are paid
    /// for, and are waited for, but not beyond `until`.
    pub(crate) async fn close(&self, until: Instant) {
        if timeout_at(until, self.0.desk.idle()).await.is_err() {
            tracing::warn!("summaries were cut at the end of the drain");
        }
        self.0.store.close().await;
    }

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
        let asked = asked(&request)?;
        account.mapped_to(asked.path());
        shared.keys.admit(request.headers())?;
        let mapped = paths::map(&shared.config.upstream.base, &asked)?;
        account.mapped_to(mapped.path());
        let route = Route {
            asked,
            mapped,
            towards: request.version(),
        };
        let upgrade = headers::asks_upgrade(&request).then(|| hyper::upgrade::on(&mut request));
        let (head, body) = request.into_parts();

        if let Some(client) = upgrade {
            let body = Outgoing::stream(body, account.meter());
            let request = self.request(head, &route, body, Hop::Upgrade)?;
            account.sends(Errand::First, &request);
            let sent = shared.upstream.send_upgrade(request);
            let reply = account.meter().waiting(sent).await;
            account.hears(&reply);
            let mut reply = reply?;
            if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
                slot.fill(client, hyper::upgrade::on(&mut reply));
            }
            return Ok(self.reply(reply, &route).map(Held::new));
        }

        // A reservation is held until the head of the reply is here, or a summary is made of the body
        // if that takes longer: by then the body was written, or the upstream has answered early and
        // most often takes no more of it.
        let meter = account.meter();
        match meter.waiting(self.receive(&head, body, account)).await? {
            Received::Chat(body) => Box::pin(self.chat(&route, head, &body, account)).await,
            Received::Passing {
                body,
                reservation: _reservation,
            } => {
                let hop = Hop::of_passing(&head, &body);
                let request = self.request(head, &route, body, hop)?;
                account.sends(Errand::First, &request);
                let meter = account.meter();
                let reply = meter.waiting(shared.upstream.send(request)).await;
                let reply = reply.map_err(|fault| {
                    if meter.is_broken() {
                        Fault::BodyBroken
                    } else {
                        fault
                    }
                });
                account.hears(&reply);
                Ok(self.reply(reply?, &route).map(Held::new))
            }
        }
    }

    /// The life of a chat: read → plan → splice → send → judge → relay, and where it was refused,
    /// the second form → send, once.
    async fn chat(
        &self,
        route: &Route,
        head: Parts,
        body: &Whole,
        account: &mut Account,
    ) -> Result<Response<Held<Download>>, Fault> {
        let scope = self.0.scope(&head);
        let conversation = match chat::read(&self.0, &head, body.text(), scope) {
            Ok(conversation) => conversation,
            Err(why) => {
                account.report(Report::bypassed(why));
                let first = Errand::First;
                let reply = self
                    .send(route, head, body.as_came(), first, account)
                    .await?;
                return Ok(reply.map(Held::new));
            }
        };
        account.reads(&conversation);
        let meter = account.meter();
        let mut chat = Chat::new(self, route, &head, body, &conversation, scope, meter).await;
        chat.recorded_under(account.trace().parent());
        account.seen(chat.sighting());
        let outlook = chat.plan().await;
        let (first, outlook, mut report) = chat.first(outlook);
        account.report(report.clone());

        let reply = self
            .send(route, head.clone(), first, Errand::First, account)
            .await?;
        chat.ask_what_it_holds(reply.status());
        if !chat.recovers() {
            chat.settle(&outlook, reply.status());
            chat.spread().await;
            return Ok(self.told(reply.map(Held::new), &report));
        }
        let holding = chat.holding(&outlook.view);
        let judging = watch::judge(reply, holding, &self.0.config.rules);
        let judged = account.meter().waiting(judging).await;
        account.judged(judged.verdict);
        let first = judged.response;
        let second = match chat.next(&outlook, judged.verdict).await {
            Next::Send(second) => second,
            Next::GiveUp => {
                chat.give_up(&mut report);
                chat.spread().await;
                account.report(report.clone());
                return Ok(self.told(first, &report));
            }
            Next::Relay => {
                if judged.verdict == Verdict::Fine && !judged.broke_off {
                    chat.settle(&outlook, first.status());
                }
                chat.spread().await;
                account.observe(chat.observer(&first, &outlook.view));
                return Ok(self.told(first, &report));
            }
        };
        let again = &self.0.metrics.again;
        let Some(body) = chat.again(&second) else {
            again.add(second.kind(), AgainOutcome::Unsound);
            return Ok(self.told(first, &report));
        };
        let errand = Errand::Again(second.kind());
        let mut head = head.clone();
        head.headers = headers::for_second(head.headers);
        let Ok(reply) = self.send(route, head, body, errand, account).await else {
            again.add(second.kind(), AgainOutcome::Unreachable);
            return Ok(self.told(first, &report));
        };
        let judging = watch::judge(reply, Holding::Everything, &self.0.config.rules);
        let judged = account.meter().waiting(judging).await;
        account.judged(judged.verdict);
        chat.close_again(&second, &judged, &mut report);
        chat.spread().await;
        account.report(report.clone());
        account.observe(chat.observer_again(&judged.response, &second));
        Ok(self.told(judged.response, &report))
    }

    /// Sends a chat with a body that is known whole, and brings back its reply as the client gets
    /// it.
    async fn send(
        &self,
        route: &Route,
        head: Parts,
        body: Sending,
        errand: Errand,
        account: &mut Account,
    ) -> Result<Response<Download>, Fault> {
        let Sending { body, hop } = body;
        let body = Outgoing::whole(body, account.meter());
        let request = self.request(head, route, body, hop)?;
        account.sends(errand, &request);
        let sent = self.0.upstream.send(request);
        let reply = account.meter().waiting(sent).await;
        account.hears(&reply);
        Ok(self.reply(reply?, route))
    }

    /// Reads a chat's body; leaves every other as a stream.
    async fn receive(
        &self,
        head: &Parts,
        body: Upload,
        account: &Account,
    ) -> Result<Received, Fault> {
        if self.mode(head) == Mode::Off || !receive::is_chat(head) {
            let body = Outgoing::stream(body, account.meter());
            return Ok(Received::Passing {
                body,
                reservation: None,
            });
        }
        self.receiver(account).receive(head, body).await
    }

    fn receiver<'a>(&'a self, account: &'a Account) -> Receiver<'a> {
        let shared = &*self.0;
        Receiver {
            budget: &shared.budget,
            limit: shared.config.limits.body,
            meter: account.meter(),
            metrics: &shared.metrics,
        }
    }

    /// Whether chats are read, as the request says, else as the settings do.
    fn mode(&self, head: &Parts) -> Mode {
        let asked = wish::Wish::of(&head.headers).mode;
        asked.unwrap_or(self.0.config.mode)
    }

    /// The request as the upstream gets it. Extensions stay: hyper keeps the spelling of the
    /// header names in them.
    fn request(
        &self,
        mut head: Parts,
        route: &Route,
        body: Outgoing,
        hop: Hop,
    ) -> Result<Request<Outgoing>, Fault> {
        let base = &self.0.config.upstream.base;
        head.headers = headers::request(&head, base.host(), hop);
        head.headers = self.0.keys.put(head.headers);
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
    fn reply(&self, reply: Response<Download>, route: &Route) -> Response<Download> {
        if reply.status() == StatusCode::NOT_FOUND && route.asked != route.mapped {
            self.0.unknown.tell(route.asked.path(), route.mapped.path());
        }
        let (mut head, body) = reply.into_parts();
        head.headers = headers::reply(&head, route.towards);
        head.version = Version::HTTP_11;
        Response::from_parts(head, body)
    }

    /// Tells the client what was done, if anything was and it may be told.
    fn told<B>(&self, mut reply: Response<B>, report: &Report) -> Response<B> {
        if self.0.config.report_headers {
            report.tell(reply.headers_mut());
        }
        reply
    }

    fn fault(&self, fault: Fault, mut account: Account) -> Response<Reply> {
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
