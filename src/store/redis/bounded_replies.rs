//! Bounds on the length of a server's replies, checked before they are read.
//!
//! The client library keeps a reply until the reply ends, and the replies to a batch until the last one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::store::redis::entry::MAX_ENTRY_BYTES;

/// Maximum bytes of one reply, with [`VALUE_BYTES`] for each value in it: an entry, or the map of a large
/// Cluster.
const MAX_REPLY_BYTES: u64 = MAX_ENTRY_BYTES as u64 + (1 << 20);
/// Maximum bytes of the replies to a batch: several of the largest entries. Batches that overlap count as
/// one. A false alarm costs a new connection.
const MAX_BATCH_BYTES: u64 = 64 << 20;
/// Memory that the library takes for a value beside its bytes.
const VALUE_BYTES: u64 = 64;
/// Maximum bytes of a line that states a length: a sign and 19 digits.
const MAX_LENGTH_DIGITS: usize = 20;

/// A connection that ends with an error when a reply exceeds its bound.
pub(super) struct BoundedReplies<S> {
    stream: S,
    replies: Meter,
    /// The commands that were sent, which have the form of replies.
    commands: Meter,
}

impl<S> BoundedReplies<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            replies: Meter::new(Bounds {
                message: MAX_REPLY_BYTES,
                batch: MAX_BATCH_BYTES,
            }),
            commands: Meter::new(Bounds {
                message: u64::MAX,
                batch: u64::MAX,
            }),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedReplies<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        let is_within = self.replies.read(read);
        if self.replies.ended >= self.commands.ended {
            self.replies.begin_batch();
        }
        Poll::Ready(is_within.ok_or_else(|| {
            let words = "a reply of the server exceeds its bound or is malformed";
            io::Error::new(io::ErrorKind::InvalidData, words)
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedReplies<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        // The library sends whole commands.
        _ = self.commands.read(bytes.get(..written).unwrap_or_default());
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Progress within the messages of one direction, in RESP2 or RESP3.
struct Meter {
    bounds: Bounds,
    /// Bytes that the message and the batch may still take.
    left: Bounds,
    /// Values of the message that have not begun.
    values: u64,
    part: Part,
    /// Whether the message is a push, which answers no command.
    is_push: bool,
    /// Messages that have ended, without pushes.
    ended: u64,
}

/// Maximum bytes of a message and of a batch.
#[derive(Clone, Copy)]
struct Bounds {
    message: u64,
    batch: u64,
}

/// Part of a value.
enum Part {
    /// The first byte.
    Kind,
    /// The first line, after the kind.
    Line {
        kind: u8,
        /// Beginning of the line, as far as it may state a length.
        digits: Vec<u8>,
        /// The last byte, which may be the first of the line end.
        last: u8,
    },
    /// As many bytes of the text, with the line end.
    Text(u64),
}

impl Meter {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            left: bounds,
            values: 1,
            part: Part::Kind,
            is_push: false,
            ended: 0,
        }
    }

    /// Begins a batch, once each command has its reply.
    fn begin_batch(&mut self) {
        self.left.batch = self.bounds.batch;
    }

    /// Reads the next bytes. Returns `None` if a reply exceeds the bound, or states no valid length.
    fn read(&mut self, mut bytes: &[u8]) -> Option<()> {
        while let Some((&first, rest)) = bytes.split_first() {
            if let Part::Text(left) = &mut self.part {
                // The bound counts a text once its length is stated.
                let length = usize::try_from(*left).map_or(bytes.len(), |it| it.min(bytes.len()));
                *left -= length as u64;
                bytes = bytes.get(length..)?;
                if *left == 0 {
                    self.end_value();
                }
                continue;
            }
            bytes = rest;
            self.charge(1)?;
            self.read_byte(first)?;
        }
        Some(())
    }

    /// Reads a byte of a value's first line.
    fn read_byte(&mut self, byte: u8) -> Option<()> {
        match &mut self.part {
            Part::Kind => {
                self.is_push |= byte == b'>';
                self.values -= 1;
                self.part = Part::Line {
                    kind: byte,
                    digits: Vec::new(),
                    last: 0,
                };
            }
            Part::Line { kind, digits, last } => {
                if *last == b'\r' && byte == b'\n' {
                    let (kind, digits) = (*kind, std::mem::take(digits));
                    return self.end_line(kind, digits.strip_suffix(b"\r").unwrap_or_default());
                }
                *last = byte;
                // One digit too many is kept: the number is then not valid.
                if digits.len() <= MAX_LENGTH_DIGITS + 1 {
                    digits.push(byte);
                }
            }
            Part::Text(_) => {}
        }
        Some(())
    }

    /// Ends the first line of a value, which states the length of some kinds.
    fn end_line(&mut self, kind: u8, digits: &[u8]) -> Option<()> {
        let length = || str::from_utf8(digits).ok()?.trim().parse::<i64>().ok();
        let inner = match kind {
            b'$' | b'!' | b'=' => {
                let length = length()?;
                // The library reads a text of no length for ever, except for an absent one.
                if length < 0 && kind != b'$' {
                    return None;
                }
                if let Ok(length) = u64::try_from(length) {
                    self.charge(length)?;
                    self.part = Part::Text(length + 2);
                    return Some(());
                }
                0
            }
            b'*' | b'~' | b'>' => u64::try_from(length()?).unwrap_or(0),
            b'%' => u64::try_from(length()?).ok()?.checked_mul(2)?,
            // The value that is described follows.
            b'|' => u64::try_from(length()?)
                .ok()?
                .checked_mul(2)?
                .checked_add(1)?,
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => 0,
            _ => return None,
        };
        self.charge(inner.checked_mul(VALUE_BYTES)?)?;
        self.values += inner;
        self.end_value();
        Some(())
    }

    /// Ends a value. With the last one, the message ends.
    fn end_value(&mut self) {
        self.part = Part::Kind;
        if self.values == 0 {
            self.ended += u64::from(!self.is_push);
            self.is_push = false;
            self.values = 1;
            self.left.message = self.bounds.message;
        }
    }

    fn charge(&mut self, bytes: u64) -> Option<()> {
        self.left.message = self.left.message.checked_sub(bytes)?;
        self.left.batch = self.left.batch.checked_sub(bytes)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        Meter::new(Bounds {
            message: MAX_REPLY_BYTES,
            batch: u64::MAX,
        })
    }

    /// Reads `bytes` in pieces of every small size. Returns whether all of them are within the bound.
    fn is_read(bytes: &[u8]) -> bool {
        let read = |size| {
            let mut meter = meter();
            bytes.chunks(size).all(|piece| meter.read(piece).is_some())
        };
        let whole = read(bytes.len().max(1));
        assert!([1, 2, 3, 7].into_iter().all(|size| read(size) == whole));
        whole
    }

    #[test]
    fn usual_replies_are_read_one_after_the_other() {
        let one = b"+OK\r\n-ERR no\r\n:12\r\n$5\r\nhe\r\no\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n$1\r\na\r\n*1\r\n:1\r\n\
            _\r\n,1.5\r\n#t\r\n(123\r\n!3\r\nbad\r\n=5\r\ntxt:a\r\n%1\r\n+k\r\n:1\r\n~1\r\n+s\r\n\
            >2\r\n+message\r\n+x\r\n|1\r\n+k\r\n+v\r\n+data\r\n";
        let mut meter = meter();
        for _ in 0..100_000 {
            assert!(meter.read(one).is_some());
            assert!(matches!(meter.part, Part::Kind) && meter.values == 1);
            assert_eq!(meter.left.message, MAX_REPLY_BYTES);
        }
        assert!(is_read(one));
    }

    #[tokio::test]
    async fn replies_to_one_batch_have_a_bound_together() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let reply = [b"$4194304\r\n", &*vec![b'x'; 4 << 20], b"\r\n"].concat();
        let push = b">1\r\n+x\r\n";
        let (near, mut far) = tokio::io::duplex(2 * reply.len());
        let mut near = BoundedReplies::new(near);
        let mut read = vec![0; reply.len() + push.len()];
        // As many as fit, time and again, each after its command.
        for _ in 0..40 {
            near.write_all(b"*1\r\n$4\r\nPING\r\n").await.unwrap();
            far.write_all(&[push, &*reply].concat()).await.unwrap();
            near.read_exact(&mut read).await.unwrap();
        }
        let commands = b"*1\r\n$4\r\nPING\r\n".repeat(40);
        near.write_all(&commands).await.unwrap();
        let mut answered = 0;
        loop {
            far.write_all(&reply).await.unwrap();
            let Some(read) = read.get_mut(..reply.len()) else {
                break;
            };
            if near.read_exact(read).await.is_err() {
                break;
            }
            answered += 1;
        }
        assert_eq!(answered, 15);
    }

    #[test]
    fn the_largest_entry_is_read() {
        let entry = vec![b'x'; MAX_ENTRY_BYTES - 16];
        let mut reply = format!("*2\r\n$6\r\nrecord\r\n${}\r\n", entry.len()).into_bytes();
        reply.extend(entry);
        let mut meter = meter();
        assert!(meter.read(&reply).is_some() && meter.read(b"\r\n").is_some());
        assert_eq!(meter.left.message, MAX_REPLY_BYTES);
    }

    #[test]
    fn a_stated_length_beyond_the_bound_ends_the_connection_before_its_text() {
        for reply in [
            "$400000000\r\n",
            "$ 400000000\r\n",
            "$9223372036854775807\r\n",
            "$99999999999999999999\r\n",
            "!400000000\r\n",
            "=400000000\r\n",
            "!-1\r\n",
            "=-1\r\n",
            "*2\r\n$9000000\r\nx",
            "*400000\r\n",
            "*2147483647\r\n",
            "~400000\r\n",
            ">400000\r\n",
            "%200000\r\n",
            "%-1\r\n",
            "|200000\r\n",
            "|9223372036854775807\r\n",
            "*1\r\n*1\r\n%1\r\n*400000\r\n",
            "$?\r\n",
            "*?\r\n",
            "HTTP/1.1 400\r\n",
        ] {
            let whole = is_read(reply.as_bytes());
            let expect = reply.starts_with("*2\r\n$9000000");
            assert_eq!(whole, expect, "{reply}");
        }
    }

    #[test]
    fn replies_without_an_end_have_a_bound() {
        for (start, rest) in [
            ("+", "x"),
            ("-ERR ", "x"),
            ("$", "1"),
            ("$5\n", "0"),
            ("(", "9"),
            ("", "*1\r\n"),
            ("", "*2\r\n+a\r\n"),
            ("", "|0\r\n"),
        ] {
            let mut meter = meter();
            assert!(meter.read(start.as_bytes()).is_some());
            let rest = rest.repeat(4_096);
            let most = MAX_REPLY_BYTES / rest.len() as u64 + 1;
            let ends = (0..most).any(|_| meter.read(rest.as_bytes()).is_none());
            assert!(ends, "{start:?}");
        }
        // Each of two values has a bound together with the other.
        let mut meter = meter();
        assert!(meter.read(b"*2\r\n$5000000\r\n").is_some());
        assert!(meter.read(&vec![b'x'; 5_000_002]).is_some());
        assert!(meter.read(b"$5000000\r\n").is_none());
    }
}
