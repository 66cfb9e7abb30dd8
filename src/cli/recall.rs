//! `longhaul recall`: prints an original that a line of a forwarded request names; and the client of the
//! running proxy, for originals.

use std::time::Duration;

use bytes::Bytes;
use clap::ArgMatches;
use http::header::{AUTHORIZATION, HOST};
use http::uri::Scheme;
use http::{HeaderValue, Method, Request, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::timeout;

use super::check::upstream_key;
use super::own_client::{self, FetchError};
use crate::cli::{Done, Env};
use crate::config::{BaseUrl, ResolvedSettings, bearer_header, recall_endpoint};
use crate::error::Problem;
use crate::limits::RECALL_PATH;
use crate::recall::query::MAX_ANSWER_BYTES;
use longhaul_core::units::recall_id::RecallId;

/// Prints the original that the arguments name. Fails if no longhaul answers, or it keeps no such
/// original.
pub(super) fn recall(found: &ResolvedSettings, matches: &ArgMatches, env: &Env) -> Done {
    let client = client_of(found, env)?;
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let outline = matches.get_flag("outline").then_some("");
    let part = ["grep", "lines", "search"].map(|name| (name, text(name)));
    let part = [&part[..], &[("outline", outline)]].concat();
    let id = text("id").unwrap_or_default();
    let text = crate::cli::runtime()?.block_on(client.ask(Method::GET, id, &part))?;
    crate::cli::print(&text)
}

/// Returns a client of the running proxy. Fails if the settings name no address, or one that
/// requires TLS.
pub(super) fn client_of(found: &ResolvedSettings, env: &Env) -> Result<RecallClient, Problem> {
    let (base, needs_token) = recall_endpoint(found)?;
    RecallClient::new(base, upstream_key(env).filter(|_| needs_token))
}

/// Maximum time for an answer: a search of a long history on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// A client of the proxy at one base URL.
#[derive(Clone)]
pub(super) struct RecallClient {
    base: BaseUrl,
    authorization: Option<HeaderValue>,
}

impl RecallClient {
    /// Creates a client that presents `token`, if the proxy requires one. Fails if the base URL
    /// requires TLS, or the token cannot be sent.
    fn new(base: BaseUrl, token: Option<&str>) -> Result<Self, Problem> {
        if *base.scheme() == Scheme::HTTPS {
            return Err(Problem::CommandLine(format!(
                "longhaul recall speaks plain HTTP, and {} requires TLS: use curl with the URL \
                 {base}{RECALL_PATH}ID",
                base.origin()
            )));
        }
        let unusable = "the client token holds characters that no header can carry";
        let value = |token| bearer_header(token).map_err(|_| Problem::CommandLine(unusable.into()));
        Ok(Self { base, authorization: token.map(value).transpose()? })
    }

    /// Asks for the original with the ID `id`, with the parts of a query that have a value. GET reads, PUT keeps
    /// its words in the conversation, and DELETE takes that wish back. Fails if the text is not an ID, no
    /// longhaul answers, the original is not kept, or its words may not be.
    pub(super) async fn ask(
        &self,
        method: Method,
        id: &str,
        pairs: &[(&str, Option<&str>)],
    ) -> Result<String, Problem> {
        let id = id.trim().parse::<RecallId>();
        let id = id.map_err(|wrong| Problem::CommandLine(wrong.to_string()))?;
        let pairs = pairs.iter().filter_map(|(name, value)| {
            Some(format!("{name}={}", utf8_percent_encode((*value)?, NON_ALPHANUMERIC)))
        });
        let query = pairs.collect::<Vec<_>>().join("&");
        let target = format!("{}{RECALL_PATH}{id}?{query}", self.base.path());
        let failed = |why: String| {
            Problem::Unanswered(format!(
                "{}: {why}; is longhaul running there, with recall on?",
                self.base.origin()
            ))
        };
        let answer = timeout(ANSWER_TIMEOUT, self.fetch(method, &target)).await;
        let answer = answer.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        let (status, body) = answer.map_err(failed)?;
        if status == StatusCode::OK {
            return Ok(String::from_utf8_lossy(&body).into_owned());
        }
        let message: Option<Value> = serde_json::from_slice(&body).ok();
        let message = message.as_ref().and_then(|body| body.pointer("/error/message")?.as_str());
        let message = message.map_or_else(|| format!("the answer is {status}"), str::to_owned);
        Err(if status == StatusCode::BAD_REQUEST {
            Problem::CommandLine(message)
        } else {
            Problem::Unanswered(message)
        })
    }

    async fn fetch(&self, method: Method, target: &str) -> Result<(StatusCode, Bytes), String> {
        let (host, port) = (self.base.authority().host(), self.base.port());
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut request = Request::builder().method(method).uri(target);
        request = request.header(HOST, self.base.host());
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let answer = own_client::fetch((host, port), request, 2 * MAX_ANSWER_BYTES).await;
        answer.map_err(|failure| match failure {
            FetchError::Unreachable(error) => format!("cannot be reached: {error}"),
            FetchError::NotHttp(error) => format!("the answer is not complete HTTP: {error}"),
        })
    }
}
