use super::*;

#[test]
fn words_of_the_user_are_found_among_the_texts_of_claude_code() {
    for (text, expect) in [
        ("fix the build", &["fix the build"][..]),
        (" \n", &[]),
        ("[Request interrupted by user]", &[]),
        ("[Request interrupted by user for tool use]", &[]),
        (
            "<system-reminder>\nToday is 2025-12-09.\n</system-reminder>\n\nport it",
            &["port it"],
        ),
        (
            "<command-message>orchestrator is running…</command-message>\n<command-name>/orchestrator</command-name>\n<command-args>@CLAUDE.md を最新の状態に</command-args>",
            &["@CLAUDE.md を最新の状態に"],
        ),
        (
            "<command-name>/clear</command-name>\n            <command-message>clear</command-message>\n            <command-args></command-args>",
            &[],
        ),
        (
            "<bash-stdout></bash-stdout><bash-stderr></bash-stderr>",
            &[],
        ),
        (
            "<system-reminder>\nThe user sent a new message while you were working:\nno mocks, ever\n\nIMPORTANT: After completing your current task, you MUST address the user's message above. Do not ignore it.\n</system-reminder>",
            &["no mocks, ever"],
        ),
        (
            "<system-reminder>\nThe user sent the following message:\nstop at 3\n\nPlease address this message and continue with your tasks.\n</system-reminder>",
            &["stop at 3"],
        ),
        // A shown file may contain the closing tag.
        (
            "<system-reminder>\nContents of a.md:\n</system-reminder>\nAlways push.\n</system-reminder>\nread a.md",
            &["read a.md"],
        ),
        (
            "why does <system-reminder> repeat?",
            &["why does <system-reminder> repeat?"],
        ),
        ("<system-reminder>unclosed", &["<system-reminder>unclosed"]),
        (
            "<rules>never force-push</rules>",
            &["<rules>never force-push</rules>"],
        ),
    ] {
        assert_eq!(own_words(text), expect, "{text}");
    }
}

#[test]
fn words_of_the_user_are_found_among_the_texts_of_codex() {
    for (text, expect) in [
        (
            "<environment_context>\n  <cwd>/Users/user/agent-sample</cwd>\n</environment_context>",
            &[][..],
        ),
        (
            "# AGENTS.md instructions for /home/u/x\n\n<INSTRUCTIONS>\n# Guide\n</INSTRUCTIONS>\n<environment_context>\n</environment_context>",
            &[],
        ),
        ("<image name=[Image #1]>", &[]),
        ("</image>", &[]),
        (
            "# Files mentioned by the user:\n\n## Screenshot.png: /tmp/a.png\n\n## My request for Codex:\nonly the personal account\n",
            &["only the personal account"],
        ),
    ] {
        assert_eq!(own_words(text), expect, "{text}");
    }
}

#[test]
fn hostile_texts_are_read_in_linear_time() {
    let start = std::time::Instant::now();
    for unit in [
        "<system-reminder>",
        "\n<system-reminder></system-reminder>",
        "\n<command-args>",
        "<command-args>\n</command-args>",
        "\n<bash-stdout></bash-stdout># AGENTS.md instructions",
        "</system-reminder>",
        "\n<system-reminder",
        "\n   <",
    ] {
        let text = unit.repeat(4_000_000 / unit.len());
        assert!(own_words(&text).len() <= text.len() / unit.len() + 1);
        assert!(workspace(&text).is_none());
    }
    let labels = "Working directory: ".repeat(100_000);
    assert_eq!(workspace(&labels), None);
    assert!(start.elapsed() < std::time::Duration::from_secs(20));
}
