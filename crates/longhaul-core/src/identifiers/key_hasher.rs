//! Hash of the features that identifiers share.

use std::hash::Hasher;

/// Hash with one multiplication for each byte, and the same result on every machine.
///
/// Chosen input can make two families of one conversation look like one, which changes their ranks there. A
/// secret would make them differ from replica to replica.
#[derive(Clone, Debug)]
pub(super) struct KeyHasher(u64);

/// Odd constants with half of their bits set: the digits of the golden ratio and of the root of three.
const START: u64 = 0x9E37_79B9_7F4A_7C15;
const FACTOR: u64 = 0xBB67_AE85_84CA_A73B;

impl KeyHasher {
    pub(super) fn new() -> Self {
        Self(START)
    }

    fn mix(&mut self, byte: u64) {
        let product = u128::from(self.0 ^ byte) * u128::from(FACTOR);
        let bytes = product.to_le_bytes();
        let (halves, _) = bytes.as_chunks();
        if let [low, high] = halves {
            self.0 = u64::from_le_bytes(*low) ^ u64::from_le_bytes(*high);
        }
    }
}

impl Hasher for KeyHasher {
    /// Hashes bytes as if they were written one by one: the parts of a code are not told apart where they meet.
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.mix(byte.into());
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
