//! The bytes inside string literals, a block at a time: where one ends, escapes or is not allowed.

use wide::u8x16;

/// How many bytes one block holds, so that a mask of them is one machine word.
pub(super) const BLOCK_BYTES: usize = 64;
/// How many bytes one register holds on any machine of today.
const LANE_BYTES: usize = 16;

/// What is to be seen in a block, one bit a byte, the first byte's lowest.
pub(super) struct BlockMask {
    /// Quotes, backslashes and control bytes: whatever is not plain content.
    pub(super) special: u64,
    /// Bytes of UTF-8 that begin no character.
    pub(super) continuation: u64,
}

impl BlockMask {
    /// Nothing in it is plain content.
    const REFUSED: Self = Self {
        special: u64::MAX,
        continuation: 0,
    };

    /// Where the first byte that is not plain content stands.
    pub(super) fn first_special(&self) -> usize {
        self.special.trailing_zeros() as usize
    }

    /// Forgets the byte at `at` and the one behind it.
    pub(super) fn clear_pair(&mut self, at: usize) {
        self.special &= !(0b11 << at);
    }

    /// Forgets what stands before `next`, which may lie behind the block.
    pub(super) fn clear_before(&mut self, next: usize) {
        self.special &= if next < BLOCK_BYTES {
            u64::MAX << next
        } else {
            0
        };
    }

    /// Looks at the beginning of `rest`; behind its end stand control bytes.
    #[inline]
    pub(super) fn from_bytes(rest: &[u8]) -> Self {
        match rest.first_chunk() {
            Some(block) => Self::from_block(block),
            None => Self::from_block(&pad(rest)),
        }
    }

    /// The same for one register only: most keys and names are shorter, and no more is paid for
    /// them.
    pub(super) fn from_first_lanes(rest: &[u8]) -> Option<Self> {
        let lanes = u8x16::new(*rest.first_chunk()?);
        Some(Self {
            special: u64::from(special(lanes).to_bitmask()),
            continuation: u64::from(continuation(lanes).to_bitmask()),
        })
    }

    // Written out rather than mapped: what compilers make of closures over arrays here is several
    // times as long where they do not see the whole program at once.
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
                mask(
                    continuation(a),
                    continuation(b),
                    continuation(c),
                    continuation(d),
                )
            },
        }
    }
}

#[cold]
fn pad(rest: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    for (to, from) in block.iter_mut().zip(rest) {
        *to = *from;
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
