//! Undoes the content codings of a body, chunk by chunk and within bounds.

mod coder;
mod gzip;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use self::coder::StreamDecoder;
use super::budget::{BudgetExhausted, Reservation};

/// The most codings that are undone of one body. One is usual; a gateway that compresses what is
/// compressed makes it two.
const MAX_CODINGS: usize = 3;

/// What a decoder puts out at a time.
const OUTPUT_CHUNK_BYTES: usize = 16 * 1024;

/// The most that a reply may inflate to while it is held.
const MAX_INFLATED_BYTES: u64 = 1024 * 1024;

/// What a body may inflate to by any ratio: a run of spaces at its beginning is no bomb.
const FREE_INFLATION_BYTES: u64 = 64 * 1024;

/// The most that a body may inflate by beyond that. Text does not come near it, a run of one byte
/// reaches 1,000.
const MAX_INFLATION_RATIO: u64 = 200;

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DecodeError {
    /// It inflates by more than [`INFLATED_RATIO`].
    Bomb,
    /// It is not what its coding says.
    Corrupt,
    /// It inflates to more bytes than it may.
    TooLarge,
}

/// Undoes the codings of one body. It is fed as chunks come and holds nothing back: what a chunk
/// brings to light is there before the next one is asked for.
///
/// Once it has failed, nothing more can be had of it.
pub(super) struct Decoder {
    /// From the coding that was applied last to the one that was applied first.
    layers: Vec<Layer>,
    bounds: InflationBounds,
    /// Its part of the budget, until it is dropped.
    _charged: Option<Reservation>,
}

impl Decoder {
    /// The decoder for the codings that `headers` name; `None` where one of them is not read here.
    /// It yields [`INFLATED_BYTES`] at the most.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
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
        let bounds = InflationBounds {
            max_bytes: MAX_INFLATED_BYTES,
            bytes_in: 0,
        };
        Some(Self {
            layers,
            bounds,
            _charged: None,
        })
    }

    /// The same, yielding `bytes` at the most.
    pub(super) fn with_max_bytes(mut self, bytes: u64) -> Self {
        self.bounds.max_bytes = bytes;
        self
    }

    /// The same, with [`room`](Self::room) for it taken by `reservation`.
    ///
    /// # Errors
    /// There is not that much left.
    pub(super) fn charged_to(self, mut reservation: Reservation) -> Result<Self, BudgetExhausted> {
        reservation.grow_to(self.memory_bytes())?;
        Ok(Self {
            _charged: Some(reservation),
            ..self
        })
    }

    /// Whether there is nothing to undo.
    pub(super) fn is_identity(&self) -> bool {
        self.layers.is_empty()
    }

    /// The bytes that it may hold itself, beside what it has put out: windows and tables.
    fn memory_bytes(&self) -> u64 {
        let piece = OUTPUT_CHUNK_BYTES as u64;
        self.layers
            .iter()
            .map(|layer| layer.coder.memory_bytes() + piece)
            .sum()
    }

    /// What the next chunk adds; `None` where it is corrupt or beyond the bounds.
    pub(super) fn decode_chunk<'a>(&mut self, mut chunk: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if self.is_identity() {
            return Some(Cow::Borrowed(chunk));
        }
        let mut plain = Vec::new();
        while let Some(piece) = self.decode_step(&mut chunk).ok()? {
            plain.extend_from_slice(piece);
        }
        Some(Cow::Owned(plain))
    }

    /// The next piece of what `chunk` adds, and takes from `chunk` what it used; `None` once there
    /// is nothing more in it. Whoever has nothing to undo reads the chunk itself.
    ///
    /// # Errors
    /// The body is corrupt or beyond the bounds.
    pub(super) fn decode_step(&mut self, chunk: &mut &[u8]) -> Result<Option<&[u8]>, DecodeError> {
        if !fill(&mut self.layers, chunk, &mut self.bounds)? {
            return Ok(None);
        }
        Ok(self.layers.last_mut().map(Layer::take_output))
    }

    /// Whether the body may end here: each coding is at an end of its own.
    pub(super) fn is_ended(&self) -> bool {
        self.layers.iter().all(|layer| layer.coder.is_ended())
    }
}

/// What a body may inflate to.
struct InflationBounds {
    /// In all.
    max_bytes: u64,
    /// Encoded bytes that were read so far.
    bytes_in: u64,
}

impl InflationBounds {
    /// # Errors
    /// `went` is more than what came so far may inflate to.
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

/// One coding, with what it put out and the next one has not read yet.
///
/// Invariant: `start <= end <= out.len()`.
struct Layer {
    coder: StreamDecoder,
    out: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes put out in all.
    bytes_out: u64,
    /// `out` was filled to its end, so that there may be more without further input.
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

/// Has the last of `layers` put something out: from what those before it have, and where they have
/// nothing, from `chunk`. Returns whether anything came.
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
