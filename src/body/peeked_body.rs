//! A body that was partly read ahead. The buffered part is replayed first, then the rest streams.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::body::budget::{Exhausted, Reservation};

/// A body with its peeked head. As a body, it yields exactly the frames of the inner body: in
/// order, with trailers, and with an error at its original position.
pub(crate) struct PeekedBody<B: Body<Data = Bytes>> {
    head: VecDeque<Result<Frame<Bytes>, B::Error>>,
    head_bytes: usize,
    /// Part of the budget for `head`, until all of it was yielded.
    reservation: Option<Reservation>,
    tail: B,
    /// Whether `tail` has yielded its last frame or failed. It is not polled again then.
    tail_ended: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadAhead {
    /// The body failed. The error is buffered too.
    Broken,
    /// The next chunk, a clone of the buffered one that shares its bytes.
    Chunk(Bytes),
    /// The whole body has been read.
    Ended,
}

impl<B> PeekedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// Wraps an unread body.
    pub(crate) fn new(tail: B) -> Self {
        Self { head: VecDeque::new(), head_bytes: 0, reservation: None, tail, tail_ended: false }
    }

    /// Wraps a body and the frames already read from it.
    pub(crate) fn with_head(frames: impl IntoIterator<Item = Frame<Bytes>>, tail: B) -> Self {
        let mut held = Self::new(tail);
        held.head.extend(frames.into_iter().map(Ok));
        let data = held.head.iter().flatten().filter_map(Frame::data_ref);
        held.head_bytes = data.map(Bytes::len).sum();
        held
    }

    /// Charges what is read ahead to a reservation.
    pub(crate) fn charged_to(self, reservation: Reservation) -> Self {
        Self { reservation: Some(reservation), ..self }
    }

    /// Reserves room for the bytes that were read ahead.
    ///
    /// # Errors
    /// The budget has too little left.
    pub(crate) fn reserve_peeked(&mut self) -> Result<(), Exhausted> {
        let bytes = u64::try_from(self.head_bytes).unwrap_or(u64::MAX);
        let reservation = self.reservation.as_mut();
        reservation.map_or(Ok(()), |reservation| reservation.grow_to(bytes))
    }

    pub(crate) fn peeked_bytes(&self) -> usize {
        self.head_bytes
    }

    /// Reads one chunk ahead and buffers it. Cancel-safe: dropping the future loses nothing.
    pub(crate) async fn read_ahead(&mut self) -> ReadAhead {
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
                return ReadAhead::Broken;
            }
            if let Some(chunk) = chunk {
                self.head_bytes += chunk.len();
                return ReadAhead::Chunk(chunk);
            }
        }
        ReadAhead::Ended
    }
}

// Buffered frames are moved but never pinned; the inner body is pinned through its own `Unpin`.
impl<B: Body<Data = Bytes> + Unpin> Unpin for PeekedBody<B> {}

impl<B> Body for PeekedBody<B>
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
            if self.head.is_empty() {
                self.reservation = None;
            }
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
        // A broken body announced more than it delivered. The hint must keep showing that.
        let broke = matches!(self.head.back(), Some(Err(_)));
        if self.tail_ended && !broke {
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

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn held(head: &[&'static str], tail: &'static str) -> PeekedBody<Full<Bytes>> {
        let head = head.iter().map(|text| Frame::data(Bytes::from_static(text.as_bytes())));
        PeekedBody::with_head(head, Full::new(Bytes::from_static(tail.as_bytes())))
    }

    /// A body of nine bytes that breaks off after these.
    struct Broken(Option<Bytes>);

    impl Body for Broken {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(Some(self.0.take().map(Frame::data).ok_or("broken")))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(if self.0.is_some() { 9 } else { 5 })
        }
    }

    #[tokio::test]
    async fn yields_the_read_ahead_chunks_before_the_rest() {
        let whole = held(&["one ", "two "], "three").collect().await.unwrap().to_bytes();
        assert_eq!(whole, "one two three");
    }

    #[test]
    fn size_hint_includes_the_read_ahead_bytes() {
        assert_eq!(held(&["1234"], "567").size_hint().exact(), Some(7));
    }

    #[tokio::test]
    async fn broken_body_still_reports_its_announced_size() {
        let mut held = PeekedBody::new(Broken(Some(Bytes::from_static(b"1234"))));
        assert_eq!(held.read_ahead().await, ReadAhead::Chunk(Bytes::from_static(b"1234")));
        assert_eq!(held.read_ahead().await, ReadAhead::Broken);
        assert_eq!(held.size_hint().exact(), Some(9));
    }

    #[test]
    fn has_not_ended_while_read_ahead_bytes_remain() {
        assert!(!held(&["1"], "").is_end_stream());
        assert!(held(&[], "").is_end_stream());
    }
}
