//! The gzip format (RFC 1952): consecutive members, each a header, a deflate stream and a trailer
//! with checks.
//!
//! `flate2` can read gzip incrementally from a source that would block. But its reader requests
//! further input before it emits what its inflater holds, so an event of a stream might wait for
//! the next one. The reader also reports a member boundary only for an input that has ended.

use flate2::{Crc, Decompress};

use crate::body::coding::DecodeError;
use crate::body::coding::stream_decoder;
use crate::body::coding::stream_decoder::Progress;

/// Flags of optional header sections.
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// Bytes of the fixed part of a header: magic, method, flags, time, hints, system.
const FIXED_HEADER_BYTES: u8 = 10;
/// A member's checksum and length, four bytes each.
const TRAILER_BYTES: usize = 8;

/// Decodes members until the end of the last.
pub(super) struct Gzip {
    state: MemberState,
    flags: u8,
    inflate: Decompress,
    crc: Crc,
    trailer: [u8; TRAILER_BYTES],
    /// Whether the decoder is between two members.
    ended: bool,
}

/// Section of a member that is being read.
#[derive(Clone, Copy)]
enum MemberState {
    /// The deflate stream.
    Body,
    /// A zero-terminated text.
    Comment,
    /// Remaining bytes of the extra field.
    Extra(u16),
    /// Length of the extra field, with its first byte once read.
    ExtraLength(Option<u8>),
    /// Number of bytes read of the fixed part.
    FixedHeader(u8),
    /// Remaining bytes of the header's checksum, which is not verified: it covers no content.
    HeaderCrc(u8),
    /// A zero-terminated text.
    Name,
    /// Number of bytes read of the trailer.
    Trailer(usize),
}

impl Default for Gzip {
    fn default() -> Self {
        Self {
            state: MemberState::FixedHeader(0),
            flags: 0,
            inflate: Decompress::new(false),
            crc: Crc::new(),
            trailer: [0; TRAILER_BYTES],
            ended: false,
        }
    }
}

impl Gzip {
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Progress, DecodeError> {
        let mut read = 0;
        loop {
            if matches!(self.state, MemberState::Body) {
                let rest = input.get(read..).unwrap_or_default();
                let mut ended = false;
                let progress =
                    stream_decoder::inflate_step(&mut self.inflate, rest, output, &mut ended)?;
                self.crc
                    .update(output.get(..progress.written).unwrap_or_default());
                if ended {
                    self.state = MemberState::Trailer(0);
                }
                read += progress.read;
                if progress.written > 0 || !ended {
                    let written = progress.written;
                    return Ok(Progress { read, written });
                }
            }
            let Some(&byte) = input.get(read) else {
                return Ok(Progress { read, written: 0 });
            };
            read += 1;
            self.state = self.next_state(byte)?;
        }
    }

    /// Returns the section of the next byte, after consuming `byte`.
    fn next_state(&mut self, byte: u8) -> Result<MemberState, DecodeError> {
        Ok(match self.state {
            MemberState::Body => MemberState::Body,
            MemberState::Comment if byte == 0 => self.section_after(COMMENT),
            MemberState::Comment => MemberState::Comment,
            MemberState::Extra(left @ 2..) => MemberState::Extra(left - 1),
            MemberState::Extra(_) => self.section_after(EXTRA),
            MemberState::ExtraLength(None) => MemberState::ExtraLength(Some(byte)),
            MemberState::ExtraLength(Some(low)) => match u16::from_le_bytes([low, byte]) {
                0 => self.section_after(EXTRA),
                length => MemberState::Extra(length),
            },
            MemberState::FixedHeader(at) => return self.read_fixed_header(at, byte),
            MemberState::HeaderCrc(left @ 2..) => MemberState::HeaderCrc(left - 1),
            MemberState::HeaderCrc(_) => self.section_after(HEADER_CRC),
            MemberState::Name if byte == 0 => self.section_after(NAME),
            MemberState::Name => MemberState::Name,
            MemberState::Trailer(at) => return self.read_trailer(at, byte),
        })
    }

    fn read_fixed_header(&mut self, at: u8, byte: u8) -> Result<MemberState, DecodeError> {
        self.ended = false;
        let sound = match at {
            0 => byte == 0x1f,
            1 => byte == 0x8b,
            2 => byte == 8,
            3 => {
                self.flags = byte;
                byte & RESERVED == 0
            }
            _ => true,
        };
        if !sound {
            return Err(DecodeError::Corrupt);
        }
        if at + 1 < FIXED_HEADER_BYTES {
            return Ok(MemberState::FixedHeader(at + 1));
        }
        self.inflate.reset(false);
        self.crc.reset();
        Ok(self.section_after(0))
    }

    /// Returns the section that follows the header section of `flag`, in the order of the format.
    fn section_after(&self, flag: u8) -> MemberState {
        let order = [
            (EXTRA, MemberState::ExtraLength(None)),
            (NAME, MemberState::Name),
            (COMMENT, MemberState::Comment),
            (HEADER_CRC, MemberState::HeaderCrc(2)),
        ];
        let done = order.iter().position(|(known, _)| *known == flag);
        order
            .into_iter()
            .skip(done.map_or(0, |at| at + 1))
            .find(|(known, _)| self.flags & known != 0)
            .map_or(MemberState::Body, |(_, part)| part)
    }

    fn read_trailer(&mut self, at: usize, byte: u8) -> Result<MemberState, DecodeError> {
        if let Some(place) = self.trailer.get_mut(at) {
            *place = byte;
        }
        if at + 1 < TRAILER_BYTES {
            return Ok(MemberState::Trailer(at + 1));
        }
        let sound = u64::from(self.crc.amount()) << 32 | u64::from(self.crc.sum());
        if u64::from_le_bytes(self.trailer) != sound {
            return Err(DecodeError::Corrupt);
        }
        self.ended = true;
        Ok(MemberState::FixedHeader(0))
    }
}
