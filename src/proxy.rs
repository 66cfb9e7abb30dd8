//! The request path: receive, read, plan, splice, send, judge, relay.

pub(crate) mod explicit_compaction;
use std::sync::Arc;

use http::{Request, Response, Uri};
use hyper::body::Incoming;

pub(crate) use crate::dashboard::{ConversationDto, RecentConversations};
pub(crate) use crate::exchange::relay::ReplyBody;
pub(crate) use crate::exchange::tunnel::TunnelSlot;
pub(crate) use crate::request::host_check::targets_ip_or_localhost;
#[cfg(fuzzing)]
pub(crate) use crate::request::paths::{map as mapped_path, strip_mount as path_under};
pub(crate) use explicit_compaction::CompactedChat;

use crate::body::client_body::ClientBody;
use crate::body::peeked_body::PeekedBody;
use crate::chat::{Attempt, Chat, ChatRequest, NextStep};
use crate::error::Fault;
use crate::exchange::reply_gate::{HoldPolicy, JudgedReply};
use crate::exchange::request_log::RequestLog;
use crate::metrics::{Action, RetryOutcome};
use crate::report::ChatReport;
use crate::request::headers::BodyFraming;
use crate::request::receive::Received;
use crate::services::Shared;
use crate::traces::CallPurpose;
use crate::upstream::UpstreamBody;

/// The reverse proxy for one upstream. Clones share all state.
#[derive(Clone)]
pub(crate) struct Proxy(pub Arc<Shared>);

impl Proxy {
    /// Answers a request with the upstream's reply, or with an error response for the [`Fault`]
    /// that prevented one. Dropping the future, when the client disconnects, aborts the upstream
    /// request.
    pub(crate) async fn handle(
        &self,
        request: Request<Incoming>,
        slot: &TunnelSlot,
    ) -> Response<ReplyBody> {
        let mut request = ClientBody::wrap(request);
        let own = self.select_mount(request.uri_mut());
        let mut account = RequestLog::start(&request, &own.0.metrics);
        account.set_mount(own.0.mount.clone());
        if explicit_compaction::is_compact_request(&request) {
            return match Box::pin(own.answer_compact_request(request, &mut account)).await {
                Ok(reply) => crate::exchange::relay::respond(reply, account),
                Err(fault) => own.fault_response(fault, account),
            };
        }
        // A connection holds its request's future in memory for as long as the reply streams. State
        // that is needed only until the reply begins is boxed, so it is freed by then.
        match Box::pin(own.forward(request, slot, &mut account)).await {
            Ok(reply) => crate::exchange::relay::relay(reply, account),
            Err(fault) => own.fault_response(fault, account),
        }
    }

    /// Selects the mount that serves `target` and strips its path prefix.
    fn select_mount(&self, target: &mut Uri) -> &Self {
        for proxy in &self.0.mounts {
            let mount = proxy.0.mount.as_deref().unwrap_or_default();
            if let Some(rest) = crate::request::paths::strip_mount(target, mount) {
                *target = rest;
                return proxy;
            }
        }
        self
    }

    /// Answers a request that must not be served with the fault `why`.
    pub(crate) fn refuse(&self, request: Request<Incoming>, why: Fault) -> Response<ReplyBody> {
        let request = ClientBody::wrap(request);
        let mut account = RequestLog::start(&request, &self.0.metrics);
        account.set_path(request.uri().path());
        self.fault_response(why, account)
    }

