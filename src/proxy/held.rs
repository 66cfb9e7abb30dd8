//! A body of which a part was read ahead: what was read comes first, then the rest.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body and what was held back of it. Read as a body, it gives exactly the frames of the one
/// inside: in their order, with its trailers, and an error in the place where it struck.
pub struct Held<B: Body<Data = Bytes>> {
    head: VecDeque<Result<Frame<Bytes>, B::Error>>,
    /// Bytes of data in `head`.
    head_bytes: usize,
    tail: B,
    /// `tail` gave its last frame, or failed: it is not asked again.
    tail_ended: bool,
}

/// What reading ahead brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Ahead {
    /// The body failed. The failure is held, too.
    Broken,
    /// The next chunk; a copy of the handle, the bytes are held.
    Chunk(Bytes),
    /// The body is whole.
    Ended,
}

impl<B> Held<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// A body of which nothing was read.
    pub fn new(tail: B) -> Self {
        Self {
            head: VecDeque::new(),
            head_bytes: 0,
            tail,
            tail_ended: false,
        }
    }

    /// Bytes that are held.
    pub fn held_bytes(&self) -> usize {
        self.head_bytes
    }

    /// Reads one chunk ahead and holds it. Dropping the future loses nothing.
    pub async fn read_ahead(&mut self) -> Ahead {
        while !self.tail_ended {
            let frame = poll_fn(|context| Pin::new(&mut self.tail).poll_frame(context)).await;
            let Some(frame) = frame else {
                self.tail_ended = true;
                break;
            };
            self.tail_ended = frame.is_err();
            let chunk = frame.as_ref().ok().and_then(Frame::data_ref).cloned();
            self.head.push_back(frame);
            if self.tail_ended {
                return Ahead::Broken;
            }
            if let Some(chunk) = chunk {
                self.head_bytes += chunk.len();
                return Ahead::Chunk(chunk);
            }
        }
        Ahead::Ended
    }
}

// Held frames are moved and never pinned; only the body inside is, through its own `Unpin`.
impl<B: Body<Data = Bytes> + Unpin> Unpin for Held<B> {}

impl<B> Body for Held<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(frame) = self.head.pop_front() {
            let data = frame.as_ref().ok().and_then(Frame::data_ref);
            let bytes = data.map_or(0, Bytes::len);
            self.head_bytes -= bytes;
            return Poll::Ready(Some(frame));
        }
        if self.tail_ended {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.tail).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_empty() && (self.tail_ended || self.tail.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let held = u64::try_from(self.head_bytes).unwrap_or(u64::MAX);
        if self.tail_ended {
            return SizeHint::with_exact(held);
        }
        let tail = self.tail.size_hint();
        let mut sum = SizeHint::new();
        if let Some(upper) = tail.upper() {
            sum.set_upper(upper.saturating_add(held));
        }
        sum.set_lower(tail.lower().saturating_add(held));
        sum
    }
}
