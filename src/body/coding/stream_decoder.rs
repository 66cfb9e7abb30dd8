//! Decoder of one content coding, driven step by step between two buffers.

use std::io::Write as _;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::write::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

use crate::body::coding::DecodeError;

/// Maximum window of a zstd frame, as a power of two: 8 MiB, the largest that a content coding may
/// require (RFC 9659, 3).
const ZSTD_WINDOW_LOG: u32 = 23;

/// Memory of a zstd decoder: a window, and a block on each side.
const ZSTD_MEMORY_BYTES: u64 = (1 << ZSTD_WINDOW_LOG) + 512 * 1024;

/// Memory of a brotli decoder: the largest window (RFC 7932, 9.1), and its tables.
const BROTLI_MEMORY_BYTES: u64 = (1 << 24) + 512 * 1024;

/// Memory of a deflate decoder: a window of 32 KiB, and its tables.
const DEFLATE_MEMORY_BYTES: u64 = 64 * 1024;

/// Memory of a gzip decoder: one for deflate, and what it emits at a time.
const GZIP_MEMORY_BYTES: u64 = DEFLATE_MEMORY_BYTES + 128 * 1024;

pub(super) enum StreamDecoder {
    Brotli(Box<Brotli>),
    Deflate(Deflate),
    Gzip(Box<Gzip>),
    Zstd(Zstd),
}

/// Bytes consumed and produced by one step.
#[derive(Default)]
pub(super) struct Progress {
    /// Bytes of the input consumed.
    pub(super) read: usize,
    /// Bytes of the output filled.
    pub(super) written: usize,
}

impl StreamDecoder {
    /// Creates the decoder of the named coding, in any case; `None` if the coding is unsupported.
    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        match name.to_ascii_lowercase().as_slice() {
            b"br" => Some(Self::Brotli(Box::default())),
            b"deflate" => Some(Self::Deflate(Deflate::default())),
            b"gzip" | b"x-gzip" => Some(Self::Gzip(Box::default())),
            b"zstd" => Zstd::new().map(Self::Zstd),
            _ => None,
        }
    }

    /// Consumes as much of `input` and fills as much of `output` as possible. Fails if the input is
    /// not in this coding.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Progress, DecodeError> {
        match self {
            Self::Brotli(brotli) => brotli.step(input, output),
            Self::Deflate(deflate) => deflate.step(input, output),
            Self::Gzip(gzip) => gzip.step(input, output),
            Self::Zstd(zstd) => zstd.step(input, output),
        }
    }

    /// Whether the input may end here.
    pub(super) fn is_ended(&mut self) -> bool {
        match self {
            Self::Brotli(brotli) => brotli.ended,
            Self::Deflate(deflate) => deflate.ended,
            Self::Gzip(gzip) => gzip.is_ended(),
            Self::Zstd(zstd) => zstd.ended,
        }
    }

    /// Maximum bytes that the decoder holds.
    pub(super) fn memory_bytes(&self) -> u64 {
        match self {
            Self::Brotli(_) => BROTLI_MEMORY_BYTES,
            Self::Deflate(_) => DEFLATE_MEMORY_BYTES,
            Self::Gzip(_) => GZIP_MEMORY_BYTES,
            Self::Zstd(_) => ZSTD_MEMORY_BYTES,
        }
    }
}

/// `br`: one stream, with no data after its end.
pub(super) struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    ended: bool,
}

impl Default for Brotli {
    fn default() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            // Strict mode rejects the extension by which a stream may require a window of 1 GiB.
            state: BrotliState::new_strict(alloc(), alloc(), alloc()),
            ended: false,
        }
    }
}

impl Brotli {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, DecodeError> {
        if self.ended {
            return expect_no_trailing_data(input);
        }
        let (mut left, mut read) = (input.len(), 0);
        let (mut free, mut written) = (output.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut free,
            &mut written,
            output,
            &mut 0,
            &mut self.state,
        );
        match result {
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(DecodeError::Corrupt),
            BrotliResult::ResultSuccess => self.ended = true,
        }
        Ok(Progress { read, written })
    }
}

/// `deflate`: the zlib format by definition (RFC 9110, 8.4.1.2), and also raw deflate, which some
/// senders use under that name.
#[derive(Default)]
pub(super) struct Deflate {
    /// Set once the first byte has shown which of the two formats it is.
    inflate: Option<Decompress>,
    ended: bool,
}