    async fn forward(
        &self,
        mut request: Request<ClientBody>,
        slot: &TunnelSlot,
        account: &mut RequestLog,
    ) -> Result<Response<PeekedBody<UpstreamBody>>, Fault> {
        let shared = &*self.0;
        let route = self.route(&request, account)?;
        let upgrade = crate::request::headers::is_upgrade_request(&request)
            .then(|| hyper::upgrade::on(&mut request));
        let (head, body) = request.into_parts();
        if let Some(client) = upgrade {
            let tunnel = (client, slot);
            let reply = self.upgrade(&route, head, body, tunnel, account).await?;
            return Ok(reply.map(PeekedBody::new));
        }

        // The reservation is held until the reply head arrives, or until a summary of the body is
        // done if that takes longer. By then the body has been written, or the upstream has
        // answered early and usually reads no more of the body.
        let meter = account.meter();
        let received = meter
            .measure_wait(self.receive(&head, body, account))
            .await?;
        let (body, hop, _reservation) = match received {
            Received::Chat(body) => {
                let scope = shared.scope(&head);
                let why = match crate::chat::read(shared, &head, body.text(), scope) {
                    Ok(conversation) => {
                        let came = ChatRequest {
                            proxy: self,
                            route: &route,
                            head: &head,
                            body: &body,
                            conversation: &conversation,
                            scope,
                            meter: Arc::clone(meter),
                            parent: account.trace().parent(),
                        };
                        return Box::pin(self.serve_chat(came, account)).await;
                    }
                    Err(why) => why,
                };
                account.set_report(ChatReport::bypassed(why));
                body.into_request_body(account.meter())
            }
            Received::Streamed {
                body, reservation, ..
            } => {
                let hop = BodyFraming::for_streamed(&head, &body);
                (body, hop, reservation)
            }
        };
        let reply = self
            .send(&route, head, body, hop, CallPurpose::First, account)
            .await?;
        Ok(reply.map(PeekedBody::new))
    }

    /// Serves a parsed chat: plan → splice → send → judge → relay, with at most one
    /// [`retry`](Self::retry) after a refusal.
    async fn serve_chat(
        &self,
        came: ChatRequest<'_>,
        account: &mut RequestLog,
    ) -> Result<Response<PeekedBody<UpstreamBody>>, Fault> {
        account.record_chat(came.conversation);
        let (chat, basis) = Chat::prepare(came).await;
        account.set_dashboard_handle(chat.dashboard.clone());
        let (mut first, body) = chat.plan_first_send(basis).await;
        account.set_report(first.report.clone());

        let (route, head) = (chat.request.route, chat.request.head.clone());
        let (body, hop) = body.into_request_body(account.meter());
        let unheard = chat.unanswered_call_guard(&first);
        let sent = self.send(route, head, body, hop, first.purpose(), account);
        let reply = sent.await.inspect_err(|_| unheard.disarm())?;
        chat.query_upstream_window(reply.status());
        let judged = self.judge(reply, chat.hold_policy(&first), account).await;
        unheard.disarm();
        match chat.next_step(&first, judged.verdict).await {
            NextStep::GiveUp => first.report.add(Action::GaveUp),
            NextStep::Relay => {}
            NextStep::Retry(second) => {
                let refused = self.with_report_headers(judged.response, &first.report);
                return Ok(self.retry(&chat, &second, refused, account).await);
            }
        }
        Ok(chat.finish(&first, judged, account).await)
    }

    /// Retries the chat once: splice → send. If the retry cannot be built or sent, returns
    /// `refused`, the reply that refused the first attempt.
    async fn retry(
        &self,
        chat: &Chat<'_>,
        second: &Attempt,
        refused: Response<PeekedBody<UpstreamBody>>,
        account: &mut RequestLog,
    ) -> Response<PeekedBody<UpstreamBody>> {
        let Some(body) = chat.retry_body(second) else {
            chat.count_retry(second, RetryOutcome::Unsound);
            return refused;
        };
        let (route, head) = (chat.request.route, chat.retry_head());
        let (body, hop) = body.into_request_body(account.meter());
        let unheard = chat.unanswered_call_guard(second);
        let sent = self.send(route, head, body, hop, second.purpose(), account);
        let Ok(reply) = sent.await.inspect_err(|_| unheard.disarm()) else {
            chat.count_retry(second, RetryOutcome::Unreachable);
            return refused;
        };
        let judged = self.judge(reply, HoldPolicy::Everything, account).await;
        unheard.disarm();
        chat.finish(second, judged, account).await
    }

    /// Holds a reply until its verdict is known.
    async fn judge(
        &self,
        reply: Response<UpstreamBody>,
        holding: HoldPolicy,
        account: &mut RequestLog,
    ) -> JudgedReply<UpstreamBody> {
        let shared = &*self.0;
        let judging = crate::exchange::reply_gate::judge(
            reply,
            holding,
            &shared.config.overflow_rules,
            &shared.budget,
        );
        let judged = account.meter().measure_wait(judging).await;
        account.record_verdict(judged.verdict);
        judged
    }
}
