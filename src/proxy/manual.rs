//! The manual way: compacts a chat now and gives back its new body, which is sent to nobody.
//!
//! What was done is adopted for the conversation: the agent goes on with its own history, and its
//! next request starts from the record.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Version};

use super::account::RequestLog;
use super::chat::{Chat, ChatRequest};
use super::exchange::Route;
use super::receive::Received;
use super::report::ChatReport;
use super::whole::BufferedBody;
use super::{Proxy, paths};
use crate::config::Mode;
use crate::error::Fault;
use crate::metrics::UnreadReason;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::chat_completions;
use crate::rewrite::tokens::Tokens;
use crate::traces::ParentContext;
use crate::upstream::{ClientBody, TransferMeter};

/// Where the upstream has its chats: the summary is asked for there, with the caller's own query.
const CHAT: &str = "/v1/chat/completions";

/// A chat that was compacted by hand.
pub(crate) struct CompactedChat {
    /// The new body, or the one that came if nothing could be gained.
    pub(crate) body: Bytes,
    /// Its plain estimate as it came.
    pub(crate) before: Tokens,
    /// What was done; none if nothing was.
    pub(crate) outcome: Option<CompactionOutcome>,
}

/// What was done to a chat.
pub(crate) struct CompactionOutcome {
    /// Its name, as replies have it in `x-longhaul-action`.
    pub(crate) action: String,
    /// The plain estimate of the new body.
    pub(crate) after: Tokens,
}

/// Whether a request is one for the manual way.
pub(super) fn is_compact_request(request: &Request<ClientBody>) -> bool {
    request.method() == Method::POST && request.uri().path() == paths::COMPACT_PATH
}

/// What is said of a body that cannot be read whole.
fn unread_fault(why: UnreadReason) -> Fault {
    match why {
        UnreadReason::Bomb | UnreadReason::Large => Fault::ChatTooLarge,
        UnreadReason::Corrupt | UnreadReason::Encoded | UnreadReason::Trailers => Fault::NotAChat,
        UnreadReason::Crowded => Fault::BuffersFull,
        UnreadReason::Slow => Fault::RequestBodyBroken,
    }
}

/// What is said of one that would be passed on as it came.
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
    /// Answers a request for the manual way with the compacted body.
    ///
    /// # Errors
    /// The mode is off, or the body is no chat that can be read, or past a bound on one.
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

    /// Compacts a body that stands here, for a caller with the credentials in `head`.
    ///
    /// # Errors
    /// The mode is off, or the body is no chat that can be read, or past a bound on one.
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

    /// The upstream's own path for chats.
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
