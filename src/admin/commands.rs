//! Commands of the page: keep a text, take it back, compact a conversation again, and set a price.
//!
//! [`Admin::check`] decides who may; [`Admin::obey`] waits for the body, and for the store.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;

use crate::admin::{Admin, JSON, Overview, ok, overview, with_common_headers};
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

const OFF: Refused =
    Refused(StatusCode::FORBIDDEN, "commands need admin.commands and a state folder");
const FOREIGN: Refused = Refused(
    StatusCode::FORBIDDEN,
    "commands are for the page on this machine, by the link that `longhaul dashboard` prints",
);
const NOT_JSON: Refused =
    Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a command is application/json");
const TOO_LONG: Refused = Refused(StatusCode::PAYLOAD_TOO_LARGE, "the command is too long");
const NO_COMMAND: Refused = Refused(StatusCode::BAD_REQUEST, "the body is not a command");
const UNKNOWN: Refused = Refused(StatusCode::NOT_FOUND, "no request of this conversation yet");
const NOT_THERE: Refused = Refused(StatusCode::NOT_FOUND, "this text is not kept");
const NOT_KEPT: Refused = Refused(
    StatusCode::UNPROCESSABLE_ENTITY,
    "a conversation keeps 32 texts of 1 to 4,000 characters, and 8 KiB of them",
);
const NO_PRICE: Refused =
    Refused(StatusCode::UNPROCESSABLE_ENTITY, "a price has a model and dollars per million tokens");

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

impl Admin {
    /// Answers a command with `{}`, or with the reason for which it is not obeyed.
    pub(crate) async fn command(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Response<Bytes> {
        match self.obey(request, peer).await {
            Ok(()) => ok(JSON, Bytes::from_static(b"{}")),
            Err(Refused(status, why)) => {
                with_common_headers(status, JSON, overview::json(&json!({ "error": why })))
            }
        }
    }

    /// Checks that a POST is JSON by the user's page, or by a program of the user.
    fn check<B>(&self, request: &Request<B>, peer: IpAddr) -> Result<(), Refused> {
        let headers = request.headers();
        let host = headers.get(HOST).map(HeaderValue::as_bytes);
        let is_own = |origin: &HeaderValue| {
            let origin = origin.as_bytes().strip_prefix(b"http://");
            origin.is_some() && origin == host
        };
        let is_own_page = headers.get_all(ORIGIN).iter().all(is_own)
            && headers.get_all("sec-fetch-site").iter().all(|site| site == "same-origin");
        let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if !self.overview.takes_commands() {
            Err(OFF)
        } else if self.refusal(request, peer).is_some() || !is_own_page {
            Err(FOREIGN)
        } else if !kind.eq_ignore_ascii_case(b"application/json") {
            Err(NOT_JSON)
        } else {
            Ok(())
        }
    }

    async fn obey(&self, request: Request<Incoming>, peer: IpAddr) -> Result<(), Refused> {
        self.check(&request, peer)?;
        let body = Limited::new(request.into_body(), MAX_COMMAND_BYTES).collect().await;
        let body = body.map_err(|_| TOO_LONG)?.to_bytes();
        let command = serde_json::from_slice(&body).map_err(|_| NO_COMMAND)?;
        let overview = &self.overview;
        let (command, done) = match command {
            Command::Keep(wish) => ("keep", overview.keep(&wish).await),
            Command::TakeBack(wish) => ("take-back", overview.take_back(&wish).await),
            Command::CompactAgain(wish) => ("compact-again", overview.compact_again(&wish).await),
            Command::SetPrice(price) => {
                let is_set = overview.state.recent.prices.set(price);
                ("set-price", is_set.then_some(()).ok_or(NO_PRICE))
            }
        };
        let refused = done.as_ref().err().map(|Refused(status, _)| status.as_u16());
        tracing::info!(command, refused, "a command of the page");
        done
    }
}

impl Overview {
    async fn keep(&self, wish: &Wish) -> Result<(), Refused> {
        let (_, keys) = self.conversation(wish)?;
        let keep = |kept: &mut KeptTexts| kept.keep(&wish.text, false);
        self.state.store.wish(&keys, keep).await.map_err(|NotKept| NOT_KEPT)
    }

