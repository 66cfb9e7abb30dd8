//! Cue words: a word that follows one was probably named to be referred to later.

use super::is_in_run;
use super::split::trim_punctuation;
use std::sync::LazyLock;

/// Number of words after a cue that count as introduced by the cue.
const REACH: usize = 3;

static CUES: LazyLock<Vec<&str>> = LazyLock::new(|| include_str!("cues.txt").lines().collect());

/// A cue before a run, in the same line.
pub(super) struct Cue {
    start: usize,
    /// Whether no word stands between the cue and the run.
    is_next: bool,
}

impl Cue {
    /// Returns the nearest cue that introduces the run at `start`.
    pub(super) fn before(text: &str, start: usize) -> Option<Self> {
        let mut before = text.get(..start)?;
        for distance in 0..REACH {
            let bytes = before.as_bytes().iter().rev();
            let is_between = |byte: &&u8| !is_in_run(**byte) && **byte != b'\n';
            let gap = bytes.clone().take_while(is_between).count();
            let length = bytes.skip(gap).take_while(|&&byte| is_in_run(byte)).count();
            let end = before.len() - gap;
            let word = before.get(end - length..end)?;
            if is_cue(word) {
                return Some(Self { start: end - length, is_next: distance == 0 });
            }
            before = before.get(..end - length)?;
        }
        None
    }

    /// Returns the text from the cue to `end`, if the cue is next to the run that ends there.
    pub(super) fn text_to<'t>(&self, text: &'t str, end: usize) -> Option<&'t str> {
        let text = text.get(self.start..end).filter(|_| self.is_next);
        text.map(trim_punctuation)
    }
}

/// Whether `word` is a cue, with or without trailing equals signs and then colons.
fn is_cue(word: &str) -> bool {
    let word = word.trim_end_matches(':').trim_end_matches('=');
    CUES.iter().any(|cue| cue.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_cues_in_capitals_and_before_a_colon() {
        for &cue in CUES.iter() {
            for spelt in [cue, &cue.to_uppercase(), &format!("{cue}:"), &format!("{cue}=:")] {
                assert!(is_cue(spelt), "{spelt}");
            }
            assert!(!is_cue(&format!("{cue}:=")));
            assert!(!is_cue(&format!("{cue}x")));
        }
        assert!(!is_cue("") && !is_cue("credentials") && !is_cue("confirmations"));
    }
}
