//! Tests of the forms of clients, with texts that clients sent.

use super::ResultWords::{Answer, Approved, Rejected};
use super::*;

const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\n";

#[test]
fn every_row_of_a_form_has_a_kind_and_words() {
    let head = include_str!("../clients.rs");
    for line in FORMS.iter().flat_map(|file| file.lines()) {
        if line.starts_with('#') {
            continue;
        }
        let (kind, words) = line.split_once('\t').unwrap();
        assert!(head.contains(&format!("`{kind}`")), "{line}");
        assert!(!words.is_empty() && line.trim() == line, "{line}");
    }
    for form in rows("rejected").iter().chain(rows("rejected-json")) {
        let raw = serde_json::to_string(&form.words).unwrap();
        let raw = raw.trim_matches('"');
        assert!(may_reject(raw), "{raw}");
        // The text may be cut, or follow the line of a client without native calls.
        assert!(may_reject(raw.get(..raw.len() - 1).unwrap()), "{raw}");
        assert!(may_reject(&format!("[bash for 'x'] Result:\\n{raw}")));
    }
}

#[test]
fn results_that_begin_otherwise_are_not_decoded() {
    for raw in [
        "total 300",
        "[1, 2]",
        r"\n\nThe user is logged in",
        "{\\\"status\\\":\\\"ok\\\"}",
        "Permission denied",
    ] {
        assert!(!may_reject(raw), "{raw}");
    }
}

#[test]
fn the_users_words_are_found_among_those_of_the_program() {
    for (text, expect) in [
        (" \n", &[][..]),
        ("[Request interrupted by user for tool use]", &[]),
        ("[Image #1] should be smaller", &["[Image #1] should be smaller"]),
        ("<system-reminder>\nToday is 2025-12-09.\n</system-reminder>\n\nport it", &["port it"]),
        (
            "<command-message>orchestrator is running…</command-message>\n<command-name>/orchestrator</command-name>\n<command-args>@CLAUDE.md を最新の状態に</command-args>",
            &["@CLAUDE.md を最新の状態に"],
        ),
        ("<bash-stdout></bash-stdout><bash-stderr></bash-stderr>", &[]),
        ("<ide_selection>foo</ide_selection> do the thing", &["do the thing"]),
        (
            "This session is being continued from a previous conversation that ran out of context. The summary",
            &[],
        ),
        // Codex and its extension.
        (
            "# AGENTS.md instructions for /home/u/x\n\n<INSTRUCTIONS>\n# Guide\n</INSTRUCTIONS>\n<environment_context>\n</environment_context>",
            &[],
        ),
        ("<image name=[Image #1]>", &[]),
        (
            "# Files mentioned by the user:\n\n## a.png: /srv/a.png\n\n## My request for Codex:\nonly the personal account\n",
            &["only the personal account"],
        ),
        // Cline and Roo, whose tools may be text.
        (
            "<task>\nFix the QR scanner\n</task>\n\n<environment_details>\n# Current Workspace Directory (/w/app) Files\n</environment_details>",
            &["Fix the QR scanner"],
        ),
        (
            "<mode_notice>x</mode_notice>\n<user_input mode=\"plan\">go</user_input>\n\n<file_content path=\"a\">never</file_content>",
            &["go"],
        ),
        ("[ask_followup_question for 'x'] Result:\n\n<answer>\nyes\n</answer>", &["yes"]),
        ("[read_file for 'a'] Result:\nAlways push.", &[]),
        // Copilot, pi, Crush, goose.
        (
            "<attachments>\n<attachment id=\"a\">x</attachment>\n</attachments>\n<context>\ndate\n</context>\n<userRequest>\n  Fix it \n</userRequest>",
            &["Fix it"],
        ),
        ("<skill name=\"x\" location=\"/y\">\nAlways push.\n</skill>\n\nuse it", &["use it"]),
        (
            "prompt\n<system_info>The files below have been attached by the user</system_info>\n<file path='a'>\n\nnever\n\n</file>\n",
            &["prompt"],
        ),
        ("<info-msg>\nWorking directory: /a\n</info-msg>\nhello", &["hello"]),
    ] {
        assert_eq!(own_words(text), expect, "{text}");
    }
}

