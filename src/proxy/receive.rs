//! Takes a request in: a chat's body is read whole, every other passes as a stream.

mod buffer;
mod decoding;

use std::iter::from_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::timeout;

use self::buffer::Buffer;
use self::decoding::Decoding;
use super::Proxy;
use super::account::Account;
use super::budget::{Budget, Reservation};
use super::coding::Decoder;
use super::headers::is_transfer_coded;
use super::whole::Whole;
use super::wish::Wish;
use crate::config::{CHAT, Mode};
use crate::error::Fault;
use crate::metrics::{Label, Metrics, Unread};
use crate::upstream::{Held, Meter, Outgoing, Pieces, Upload};

/// A chat body from which no byte came for this long is streamed on as far as it was read: it is
/// the upstream's to say how slow is too slow.
const BODY_STALL: Duration = Duration::from_mins(1);

/// A request's body, taken in.
pub(super) enum Received {
    /// A chat, read whole.
    Chat(Whole),
    /// Anything else, as it comes.
    Passing {
        /// The body.
        body: Outgoing,
        /// The part of the budget that its held beginning takes.
        reservation: Option<Reservation>,
        /// Why it was not read, where it is a chat.
        why: Option<Unread>,
    },
}

/// Whether the request is a chat completion: Azure and gateways have theirs under longer paths.
pub(super) fn is_chat(head: &Parts) -> bool {
    is_chat_at(&head.method, head.uri.path())
}

/// The same of a path that stands apart.
pub(super) fn is_chat_at(method: &Method, path: &str) -> bool {
    method == Method::POST && path.ends_with(CHAT)
}

impl Proxy {
    /// Reads a chat's body; leaves every other as a stream.
    pub(super) async fn receive(
        &self,
        head: &Parts,
        body: Upload,
        account: &Account,
    ) -> Result<Received, Fault> {
        if self.mode(head) == Mode::Off || !is_chat(head) {
            let body = Outgoing::stream(body, account.meter());
            return Ok(Received::Passing {
                body,
                reservation: None,
                why: None,
            });
        }
        self.receiver(account).receive(head, body).await
    }

    pub(super) fn receiver<'a>(&'a self, account: &'a Account) -> Receiver<'a> {
        let shared = &*self.0;
        Receiver {
            budget: &shared.budget,
            limit: shared.config.limits.body,
            meter: account.meter(),
            metrics: &shared.metrics,
        }
    }

    /// Whether chats are read, as the request says, else as the settings do.
    pub(super) fn mode(&self, head: &Parts) -> Mode {
        let asked = Wish::of(&head.headers).mode;
        asked.unwrap_or(self.0.config.mode)
    }
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
    pub(super) async fn receive(&self, head: &Parts, body: Upload) -> Result<Received, Fault> {
        if body.is_end_stream() {
            return Ok(self.pass(body, None));
        }
        let declared = body.size_hint().exact();
        let decoder = Decoder::of(&head.headers);
        let Some(decoder) = decoder.filter(|_| !is_transfer_coded(&head.headers)) else {
            return Ok(self.pass(body, Some(Unread::Encoded)));
        };
        if declared.is_some_and(|declared| declared > self.limit) {
            return Ok(self.pass(body, Some(Unread::Large)));
        }
        let decoding = (!decoder.is_identity())
            .then(|| Decoding::new(decoder, self.budget, self.limit))
            .transpose();
        match decoding {
            Ok(decoding) => {
                let buffer = Buffer::new(self.budget, self.limit, declared);
                self.read(buffer, decoding, declared, body).await
            }
            Err(why) => Ok(self.pass(body, Some(why))),
        }
    }

    async fn read(
        &self,
        mut buffer: Buffer,
        mut decoding: Option<Decoding>,
        declared: Option<u64>,
        mut body: Upload,
    ) -> Result<Received, Fault> {
        loop {
            let Ok(frame) = timeout(BODY_STALL, body.frame()).await else {
                return Ok(self.release(Unread::Slow, buffer, None, body));
            };
            let frame = match frame {
                Some(frame) => frame.map_err(|_| Fault::BodyBroken)?,
                None => return Ok(self.whole(buffer, None, decoding, body)),
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => {
                    return Ok(self.release(Unread::Trailers, buffer, Some(trailers), body));
                }
            };
            if let Some(decoding) = &mut decoding
                && let Err(why) = decoding.push(&data).await
            {
                return Ok(self.release(why, buffer, Some(Frame::data(data)), body));
            }
            let is_whole = buffer.is_empty() && declared == Some(data.len() as u64);
            let kept = if is_whole {
                buffer.reserve(data.len() as u64)
            } else {
                buffer.append(&data)
            };
            match kept {
                Ok(()) if is_whole => return Ok(self.whole(buffer, Some(data), decoding, body)),
                Ok(()) => {}
                Err(why) => return Ok(self.release(why, buffer, Some(Frame::data(data)), body)),
            }
        }
    }

    /// A body that was read to its end; `only` is all of it where it came in one piece.
    fn whole(
        &self,
        buffer: Buffer,
        only: Option<Bytes>,
        decoding: Option<Decoding>,
        rest: Upload,
    ) -> Received {
        let decoded = match decoding.map(Decoding::end).transpose() {
            Ok(decoded) => decoded,
            Err(why) => return self.release(why, buffer, only.map(Frame::data), rest),
        };
        let (bytes, mut reservation) = buffer.into_parts();
        let came = only.unwrap_or(bytes);
        let body = match decoded {
            None => Whole::plain(came),
            Some((text, its_part)) => {
                reservation.join(its_part);
                Whole::decoded(text, came)
            }
        };
        Received::Chat(body.within(reservation))
    }

    /// Lets a body go on of which nothing was read.
    fn pass(&self, body: Upload, why: Option<Unread>) -> Received {
        if let Some(why) = why {
            self.count(why);
        }
        Received::Passing {
            body: Outgoing::stream(body, self.meter),
            reservation: None,
            why,
        }
    }

    /// Lets a body go on that cannot be read whole: what was read of it, then the rest.
    fn release(
        &self,
        why: Unread,
        buffer: Buffer,
        next: Option<Frame<Bytes>>,
        rest: Upload,
    ) -> Received {
        self.count(why);
        let (bytes, reservation) = buffer.into_parts();
        let mut read = Pieces::from(bytes);
        let read = from_fn(move || read.take()).map(Frame::data);
        let body = Held::with_head(read.chain(next), rest);
        let body = Outgoing::held(body, self.meter);
        Received::Passing {
            body,
            reservation: Some(reservation),
            why: Some(why),
        }
    }

    fn count(&self, why: Unread) {
        self.metrics.unread.add(why);
        let reason = why.label();
        match why {
            Unread::Encoded | Unread::Trailers => {
                tracing::debug!(reason, "a chat is streamed through unread");
            }
            Unread::Bomb | Unread::Corrupt | Unread::Crowded | Unread::Large | Unread::Slow => {
                tracing::warn!(reason, "a chat is streamed through unread");
            }
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
}
