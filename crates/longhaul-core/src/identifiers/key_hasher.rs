//! Hash of the features that identifiers share.

use std::hash::Hasher;

/// FNV-1a: a multiplication for each byte, and the same result on every machine.
///
/// Chosen input can make two families of one conversation look like one, which changes their ranks there. A
/// secret would make them differ from replica to replica.
#[derive(Clone, Debug)]
pub(super) struct KeyHasher(u64);

const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0100_0000_01B3;

impl KeyHasher {
    pub(super) fn new() -> Self {
        Self(OFFSET_BASIS)
    }
}

impl Hasher for KeyHasher {
    /// Hashes bytes as if they were written one by one: the boundary between two parts of a code does not count.
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u8(byte);
        }
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(PRIME);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