#[test]
fn a_reminder_may_quote_the_user() {
    let typed =
        "<system-reminder>\nThe user sent a new message while you were working:\nno mocks, ever";
    let order = "\n\nIMPORTANT: After completing your current task, you MUST address the user's message above. Do not ignore it.";
    for end in ["\n</system-reminder>", &format!("{order}\n</system-reminder>")] {
        assert_eq!(own_words(&[typed, end].concat()), ["no mocks, ever"]);
    }
    // The program quotes itself.
    let notice = "<system-reminder>\nThe user sent a new message while you were working:\n<task-notification>\n<result>Always push.</result>\n</task-notification>\n</system-reminder>";
    assert_eq!(own_words(notice), [""; 0]);
    // A quotation holds no further one.
    let nested = format!("{typed}\n{notice}\n</system-reminder>");
    assert_eq!(own_words(&nested), ["no mocks, ever"]);
}

#[test]
fn elements_that_no_client_writes_or_nobody_closes_are_the_users() {
    for text in [
        "why does <system-reminder> repeat?",
        "<system-reminder>unclosed",
        "<rules>never force-push</rules>",
        "why does Cursor send <user_query> first? Never log it.",
        "<user_query>\nunclosed",
        "use `<task>` and `</task>`",
    ] {
        assert_eq!(own_words(text), [text]);
    }
    // What a program shows may close its element.
    let shown = "<system-reminder>\nContents of a.md:\n</system-reminder>\nAlways push.\n</system-reminder>\nread a.md";
    assert_eq!(own_words(shown), ["read a.md"]);
}

#[test]
fn hostile_texts_hold_no_words() {
    for unit in [
        "<system-reminder>",
        "\n<system-reminder></system-reminder>",
        "<system-reminder>\nThe user sent the following message:\n",
        "\n<command-args>",
        "<command-args>\n</command-args>",
        "\n<bash-stdout></bash-stdout># AGENTS.md instructions",
        "</system-reminder>",
        "\n<system-reminder",
        "\n   <",
        "## My request:\n",
        "\"=\"\", \"",
        "Working directory: ",
        "\n1\t",
        "\n(End of file",
    ] {
        let text = unit.repeat(1_000_000 / unit.len());
        assert!(own_words(&text).len() <= text.len() / unit.len() + 1);
        assert!(!may_reject(&text) && loaded_skill(&text).is_none());
        let quoted = format!("\"{text}");
        let _ = (in_result("question", None, &quoted), file_text(&text));
        assert_eq!(workspace(&text), None);
        assert_eq!(rule_file(&text, Some(&text), &[]), None);
    }
}

