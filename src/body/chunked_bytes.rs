//! A body of known length in several chunks, so that shared bytes need not be copied.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Maximum size of a frame of a buffered body. hyper holds at most two such frames and writes them
/// with one call.
const FRAME_BYTES: usize = 256 * 1024;

/// Non-empty chunks, sent in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkedBytes(VecDeque<Bytes>);

impl ChunkedBytes {
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.0.push_back(bytes);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks().map(<[u8]>::len).sum()
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|bytes| &**bytes)
    }

    pub(crate) fn next_frame(&mut self) -> Option<Bytes> {
        let first = self.0.front_mut()?;
        if first.len() > FRAME_BYTES {
            return Some(first.split_to(FRAME_BYTES));
        }
        self.0.pop_front()
    }

    /// Joins the chunks. Copies unless there is only one.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        match self.0.len() {
            0 | 1 => self.0.pop_front().unwrap_or_default(),
            _ => self.chunks().collect::<Vec<_>>().concat().into(),
        }
    }
}

impl From<Bytes> for ChunkedBytes {
    fn from(bytes: Bytes) -> Self {
        let mut pieces = Self::default();
        pieces.push(bytes);
        pieces
    }
}

impl Body for ChunkedBytes {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next_frame().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn sends_the_pushed_pieces_in_order() {
        let mut pieces = ChunkedBytes::from(Bytes::from_static(b"one"));
        pieces.push(Bytes::new());
        pieces.push(Bytes::from_static(b"two"));
        assert_eq!(pieces.size_hint().exact(), Some(6));
        assert_eq!(pieces.clone().into_bytes(), "onetwo");
        let sent = pieces.collect().await.unwrap().to_bytes();
        assert_eq!(sent, "onetwo");
    }

    #[tokio::test]
    async fn splits_a_long_piece_into_frames_without_copying() {
        let long = Bytes::from(vec![b'x'; 2 * FRAME_BYTES + 1]);
        let mut pieces = ChunkedBytes::from(long.clone());
        pieces.push(Bytes::from_static(b"end"));
        let mut sent = Vec::new();
        while let Some(frame) = pieces.frame().await {
            sent.push(frame.unwrap().into_data().unwrap());
        }
        let lengths: Vec<_> = sent.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [FRAME_BYTES, FRAME_BYTES, 1, 3]);
        assert_eq!(sent[1].as_ptr(), long[FRAME_BYTES..].as_ptr());
        assert!(pieces.is_end_stream());
    }

    #[test]
    fn empty_body_is_at_its_end_from_the_start() {
        let nothing = ChunkedBytes::from(Bytes::new());
        assert!(nothing.is_end_stream());
        assert_eq!(nothing.into_bytes(), "");
    }
}
