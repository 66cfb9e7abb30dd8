//! Explicit compaction: compacts a chat immediately and returns its new body. No upstream receives
//! the body.
//!
//! The records are adopted for the conversation: the agent continues with its own history, and its
//! next request starts from them.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Version};

use super::Proxy;
use crate::body::client_body::ClientBody;
use crate::body::request_body::TransferMeter;
use crate::chat::{Chat, ChatRequest};
use crate::config::Mode;
use crate::error::Fault;
use crate::exchange::request_log::RequestLog;
use crate::exchange::send::Route;
use crate::metrics::UnreadReason;
use crate::report::ChatReport;
use crate::request::buffered_body::BufferedBody;
use crate::request::paths;
use crate::request::receive::Received;
use crate::traces::ParentContext;
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::dialect::chat_completions;
use longhaul_core::units::tokens::Tokens;

/// Chat path of the upstream. The summary is requested there, with the caller's own query.
const CHAT: &str = "/v1/chat/completions";

/// An explicitly compacted chat.
pub(crate) struct CompactedChat {
    /// The new body, or the original if compaction would save nothing.
    pub(crate) body: Bytes,
    /// Plain estimate of the original.
    pub(crate) before: Tokens,
    /// Actions taken. `None` if there were none.
    pub(crate) outcome: Option<CompactionOutcome>,
}

/// Actions on an explicitly compacted chat.
pub(crate) struct CompactionOutcome {
    /// Action labels, as in the reply header `x-longhaul-action`.
    pub(crate) action: String,
    /// Plain estimate of the new body.
    pub(crate) after: Tokens,
}

/// Whether a request asks for explicit compaction.
pub(super) fn is_compact_request(request: &Request<ClientBody>) -> bool {
    request.method() == Method::POST && request.uri().path() == paths::COMPACT_PATH
}

/// Maps the reason that a body cannot be buffered to a fault.
fn unread_fault(why: UnreadReason) -> Fault {
    match why {
        UnreadReason::Bomb | UnreadReason::Large => Fault::ChatTooLarge,
        UnreadReason::Corrupt | UnreadReason::Encoded | UnreadReason::Trailers => Fault::NotAChat,
        UnreadReason::Crowded => Fault::BuffersFull,
        UnreadReason::Slow => Fault::RequestBodyBroken,
    }
}

/// Maps the reason that a chat would be forwarded unchanged to a fault.
fn bypass_fault(why: Bypass) -> Fault {
    match why {
        Bypass::TooLarge => Fault::ChatTooLarge,
        Bypass::Duplicate
        | Bypass::Malformed
        | Bypass::Nothing
        | Bypass::Shape
        | Bypass::Signed
        | Bypass::Unsound => Fault::NotAChat,
    }
}

impl Proxy {
    /// Answers an explicit compaction request with the compacted body.
    ///
    /// # Errors
    /// The mode is off, or the body is not a valid chat or exceeds a limit.
    pub(super) async fn answer_compact_request(
        &self,
        request: Request<ClientBody>,
        account: &mut RequestLog,
    ) -> Result<Response<Bytes>, Fault> {
        account.set_path(paths::COMPACT_PATH);
        self.0.keys.admit(&request)?;
        let (head, body) = request.into_parts();
        if self.mode(&head) == Mode::Off {
            return Err(Fault::CompactionOff);
        }
        let meter = account.meter();
        let received = meter
            .measure_wait(self.body_reader(account).receive(&head, body))
            .await?;
        let body = match received {
            Received::Chat(body) => body,
            Received::Streamed { why, .. } => return Err(why.map_or(Fault::NotAChat, unread_fault)),
        };
        let parent = account.trace().parent();
        let (body, report) = self
            .compact_buffered(head, &body, account.meter(), parent)
            .await?;
        let mut reply = Response::new(body);
        let json = HeaderValue::from_static("application/json");
        reply.headers_mut().insert(CONTENT_TYPE, json);
        let reply = self.with_report_headers(reply, &report);
        account.set_report(report);
        Ok(reply)
    }

    /// Compacts a body in memory, for a caller with the credentials in `head`.
    ///
    /// # Errors
    /// The mode is off, or the body is not a valid chat or exceeds a limit.
    pub(crate) async fn compact_body(
        &self,
        head: Parts,
        body: Bytes,
    ) -> Result<CompactedChat, Fault> {
        if self.mode(&head) == Mode::Off {
            return Err(Fault::CompactionOff);
        }
        let (body, report) = self
            .compact_buffered(head, &BufferedBody::plain(body), &Arc::default(), None)
            .await?;
        let done = report.action_labels().map(|action| CompactionOutcome {
            action,
            after: report.after,
        });
        Ok(CompactedChat {
            body,
            before: report.before,
            outcome: done,
        })
    }

    async fn compact_buffered(
        &self,
        head: Parts,
        body: &BufferedBody,
        meter: &Arc<TransferMeter>,
        parent: Option<ParentContext>,
    ) -> Result<(Bytes, ChatReport), Fault> {
        let scope = self.0.scope(&head);
        let conversation = chat_completions::read(body.text()).map_err(bypass_fault)?;
        let route = self.chat_route(&head)?;
        let (chat, basis) = Chat::prepare(ChatRequest {
            proxy: self,
            route: &route,
            head: &head,
            body,
            conversation: &conversation,
            scope,
            meter: Arc::clone(meter),
            parent,
        })
        .await;
        let Some((attempt, new)) = chat.plan_explicit_compaction(basis).await else {
            let report = ChatReport::untouched(&conversation, Bypass::Nothing);
            return Ok((body.text().clone(), report));
        };
        chat.finish_explicit_compaction(&attempt).await;
        Ok((new.body.into_bytes(), attempt.report))
    }

    /// Returns the route to the upstream's chat path.
    fn chat_route(&self, head: &Parts) -> Result<Route, Fault> {
        let query = head.uri.query();
        let asked = query.map_or_else(|| CHAT.to_owned(), |query| format!("{CHAT}?{query}"));
        let asked: PathAndQuery = asked.parse().map_err(|_| Fault::InvalidTarget)?;
        Ok(Route {
            mapped: paths::map(&self.0.config.upstream.base, &asked)?,
            requested: asked,
            client_version: Version::HTTP_11,
        })
    }
}