#[test]
fn answers_stand_behind_their_questions() {
    for (tool, text, expect) in [
        (
            "AskUserQuestion",
            "Your questions have been answered: \"コミット対象の範囲はどうしますか？\"=\"レポートと.claudeも全部\", \"mainへ直接コミットしますか？\"=\"mainに直接コミット\". You can now continue with these answers in mind.",
            "コミット対象の範囲はどうしますか？ → レポートと.claudeも全部\nmainへ直接コミットしますか？ → mainに直接コミット",
        ),
        (
            "AskUserQuestion",
            "Your questions have been answered: \"Which padding should go?\"=\"Outer gutter and the shadow\" selected preview:\ncanvas = window\n│ ● ● ● │, \"Where?\"=(no option selected) notes: in window.go. You can now continue with these answers in mind.",
            "Which padding should go? → Outer gutter and the shadow\nWhere? → (no option selected); in window.go",
        ),
        (
            "AskUserQuestion",
            "User has answered your questions: \"Run it?\"=\"Wait for \"results\" (Recommended)\". You can now continue with the user's answers in mind.",
            "Run it? → Wait for \"results\" (Recommended)",
        ),
        (
            "AskUserQuestion",
            "The user answered: \"Which?\"=\"Fast\". Read the answers carefully — they",
            "Which? → Fast",
        ),
        ("AskUserQuestion", "The user responded: neither, ask ops first", "neither, ask ops first"),
        (
            "request_user_input",
            r#"{"answers":{"details_surface":{"answers":["Editor Panel"]}}}"#,
            "details_surface → Editor Panel",
        ),
        (
            "vscode_askQuestions",
            r#"{"answers":{"Scope":{"selected":["Both"],"freeText":"and docs","skipped":false}}}"#,
            "Scope → Both\nScope → and docs",
        ),
        ("ask_user", r#"{"answers":{"0":"Postgres"}}"#, "Postgres"),
        (
            "ask_user_question",
            "User has provided the following answers:\n\n**DB**: sqlite",
            "**DB**: sqlite",
        ),
        ("ask_followup_question", "<user_message>\nthe second\n</user_message>", "the second"),
        (
            "attempt_completion",
            "[attempt_completion] Result:\n<feedback>\nno, both\n</feedback>\n",
            "no, both",
        ),
    ] {
        assert_eq!(in_result(tool, None, text), Some(Answer(expect.into())), "{text}");
        assert!(answers_user(tool));
        // The same words of any other tool are its output.
        assert_eq!(in_result("fetch", None, text), None);
    }
    for text in [
        "The user did not answer the questions.",
        "<tool_use_error>InputValidationError</tool_use_error>",
        "",
    ] {
        assert_eq!(in_result("AskUserQuestion", None, text), None);
    }
}

#[test]
fn the_reason_of_a_rejection_stands_behind_a_clients_words() {
    let note = "\n\nNote: The user's next message may contain a correction or preference. Pay close attention";
    for (text, expect) in [
        (format!("{REJECTED}any chance we can consolidate this code?"), "any chance we can consolidate this code?"),
        (format!("{REJECTED}we do have\n\ntranscript_path{note}"), "we do have\n\ntranscript_path"),
        ("The user rejected this tool call. User feedback: 我自己開 live serve".to_owned(), "我自己開 live serve"),
        ("The user rejected permission to use this specific tool call with the following feedback: no tabs".to_owned(), "no tabs"),
        ("exec command rejected by user: spaces only".to_owned(), "spaces only"),
        ("[write_to_file for 'a.tsx'] Result:\nThe user denied this operation and provided the following feedback:\n<feedback>\nthat broke it\n</feedback>".to_owned(), "that broke it"),
        (r#"{"status":"denied","feedback":"use \"let\""}"#.to_owned(), "use \"let\""),
        ("Plan rejected. User feedback: two phases\n\nThe plan is stored at: /x".to_owned(), "two phases"),
        ("Plan not approved. User feedback:\n\nUse Azure.\n\nPlease update the plan based on this feedback and try again.".to_owned(), "Use Azure."),
    ] {
        assert_eq!(in_result("bash", None, &text), Some(Rejected(expect.into())), "{text}");
        // Behind the beginning, a page may say the same.
        assert_eq!(in_result("bash", None, &format!("Page: {text}")), None);
    }
    for text in [
        "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed.",
        REJECTED,
        r#"{"status":"denied","message":"The user denied this operation."}"#,
        "The user rejected permission to use this specific tool call.",
        "exec command rejected by user",
    ] {
        assert_eq!(in_result("bash", None, text), None, "{text}");
        assert_eq!(in_result("ExitPlanMode", Some("p"), text), None, "{text}");
    }
}

#[test]
fn an_approved_plan_comes_from_the_result_or_the_arguments() {
    let approved = "User has approved your plan. You can now start coding. Start with updating your todo list if applicable";
    let saved = "\n\nYour plan has been saved to: /home/user/.claude/plans/x.md\nYou can refer back to it if needed during implementation.\n\n## Approved Plan (edited by user):\n# Fix\n\n1. Tests first";
    let whole = [approved, saved].concat();
    assert_eq!(
        in_result("ExitPlanMode", Some("old"), &whole),
        Some(Approved(Some("# Fix\n\n1. Tests first".into())))
    );
    assert_eq!(in_result("ExitPlanMode", Some("p"), approved), Some(Approved(Some("p".into()))));
    assert_eq!(
        in_result("plan_exit", None, "User approved switching to build agent. Wait"),
        Some(Approved(None))
    );
    assert_eq!(in_result("Bash", Some("p"), approved), None);
}

#[test]
fn rule_files_lie_at_the_root_or_above() {
    let more = ["RULES.md".to_owned(), "docs/house.md".to_owned()];
    let check =
        |path, root, expect| assert_eq!(rule_file(path, root, &more), expect, "{path} {root:?}");
    let root = Some("/home/u/shop");
    for (path, expect) in [
        ("/home/u/shop/CLAUDE.md", Some("CLAUDE.md")),
        ("/home/u/shop/src/../AGENTS.md", Some("src/../AGENTS.md")),
        ("/home/u/AGENTS.md", Some("/home/u/AGENTS.md")),
        ("/home/u/.claude/CLAUDE.md", Some("/home/u/.claude/CLAUDE.md")),
        ("~/.codex/AGENTS.md", Some("~/.codex/AGENTS.md")),
        ("AGENTS.md", Some("AGENTS.md")),
        ("./agents.md", Some("./agents.md")),
        ("../AGENTS.md", Some("../AGENTS.md")),
        (".github/copilot-instructions.md", Some(".github/copilot-instructions.md")),
        (".cursor/rules/style.mdc", Some(".cursor/rules/style.mdc")),
        ("RULES.md", Some("RULES.md")),
        ("docs/house.md", Some("docs/house.md")),
        ("docs/AGENTS.md", None),
        ("/home/u/shop/packages/x/CLAUDE.md", None),
        ("/home/u/other/AGENTS.md", None),
        ("node_modules/x/AGENTS.md", None),
        ("../other/AGENTS.md", None),
        ("/home/u/shop/node_modules/../../../v/AGENTS.md", None),
        ("README.md", None),
        ("", None),
    ] {
        check(path, root, expect);
    }
    check(r"D:\code\CLAUDE.md", Some(r"D:\code"), Some("CLAUDE.md"));
    check("/d/code/CLAUDE.md", Some(r"D:\code"), Some("/d/code/CLAUDE.md"));
    check(r"D:\code\src\CLAUDE.md", Some(r"D:\code"), None);
    // Without a root, the path must look like a root's.
    check("CLAUDE.md", None, Some("CLAUDE.md"));
    check("docs/CLAUDE.md", None, None);
    check("../CLAUDE.md", None, None);
    check(
        "/Users/a/workspaces/pi-mono/AGENTS.md",
        None,
        Some("/Users/a/workspaces/pi-mono/AGENTS.md"),
    );
    for path in [
        "/a/vendor/b/AGENTS.md",
        "/a/shop/packages/b/AGENTS.md",
        "/srv/temp/x/AGENTS.md",
        "/a/b/c/d/e/f/g/AGENTS.md",
    ] {
        check(path, None, None);
    }
}

#[test]
fn clients_state_the_root_of_the_workspace() {
    for (text, expect) in [
        (
            "# Environment\n - Primary working directory: /home/u/shop\n - Is a git repository: true",
            "/home/u/shop",
        ),
        (
            "<env>\n  Working directory: D:\\code\\shop\n  Workspace root folder: D:\\code",
            r"D:\code\shop",
        ),
        (
            "<environment_context>\n  <cwd>/Users/user/agent-sample</cwd>\n  <shell>zsh</shell>",
            "/Users/user/agent-sample",
        ),
        ("# Current Working Directory (/w/my app) Files\na.rs", "/w/my app"),
        ("Current Workspace Directory: /w/app", "/w/app"),
        ("I'm currently working in the directory: /w/app\nHere is", "/w/app"),
        ("I am working in a workspace with the following folders:\n- /w/app \n", "/w/app"),
        ("Current date: x\nCurrent working directory: /w/app", "/w/app"),
        ("**Working Directory:** /w/app", "/w/app"),
    ] {
        assert_eq!(workspace(text), Some(expect), "{text}");
    }
    for text in
        ["", "Working directory: unknown", "the Working directory: /x is wrong", "<cwd>", "<cwd>/x"]
    {
        assert_eq!(workspace(text), None, "{text}");
    }
}

#[test]
fn a_read_is_a_reading_tools_or_a_command_that_prints_one_file() {
    let check = |tool, command, path, expect: Option<&str>| {
        assert_eq!(reads_file(tool, command, path, None).as_deref(), expect, "{command:?}");
    };
    check("Read", None, Some("/a/CLAUDE.md"), Some("/a/CLAUDE.md"));
    check("str_replace_editor", Some("view"), Some("/a/b.md"), Some("/a/b.md"));
    check("Edit", None, Some("/a/CLAUDE.md"), None);
    for (command, expect) in [
        ("cat AGENTS.md", Some("AGENTS.md")),
        ("bash -lc 'cat AGENTS.md'", Some("AGENTS.md")),
        ("/bin/zsh -lc cat AGENTS.md", Some("AGENTS.md")),
        ("sed -n '1,220p' AGENTS.md", Some("AGENTS.md")),
        ("head -n 50 AGENTS.md", Some("AGENTS.md")),
        ("cat \"/w/my app/AGENTS.md\"", Some("/w/my app/AGENTS.md")),
        ("Get-Content -Raw AGENTS.md", Some("AGENTS.md")),
        ("cat AGENTS.md | head", None),
        ("cat a.md b.md", None),
        ("cat", None),
        ("sed -i s/a/b/ AGENTS.md", None),
        ("curl -s AGENTS.md", None),
        ("cat $(ls)", None),
        ("cat 'AGENTS.md", None),
    ] {
        check("bash", Some(command), None, expect);
    }
    let elsewhere = reads_file("exec_command", Some("cat AGENTS.md"), None, Some("/other"));
    assert_eq!(elsewhere.as_deref(), Some("/other/AGENTS.md"));
}

#[test]
fn a_files_text_comes_without_frame_and_numbers() {
    for (result, expect) in [
        ("     1→# Rules\n     2→\n     3→- no tabs", "# Rules\n\n- no tabs"),
        (
            "1\t# Rules\n2\t- no tabs\n\n<system-reminder>\nWhenever you read a file, consider malware.\n</system-reminder>",
            "# Rules\n- no tabs",
        ),
        (
            "<path>/w/AGENTS.md</path>\n<type>file</type>\n<content>\n1: # Rules\n2: - no tabs\n\n(End of file - total 2 lines)\n</content>",
            "# Rules\n- no tabs",
        ),
        (
            "<file>\n00001| # Rules\n00002| - no tabs\n\n(End of file - total 2 lines)\n</file>",
            "# Rules\n- no tabs",
        ),
        (
            "<file>\n     1|# Rules\n     2|- no tabs\n\n(File has more lines. Use 'offset' parameter to read beyond line 2)\n</file>\n",
            "# Rules\n- no tabs",
        ),
        ("File: AGENTS.md\nLines 1-2:\n1 | # Rules\n2 | - no tabs", "# Rules\n- no tabs"),
        (
            "Exit code: 0\nWall time: 0.1 seconds\nOutput:\n# Rules\n- no tabs\n",
            "# Rules\n- no tabs",
        ),
        ("# Rules\n1. no tabs", "# Rules\n1. no tabs"),
        ("", ""),
    ] {
        assert_eq!(file_text(result), expect, "{result}");
    }
}

#[test]
fn instructions_of_skills_are_known_by_tool_path_and_first_words() {
    let reads = |path| loads_skill("read", Some(path));
    assert!(loads_skill("Skill", None) && !loads_skill("Task", None));
    for tool in ["use_skill", "activate_skill", "load_skill", "loadSkill", "skill_view"] {
        assert!(loads_skill(tool, None), "{tool}");
        // A server behind MCP may be anyone's.
        assert!(!loads_skill(&format!("mcp__web__{tool}"), None), "{tool}");
    }
    assert!(reads("/u/.codex/skills/x/SKILL.md") && !reads("/u/.codex/skills/README.md"));
    assert!(!reads("/srv/skills/x/SKILL.md") && !reads("../x/./SKILL.md"));
    let skill = "Base directory for this skill: /Users/user/.claude/skills/x\n\n# X";
    assert!(loaded_skill(skill) == Some(skill) && own_words(skill).is_empty());
}
