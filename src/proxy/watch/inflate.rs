//! Inflates a copy of a compressed reply, chunk by chunk and within bounds.

use std::borrow::Cow;
use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{MultiGzDecoder, ZlibDecoder};

/// The most that one reply may inflate to.
const INFLATED_BYTES: usize = 1024 * 1024;

/// The most that a reply may inflate by. Text does not come near it, a run of one byte reaches
/// 1,000.
const INFLATED_RATIO: usize = 200;

/// The buffer of the brotli decoder: no reply that is judged is much longer.
const BROTLI_BUFFER_BYTES: usize = 4 * 1024;

/// A decoder that is fed as chunks come.
pub(super) enum Inflate {
    /// `br`.
    Brotli(Box<DecompressorWriter<Bounded>>),
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
            b"br" => {
                let decoder = DecompressorWriter::new(Bounded::default(), BROTLI_BUFFER_BYTES);
                Some(Self::Brotli(Box::new(decoder)))
            }
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
        let plain = match self {
            Self::Brotli(decoder) => feed(decoder.as_mut(), DecompressorWriter::get_mut, chunk)?,
            Self::Deflate(decoder) => feed(decoder.as_mut(), ZlibDecoder::get_mut, chunk)?,
            Self::Gzip(decoder) => feed(decoder.as_mut(), MultiGzDecoder::get_mut, chunk)?,
            Self::Identity => return Some(Cow::Borrowed(chunk)),
        };
        Some(Cow::Owned(plain))
    }
}

/// Writes a chunk and brings out all that it yields: a server flushes its compressor after each
/// event, and the event must be seen when it is there.
fn feed<D: Write>(
    decoder: &mut D,
    output: impl Fn(&mut D) -> &mut Bounded,
    chunk: &[u8],
) -> Option<Vec<u8>> {
    output(decoder).allow(chunk.len());
    decoder
        .write_all(chunk)
        .and_then(|()| decoder.flush())
        .ok()?;
    Some(output(decoder).take())
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
