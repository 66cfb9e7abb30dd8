//! Takes a request in: a chat's body is read whole, every other passes as a stream.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::request::Parts;
use http::{HeaderMap, Method};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::budget::{Budget, Reservation};
use crate::error::Fault;
use crate::limits::{BODY_FIRST_BYTES, BODY_STALL};
use crate::metrics::{Label, Metrics, Unread};
use crate::upstream::{Held, Meter, Outgoing};

/// A request's body, taken in.
pub(super) enum Received {
    /// A chat, read whole.
    Chat {
        /// The body.
        bytes: Bytes,
        /// Its part of the budget, to be kept as long as the bytes.
        reservation: Reservation,
    },
    /// Anything else, as it comes.
    Passing {
        /// The body.
        body: Outgoing,
        /// The part of the budget that its held beginning takes.
        reservation: Option<Reservation>,
    },
}

/// Whether the request is a chat completion: Azure and gateways have theirs under longer paths.
pub(super) fn is_chat(head: &Parts) -> bool {
    head.method == Method::POST && head.uri.path().ends_with("/chat/completions")
}

/// What reading a body needs to know.
pub(super) struct Receiver<'a> {
    pub(super) budget: &'a Budget,
    /// Bytes of one body.
    pub(super) limit: u64,
    pub(super) meter: &'a Arc<Meter>,
    pub(super) metrics: &'a Metrics,
}

impl Receiver<'_> {
    /// Reads a chat's body, or finds why it is better streamed through.
    ///
    /// # Errors
    /// The body broke off or is malformed.
    pub(super) async fn receive(&self, head: &Parts, body: Incoming) -> Result<Received, Fault> {
        if body.is_end_stream() {
            return Ok(self.pass(body));
        }
        let declared = body.size_hint().exact();
        if is_encoded(&head.headers) {
            self.count(Unread::Encoded);
            return Ok(self.pass(body));
        }
        if declared.is_some_and(|declared| declared > self.limit) {
            self.count(Unread::Large);
            return Ok(self.pass(body));
        }
        let mut buffer = Buffer::new(self.budget, self.limit);
        let expected = declared.unwrap_or(BODY_FIRST_BYTES as u64).min(self.limit);
        if let Err(why) = buffer.grow_to(expected) {
            self.count(why);
            return Ok(self.pass(body));
        }
        self.read(buffer, declared, body).await
    }

    async fn read(
        &self,
        mut buffer: Buffer,
        declared: Option<u64>,
        mut body: Incoming,
    ) -> Result<Received, Fault> {
        loop {
            let Ok(frame) = timeout(BODY_STALL, body.frame()).await else {
                return Ok(self.release(Unread::Slow, buffer, None, body));
            };
            let frame = match frame {
                Some(frame) => frame.map_err(|_| Fault::BodyBroken)?,
                None => return Ok(buffer.into_chat()),
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => {
                    return Ok(self.release(Unread::Trailers, buffer, Some(trailers), body));
                }
            };
            if buffer.is_empty() && declared == Some(data.len() as u64) {
                let reservation = buffer.reservation;
                return Ok(Received::Chat {
                    bytes: data,
                    reservation,
                });
            }
            if let Err((why, data)) = buffer.append(data) {
                return Ok(self.release(why, buffer, Some(Frame::data(data)), body));
            }
        }
    }

    fn pass(&self, body: Incoming) -> Received {
        Received::Passing {
            body: Outgoing::stream(body, self.meter),
            reservation: None,
        }
    }

    /// Lets a body go on that cannot be read whole: what was read of it, then the rest.
    fn release(
        &self,
        why: Unread,
        buffer: Buffer,
        next: Option<Frame<Bytes>>,
        rest: Incoming,
    ) -> Received {
        self.count(why);
        let Buffer {
            bytes, reservation, ..
        } = buffer;
        let read = (!bytes.is_empty()).then(|| Frame::data(Bytes::from(bytes)));
        let body = Held::new(read.into_iter().chain(next), rest);
        let body = Outgoing::held(body, self.meter);
        Received::Passing {
            body,
            reservation: Some(reservation),
        }
    }

    fn count(&self, why: Unread) {
        self.metrics.unread.add(why);
        let reason = why.label();
        match why {
            Unread::Encoded | Unread::Trailers => {
                tracing::debug!(reason, "a chat is streamed through unread");
            }
            Unread::Crowded | Unread::Large | Unread::Slow => {
                tracing::warn!(reason, "a chat is streamed through unread");
            }
        }
    }
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|value| value != "identity")
}