impl Deflate {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, DecodeError> {
        if self.ended {
            return expect_no_trailing_data(input);
        }
        if let (None, Some(first)) = (&self.inflate, input.first()) {
            // The low half of a zlib stream's first byte is its method, 8. A raw stream that begins so
            // would have non-zero padding before a stored block, which no encoder writes.
            self.inflate = Some(Decompress::new(first & 0x0f == 8));
        }
        let Some(inflate) = &mut self.inflate else {
            return Ok(Progress::default());
        };
        let (read, written) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress(input, output, FlushDecompress::None);
        self.ended = status.map_err(|_| DecodeError::Corrupt)? == Status::StreamEnd;
        let used = |total: u64, before| usize::try_from(total - before).unwrap_or(0);
        Ok(Progress {
            read: used(inflate.total_in(), read),
            written: used(inflate.total_out(), written),
        })
    }
}

/// Checks that no input follows the end of a stream.
fn expect_no_trailing_data(input: &[u8]) -> Result<Progress, DecodeError> {
    let is_over = input.is_empty();
    is_over.then(Progress::default).ok_or(DecodeError::Corrupt)
}

/// `zstd`: consecutive frames without dictionaries, since none was negotiated.
pub(super) struct Zstd {
    decoder: ZstdDecoder<'static>,
    /// Whether the decoder is between two frames.
    ended: bool,
}

impl Zstd {
    fn new() -> Option<Self> {
        let mut decoder = ZstdDecoder::new().ok()?;
        decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).ok()?;
        Some(Self { decoder, ended: false })
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, DecodeError> {
        let status = self.decoder.run_on_buffers(input, output);
        let status = status.map_err(|_| DecodeError::Corrupt)?;
        let progress = Progress { read: status.bytes_read, written: status.bytes_written };
        // If nothing was read or written, `remaining` already refers to the next frame.
        if progress.read + progress.written > 0 {
            self.ended = status.remaining == 0;
        }
        Ok(progress)
    }
}

/// Maximum members of one body. Each needs memory of its own, and encoders write one.
const MAX_MEMBERS: u32 = 1_024;

/// `gzip` (RFC 1952): consecutive members, each with its own checks.
///
/// `flate2` has readers of gzip for a source that would block. They request further input before they emit what
/// their inflater holds, so that an event of a stream might wait for the next one. A writer of one member is
/// flushed instead.
pub(super) struct Gzip {
    member: GzDecoder<Vec<u8>>,
    members: u32,
    is_begun: bool,
    /// Bytes at the start of the member's output that were emitted.
    emitted: usize,
}

impl Default for Gzip {
    fn default() -> Self {
        Self { member: GzDecoder::new(Vec::new()), members: 0, is_begun: false, emitted: 0 }
    }
}

impl Gzip {
    /// Whether the input may end here: between two members.
    fn is_ended(&mut self) -> bool {
        self.is_begun && self.member.try_finish().is_ok()
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, DecodeError> {
        let mut read = 0;
        loop {
            let written = self.emit(output);
            let rest = input.get(read..).unwrap_or_default();
            if written > 0 || rest.is_empty() {
                return Ok(Progress { read, written });
            }
            let taken = self.member.write(rest).map_err(|_| DecodeError::Corrupt)?;
            self.member.flush().map_err(|_| DecodeError::Corrupt)?;
            self.is_begun = true;
            read += taken;
            if taken == 0 && self.member.get_ref().is_empty() {
                // The member has ended, and another one begins.
                let checked = self.member.try_finish();
                if checked.is_err() || self.members >= MAX_MEMBERS {
                    return Err(DecodeError::Corrupt);
                }
                *self = Self { members: self.members + 1, ..Self::default() };
            }
        }
    }

    /// Moves output of the member to `output`. Returns the number of bytes.
    fn emit(&mut self, mut output: &mut [u8]) -> usize {
        let held = self.member.get_mut();
        let rest = held.get(self.emitted..).unwrap_or_default();
        // Writing to a slice takes what fits.
        let length = output.write(rest).unwrap_or_default();
        self.emitted += length;
        if self.emitted == held.len() {
            held.clear();
            self.emitted = 0;
        }
        length
    }
}
