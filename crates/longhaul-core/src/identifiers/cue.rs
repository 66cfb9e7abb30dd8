//! Cue words: a word that follows one was probably named to be referred to later.

use crate::identifiers::packed_words::{PackedWord, pack_lines};

/// The cue words, sorted.
const CUES: [PackedWord; 40] = pack_lines(include_str!("cues.txt"));

/// Lengths of the cues with the same first and last letter, as bits. Most words fail this filter.
#[expect(
    clippy::indexing_slicing,
    reason = "a place is below the length, and this runs at compile time"
)]
static LENGTHS: [u16; 1 << 10] = {
    let mut lengths = [0; 1 << 10];
    let mut cues = CUES.as_slice();
    while let Some((&cue, rest)) = cues.split_first() {
        let length = size_of::<PackedWord>() - cue.trailing_zeros() as usize / 8;
        let letters = cue.to_be_bytes();
        lengths[ends(letters[0], letters[length - 1])] |= 1 << length;
        cues = rest;
    }
    lengths
};

/// Returns the place in [`LENGTHS`] of words that begin and end with these letters, in any case.
const fn ends(first: u8, last: u8) -> usize {
    ((first as usize & 31) << 5) | (last as usize & 31)
}

/// Whether `word` is a cue, with or without trailing equals signs and then colons. It begins with `letters` letters.
#[inline]
pub(super) fn is_cue(word: &[u8], letters: usize) -> bool {
    let last = letters.checked_sub(1).and_then(|last| word.get(last));
    let (Some(&first), Some(&last)) = (word.first(), last) else {
        return false;
    };
    let lengths = LENGTHS.get(ends(first, last)).copied().unwrap_or(0);
    letters < size_of::<PackedWord>() && lengths >> letters & 1 == 1 && is_listed(word, letters)
}

fn is_listed(word: &[u8], letters: usize) -> bool {
    let Some((cue, behind)) = word.split_at_checked(letters) else {
        return false;
    };
    let mut behind = behind.iter().skip_while(|&&byte| byte == b'=');
    let mut bytes = [0; size_of::<PackedWord>()];
    let Some(start) = bytes.get_mut(..letters) else {
        return false;
    };
    start.copy_from_slice(cue);
    bytes.make_ascii_lowercase();
    let lower = PackedWord::from_be_bytes(bytes);
    behind.all(|&byte| byte == b':') && CUES.binary_search(&lower).is_ok()
}

#[cfg(test)]
mod tests {
    use super::CUES;

    #[test]
    fn cues_are_sorted() {
        assert!(CUES.is_sorted());
    }

    fn is_cue(word: &str) -> bool {
        let letters = word.bytes().take_while(u8::is_ascii_alphabetic);
        super::is_cue(word.as_bytes(), letters.count())
    }

    #[test]
    fn recognises_cues_in_capitals_and_before_a_colon() {
        for cue in CUES {
            let bytes = cue.to_be_bytes();
            let word = std::str::from_utf8(&bytes).unwrap().trim_end_matches('\0');
            for spelt in [
                word,
                &word.to_uppercase(),
                &format!("{word}:"),
                &format!("{word}=:"),
            ] {
                assert!(is_cue(spelt), "{spelt}");
            }
            assert!(!is_cue(&format!("{word}:=")));
            assert!(!is_cue(&format!("{word}x")));
        }
        assert!(!is_cue("") && !is_cue("credentials") && !is_cue("confirmations"));
    }
}
