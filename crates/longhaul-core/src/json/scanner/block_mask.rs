//! Classifies the bytes inside string literals, one block at a time.

use wide::u8x16;

/// Bytes of one block, chosen so that a mask is one machine word.
pub(in crate::json) const BLOCK_BYTES: usize = 64;
/// Bytes of one register on any current machine.
const LANE_BYTES: usize = 16;

/// Classes of the bytes of a block, one bit per byte, the first byte in the lowest bit.
pub(in crate::json) struct BlockMask {
    /// Quotes, backslashes and control bytes: all bytes that are not plain content.
    pub(super) special: u64,
    /// UTF-8 continuation bytes.
    pub(super) continuation: u64,
}

impl BlockMask {
    /// A mask without any plain content.
    const REFUSED: Self = Self { special: u64::MAX, continuation: 0 };

    /// Returns the index of the first byte that is not plain content.
    pub(in crate::json) fn first_special(&self) -> usize {
        self.special.trailing_zeros() as usize
    }

    pub(super) fn continuation_before(&self, at: usize) -> u64 {
        self.continuation & !(u64::MAX << at)
    }

    /// Clears the first byte that is not plain content.
    pub(in crate::json) fn clear_first(&mut self) {
        self.special &= self.special.wrapping_sub(1);
    }

    pub(super) fn clear_pair(&mut self, at: usize) {
        self.special &= !(0b11 << at);
    }

    /// Clears the bytes before `next`, which may lie past the block.
    pub(super) fn clear_before(&mut self, next: usize) {
        self.special &= if next < BLOCK_BYTES { u64::MAX << next } else { 0 };
    }

    /// Classifies the first block of `rest`. Bytes past its end count as control bytes.
    #[inline]
    pub(in crate::json) fn from_bytes(rest: &[u8]) -> Self {
        match rest.first_chunk() {
            Some(block) => Self::from_block(block),
            None => Self::from_block(&pad(rest)),
        }
    }

    /// Classifies one register only, which is enough for most keys and names.
    #[inline]
    pub(super) fn from_first_lanes(rest: &[u8]) -> Option<Self> {
        let lanes = u8x16::new(*rest.first_chunk()?);
        Some(Self {
            special: u64::from(special(lanes).to_bitmask()),
            continuation: u64::from(continuation(lanes).to_bitmask()),
        })
    }

    // Unrolled instead of mapped: without whole-program optimisation, compilers turn closures over
    // arrays here into code several times as long.
    #[inline]
    fn from_block(block: &[u8; BLOCK_BYTES]) -> Self {
        let (chunks, _) = block.as_chunks::<LANE_BYTES>();
        let &[a, b, c, d] = chunks else {
            return Self::REFUSED;
        };
        let (a, b, c, d) = (u8x16::new(a), u8x16::new(b), u8x16::new(c), u8x16::new(d));
        let ascii = (a | b | c | d).to_bitmask() == 0;
        Self {
            special: mask(special(a), special(b), special(c), special(d)),
            continuation: if ascii {
                0
            } else {
                mask(continuation(a), continuation(b), continuation(c), continuation(d))
            },
        }
    }
}

/// Returns the backslashes in the first block of `rest`, one bit per byte.
#[inline]
pub(super) fn backslashes(rest: &[u8]) -> u64 {
    match rest.first_chunk() {
        Some(block) => backslashes_of(block),
        None => backslashes_of(&pad(rest)),
    }
}

#[inline]
fn backslashes_of(block: &[u8; BLOCK_BYTES]) -> u64 {
    let (chunks, _) = block.as_chunks::<LANE_BYTES>();
    let &[a, b, c, d] = chunks else {
        return 0;
    };
    let of = |lanes: [u8; LANE_BYTES]| u8x16::new(lanes).simd_eq(u8x16::splat(b'\\'));
    mask(of(a), of(b), of(c), of(d))
}

#[cold]
fn pad(rest: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    if let Some(start) = block.get_mut(..rest.len()) {
        start.copy_from_slice(rest);
    }
    block
}

#[inline]
fn special(lanes: u8x16) -> u8x16 {
    lanes.simd_eq(u8x16::splat(b'"'))
        | lanes.simd_eq(u8x16::splat(b'\\'))
        | lanes.min(u8x16::splat(0x1F)).simd_eq(lanes)
}

#[inline]
fn continuation(lanes: u8x16) -> u8x16 {
    (lanes & u8x16::splat(0xC0)).simd_eq(u8x16::splat(0x80))
}

#[inline]
fn mask(a: u8x16, b: u8x16, c: u8x16, d: u8x16) -> u64 {
    let bits = |lanes: u8x16| u64::from(lanes.to_bitmask());
    bits(a) | bits(b) << LANE_BYTES | bits(c) << (2 * LANE_BYTES) | bits(d) << (3 * LANE_BYTES)
}
