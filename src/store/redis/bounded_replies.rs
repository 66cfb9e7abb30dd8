//! A bound on what a server sends before a call has its answer.
//!
//! The client library keeps a reply until the reply ends, and the replies to a batch until the last one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::body::stream_with_read::StreamWithRead;

/// Maximum bytes before a call has its answer, with [`LINE_BYTES`] for each line: several of the largest
/// entries. Calls that overlap count as one. A false alarm costs a new connection.
const MAX_BYTES: u64 = 64 << 20;
/// Memory that the library takes for a value, which has a line at least. Entries are encrypted, so one byte of
/// 256 is a line end, and no caller chooses which.
const LINE_BYTES: u64 = 64;

/// Size of what a connection has received since a call had its answer.
#[derive(Clone, Default)]
pub(super) struct Received(Arc<AtomicU64>);

impl Received {
    /// Begins to count anew, after a call has its answer.
    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Counts bytes. Returns whether all together are within the bound.
    fn count(&self, bytes: &[u8]) -> bool {
        let lines = bytes.split(|&byte| byte == b'\n').count().saturating_sub(1) as u64;
        let size = bytes.len() as u64 + lines * LINE_BYTES;
        self.0.fetch_add(size, Ordering::Relaxed) + size <= MAX_BYTES
    }
}

/// Returns a stream that ends with an error when what it receives exceeds the bound.
pub(super) fn bounded<S: AsyncRead + AsyncWrite + Send + Unpin>(
    stream: S,
    received: Received,
) -> impl AsyncRead + AsyncWrite + Send + Unpin {
    let read = move |stream: Pin<&mut S>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>| {
        let before = buffer.filled().len();
        ready!(stream.poll_read(cx, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        if received.count(read) {
            return Poll::Ready(Ok(()));
        }
        let words = "the replies of the server exceed their bound";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, words)))
    };
    StreamWithRead { io: stream, read }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::entry::MAX_ENTRY_BYTES;

    #[test]
    fn several_of_the_largest_entries_are_within_the_bound() {
        let received = Received::default();
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(MAX_ENTRY_BYTES).collect();
        for _ in 0..10 {
            let within = (0..100).take_while(|_| received.count(&bytes)).count();
            assert!((3..10).contains(&within), "{within}");
            assert!(!received.count(b"+"));
            received.reset();
        }
    }

    #[test]
    fn values_without_text_count_as_the_memory_that_they_take() {
        let received = Received::default();
        let values = b":1\r\n".repeat(1_000);
        let within = (0..MAX_BYTES)
            .take_while(|_| received.count(&values))
            .count();
        assert_eq!(within as u64, MAX_BYTES / (1_000 * (4 + LINE_BYTES)));
    }
}
