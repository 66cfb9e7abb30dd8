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

use super::account::Account;
use super::chat::{Arrived, Chat};
use super::exchange::Route;
use super::receive::Received;
use super::report::Report;
use super::whole::Whole;
use super::{Proxy, paths};
use crate::config::Mode;
use crate::error::Fault;
use crate::metrics::Unread;
use crate::rewrite::bypass::Bypass;
use crate::rewrite::chat_completions;
use crate::rewrite::tokens::Tokens;
use crate::traces::Parent;
use crate::upstream::{Meter, Upload};

/// Where the upstream has its chats: the summary is asked for there, with the caller's own query.
const CHAT: &str = "/v1/chat/completions";

/// A chat that was compacted by hand.
pub(crate) struct Compacted {
    /// The new body, or the one that came if nothing could be gained.
    pub(crate) body: Bytes,
    /// Its plain estimate as it came.
    pub(crate) before: Tokens,
    /// What was done; none if nothing was.
    pub(crate) done: Option<Done>,
}

/// What was done to a chat.
pub(crate) struct Done {
    /// Its name, as replies have it in `x-longhaul-action`.
    pub(crate) action: String,
    /// The plain estimate of the new body.
    pub(crate) after: Tokens,
}

/// Whether a request is one for the manual way.
pub(super) fn is_asked(request: &Request<Upload>) -> bool {
    request.method() == Method::POST && request.uri().path() == paths::COMPACT
}

/// What is said of a body that cannot be read whole.
fn unread(why: Unread) -> Fault {
    match why {
        Unread::Bomb | Unread::Large => Fault::ChatTooLarge,
        Unread::Corrupt | Unread::Encoded | Unread::Trailers => Fault::NoChat,
        Unread::Crowded => Fault::Crowded,
        Unread::Slow => Fault::BodyBroken,
    }
}

/// What is said of one that would be passed on as it came.
fn untouched(why: Bypass) -> Fault {
    match why {
        Bypass::TooLarge => Fault::ChatTooLarge,
        Bypass::Duplicate
        | Bypass::Malformed
        | Bypass::Nothing
        | Bypass::Shape
        | Bypass::Signed
        | Bypass::Unsound => Fault::NoChat,
    }
}

impl Proxy {
    /// Answers a request for the manual way with the compacted body.
    ///
    /// # Errors
    /// The mode is off, or the body is no chat that can be read, or past a bound on one.
    pub(super) async fn compact(
        &self,
        request: Request<Upload>,
        account: &mut Account,
    ) -> Result<Response<Bytes>, Fault> {
        account.mapped_to(paths::COMPACT);
        self.0.keys.admit(&request)?;
        let (head, body) = request.into_parts();
        if self.mode(&head) == Mode::Off {
            return Err(Fault::SwitchedOff);
        }
        let meter = account.meter();
        let received = meter
            .waiting(self.receiver(account).receive(&head, body))
            .await?;
        let body = match received {
            Received::Chat(body) => body,
            Received::Passing { why, .. } => return Err(why.map_or(Fault::NoChat, unread)),
        };
        let parent = account.trace().parent();
        let (body, report) = self
            .compact_whole(head, &body, account.meter(), parent)
            .await?;
        let mut reply = Response::new(body);
        let json = HeaderValue::from_static("application/json");
        reply.headers_mut().insert(CONTENT_TYPE, json);
        let reply = self.with_report(reply, &report);
        account.report(report);
        Ok(reply)
    }

    /// Compacts a body that stands here, for a caller with the credentials in `head`.
    ///
    /// # Errors
    /// The mode is off, or the body is no chat that can be read, or past a bound on one.
    pub(crate) async fn compact_body(&self, head: Parts, body: Bytes) -> Result<Compacted, Fault> {
        if self.mode(&head) == Mode::Off {
            return Err(Fault::SwitchedOff);
        }
        let (body, report) = self
            .compact_whole(head, &Whole::plain(body), &Arc::default(), None)
            .await?;
        let done = report.action().map(|action| Done {
            action,
            after: report.after,
        });
        Ok(Compacted {
            body,
            before: report.before,
            done,
        })
    }

    async fn compact_whole(
        &self,
        head: Parts,
        body: &Whole,
        meter: &Arc<Meter>,
        parent: Option<Parent>,
    ) -> Result<(Bytes, Report), Fault> {
        let scope = self.0.scope(&head);
        let conversation = chat_completions::read(body.text()).map_err(untouched)?;
        let route = self.chats(&head)?;
        let (chat, basis) = Chat::meet(Arrived {
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
        let Some((attempt, new)) = chat.by_hand(basis).await else {
            let report = Report::untouched(&conversation, Bypass::Nothing);
            return Ok((body.text().clone(), report));
        };
        chat.close_by_hand(&attempt).await;
        Ok((new.body.joined(), attempt.report))
    }

    /// The upstream's own path for chats.
    fn chats(&self, head: &Parts) -> Result<Route, Fault> {
        let query = head.uri.query();
        let asked = query.map_or_else(|| CHAT.to_owned(), |query| format!("{CHAT}?{query}"));
        let asked: PathAndQuery = asked.parse().map_err(|_| Fault::Target)?;
        Ok(Route {
            mapped: paths::map(&self.0.config.upstream.base, &asked)?,
            asked,
            towards: Version::HTTP_11,
        })
    }
}
