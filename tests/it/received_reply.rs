//! The reply that a client receives for a request.

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

/// A complete reply.
#[derive(Debug)]
pub(crate) struct ReceivedReply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ReceivedReply {
    /// Reads a reply to its end.
    pub(crate) async fn read(reply: Response<Incoming>) -> Self {
        let (head, body) = reply.into_parts();
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// Returns the action that the proxy reports; empty if there is none.
    pub(crate) fn action(&self) -> &str {
        self.field("action").unwrap_or_default()
    }

    /// Returns a reply header of the proxy by its name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let value = self.headers.get(format!("x-longhaul-{name}"))?;
        Some(value.to_str().unwrap())
    }

    /// Whether a client accepts the reply as an answer, whole or as events.
    pub(crate) fn is_answer(&self) -> bool {
        let says_no_error = |json: &[u8]| {
            let value: Value = serde_json::from_slice(json).unwrap();
            value.get("error").is_none() && value.get("choices").is_some()
        };
        if self.status != 200 {
            return false;
        }
        if self.body.starts_with(b"{") {
            return says_no_error(&self.body);
        }
        let text = str::from_utf8(&self.body).unwrap();
        let mut events = text.split("\n\n").filter_map(|e| e.strip_prefix("data: "));
        text.ends_with("data: [DONE]\n\n")
            && events.all(|event| event == "[DONE]" || says_no_error(event.as_bytes()))
    }
}
