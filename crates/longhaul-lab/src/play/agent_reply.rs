//! A reply as an agent reads it.

use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use longhaul_console::loopback_client::LoopbackReply;

/// The header in which longhaul reports its actions.
const ACTION_HEADER: &str = "x-longhaul-action";
/// The maximum number of characters shown of a reply that is not an error in the API's format.
const UNKNOWN_CHARS: usize = 200;

/// Types of the events that close a stream of the Responses and of the Messages API.
const CLOSING_EVENTS: [&str; 2] = ["message_stop", "response.completed"];

/// The outcome of one request.
#[derive(Debug, Default)]
pub(super) struct AgentReply {
    /// The status, or 0 without a reply.
    pub(super) status: u16,
    /// The actions that longhaul reports.
    pub(super) action: Vec<String>,
    /// The error, if the reply is not an answer.
    pub(super) error: Option<String>,
}

impl AgentReply {
    /// Reads a reply, or the reason why none arrived.
    pub(super) fn read(sent: Result<LoopbackReply, String>) -> Self {
        match sent {
            Ok(reply) => Self {
                status: reply.status.as_u16(),
                action: actions(&reply.headers),
                error: reply_error(reply.status, &reply.headers, &reply.body),
            },
            Err(error) => Self { error: Some(error), ..Self::default() },
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

/// Returns the error if a reply is not an answer: the API's own message if there is one.
fn reply_error(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE);
    let events = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if events {
        return stream_error(body);
    }
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let member = |key: &str| value.as_ref().and_then(|value| value.get(key));
    let has_error = member("error").is_some_and(|error| !error.is_null());
    let answers =
        ["choices", "content", "output"].map(|key| member(key).is_some_and(Value::is_array));
    if status.is_success() && answers.contains(&true) && !has_error {
        return None;
    }
    let message = value.as_ref().and_then(error_message).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        text.chars().take(UNKNOWN_CHARS).collect()
    });
    Some(message)
}

fn stream_error(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let events = || text.lines().filter_map(|line| line.strip_prefix("data: "));
    let parsed = || events().filter_map(|event| event.parse::<Value>().ok());
    let message = parsed().find_map(|event| {
        let within = event.get("response").and_then(error_message);
        error_message(&event).or(within)
    });
    let is_closed = |event: Value| {
        let kind = event.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| CLOSING_EVENTS.contains(&kind))
    };
    let ended =
        events().next_back() == Some("[DONE]") || parsed().next_back().is_some_and(is_closed);
    message.or_else(|| (!ended).then(|| "the stream ended without its last event".to_owned()))
}

/// Returns the message of an error in the API's format.
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
    fn successful_reply_yields_no_error() {
        check(200, "application/json", r#"{"choices": []}"#, None);
        check(200, "application/json", r#"{"output": [], "error": null}"#, None);
        let closed =
            "data: {\"type\": \"response.completed\", \"response\": {\"error\": null}}\n\n";
        check(200, "text/event-stream", closed, None);
        check(200, "application/json", r#"{"content": []}"#, None);
        let stopped = "event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n";
        check(200, "text/event-stream", stopped, None);
        check(200, "text/event-stream", "data: {}\n\ndata: [DONE]\n\n", None);
    }

    #[test]
    fn finds_errors_in_every_reply_format() {
        let error = r#"{"error": {"message": "too long"}}"#;
        check(400, "application/json", error, Some("too long"));
        check(200, "application/json", error, Some("too long"));
        check(400, "application/json", r#"{"error": "too"}"#, Some("too"));
        check(502, "text/html", "<p>", Some("<p>"));
        let failed = r#"{"output": [], "error": {"message": "too long"}}"#;
        check(200, "application/json", failed, Some("too long"));
        let failed = format!("data: {{\"type\": \"response.failed\", \"response\": {failed}}}\n\n");
        check(200, "text/event-stream", &failed, Some("too long"));
        let event = format!(": wait\n\ndata: {error}\n\ndata: [DONE]\n\n");
        check(200, "text/event-stream", &event, Some("too long"));
        let cut = Some("the stream ended without its last event");
        check(200, "text/event-stream", "data: {}\n\n", cut);
    }

    #[test]
    fn parses_actions_across_commas_and_header_lines() {
        let mut headers = HeaderMap::new();
        headers.append(ACTION_HEADER, HeaderValue::from_static("prune, summary"));
        headers.append(ACTION_HEADER, HeaderValue::from_static("retry"));
        assert_eq!(actions(&headers), ["prune", "summary", "retry"]);
    }
}
