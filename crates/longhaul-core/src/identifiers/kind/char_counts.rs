//! Numbers of the characters of a word, by class.

/// Character counts of a word.
#[derive(Default)]
pub(super) struct CharCounts {
    pub(super) digits: usize,
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) hex: usize,
    pub(super) dots: usize,
    pub(super) slashes: usize,
    pub(super) joiners: usize,
    pub(super) others: usize,
}

/// Counts of one byte, in the order of the fields of [`CharCounts`], a byte each.
static COUNTS: [u64; 256] = {
    let mut counts = [0; 256];
    let (mut left, mut byte) = (counts.as_mut_slice(), 0_u8);
    while let Some((count, rest)) = left.split_first_mut() {
        *count = counts_of(byte);
        byte = byte.wrapping_add(1);
        left = rest;
    }
    counts
};

const fn counts_of(byte: u8) -> u64 {
    let field = match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'.' => 4,
        b'/' => 5,
        b'-' | b'_' => 6,
        _ => 7,
    };
    let hex = if byte.is_ascii_hexdigit() { 1 << 24 } else { 0 };
    1 << (8 * field) | hex
}

impl CharCounts {
    pub(super) fn from_word(word: &str) -> Self {
        let mut counts = Self::default();
        // No field exceeds a byte.
        for bytes in word.as_bytes().chunks(u8::MAX as usize) {
            let of = |byte: &u8| COUNTS.get(usize::from(*byte)).copied().unwrap_or(0);
            let sum: u64 = bytes.iter().map(of).sum();
            let [digits, lower, upper, hex, dots, slashes, joiners, others] = sum.to_le_bytes();
            counts.digits += usize::from(digits);
            counts.lower += usize::from(lower);
            counts.upper += usize::from(upper);
            counts.hex += usize::from(hex);
            counts.dots += usize::from(dots);
            counts.slashes += usize::from(slashes);
            counts.joiners += usize::from(joiners);
            counts.others += usize::from(others);
        }
        counts
    }

    pub(super) fn letters(&self) -> usize {
        self.lower + self.upper
    }
}

/// Returns the number of capitals after a small letter.
pub(super) fn humps(word: &str) -> usize {
    let bytes = word.as_bytes();
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    pairs
        .filter(|(before, byte)| before.is_ascii_lowercase() && byte.is_ascii_uppercase())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_character_is_counted_in_its_classes() {
        let counts = CharCounts::from_word("aB9.f/-_@\\G");
        assert_eq!((counts.digits, counts.lower, counts.upper), (1, 2, 2));
        assert_eq!((counts.hex, counts.letters()), (4, 4));
        assert_eq!((counts.dots, counts.slashes), (1, 1));
        assert_eq!((counts.joiners, counts.others), (2, 2));
    }

    #[test]
    fn counts_exceed_a_byte() {
        let counts = CharCounts::from_word(&"a0".repeat(300));
        assert_eq!((counts.lower, counts.digits, counts.hex), (300, 300, 600));
    }

    #[test]
    fn a_hump_is_a_capital_behind_a_small_letter() {
        for (word, count) in [("", 0), ("Word", 0), ("aB", 1), ("aBCdE", 2), ("a-B", 0)] {
            assert_eq!(humps(word), count, "{word}");
        }
    }
}
