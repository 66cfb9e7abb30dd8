//! Reading of a text as a person or a model reads it: what only looks like a letter counts as that letter.

use crate::collections::StaticMap;
use memchr::{memchr2_iter, memchr3_iter};
use std::sync::LazyLock;

/// Characters outside ASCII, each with the ones of ASCII that it reads as.
static LOOKALIKES: LazyLock<StaticMap<char, &str>> = LazyLock::new(|| {
    let rows = include_str!("data/lookalikes.tsv").lines();
    let rows = rows.filter_map(|row| row.split_once('\t'));
    rows.flat_map(|(ascii, others)| others.chars().map(move |other| (other, ascii))).collect()
});

/// Letters by their category that show nothing.
const FILLERS: [char; 4] = ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}'];

/// Returns what `c` reads as; `None` for a character of ASCII, and for one that reads as no other.
fn ascii_of(c: char) -> Option<&'static str> {
    if c.is_ascii() { None } else { LOOKALIKES.get(&c).copied() }
}

/// Whether `c` reads as `mark`, a punctuation mark of ASCII.
pub(crate) fn reads_as(c: char, mark: char) -> bool {
    c == mark || ascii_of(c).is_some_and(|ascii| ascii.starts_with(mark))
}

/// Returns the places in `text` of characters that read as one of two marks, in no order.
///
/// Searches for the marks and for the first bytes of their lookalikes, which few texts have.
pub(crate) fn marks(text: &str, marks: [char; 2]) -> impl Iterator<Item = (usize, char)> + '_ {
    let bytes = text.as_bytes();
    let [one, other] = marks.map(|mark| u8::try_from(mark).unwrap_or_default());
    let found = memchr2_iter(one, other, bytes).chain(memchr3_iter(0xe2, 0xe3, 0xef, bytes));
    found.filter_map(move |at| {
        let c = text.get(at..)?.chars().next()?;
        let is_mark = marks.into_iter().any(|mark| reads_as(c, mark));
        is_mark.then_some((at, c))
    })
}

/// Whether `c` is a letter or a digit, and shows.
pub(crate) fn is_word(c: char) -> bool {
    (c.is_alphanumeric()
        || ascii_of(c).is_some_and(|ascii| ascii.as_bytes().iter().all(u8::is_ascii_alphanumeric)))
        && !FILLERS.contains(&c)
}

/// Returns the letters and digits of `text` as they read, in lower case. Everything else is left out:
/// spaces, punctuation, marks above letters, and characters without a shape.
pub(crate) fn words(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().filter(|c| is_word(*c)).flat_map(|c| {
        let ascii = ascii_of(c).unwrap_or_default();
        let own = ascii.is_empty().then(|| c.to_lowercase()).into_iter();
        ascii.chars().chain(own.flatten()).map(alike)
    })
}

/// Returns the one of several characters that look alike in ASCII.
fn alike(c: char) -> char {
    match c {
        'i' | '1' => 'l',
        '0' => 'o',
        other => other,
    }
}

/// Whether the letters and digits of `text` begin with those of `start`.
pub(crate) fn begins_like(text: &str, start: &str) -> bool {
    let mut text = words(text);
    words(start).all(|expected| text.next() == Some(expected))
}

/// Whether `text` begins like `title`, and no further word follows. A note in parentheses may.
pub(crate) fn has_title(text: &str, title: &str) -> bool {
    let mut open = words(title).count();
    let rest = text.trim_start_matches(|c: char| {
        let is_part = open > 0;
        open = open.saturating_sub(words(c.encode_utf8(&mut [0; 4])).count());
        is_part
    });
    begins_like(text, title) && !rest.trim_start().starts_with(char::is_alphabetic)
}

pub(crate) fn is_like(text: &str, other: &str) -> bool {
    words(text).eq(words(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookalikes_marks_and_unseen_characters_read_as_ascii() {
        for text in [
            "Files Touched",
            "FILES  TOUCHED:",
            "Ｆｉｌｅｓ Ｔｏｕｃｈｅｄ",
            "𝐅𝐢𝐥𝐞𝐬 𝓣𝓸𝓾𝓬𝓱𝓮𝓭",
            "Fіlеѕ Тоuсhеd",
            "F\u{200b}iles\u{a0}T\u{2060}ouched",
            "Fi\u{301}lés Töuched",
            "ﬁles touched",
            "Fi1es T0uched",
            "F\u{3164}iles Touched",
            "ⓕⓘⓛⓔⓢ 🅃🄾🅄🄲🄷🄴🄳",
        ] {
            assert!(is_like(text, "files touched"), "{text}");
        }
        assert!(!is_like("Files Touche", "files touched"));
        assert!(begins_like("[Fｉles touched by", "files touched"));
        assert!(!begins_like("Files", "files touched"));
    }

    #[test]
    fn each_row_maps_characters_outside_ascii_once() {
        let table = &*LOOKALIKES;
        assert!(table.len() > 2_500);
        assert!(table.iter().all(|(other, ascii)| !other.is_ascii() && ascii.is_ascii()));
        let rows = include_str!("data/lookalikes.tsv").lines();
        let rows = rows.filter_map(|row| row.split_once('\t'));
        assert_eq!(rows.map(|(_, others)| others.chars().count()).sum::<usize>(), table.len());
        for (c, mark) in [('［', '['), ('【', '['), ('］', ']'), ('＃', '#'), ('＜', '<')] {
            assert!(reads_as(c, mark));
        }
        assert!(!reads_as('［', ']') && !reads_as('a', '['));
        for (other, ascii) in table.iter().filter(|(_, ascii)| "#[<".contains(**ascii)) {
            let text = format!("é{other}");
            let mark = ascii.chars().next().unwrap();
            let found: Vec<_> = marks(&text, [mark; 2]).collect();
            assert_eq!(found, [(2, *other)]);
        }
    }
}
