//! A body of known length in several chunks, so that shared bytes need not be copied.

use std::collections::VecDeque;

use bytes::Bytes;

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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_the_pushed_pieces_in_order() {
        let mut pieces = ChunkedBytes::from(Bytes::from_static(b"one"));
        pieces.push(Bytes::new());
        pieces.push(Bytes::from_static(b"two"));
        assert_eq!(pieces.len(), 6);
        assert_eq!(pieces.clone().into_bytes(), "onetwo");
        let sent: Vec<Bytes> = std::iter::from_fn(|| pieces.next_frame()).collect();
        assert_eq!(sent, ["one", "two"]);
    }

    #[test]
    fn splits_a_long_piece_into_frames_without_copying() {
        let long = Bytes::from(vec![b'x'; 2 * FRAME_BYTES + 1]);
        let mut pieces = ChunkedBytes::from(long.clone());
        pieces.push(Bytes::from_static(b"end"));
        let sent: Vec<Bytes> = std::iter::from_fn(|| pieces.next_frame()).collect();
        let lengths: Vec<_> = sent.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [FRAME_BYTES, FRAME_BYTES, 1, 3]);
        assert_eq!(sent[1].as_ptr(), long[FRAME_BYTES..].as_ptr());
        assert!(pieces.is_empty());
    }

    #[test]
    fn empty_body_is_at_its_end_from_the_start() {
        let nothing = ChunkedBytes::from(Bytes::new());
        assert!(nothing.is_empty());
        assert_eq!(nothing.into_bytes(), "");
    }
}