/// One growing buffer.
///
/// Invariant: its capacity was asked for exactly, is reserved in the budget and at most `limit`.
struct Buffer {
    bytes: Vec<u8>,
    limit: u64,
    reservation: Reservation,
}

impl Buffer {
    fn new(budget: &Budget, limit: u64) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
            reservation: budget.reservation(),
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Copies `data` in; gives it back with the reason if there is no room for it.
    fn append(&mut self, data: Bytes) -> Result<(), (Unread, Bytes)> {
        let needed = self.bytes.len() as u64 + data.len() as u64;
        let capacity = self.bytes.capacity() as u64;
        if needed > capacity {
            let doubled = capacity.saturating_mul(2).min(self.limit);
            if let Err(why) = self.grow_to(needed.max(doubled)) {
                return Err((why, data));
            }
        }
        self.bytes.extend_from_slice(&data);
        Ok(())
    }

    fn grow_to(&mut self, capacity: u64) -> Result<(), Unread> {
        if capacity > self.limit {
            return Err(Unread::Large);
        }
        self.reservation
            .grow_to(capacity)
            .map_err(|_| Unread::Crowded)?;
        let capacity = usize::try_from(capacity).map_err(|_| Unread::Large)?;
        self.bytes
            .reserve_exact(capacity.saturating_sub(self.bytes.len()));
        Ok(())
    }

    fn into_chat(self) -> Received {
        Received::Chat {
            bytes: Bytes::from(self.bytes),
            reservation: self.reservation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(method: &str, target: &str) -> bool {
        let request = http::Request::builder()
            .method(method)
            .uri(target)
            .body(())
            .unwrap();
        is_chat(&request.into_parts().0)
    }

    #[test]
    fn a_chat_is_any_post_whose_path_ends_so() {
        assert!(chat("POST", "/v1/chat/completions"));
        assert!(chat(
            "POST",
            "/openai/deployments/x/chat/completions?api-version=1"
        ));
        assert!(!chat("GET", "/v1/chat/completions"));
        assert!(!chat("POST", "/v1/chat/completions/"));
        assert!(!chat("POST", "/v1/embeddings?x=/chat/completions"));
    }

    #[test]
    fn a_buffer_grows_geometrically_and_stops_at_its_limit() {
        let budget = Budget::new(1 << 20);
        let mut buffer = Buffer::new(&budget, 100);
        assert_eq!(buffer.grow_to(16), Ok(()));
        for _ in 0..10 {
            assert_eq!(buffer.append(Bytes::from_static(b"0123456789")), Ok(()));
        }
        let (why, data) = buffer.append(Bytes::from_static(b"x")).unwrap_err();
        assert_eq!((why, &data[..]), (Unread::Large, &b"x"[..]));
        assert_eq!(buffer.bytes.len(), 100);
    }

    #[test]
    fn a_buffer_stops_where_the_budget_is_spent() {
        let budget = Budget::new(10);
        let mut buffer = Buffer::new(&budget, 100);
        assert_eq!(buffer.append(Bytes::from_static(b"0123456789")), Ok(()));
        let (why, _) = buffer.append(Bytes::from_static(b"x")).unwrap_err();
        assert_eq!(why, Unread::Crowded);
    }
}