    async fn take_back(&self, wish: &Wish) -> Result<(), Refused> {
        let (_, keys) = self.conversation(wish)?;
        let take = |kept: &mut KeptTexts| kept.take_back(&wish.text, false);
        self.state.store.wish(&keys, |kept| take(kept).then_some(()).ok_or(NOT_THERE)).await
    }

    async fn compact_again(&self, wish: &Wish) -> Result<(), Refused> {
        if !wish.text.is_empty() {
            self.keep(wish).await?;
        }
        self.state.recent.compact_next(self.conversation(wish)?.0);
        Ok(())
    }

    /// Returns the conversation of a wish, with the keys of its list of texts.
    fn conversation(&self, wish: &Wish) -> Result<(ConversationId, Vec<RecordKey>), Refused> {
        let id = ConversationId::parse(&wish.conversation).ok_or(UNKNOWN)?;
        let keys = self.state.recent.details(&id.to_string(), u64::MAX).ok_or(UNKNOWN)?.kept_keys;
        if keys.is_empty() { Err(UNKNOWN) } else { Ok((id, keys)) }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::config::Config;
    use crate::proxy_state::ProxyState;

    const TOKEN: &str = "x-longhaul-token";
    const HERE: &str = "127.0.0.1";
    const THERE: &str = "192.0.2.7";

    /// Returns the pages of a user with the state folder `folder`, if any.
    fn admin(folder: Option<&tempfile::TempDir>, commands: &str) -> Admin {
        let settings = [("upstream.base", "http://127.0.0.1:9/v1"), ("admin.commands", commands)];
        let mut config = Config::default_with(settings).unwrap();
        config.state_folder = folder.map(|folder| folder.path().to_path_buf());
        let overview = Overview::from_state(&ProxyState::new(config).unwrap(), String::new());
        Admin::new(overview, "[]".into(), SocketAddr::from(([0, 0, 0, 0], 8485)))
    }

    #[test]
    fn only_json_by_the_users_own_page_on_this_machine_is_a_command() {
        let folder = tempfile::tempdir().unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
        }
        let own = admin(Some(&folder), "true");
        let token = own.token.clone().unwrap();
        let status = |admin: &Admin, peer: &str, without: &str, more: &[(&str, &str)]| {
            let right = [
                ("host", "192.0.2.1:8485"),
                (TOKEN, token.to_str().unwrap()),
                ("content-type", "Application/JSON; charset=utf-8"),
            ];
            let mut request = Request::post(COMMANDS_PATH);
            for (name, value) in right.iter().filter(|(name, _)| *name != without).chain(more) {
                request = request.header(*name, *value);
            }
            let checked = admin.check(&request.body(()).unwrap(), peer.parse().unwrap());
            checked.map_or_else(|Refused(status, _)| status.as_u16(), |()| 200)
        };
        let check = |without: &str, more: &[(&str, &str)], expect: u16| {
            assert_eq!(status(&own, HERE, without, more), expect, "{without} {more:?}");
            assert_eq!(status(&own, THERE, without, more), 403, "from another machine: {more:?}");
        };
        check("", &[], 200);
        check(TOKEN, &[], 403);
        check(TOKEN, &[(TOKEN, "another")], 403);
        check("host", &[("host", "evil.example")], 403);
        check("", &[("origin", "http://192.0.2.1:8485")], 200);
        for origin in ["http://192.0.2.1", "https://192.0.2.1:8485", "null", "http://", ""] {
            check("", &[("origin", origin)], 403);
            check("", &[("origin", "http://192.0.2.1:8485"), ("origin", origin)], 403);
            check("host", &[("origin", origin)], 403);
        }
        check("", &[("sec-fetch-site", "same-origin")], 200);
        for site in ["cross-site", "same-site", "none"] {
            check("", &[("sec-fetch-site", site)], 403);
        }
        check("content-type", &[], 415);
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
            check("content-type", &[("content-type", kind)], 415);
        }
        assert_eq!(status(&admin(Some(&folder), "false"), HERE, "", &[]), 403);
        assert_eq!(status(&admin(None, "true"), HERE, "", &[]), 403, "without a token");
    }
}
