//! The gzip format (RFC 1952): consecutive members, each with its own checks.
//!
//! `flate2` has readers of gzip for a source that would block. They request further input before they emit what
//! their inflater holds, so that an event of a stream might wait for the next one. A writer of one member is
//! flushed instead.

use std::io::Write as _;

use flate2::write::GzDecoder;

use crate::body::coding::DecodeError;
use crate::body::coding::stream_decoder::Progress;

/// Maximum members of one body. Each needs memory of its own, and encoders write one.
const MAX_MEMBERS: u32 = 1_024;

/// Decodes members until the end of the last.
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
    pub(super) fn is_ended(&mut self) -> bool {
        self.is_begun && self.member.try_finish().is_ok()
    }

    pub(super) fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<Progress, DecodeError> {
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
    fn emit(&mut self, output: &mut [u8]) -> usize {
        let held = self.member.get_mut();
        let rest = held.get(self.emitted..).unwrap_or_default();
        let length = rest.len().min(output.len());
        for (to, from) in output.iter_mut().zip(rest) {
            *to = *from;
        }
        self.emitted += length;
        if self.emitted == held.len() {
            held.clear();
            self.emitted = 0;
        }
        length
    }
}
