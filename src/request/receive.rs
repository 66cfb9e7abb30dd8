//! Receives a request: buffers a chat's body whole, streams every other body.

mod buffer;

use longhaul_core::dialect::Dialect;
use std::iter::from_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::body::budget::{BufferBudget, Exhausted, Reservation};
use crate::body::chunked_bytes::ChunkedBytes;
use crate::body::client_body::ClientBody;
use crate::body::coding::Decoder;
use crate::body::peeked_body::PeekedBody;
use crate::body::request_body::{RequestBody, TransferMeter};
use crate::error::Fault;
use crate::metrics::{Label, Metrics, UnreadReason};
use crate::request::buffered_body::BufferedBody;
use crate::request::headers::is_transfer_coded;
use buffer::{BodyBuffer, BodyDecoding};
pub(crate) use buffer::{RequestSlot, RequestSlots};

/// Window over which the rate of a chat body is measured. After a window that brings too little,
/// the buffered part and the rest are streamed: the upstream decides how slow is too slow.
const RATE_WINDOW: Duration = Duration::from_mins(1);

/// Minimum bytes of one [`RATE_WINDOW`]: 2 KiB a second, four times the minimum rate of Apache's
/// `mod_reqtimeout`.
const MIN_WINDOW_BYTES: u64 = 128 * 1024;

/// Minimum growth of a buffered body in one [`RATE_WINDOW`], as a fraction of its size. Without it,
/// 255 MiB at the minimum rate would occupy the budget for hours.
const MIN_GROWTH: u64 = 16;

pub(crate) enum Received {
    Chat(BufferedBody),
    Streamed {
        body: RequestBody,
        /// Reason a chat was not buffered. `None` for other requests.
        why: Option<UnreadReason>,
    },
}

impl From<Exhausted> for UnreadReason {
    fn from(exhausted: Exhausted) -> Self {
        match exhausted {
            Exhausted::Share => Self::Share,
            Exhausted::Total => Self::Crowded,
        }
    }
}

/// Measures whether a body arrives at the minimum rate.
struct MinRate {
    window_end: Instant,
    /// Bytes received when the window began.
    received_before: u64,
}

impl MinRate {
    fn new() -> Self {
        Self { window_end: Instant::now() + RATE_WINDOW, received_before: 0 }
    }

    /// Ends the window of a body of which `received` bytes have arrived, and begins the next one.
    /// Returns whether the window brought enough.
    fn next_window(&mut self, received: u64) -> bool {
        let brought = received - self.received_before;
        let least = MIN_WINDOW_BYTES.max(self.received_before / MIN_GROWTH);
        self.window_end = Instant::now() + RATE_WINDOW;
        self.received_before = received;
        brought >= least
    }
}

/// Returns the dialect of a request if it is a chat.
pub(crate) fn chat_dialect(method: &Method, path: &str) -> Option<Dialect> {
    read_dialect(method, path).filter(|_| Dialect::counted_path(path).is_none())
}

/// Returns the dialect of a request whose body is read: a chat, or a request that counts the tokens of
/// a chat.
pub(crate) fn read_dialect(method: &Method, path: &str) -> Option<Dialect> {
    let chat = Dialect::counted_path(path).unwrap_or(path);
    Dialect::of_path(chat).filter(|_| method == Method::POST)
}

pub(crate) struct ChatBodyReader<'a> {
    /// Budget under the share of the caller.
    pub(crate) budget: BufferBudget,
    /// Maximum bytes of one body.
    pub(crate) limit: u64,
    pub(crate) meter: &'a Arc<TransferMeter>,
    pub(crate) metrics: &'a Metrics,
}

