//! An agent's client: sends a request and sees of the reply what an agent would see.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

/// What an agent waits for a reply: longer than longhaul makes anybody wait for a summary.
const REPLY_TIMEOUT: Duration = Duration::from_mins(1);
/// The header that says what longhaul did.
const ACTION_HEADER: &str = "x-longhaul-action";
/// The most characters told of a reply that is no error in the API's shape.
const UNKNOWN_CHARS: usize = 200;

/// A client of one server on loopback.
pub(super) struct AgentClient {
    url: String,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

/// What came back.
#[derive(Debug, Default)]
pub(super) struct AgentReply {
    /// Its status, 0 if there was none.
    pub(super) status: u16,
    /// What longhaul says it did.
    pub(super) action: Vec<String>,
    /// Why it is no answer, if it is none.
    pub(super) error: Option<String>,
}

impl AgentClient {
    pub(super) fn new(server: SocketAddr) -> Self {
        Self {
            url: format!("http://{server}/v1/chat/completions"),
            pool: Pool::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Sends one chat request and reads its reply to the end.
    pub(super) async fn send(&self, body: Vec<u8>) -> AgentReply {
        let exchanged = timeout(REPLY_TIMEOUT, self.exchange(body)).await;
        let response = match exchanged {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return AgentReply::failed(error),
            Err(_) => {
                return AgentReply::failed(format!(
                    "no reply within {} s",
                    REPLY_TIMEOUT.as_secs()
                ));
            }
        };
        let (head, body) = response.into_parts();
        AgentReply {
            status: head.status.as_u16(),
            action: actions(&head.headers),
            error: reply_error(head.status, &head.headers, &body),
        }
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<Response<Bytes>, String> {
        let request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, "Bearer demo")
            .body(Full::from(body))
            .map_err(|error| error.to_string())?;
        let response = self.pool.request(request).await;
        let (head, body) = response.map_err(|error| error.to_string())?.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|error| format!("the reply broke off: {error}"))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

impl AgentReply {
    fn failed(error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }
}

fn actions(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(ACTION_HEADER).iter();
    let words = values.filter_map(|value| value.to_str().ok());
    words
        .flat_map(|value| value.split(','))
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Why a reply is no answer: the API's own message where there is one.
fn reply_error(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE);
    let events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if events {
        return stream_error(body);
    }
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let answers = value.as_ref().and_then(|value| value.get("choices"));
    if status.is_success() && answers.is_some_and(Value::is_array) {
        return None;
    }
    let told = value.as_ref().and_then(error_message).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        text.chars().take(UNKNOWN_CHARS).collect()
    });
    Some(told)
}

fn stream_error(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let events = || text.lines().filter_map(|line| line.strip_prefix("data: "));
    let told = events()
        .filter_map(|event| event.parse::<Value>().ok())
        .find_map(|event| error_message(&event));
    let ended = events().next_back() == Some("[DONE]");
    told.or_else(|| (!ended).then(|| "the stream ended without [DONE]".to_owned()))
}

/// The message of an error in the API's shape.
fn error_message(reply: &Value) -> Option<String> {
    let error = reply.get("error")?;
    let message = error.get("message").unwrap_or(error);
    message.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(status: u16, kind: &'static str, body: &str, expect: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        let status = StatusCode::from_u16(status).unwrap();
        let found = reply_error(status, &headers, body.as_bytes());
        assert_eq!(found.as_deref(), expect, "{body}");
    }

    #[test]
    fn an_answer_is_no_error() {
        check(200, "application/json", r#"{"choices": []}"#, None);
        check(
            200,
            "text/event-stream",
            "data: {}\n\ndata: [DONE]\n\n",
            None,
        );
    }

    #[test]
    fn errors_are_found_in_every_place() {
        let error = r#"{"error": {"message": "too long"}}"#;
        check(400, "application/json", error, Some("too long"));
        check(200, "application/json", error, Some("too long"));
        check(400, "application/json", r#"{"error": "too"}"#, Some("too"));
        check(502, "text/html", "<p>", Some("<p>"));
        let event = format!(": wait\n\ndata: {error}\n\ndata: [DONE]\n\n");
        check(200, "text/event-stream", &event, Some("too long"));
        let cut = Some("the stream ended without [DONE]");
        check(200, "text/event-stream", "data: {}\n\n", cut);
    }

    #[test]
    fn actions_are_listed_with_commas_or_lines() {
        let mut headers = HeaderMap::new();
        headers.append(ACTION_HEADER, HeaderValue::from_static("prune, summary"));
        headers.append(ACTION_HEADER, HeaderValue::from_static("retry"));
        assert_eq!(actions(&headers), ["prune", "summary", "retry"]);
    }
}
