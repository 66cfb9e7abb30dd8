//! Texts in user messages that the agent's program wrote, not the user.

use memchr::memmem::Finder;
use std::sync::LazyLock;

const OPEN: &str = "<system-reminder>";
const CLOSE: &str = "</system-reminder>";
/// Beginning of a reminder with the user's own words, typed while the agent worked.
const USER_WORDS: &str = "The user sent ";

/// Whether a text, undecoded, consists of reminders of the agent's program alone.
///
/// Claude Code adds reminders as text blocks next to results and user messages. A reminder that
/// quotes the user is the user's.
pub(super) fn is_reminder(raw: &str) -> bool {
    let mut rest = trim(raw);
    if !rest.starts_with(OPEN) {
        return false;
    }
    while let Some(reminder) = rest.strip_prefix(OPEN) {
        let Some((text, behind)) = split_at_close(reminder) else {
            return false;
        };
        if trim(text).starts_with(USER_WORDS) {
            return false;
        }
        rest = trim(behind);
    }
    rest.is_empty()
}

/// Splits a text at the end of its first reminder, which may be long.
fn split_at_close(text: &str) -> Option<(&str, &str)> {
    static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(CLOSE));
    let at = END.find(text.as_bytes())?;
    Some((text.get(..at)?, text.get(at + CLOSE.len()..)?))
}

/// Removes white space, escaped or not, from both ends of an undecoded text.
fn trim(raw: &str) -> &str {
    const SPACES: [&str; 3] = ["\\n", "\\r", "\\t"];
    let mut rest = raw.trim();
    while let Some(shorter) = SPACES.iter().find_map(|space| {
        let behind = rest.strip_prefix(space);
        behind.or_else(|| rest.strip_suffix(space))
    }) {
        rest = shorter.trim();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_reminder_only_if_it_consists_of_reminders() {
        for (raw, expect) in [
            (r"<system-reminder>\nx\n</system-reminder>", true),
            (r"\n <system-reminder>x</system-reminder>\n\n", true),
            (
                r"<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>",
                true,
            ),
            (r"<system-reminder>a</system-reminder>\nport it", false),
            (
                r"<system-reminder>a</system-reminder> port it <system-reminder>b</system-reminder>",
                false,
            ),
            (r"port <system-reminder>a</system-reminder>", false),
            (r"<system-reminder>a", false),
            (
                r"<system-reminder>\nThe user sent the following message:\nstop\n</system-reminder>",
                false,
            ),
            ("", false),
        ] {
            assert_eq!(is_reminder(raw), expect, "{raw}");
        }
    }
}
