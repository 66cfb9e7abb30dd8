//! A body of which the beginning was already read: that first, then the rest as it comes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Frames read ahead, in front of the body they were read from.
#[derive(Debug)]
pub(crate) struct Held<B> {
    head: VecDeque<Frame<Bytes>>,
    tail: B,
}

impl<B> Held<B> {
    /// Puts `head` back in front of `tail`.
    pub(crate) fn new(head: impl IntoIterator<Item = Frame<Bytes>>, tail: B) -> Self {
        Self {
            head: head.into_iter().collect(),
            tail,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Held<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.head.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => Pin::new(&mut self.tail).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_empty() && self.tail.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held: u64 = self
            .head
            .iter()
            .filter_map(Frame::data_ref)
            .map(|data| data.len() as u64)
            .sum();
        let tail = self.tail.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = tail.upper().and_then(|upper| upper.checked_add(held)) {
            hint.set_upper(upper);
        }
        hint.set_lower(tail.lower().saturating_add(held));
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn held(head: &[&'static str], tail: &'static str) -> Held<Full<Bytes>> {
        let head = head
            .iter()
            .map(|text| Frame::data(Bytes::from_static(text.as_bytes())));
        Held::new(head, Full::new(Bytes::from_static(tail.as_bytes())))
    }

    #[tokio::test]
    async fn gives_the_head_in_order_and_then_the_tail() {
        let whole = held(&["one ", "two "], "three")
            .collect()
            .await
            .unwrap()
            .to_bytes();
        assert_eq!(whole, "one two three");
    }

    #[test]
    fn counts_what_is_held_in_its_size() {
        assert_eq!(held(&["1234"], "567").size_hint().exact(), Some(7));
    }

    #[test]
    fn has_not_ended_while_something_is_held() {
        assert!(!held(&["1"], "").is_end_stream());
        assert!(held(&[], "").is_end_stream());
    }
}
