//! Decodes the content codings of a body, chunk by chunk and within bounds.

pub(crate) mod stream_decoder;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use crate::body::budget::{Exhausted, Reservation};
use stream_decoder::StreamDecoder;

/// Maximum content codings of one body. One is usual; a gateway that compresses a compressed body
/// makes two.
const MAX_CODINGS: usize = 3;

/// Maximum bytes that a decoder emits at a time.
const OUTPUT_CHUNK_BYTES: usize = 16 * 1024;

/// Maximum decoded bytes of a reply while it is held.
const MAX_INFLATED_BYTES: u64 = 1024 * 1024;

/// Decoded bytes allowed at any ratio: a run of spaces at the beginning is not a bomb.
const FREE_INFLATION_BYTES: u64 = 64 * 1024;

/// Maximum inflation ratio beyond [`FREE_INFLATION_BYTES`]. Text stays far below; a run of one byte
/// reaches 1,000.
const MAX_INFLATION_RATIO: u64 = 200;

/// Reason why a body cannot be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DecodeError {
    /// The body inflates by more than [`MAX_INFLATION_RATIO`].
    Bomb,
    /// The body does not match its coding.
    Corrupt,
    /// The body inflates to more bytes than allowed.
    TooLarge,
}

/// Decodes the content codings of one body. Chunks are fed as they arrive, and no output is held
/// back: all that a chunk yields is available before the next chunk is needed.
///
/// A decoder that has failed yields no further output.
pub(crate) struct Decoder {
    /// From the coding applied last to the coding applied first.
    layers: Vec<Layer>,
    bounds: InflationBounds,
    /// Share of the budget, held until the decoder is dropped.
    _charged: Option<Reservation>,
}

impl Decoder {
    /// Creates the decoder for the codings that `headers` name; `None` if a coding is unsupported.
    /// The decoder yields at most [`MAX_INFLATED_BYTES`].
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut layers = Vec::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            for coding in value.as_bytes().split(|&byte| byte == b',') {
                let coding = coding.trim_ascii();
                if coding.is_empty() || coding.eq_ignore_ascii_case(b"identity") {
                    continue;
                }
                if layers.len() == MAX_CODINGS {
                    return None;
                }
                layers.push(Layer::new(StreamDecoder::from_name(coding)?));
            }
        }
        layers.reverse();
        let bounds = InflationBounds { max_bytes: MAX_INFLATED_BYTES, bytes_in: 0 };
        Some(Self { layers, bounds, _charged: None })
    }

    pub(crate) fn with_max_bytes(mut self, bytes: u64) -> Self {
        self.bounds.max_bytes = bytes;
        self
    }

    /// Charges the decoder's [`memory_bytes`](Self::memory_bytes) to `reservation`. Fails if the
    /// budget has too little left.
    pub(crate) fn charged_to(self, mut reservation: Reservation) -> Result<Self, Exhausted> {
        reservation.grow_to(self.memory_bytes())?;
        Ok(Self { _charged: Some(reservation), ..self })
    }

    /// Whether there is nothing to decode.
    pub(crate) fn is_identity(&self) -> bool {
        self.layers.is_empty()
    }

    /// Maximum bytes that the decoder holds in addition to its output: windows and tables.
    fn memory_bytes(&self) -> u64 {
        let piece = OUTPUT_CHUNK_BYTES as u64;
        let layers = self.layers.iter();
        layers.map(|layer| layer.coder.memory_bytes() + piece).sum()
    }

    /// Decodes the next chunk; `None` if the body is corrupt or exceeds the bounds.
    pub(crate) fn decode_chunk<'a>(&mut self, mut chunk: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.is_identity() {
            return Some(Cow::Borrowed(chunk));
        }
        let mut plain = Vec::new();
        while let Some(piece) = self.decode_step(&mut chunk).ok()? {
            plain.extend_from_slice(piece);
        }
        Some(Cow::Owned(plain))
    }

    /// Decodes the next piece of `chunk` and advances `chunk` past the input used; `None` once the
    /// chunk is exhausted. Callers must read an identity-coded chunk directly. Fails if the body is
    /// corrupt or exceeds the bounds.
    pub(crate) fn decode_step(&mut self, chunk: &mut &[u8]) -> Result<Option<&[u8]>, DecodeError> {
        if !fill(&mut self.layers, chunk, &mut self.bounds)? {
            return Ok(None);
        }
        Ok(self.layers.last_mut().map(Layer::take_output))
    }

    /// Whether the body may end here: every coding is at its own end.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.layers.iter_mut().all(|layer| layer.coder.is_ended())
    }
}

/// Limits on the decoded size of a body.
struct InflationBounds {
    /// Maximum decoded bytes in total.
    max_bytes: u64,
    /// Encoded bytes read so far.
    bytes_in: u64,
}

impl InflationBounds {
    /// Fails if `went` exceeds what the input so far may inflate to.
    fn check(&self, went: u64) -> Result<(), DecodeError> {
        if went > self.max_bytes {
            return Err(DecodeError::TooLarge);
        }
        if went > FREE_INFLATION_BYTES.max(self.bytes_in.saturating_mul(MAX_INFLATION_RATIO)) {
            return Err(DecodeError::Bomb);
        }
        Ok(())
    }
}

/// A layer of decoding: one coding, with output that the next layer has not read yet.
///
/// Invariant: `start <= end <= out.len()`.
struct Layer {
    coder: StreamDecoder,
    out: Box<[u8]>,
    start: usize,
    end: usize,
    bytes_out: u64,
    /// Whether `out` was filled to its end, so that more output may be available without further
    /// input.
    full: bool,
}

impl Layer {
    fn new(coder: StreamDecoder) -> Self {
        Self {
            coder,
            out: vec![0; OUTPUT_CHUNK_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            bytes_out: 0,
            full: false,
        }
    }

    fn unread(&self) -> &[u8] {
        self.out.get(self.start..self.end).unwrap_or_default()
    }

    fn take_output(&mut self) -> &[u8] {
        let start = std::mem::replace(&mut self.start, self.end);
        self.out.get(start..self.end).unwrap_or_default()
    }
}

/// Makes the last of `layers` emit output, from the output of the layers before it and, if they
/// have none, from `chunk`. Returns whether there was any output.
fn fill(
    layers: &mut [Layer],
    chunk: &mut &[u8],
    bounds: &mut InflationBounds,
) -> Result<bool, DecodeError> {
    let Some((last, earlier)) = layers.split_last_mut() else {
        return Ok(false);
    };
    loop {
        let source = earlier.last().map_or(*chunk, Layer::unread);
        if source.is_empty() && !last.full {
            if fill(earlier, chunk, bounds)? {
                continue;
            }
            return Ok(false);
        }
        let progress = last.coder.step(source, &mut last.out)?;
        let stuck = !source.is_empty() && progress.read == 0 && progress.written == 0;
        if let Some(before) = earlier.last_mut() {
            before.start += progress.read;
        } else {
            *chunk = chunk.get(progress.read..).unwrap_or_default();
            bounds.bytes_in += progress.read as u64;
        }
        (last.start, last.end) = (0, progress.written);
        last.full = progress.written == last.out.len();
        last.bytes_out += progress.written as u64;
        bounds.check(last.bytes_out)?;
        if progress.written > 0 {
            return Ok(true);
        }
        if stuck {
            return Err(DecodeError::Corrupt);
        }
    }
}
