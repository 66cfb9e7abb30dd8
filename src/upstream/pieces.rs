//! A body of known length in several runs of bytes, so that what is shared need not be copied.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Runs of bytes, none of them empty, that are sent one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces(VecDeque<Bytes>);

impl Pieces {
    /// Puts `bytes` behind those there are.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.0.push_back(bytes);
        }
    }

    /// How many bytes they have together.
    pub(crate) fn len(&self) -> usize {
        self.chunks().map(<[u8]>::len).sum()
    }

    /// Each of them.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|bytes| &**bytes)
    }

    /// All in one: a copy, unless it was one.
    pub(crate) fn joined(mut self) -> Bytes {
        match self.0.len() {
            0 | 1 => self.0.pop_front().unwrap_or_default(),
            _ => self.chunks().collect::<Vec<_>>().concat().into(),
        }
    }
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        let mut pieces = Self::default();
        pieces.push(bytes);
        pieces
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|bytes| Ok(Frame::data(bytes))))
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
    async fn what_is_sent_is_what_was_put_in_one_behind_the_other() {
        let mut pieces = Pieces::from(Bytes::from_static(b"one"));
        pieces.push(Bytes::new());
        pieces.push(Bytes::from_static(b"two"));
        assert_eq!(pieces.size_hint().exact(), Some(6));
        assert_eq!(pieces.clone().joined(), "onetwo");
        let sent = pieces.collect().await.unwrap().to_bytes();
        assert_eq!(sent, "onetwo");
    }

    #[test]
    fn nothing_has_ended_before_it_began() {
        let nothing = Pieces::from(Bytes::new());
        assert!(nothing.is_end_stream());
        assert_eq!(nothing.joined(), "");
    }
}
