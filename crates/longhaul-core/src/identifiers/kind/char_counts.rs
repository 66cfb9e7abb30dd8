//! Numbers of the characters of a word, by class.

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

impl CharCounts {
    pub(super) fn from_word(word: &str) -> Self {
        let mut counts = Self::default();
        for byte in word.bytes() {
            *match byte {
                b'0'..=b'9' => &mut counts.digits,
                b'a'..=b'z' => &mut counts.lower,
                b'A'..=b'Z' => &mut counts.upper,
                b'.' => &mut counts.dots,
                b'/' => &mut counts.slashes,
                b'-' | b'_' => &mut counts.joiners,
                _ => &mut counts.others,
            } += 1;
            counts.hex += usize::from(byte.is_ascii_hexdigit());
        }
        counts
    }

    pub(super) fn letters(&self) -> usize {
        self.lower + self.upper
    }
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
}
