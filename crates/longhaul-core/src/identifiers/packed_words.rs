//! Short words as integers, which are compared in one step.

/// A word of at most 16 bytes, the first byte highest. The numbers sort like the words.
pub(super) type PackedWord = u128;

/// Packs the lines of a data file.
pub(super) const fn pack_lines<const COUNT: usize>(text: &str) -> [PackedWord; COUNT] {
    let mut words = [0; COUNT];
    let (mut left, mut bytes) = (words.as_mut_slice(), text.as_bytes());
    while let Some((word, others)) = left.split_first_mut() {
        let mut shift = PackedWord::BITS;
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = rest;
            if byte == b'\n' {
                break;
            }
            shift -= u8::BITS;
            *word |= (byte as PackedWord) << shift;
        }
        left = others;
    }
    assert!(bytes.is_empty(), "the count is that of the lines");
    words
}

/// Packs a word; `None` if it is too long.
pub(super) fn pack(word: &[u8]) -> Option<PackedWord> {
    let mut bytes = [0; size_of::<PackedWord>()];
    bytes.get_mut(..word.len())?.copy_from_slice(word);
    Some(PackedWord::from_be_bytes(bytes))
}
