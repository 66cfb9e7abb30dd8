//! Cue words: a word that follows one was probably named to be referred to later.

/// The cue words, each packed into an integer that sorts like the word.
const CUES: [u128; 40] = [
    pack("account"),
    pack("address"),
    pack("branch"),
    pack("build"),
    pack("code"),
    pack("codename"),
    pack("commit"),
    pack("confirmation"),
    pack("credential"),
    pack("error"),
    pack("host"),
    pack("id"),
    pack("identifier"),
    pack("invoice"),
    pack("issue"),
    pack("job"),
    pack("key"),
    pack("licence"),
    pack("license"),
    pack("number"),
    pack("order"),
    pack("passphrase"),
    pack("password"),
    pack("pin"),
    pack("port"),
    pack("pr"),
    pack("ref"),
    pack("reference"),
    pack("release"),
    pack("reservation"),
    pack("secret"),
    pack("serial"),
    pack("session"),
    pack("sha"),
    pack("ticket"),
    pack("token"),
    pack("tracking"),
    pack("user"),
    pack("vault"),
    pack("version"),
];

/// Packs the bytes of a word into an integer, first byte highest.
const fn pack(word: &str) -> u128 {
    let (mut bytes, mut number, mut left) = (word.as_bytes(), 0, u128::BITS);
    while let Some((&byte, rest)) = bytes.split_first() {
        left -= u8::BITS;
        number |= (byte as u128) << left;
        bytes = rest;
    }
    number
}

/// Bit filter over the prefixes of all cues; most words fail it.
const PREFIX_FILTER: u128 = {
    let (mut cues, mut beginnings) = (CUES.as_slice(), 0);
    while let Some((&cue, rest)) = cues.split_first() {
        beginnings |= prefix_bit(cue);
        cues = rest;
    }
    beginnings
};

/// Returns the filter bit for the first four bytes of a word, chosen by hash.
const fn prefix_bit(word: u128) -> u128 {
    const SPREAD: u32 = 0x9E37_79B1;
    1 << (((word >> 96) as u32).wrapping_mul(SPREAD) >> 25)
}

/// Whether `word` is a cue, with or without a trailing colon or equals sign.
pub(super) fn is_cue(word: &str) -> bool {
    let word = if word.ends_with([':', '=']) {
        word.trim_end_matches(':').trim_end_matches('=')
    } else {
        word
    };
    let mut bytes = [0; size_of::<u128>()];
    let Some(start) = bytes.get_mut(..word.len()) else {
        return false;
    };
    start.copy_from_slice(word.as_bytes());
    bytes.make_ascii_lowercase();
    let word = u128::from_be_bytes(bytes);
    PREFIX_FILTER & prefix_bit(word) != 0 && CUES.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_are_sorted() {
        assert!(CUES.is_sorted());
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
