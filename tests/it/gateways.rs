//! `POST /v1/compress`: what a gateway gets back for the messages of a chat.

mod callers;
mod contract;
mod sessions;
mod withheld;

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Nobody, Proxy};
use crate::manual::ask;
use crate::received_reply::ReceivedReply;

const PATH: &str = "/v1/compress";
const ENABLED: (&str, &str) = ("compress_enabled", "true");

/// A proxy with the setting on, whose upstream does not exist.
struct Service {
    proxy: Proxy,
    _upstream: Nobody,
}

impl Service {
    async fn start(changes: &[(&str, &str)]) -> Self {
        let upstream = Nobody::bind();
        let changes = [&[ENABLED], changes].concat();
        Self { proxy: Proxy::start(&upstream.base("/v1"), &changes).await, _upstream: upstream }
    }

    fn url(&self) -> String {
        format!("http://{}/v1", self.proxy.address)
    }

    async fn post(&self, fields: &[(&str, &str)], body: &[u8]) -> ReceivedReply {
        ask((Method::POST, &self.url(), PATH), fields, body).await
    }

    /// Sends messages, and returns the reply to a valid request.
    async fn compress(&self, messages: &Value, model: &str) -> Compressed {
        let body = json!({"messages": messages, "model": model}).to_string();
        Compressed::read(&self.post(&[], body.as_bytes()).await)
    }
}

/// The reply to a valid request.
#[derive(Debug)]
struct Compressed {
    messages: Vec<Value>,
    before: u64,
    after: u64,
    applied: Vec<String>,
    /// The reply's own bytes, up to the numbers.
    list: String,
}

impl Compressed {
    fn read(reply: &ReceivedReply) -> Self {
        let text = str::from_utf8(&reply.body).unwrap();
        assert_eq!(reply.status, 200, "{text}");
        assert_eq!(reply.headers["content-type"], "application/json");
        let body: Value = text.parse().unwrap();
        let number = |key: &str| body[key].as_u64().unwrap_or_else(|| panic!("{key}: {text}"));
        let (before, after) = (number("tokens_before"), number("tokens_after"));
        assert_eq!(number("tokens_saved"), before - after);
        #[allow(clippy::cast_precision_loss, reason = "no conversation has 2^52 tokens")]
        let ratio = if before == 0 { 1.0 } else { after as f64 / before as f64 };
        let stated = body["compression_ratio"].as_f64().unwrap();
        assert!((stated - ratio).abs() < 1e-9, "{stated} {ratio}");
        let applied = body["transforms_applied"].as_array().unwrap().iter();
        Self {
            messages: body["messages"].as_array().unwrap().clone(),
            before,
            after,
            applied: applied.map(|it| it.as_str().unwrap().to_owned()).collect(),
            list: text.rsplit_once("],\"tokens_before\"").unwrap().0.to_owned(),
        }
    }

    /// Whether the messages are those of `earlier`, byte for byte, and more.
    fn extends(&self, earlier: &Self) -> bool {
        self.list.starts_with(&earlier.list)
    }
}
