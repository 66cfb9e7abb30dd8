//! Texts in user messages that the agent's program wrote, not the user.

use crate::clients;
use crate::json::scanner::Literal;

/// Whether a text begins with one of `beginnings`, and the forms of clients show that the program wrote all of
/// the text. Any other text is not decoded.
pub(super) fn is_of_program(text: Literal, body: &str, beginnings: &[&str]) -> bool {
    let raw = text.raw(body).trim_start_matches("\\n").trim_start();
    let begins = beginnings.iter().any(|words| raw.starts_with(words));
    begins && clients::own_words(&text.decode(body)).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::scanner::Scanner;

    fn check(text: &str, beginnings: &[&str], expect: bool) {
        let body = serde_json::to_string(text).unwrap();
        let text = Scanner::new(&body).string().unwrap();
        assert_eq!(is_of_program(text, &body, beginnings), expect, "{body}");
    }

    #[test]
    fn a_reminder_that_quotes_the_user_or_precedes_the_users_words_is_the_users() {
        let check = |text: &str, expect: bool| check(text, &["<system-reminder>"], expect);
        check("<system-reminder>\nx\n</system-reminder>", true);
        check("\n <system-reminder>x</system-reminder>\n\n", true);
        let two = "<system-reminder>a</system-reminder>\n<system-reminder>b</system-reminder>";
        check(two, true);
        check("<system-reminder>a</system-reminder>\nport it", false);
        check("port <system-reminder>a</system-reminder>", false);
        check("<system-reminder>a", false);
        check(
            "<system-reminder>\nThe user sent the following message:\nstop\n</system-reminder>",
            false,
        );
        check("", false);
    }

    #[test]
    fn a_description_of_the_workspace_is_no_text_of_the_user() {
        let check = |text: &str, expect: bool| check(text, &["<", "# AGENTS.md"], expect);
        check("<environment_context>\n  <cwd>/home/user</cwd>\n</environment_context>", true);
        check(
            "# AGENTS.md instructions for /home/user\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>",
            true,
        );
        check("<environment_context>x</environment_context>\nfix the build", false);
        check("why does <environment_context> repeat?", false);
        check("<b>fix the build</b>", false);
    }
}
