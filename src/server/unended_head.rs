//! The memory of bytes that a client has sent and that are no request yet.

use std::io::{self, Write as _};

use crate::body::budget::BufferBudget;
use crate::exchange::client_connection::ClientConnection;
use crate::limits::CLIENT_HEAD_BYTES;
use crate::server::protocol::{PREFACE, Protocol};

/// Bytes that count in no budget: hyper's smallest buffer.
const FREE_BYTES: u64 = 8 * 1024;
/// Maximum memory of one head: its bytes, and its fields.
const MAX_HEAD_MEMORY: u64 = 2 * CLIENT_HEAD_BYTES as u64;
/// Length of the header of an HTTP/2 frame (RFC 9113, 4.1).
const FRAME_HEADER: usize = 9;
/// Types of the frames that carry a block of fields, and the flag of the last one of a block (RFC 9113,
/// 6.2 and 6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Measures the head that a connection receives.
pub(super) struct UnendedHead {
    budget: BufferBudget,
    form: HeadForm,
}

enum HeadForm {
    Http1 {
        /// Bytes since the last request began.
        bytes: u64,
        /// Requests before.
        requests: u64,
    },
    Http2(FrameReader),
}

/// Finds the frames of HTTP/2, which contain heads.
#[derive(Default)]
struct FrameReader {
    /// Bytes of the preface that are yet to come.
    preface: usize,
    header: [u8; FRAME_HEADER],
    header_bytes: usize,
    /// Bytes of the payload that are yet to come.
    payload: usize,
    block: FieldBlock,
}

/// A block of fields, in a frame of its own or in several.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum FieldBlock {
    #[default]
    None,
    /// Further frames of the block follow.
    Open,
    /// The block ends with the payload of this frame.
    Last,
}

impl UnendedHead {
    /// Measures a connection of `protocol`, from its first byte.
    pub(super) fn new(budget: BufferBudget, protocol: Protocol) -> Self {
        let form = match protocol {
            Protocol::Http1 => HeadForm::Http1 { bytes: 0, requests: 0 },
            Protocol::Http2 => {
                HeadForm::Http2(FrameReader { preface: PREFACE.len(), ..FrameReader::default() })
            }
        };
        Self { budget, form }
    }

    /// Records bytes that the connection has received, and reserves memory for a large head. Fails if too
    /// little memory is left; the connection cannot continue then.
    pub(super) fn record(
        &mut self,
        received: &[u8],
        connection: &ClientConnection,
    ) -> io::Result<()> {
        match &mut self.form {
            HeadForm::Http1 { bytes, requests } => {
                if connection.is_in_use() {
                    return Ok(());
                }
                let begun = connection.requests();
                if *requests != begun {
                    (*requests, *bytes) = (begun, 0);
                }
                *bytes += received.len() as u64;
                if *bytes <= FREE_BYTES {
                    return Ok(());
                }
                // The buffer grows by doubling.
                let memory = bytes.next_power_of_two().min(MAX_HEAD_MEMORY);
                connection.reserve_unended(&self.budget, memory)
            }
            HeadForm::Http2(frames) => {
                frames.record(received);
                if frames.block == FieldBlock::None {
                    connection.release_unended();
                    return Ok(());
                }
                connection.reserve_unended(&self.budget, MAX_HEAD_MEMORY)
            }
        }
    }
}

impl FrameReader {
    fn record(&mut self, mut received: &[u8]) {
        let preface = self.preface.min(received.len());
        self.preface -= preface;
        received = received.get(preface..).unwrap_or_default();
        while !received.is_empty() {
            let skipped = self.payload.min(received.len());
            self.payload -= skipped;
            self.end_block();
            received = received.get(skipped..).unwrap_or_default();
            let mut missing = self.header.get_mut(self.header_bytes..).unwrap_or_default();
            // Writing to a slice takes what fits.
            let copied = missing.write(received).unwrap_or_default();
            self.header_bytes += copied;
            received = received.get(copied..).unwrap_or_default();
            if self.header_bytes == FRAME_HEADER {
                self.begin_frame();
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        if self.payload == 0 && self.block == FieldBlock::Last {
            self.block = FieldBlock::None;
        }
    }

    fn begin_frame(&mut self) {
        let [a, b, c, kind, flags, ..] = self.header;
        self.payload = u32::from_be_bytes([0, a, b, c]) as usize;
        self.header_bytes = 0;
        match kind {
            HEADERS | CONTINUATION if flags & END_HEADERS == 0 => self.block = FieldBlock::Open,
            CONTINUATION if self.block == FieldBlock::Open => self.block = FieldBlock::Last,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use super::*;
    use crate::request::peer_address::PeerAddress;

    fn connection() -> Arc<ClientConnection> {
        let peer = PeerAddress::new(IpAddr::from([10, 0, 0, 1]));
        Arc::new(ClientConnection::new(peer))
    }

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [_, a, b, c] = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![a, b, c, kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEADER + payload, 0xff);
        frame
    }

    #[test]
    fn a_large_unended_head_takes_memory_until_its_request_begins() {
        let budget = BufferBudget::new(2 * MAX_HEAD_MEMORY);
        let connection = connection();
        let mut head = UnendedHead::new(budget.clone(), Protocol::Http1);
        let record = |head: &mut UnendedHead, bytes| head.record(&vec![0; bytes], &connection);
        let is_free = || budget.reservation().grow_to(2 * MAX_HEAD_MEMORY).is_ok();
        record(&mut head, 8 * 1024).unwrap();
        assert!(is_free(), "a usual head");
        record(&mut head, 20 * 1024).unwrap();
        assert!(!is_free());
        let in_use = connection.begin_use();
        assert!(is_free());
        record(&mut head, 1 << 20).unwrap();
        drop(in_use);
        record(&mut head, 8 * 1024).unwrap();
        assert!(is_free(), "the next head");
    }

    #[test]
    fn a_head_beyond_the_budget_ends_its_connection() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let connection = connection();
            let mut head = UnendedHead::new(BufferBudget::new(16 * 1024), protocol);
            let bytes = [PREFACE, &frame(HEADERS, 0, 20 * 1024)].concat();
            assert!(head.record(&bytes, &connection).is_err());
        }
    }

    #[test]
    fn only_a_block_of_several_frames_takes_memory_in_http2() {
        let data = frame(0, END_HEADERS, 60_000);
        let whole = frame(HEADERS, END_HEADERS, 10_000);
        let (begun, next) = (frame(HEADERS, 0, 10_000), frame(CONTINUATION, 0, 0));
        let last = frame(CONTINUATION, END_HEADERS, 10);
        let sent = [&vec![0xff; 24], &data, &whole, &data, &begun, &next, &last, &data];
        let bytes: Vec<u8> = sent.into_iter().flatten().copied().collect();
        let from = 24 + 2 * data.len() + whole.len() + FRAME_HEADER;
        let to = from - FRAME_HEADER + begun.len() + next.len() + last.len();
        for at_once in [1, 7, 9, 1_000] {
            let connection = connection();
            let budget = BufferBudget::new(4 * MAX_HEAD_MEMORY);
            let mut head = UnendedHead::new(budget.clone(), Protocol::Http2);
            for (at, part) in bytes.chunks(at_once).enumerate() {
                head.record(part, &connection).unwrap();
                let end = at * at_once + part.len();
                let is_held = budget.reservation().grow_to(4 * MAX_HEAD_MEMORY).is_err();
                assert_eq!(is_held, (from..to).contains(&end), "{end} of {from}..{to}");
            }
        }
    }
}