impl ChatBodyReader<'_> {
    /// Buffers a chat's body, or streams the body if it cannot be buffered. Fails if the body ended
    /// early or is malformed.
    pub(crate) async fn receive(&self, head: &Parts, body: ClientBody) -> Result<Received, Fault> {
        if body.is_end_stream() {
            return Ok(self.stream_all(body, None));
        }
        let declared = body.size_hint().exact();
        let decoder = Decoder::from_headers(&head.headers);
        let Some(decoder) = decoder.filter(|_| !is_transfer_coded(&head.headers)) else {
            return Ok(self.stream_all(body, Some(UnreadReason::Encoded)));
        };
        if declared.is_some_and(|declared| declared > self.limit) {
            return Ok(self.stream_all(body, Some(UnreadReason::Large)));
        }
        let decoding = (!decoder.is_identity())
            .then(|| BodyDecoding::new(decoder, &self.budget, self.limit))
            .transpose();
        match decoding {
            Ok(decoding) => {
                let buffer = BodyBuffer::new(&self.budget, self.limit, declared);
                self.read(buffer, decoding, declared, body).await
            }
            Err(why) => Ok(self.stream_all(body, Some(why))),
        }
    }

    async fn read(
        &self,
        mut buffer: BodyBuffer,
        mut decoding: Option<BodyDecoding>,
        declared: Option<u64>,
        mut body: ClientBody,
    ) -> Result<Received, Fault> {
        let mut rate = MinRate::new();
        loop {
            let Ok(frame) = timeout_at(rate.window_end, body.frame()).await else {
                if rate.next_window(buffer.len()) {
                    continue;
                }
                return Ok(self.stream_rest(UnreadReason::Slow, buffer, None, body));
            };
            let frame = match frame {
                Some(frame) => frame.map_err(|error| error.fault())?,
                None => return Ok(self.finish(buffer, None, decoding, body)),
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => {
                    return Ok(self.stream_rest(
                        UnreadReason::Trailers,
                        buffer,
                        Some(trailers),
                        body,
                    ));
                }
            };
            if let Some(decoding) = &mut decoding
                && let Err(why) = decoding.push(&data).await
            {
                return Ok(self.stream_rest(why, buffer, Some(Frame::data(data)), body));
            }
            let is_whole = buffer.is_empty() && declared == Some(data.len() as u64);
            let kept =
                if is_whole { buffer.reserve(data.len() as u64) } else { buffer.append(&data) };
            match kept {
                Ok(()) if is_whole => return Ok(self.finish(buffer, Some(data), decoding, body)),
                Ok(()) => {}
                Err(why) => {
                    return Ok(self.stream_rest(why, buffer, Some(Frame::data(data)), body));
                }
            }
        }
    }

    /// Finishes a body that was read to its end. `only` is the whole body if it arrived in one
    /// chunk.
    fn finish(
        &self,
        buffer: BodyBuffer,
        only: Option<Bytes>,
        decoding: Option<BodyDecoding>,
        rest: ClientBody,
    ) -> Received {
        let decoded = match decoding.map(BodyDecoding::end).transpose() {
            Ok(decoded) => decoded,
            Err(why) => return self.stream_rest(why, buffer, only.map(Frame::data), rest),
        };
        let (bytes, mut reservation) = buffer.into_parts();
        let original = only.unwrap_or(bytes);
        let body = match decoded {
            None => BufferedBody::plain(original),
            Some((text, its_part)) => {
                reservation.merge(its_part);
                BufferedBody::decoded(text, original)
            }
        };
        Received::Chat(body.with_reservation(reservation))
    }

    /// Streams a body before any of it was read.
    fn stream_all(&self, body: ClientBody, why: Option<UnreadReason>) -> Received {
        if let Some(why) = why {
            self.count_unread(why);
        }
        Received::Streamed { body: RequestBody::from_client(body, self.meter), why }
    }

    /// Streams a body that cannot be buffered whole: the buffered part, then the rest.
    fn stream_rest(
        &self,
        why: UnreadReason,
        buffer: BodyBuffer,
        next: Option<Frame<Bytes>>,
        rest: ClientBody,
    ) -> Received {
        self.count_unread(why);
        let (bytes, reservation) = buffer.into_parts();
        // The budget gets the bytes back when they are written, however long the rest takes.
        let bytes = Bytes::from_owner(ChargedBytes { bytes, _reservation: reservation });
        let mut read = ChunkedBytes::from(bytes);
        let read = from_fn(move || read.next_frame()).map(Frame::data);
        let body = PeekedBody::with_head(read.chain(next), rest);
        let body = RequestBody::from_peeked(body, self.meter);
        Received::Streamed { body, why: Some(why) }
    }

    fn count_unread(&self, why: UnreadReason) {
        self.metrics.unread.add(why);
        let reason = why.label();
        if matches!(why, UnreadReason::Encoded | UnreadReason::Trailers) {
            tracing::debug!(reason, "a chat is streamed through unread");
        } else {
            tracing::warn!(reason, "a chat is streamed through unread");
        }
    }
}

/// Bytes whose part of the budget is returned once the last slice of them is dropped.
struct ChargedBytes {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(method: &str, target: &str) -> bool {
        let request = http::Request::builder().method(method).uri(target).body(()).unwrap();
        chat_dialect(request.method(), request.uri().path()).is_some()
    }

    #[test]
    fn any_post_to_a_chat_completions_path_is_a_chat() {
        assert!(chat("POST", "/v1/chat/completions"));
        assert!(chat("POST", "/openai/deployments/x/chat/completions?api-version=1"));
        assert!(!chat("GET", "/v1/chat/completions"));
        assert!(chat("POST", "/v1/chat/completions/"));
        assert!(!chat("POST", "/v1/embeddings?x=/chat/completions"));
    }
}
