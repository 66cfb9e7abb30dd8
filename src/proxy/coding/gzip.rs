//! The gzip format (RFC 1952): members in a row, each a header, a deflate stream and its checks.
//!
//! `flate2` can read it piece by piece from a source that would block. But it asks for further input
//! before it gives out what its inflater holds of the last, so that an event of a stream might wait
//! for the next one, and whether it stands between two members it says only of an input that has
//! ended.

use flate2::{Crc, Decompress};

use super::Undecodable;
use super::coder::{self, Progress};

/// What a header's flags say that it has.
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// The fixed part of a header: magic, method, flags, time, hints, system.
const FIXED_BYTES: u8 = 10;
/// A member's checksum and its length, four bytes each.
const TRAILER_BYTES: usize = 8;

/// Reads members to the end of the last.
pub(super) struct Gzip {
    part: Part,
    flags: u8,
    inflate: Decompress,
    crc: Crc,
    trailer: [u8; TRAILER_BYTES],
    /// Between two members.
    ended: bool,
}

/// The part of a member that is being read.
#[derive(Clone, Copy)]
enum Part {
    /// The deflate stream.
    Body,
    /// A text that ends with a zero.
    Comment,
    /// Bytes of the further fields that are to come.
    Extra(u16),
    /// The length of the further fields; with its first byte, once that is read.
    ExtraLength(Option<u8>),
    /// So many bytes of the fixed part were read.
    Fixed(u8),
    /// The header's checksum, of which so many bytes are to come. It guards no content.
    HeaderCrc(u8),
    /// A text that ends with a zero.
    Name,
    /// So many bytes of the trailer were read.
    Trailer(usize),
}

impl Default for Gzip {
    fn default() -> Self {
        Self {
            part: Part::Fixed(0),
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
    ) -> Result<Progress, Undecodable> {
        let mut read = 0;
        loop {
            if matches!(self.part, Part::Body) {
                let rest = input.get(read..).unwrap_or_default();
                let mut ended = false;
                let progress = coder::step(&mut self.inflate, rest, output, &mut ended)?;
                self.crc
                    .update(output.get(..progress.written).unwrap_or_default());
                if ended {
                    self.part = Part::Trailer(0);
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
            self.part = self.after(byte)?;
        }
    }

    /// The part that the next byte belongs to, after this one.
    fn after(&mut self, byte: u8) -> Result<Part, Undecodable> {
        Ok(match self.part {
            Part::Body => Part::Body,
            Part::Comment if byte == 0 => self.behind(COMMENT),
            Part::Comment => Part::Comment,
            Part::Extra(left @ 2..) => Part::Extra(left - 1),
            Part::Extra(_) => self.behind(EXTRA),
            Part::ExtraLength(None) => Part::ExtraLength(Some(byte)),
            Part::ExtraLength(Some(low)) => match u16::from_le_bytes([low, byte]) {
                0 => self.behind(EXTRA),
                length => Part::Extra(length),
            },
            Part::Fixed(at) => return self.fixed(at, byte),
            Part::HeaderCrc(left @ 2..) => Part::HeaderCrc(left - 1),
            Part::HeaderCrc(_) => self.behind(HEADER_CRC),
            Part::Name if byte == 0 => self.behind(NAME),
            Part::Name => Part::Name,
            Part::Trailer(at) => return self.trailer(at, byte),
        })
    }

    fn fixed(&mut self, at: u8, byte: u8) -> Result<Part, Undecodable> {
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
            return Err(Undecodable::Corrupt);
        }
        if at + 1 < FIXED_BYTES {
            return Ok(Part::Fixed(at + 1));
        }
        self.inflate.reset(false);
        self.crc.reset();
        Ok(self.behind(0))
    }

    /// What follows the part of the header that `flag` announced, in the order of the format.
    fn behind(&self, flag: u8) -> Part {
        let order = [
            (EXTRA, Part::ExtraLength(None)),
            (NAME, Part::Name),
            (COMMENT, Part::Comment),
            (HEADER_CRC, Part::HeaderCrc(2)),
        ];
        let done = order.iter().position(|(known, _)| *known == flag);
        order
            .into_iter()
            .skip(done.map_or(0, |at| at + 1))
            .find(|(known, _)| self.flags & known != 0)
            .map_or(Part::Body, |(_, part)| part)
    }

    fn trailer(&mut self, at: usize, byte: u8) -> Result<Part, Undecodable> {
        if let Some(place) = self.trailer.get_mut(at) {
            *place = byte;
        }
        if at + 1 < TRAILER_BYTES {
            return Ok(Part::Trailer(at + 1));
        }
        let sound = u64::from(self.crc.amount()) << 32 | u64::from(self.crc.sum());
        if u64::from_le_bytes(self.trailer) != sound {
            return Err(Undecodable::Corrupt);
        }
        self.ended = true;
        Ok(Part::Fixed(0))
    }
}
