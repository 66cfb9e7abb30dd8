//! Commands of the page: keep a text, take it back, compact a conversation again, and set a price.
//!
//! [`refusal`] and [`Command::read`] decide; [`Admin::command`] waits for the body, and for the store.

use std::error::Error;
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde_json::json;

use crate::admin::{Admin, JSON, LOCKED, Overview, overview, with_common_headers};
use crate::dashboard::set_prices::SetPrice;
use crate::explanation::ConversationId;
use crate::limits::MAX_KEPT_CHARS;
use crate::store::{KeptTexts, NotKept};
use longhaul_core::units::scope::RecordKey;

pub(crate) const COMMANDS_PATH: &str = "/commands";

/// Maximum bytes of a command: the longest text with every character escaped, and its frame.
const MAX_COMMAND_BYTES: usize = 12 * MAX_KEPT_CHARS + 1_024;

/// Status and reason of a command that is not obeyed.
#[derive(Debug, Eq, PartialEq)]
struct Refused(StatusCode, &'static str);

const FOREIGN: Refused = Refused(
    StatusCode::FORBIDDEN,
    "commands are for the page on this machine, by the link that `longhaul dashboard` prints",
);
const UNKNOWN: Refused = Refused(StatusCode::NOT_FOUND, "no request of this conversation yet");
const NOT_KEPT: Refused = Refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "a conversation keeps 32 texts of 1 to 4,000 characters, and 8 KiB of them",
);

#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
enum Command {
    Keep(Wish),
    TakeBack(Wish),
    /// Has the next request compacted, and keeps a text before, if there is one.
    CompactAgain(Wish),
    SetPrice(SetPrice),
}

/// A wish about a conversation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    conversation: String,
    #[serde(default)]
    text: String,
}

impl Command {
    fn read(body: &[u8]) -> Result<Self, Refused> {
        let refused = |_| Refused(StatusCode::BAD_REQUEST, "the body is not a command");
        serde_json::from_slice(body).map_err(refused)
    }

    /// Returns the name for the log.
    fn name(&self) -> &'static str {
        match self {
            Self::Keep(_) => "keep",
            Self::TakeBack(_) => "take-back",
            Self::CompactAgain(_) => "compact-again",
            Self::SetPrice(_) => "set-price",
        }
    }
}

/// Returns why a request with this method and these headers may give no command, if so.
fn refusal(method: &Method, headers: &HeaderMap) -> Option<Refused> {
    let bytes = |value: &'_ HeaderValue| value.as_bytes().to_vec();
    let host = headers.get(HOST).map(bytes);
    let is_own = |origin: &HeaderValue| {
        let origin = origin.as_bytes().strip_prefix(b"http://");
        origin.is_some_and(|origin| host.as_deref() == Some(origin))
    };
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if *method != Method::POST {
        return Some(Refused(StatusCode::METHOD_NOT_ALLOWED, "a command is a POST"));
    }
    if !headers.get_all(ORIGIN).iter().all(is_own) || !sites.all(|site| site == "same-origin") {
        return Some(FOREIGN);
    }
    let is_json = kind.eq_ignore_ascii_case("application/json");
    let refused = Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a command is application/json");
    (!is_json).then_some(refused)
}

impl Admin {
    /// Answers a command with `{}`, or with the reason for which it is not obeyed.
    pub(crate) async fn command<B>(&self, request: Request<B>, peer: IpAddr) -> Response<Bytes>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let (status, answer) = match self.obey(request, peer).await {
            Ok(()) => (StatusCode::OK, json!({})),
            Err(Refused(status, why)) => (status, json!({ "error": why })),
        };
        let mut answer = with_common_headers(status, JSON, overview::json(&answer));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        answer
    }

    async fn obey<B>(&self, request: Request<B>, peer: IpAddr) -> Result<(), Refused>
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let has_token = self.token.as_ref().is_some_and(|token| *token != LOCKED);
        if !self.overview.commands || !has_token {
            let why = "commands need admin.commands and a state folder";
            return Err(Refused(StatusCode::FORBIDDEN, why));
        }
        if self.refusal(&request, peer).is_some() {
            return Err(FOREIGN);
        }
        refusal(request.method(), request.headers()).map_or(Ok(()), Err)?;
        let body = Limited::new(request.into_body(), MAX_COMMAND_BYTES).collect().await;
        let too_long = |_| Refused(StatusCode::PAYLOAD_TOO_LARGE, "the command is too long");
        let command = Command::read(&body.map_err(too_long)?.to_bytes())?;
        let name = command.name();
        let done = self.overview.obey(command).await;
        let refused = done.as_ref().err().map(|Refused(status, _)| status.as_u16());
        tracing::info!(command = name, refused, "a command of the page");
        done
    }
}

impl Overview {
    async fn obey(&self, command: Command) -> Result<(), Refused> {
        let keep = |text: String| move |kept: &mut KeptTexts| kept.keep(&text, false);
        let not_kept = |NotKept| NOT_KEPT;
        match command {
            Command::Keep(wish) => {
                let (_, keys) = self.conversation(&wish)?;
                self.store.wish(&keys, keep(wish.text)).await.map_err(not_kept)
            }
            Command::TakeBack(wish) => {
                let (_, keys) = self.conversation(&wish)?;
                let take = |kept: &mut KeptTexts| kept.take_back(&wish.text, false).then_some(());
                let take = |kept: &mut KeptTexts| take(kept).ok_or(NotKept);
                let gone = |NotKept| Refused(StatusCode::NOT_FOUND, "this text is not kept");
                self.store.wish(&keys, take).await.map_err(gone)
            }
            Command::CompactAgain(wish) => {
                let (id, keys) = self.conversation(&wish)?;
                if !wish.text.is_empty() {
                    self.store.wish(&keys, keep(wish.text)).await.map_err(not_kept)?;
                }
                self.recent.compact_next(id);
                Ok(())
            }
            Command::SetPrice(price) => {
                let why = "a price has a model and dollars per million tokens";
                let refused = Refused(StatusCode::UNPROCESSABLE_ENTITY, why);
                self.recent.prices.set(price).then_some(()).ok_or(refused)
            }
        }
    }

    /// Returns the conversation of a wish, with the keys of its list of texts.
    fn conversation(&self, wish: &Wish) -> Result<(ConversationId, Vec<RecordKey>), Refused> {
        let id = ConversationId::parse(&wish.conversation).ok_or(UNKNOWN)?;
        let keys = self.recent.details(&id.to_string(), u64::MAX).ok_or(UNKNOWN)?.kept_keys;
        if keys.is_empty() { Err(UNKNOWN) } else { Ok((id, keys)) }
    }
}
