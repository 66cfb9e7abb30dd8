//! Classes of the bytes of a text, one block at a time.

use wide::{i8x16, u8x16};

/// Bytes of one block, chosen so that a mask is one machine word.
pub(super) const BLOCK_BYTES: usize = 64;
/// Bytes of one register on any current machine.
const LANE_BYTES: usize = 16;

/// Classes of up to [`BLOCK_BYTES`] bytes, one bit per byte, the first byte in the lowest bit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct ByteClasses {
    /// Bytes that do not end a run: letters, digits, and punctuation that occurs inside of identifiers.
    pub(super) word: u64,
    pub(super) lower: u64,
    pub(super) upper: u64,
    pub(super) digits: u64,
}

impl ByteClasses {
    /// Classifies the first block of `rest`. Bytes past its end are in no class.
    #[inline]
    pub(super) fn from_bytes(rest: &[u8]) -> Self {
        match rest.first_chunk() {
            Some(block) => Self::from_block(block),
            None => Self::from_block(&pad(rest)),
        }
    }

    #[inline]
    fn from_block(block: &[u8; BLOCK_BYTES]) -> Self {
        let (chunks, _) = block.as_chunks::<LANE_BYTES>();
        let &[a, b, c, d] = chunks else {
            return Self::default();
        };
        let [a, b, c, d] = [
            LaneClasses::new(a),
            LaneClasses::new(b),
            LaneClasses::new(c),
            LaneClasses::new(d),
        ];
        Self {
            word: mask(a.word, b.word, c.word, d.word),
            lower: mask(a.lower, b.lower, c.lower, d.lower),
            upper: mask(a.upper, b.upper, c.upper, d.upper),
            digits: mask(a.digits, b.digits, c.digits, d.digits),
        }
    }

    /// Returns the classes of `length` bytes from `start` on, fewer than a block.
    #[inline]
    pub(super) fn slice(self, start: usize, length: usize) -> Self {
        let kept = !(u64::MAX << length);
        Self {
            word: self.word >> start & kept,
            lower: self.lower >> start & kept,
            upper: self.upper >> start & kept,
            digits: self.digits >> start & kept,
        }
    }

    #[inline]
    pub(super) fn letters(self) -> u64 {
        self.lower | self.upper
    }

    /// Returns the bytes that are punctuation.
    #[inline]
    pub(super) fn punctuation(self) -> u64 {
        self.word & !(self.letters() | self.digits)
    }
}

fn pad(rest: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    if let Some(start) = block.get_mut(..rest.len()) {
        start.copy_from_slice(rest);
    }
    block
}

/// Classes of the bytes of a register: all bits of a byte are set, or none.
struct LaneClasses {
    word: u8x16,
    lower: u8x16,
    upper: u8x16,
    digits: u8x16,
}

impl LaneClasses {
    #[inline]
    fn new(bytes: [u8; LANE_BYTES]) -> Self {
        let lanes = u8x16::new(bytes);
        let is = |byte: u8| lanes.simd_eq(u8x16::splat(byte));
        // Registers compare signed numbers. One subtraction moves the range to the lowest ones.
        let is_in = |first: u8, last: u8| {
            let from_lowest = lanes - u8x16::splat(first.wrapping_add(1 << 7));
            let end = i8x16::splat((last - first + 1).wrapping_add(1 << 7).cast_signed());
            from_lowest.cast_signed().simd_lt(end).cast_unsigned()
        };
        let lower = is_in(b'a', b'z');
        let word = lower
            | is_in(b'?', b'Z')
            | is_in(b'-', b':')
            | is_in(b'#', b'&')
            | is_in(b'*', b'+')
            | is(b'=')
            | is(b'\\')
            | is(b'_')
            | is(b'~');
        Self {
            word,
            lower,
            upper: is_in(b'A', b'Z'),
            digits: is_in(b'0', b'9'),
        }
    }
}

#[inline]
fn mask(a: u8x16, b: u8x16, c: u8x16, d: u8x16) -> u64 {
    let bits = |lanes: u8x16| u64::from(lanes.to_bitmask());
    bits(a) | bits(b) << LANE_BYTES | bits(c) << (2 * LANE_BYTES) | bits(d) << (3 * LANE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_the_class_of_its_character() {
        for byte in 0..=u8::MAX {
            for at in [0, 15, 16, 40, 63] {
                let mut block = [b' '; BLOCK_BYTES];
                block[at] = byte;
                let classes = ByteClasses::from_bytes(&block);
                let bit = |is: bool| u64::from(is) << at;
                let in_words = byte.is_ascii_alphanumeric() || b"_-./@#+~\\:=%&?*$".contains(&byte);
                let expected = ByteClasses {
                    word: bit(in_words),
                    lower: bit(byte.is_ascii_lowercase()),
                    upper: bit(byte.is_ascii_uppercase()),
                    digits: bit(byte.is_ascii_digit()),
                };
                assert_eq!(classes, expected, "{byte} at {at}");
            }
        }
    }

    #[test]
    fn bytes_past_the_end_are_in_no_class() {
        let classes = ByteClasses::from_bytes(b"aB3=");
        assert_eq!((classes.word, classes.lower), (0b1111, 0b0001));
        assert_eq!((classes.upper, classes.digits), (0b0010, 0b0100));
        assert_eq!(classes.punctuation(), 0b1000);
        assert_eq!(classes.slice(1, 2).word, 0b11);
        assert_eq!(classes.slice(1, 2).letters(), 0b01);
        assert_eq!(ByteClasses::from_bytes(b""), ByteClasses::default());
    }
}
