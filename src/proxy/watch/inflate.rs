//! Inflates a copy of a compressed reply, chunk by chunk and within bounds.

use std::borrow::Cow;
use std::io::{self, Write};

use flate2::write::{MultiGzDecoder, ZlibDecoder};

/// The most that one reply may inflate to.
const INFLATED_BYTES: usize = 1024 * 1024;

/// The most that a reply may inflate by; ordinary JSON stays below 20, and a page of zeros is at
/// 1,000.
const INFLATED_RATIO: usize = 200;

/// A decoder that is fed as chunks come.
#[derive(Debug)]
pub(super) enum Inflate {
    /// `deflate`, which is the zlib format by its name's definition in RFC 9110.
    Deflate(Box<ZlibDecoder<Bounded>>),
    /// `gzip`.
    Gzip(Box<MultiGzDecoder<Bounded>>),
    /// Not compressed.
    Identity,
}

impl Inflate {
    /// The decoder for a content coding; `None` for one that is not read here.
    pub(super) fn of(coding: &[u8]) -> Option<Self> {
        match coding.trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Some(Self::Identity),
            b"deflate" => Some(Self::Deflate(Box::new(
                ZlibDecoder::new(Bounded::default()),
            ))),
            b"gzip" | b"x-gzip" => Some(Self::Gzip(Box::new(MultiGzDecoder::new(
                Bounded::default(),
            )))),
            _ => None,
        }
    }

    /// What the next chunk adds; `None` where it is corrupt or beyond the bounds.
    pub(super) fn next<'a>(&mut self, chunk: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Deflate(decoder) => {
                decoder.get_mut().allow(chunk.len());
                feed(decoder.as_mut(), chunk)?;
                Some(Cow::Owned(decoder.get_mut().take()))
            }
            Self::Gzip(decoder) => {
                decoder.get_mut().allow(chunk.len());
                feed(decoder.as_mut(), chunk)?;
                Some(Cow::Owned(decoder.get_mut().take()))
            }
            Self::Identity => Some(Cow::Borrowed(chunk)),
        }
    }
}

/// Writes a chunk and brings out all that it yields: a server flushes its compressor after each
/// event, and the event must be seen when it is there.
fn feed(decoder: &mut impl Write, chunk: &[u8]) -> Option<()> {
    decoder.write_all(chunk).and_then(|()| decoder.flush()).ok()
}

/// Takes what a decoder puts out, and refuses what is beyond the bounds.
#[derive(Debug, Default)]
pub(super) struct Bounded {
    plain: Vec<u8>,
    /// Compressed bytes seen.
    came: usize,
    /// Inflated bytes put out.
    went: usize,
}

impl Bounded {
    fn allow(&mut self, bytes: usize) {
        self.came = self.came.saturating_add(bytes);
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.plain)
    }
}

impl Write for Bounded {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let went = self.went.saturating_add(plain.len());
        if went > INFLATED_BYTES.min(self.came.saturating_mul(INFLATED_RATIO)) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.went = went;
        self.plain.extend_from_slice(plain);
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
