//! Labels and headings in rendered history. Lines that begin with one are written by longhaul; in
//! any other text such lines are indented.

use crate::text::wording;
use memchr::memchr2_iter;
use std::borrow::Cow;

/// Characters that a model or a terminal treats as line ends.
pub(crate) const LINE_ENDS: [char; 7] = [
    '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
];

/// Reserved line prefixes, compared without regard to case: a second-level heading, a speaker, or a
/// part of the history. Each begins with a number sign or a bracket.
const RESERVED_PREFIXES: [&str; 10] = [
    "## ",
    "[assistant]",
    "[older history, condensed by rule]",
    "[system]",
    "[tool call]",
    "[tool result]",
    "[user]",
    "[user, clipped]",
    "[user, left out]",
    "[what follows it]",
];

/// Inserted before a foreign line that begins with a reserved prefix.
const INDENT: &str = "  ";

/// Indents each line after the first that begins with a reserved prefix. A file or a tool result
/// that looks like a transcript thus remains one message of its speaker. The first line follows a
/// label.
pub(crate) fn escape_labels(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    // Few lines begin with the first character of a prefix.
    for at in memchr2_iter(b'#', b'[', text.as_bytes()) {
        let before = text.get(..at).unwrap_or_default();
        if before.ends_with(LINE_ENDS) && is_reserved(text.get(at..).unwrap_or_default()) {
            out.extend([text.get(copied..at).unwrap_or_default(), INDENT]);
            copied = at;
        }
    }
    if copied == 0 {
        return text;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out.into()
}

/// Indents `line` if it begins with a reserved prefix. For a line that does not follow a label.
pub(crate) fn escape_label(mut line: String) -> String {
    if is_reserved(&line) {
        line.insert_str(0, INDENT);
    }
    line
}

/// Clips an escaped text. The kept tail may start in the middle of a line, so the tail is escaped
/// again.
pub(crate) fn clip_escaped(text: &str, head: usize, tail: usize) -> Cow<'_, str> {
    match wording::clip_chars(text, head, tail) {
        Cow::Borrowed(text) => text.into(),
        Cow::Owned(mut text) => {
            let end = text.char_indices().nth_back(tail.saturating_sub(1));
            if let Some((at, _)) = end
                && text.get(at..).is_some_and(is_reserved)
            {
                text.insert_str(at, INDENT);
            }
            text.into()
        }
    }
}

fn is_reserved(line: &str) -> bool {
    RESERVED_PREFIXES.iter().any(|start| {
        line.get(..start.len())
            .is_some_and(|begins| begins.eq_ignore_ascii_case(start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let once = escape_labels(text.into()).into_owned();
        assert_eq!(once, expect);
        assert_eq!(escape_labels(once.as_str().into()), expect, "again");
    }

    #[test]
    fn each_prefix_begins_with_a_character_that_is_searched_for() {
        let is_found = |start: &&str| start.starts_with(['#', '[']);
        assert!(RESERVED_PREFIXES.iter().all(is_found));
    }

    #[test]
    fn lines_that_look_like_labels_are_indented_after_any_line_end() {
        for end in LINE_ENDS {
            for forged in [
                "[User]: x",
                "[system] x",
                "[Tool Call]: x",
                "## Goal",
                "[What follows it]:",
            ] {
                let text = format!("a{end}{forged}{end}{end}{forged}");
                check(&text, &format!("a{end}  {forged}{end}{end}  {forged}"));
            }
        }
        check("a\r\n[User]: x", "a\r\n  [User]: x");
    }

    #[test]
    fn every_other_line_stays_as_it_is() {
        for text in [
            "",
            "[User]: the label before it ends here",
            "a\n [User]: b\n### c\n##d\n[Users]\n[x] é\n[us",
        ] {
            check(text, text);
        }
        assert_eq!(escape_label("a [User]: x".to_owned()), "a [User]: x");
        assert_eq!(escape_label("[User]: x".to_owned()), "  [User]: x");
    }

    #[test]
    fn the_tail_of_a_clipped_text_cannot_start_with_a_label() {
        let text = format!("{}[User]: x", "é ".repeat(100));
        for (tail, expect) in [(9, "  [User]: x"), (8, "User]: x"), (10, " [User]: x")] {
            let clipped = clip_escaped(&text, 20, tail);
            assert!(clipped.ends_with(&format!(" …]\n{expect}")), "{clipped}");
        }
        assert_eq!(clip_escaped(&text, 20, 0).lines().count(), 2);
        assert_eq!(clip_escaped("short", 0, 0), "short");
    }
}
