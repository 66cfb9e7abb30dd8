//! Tests of placeholders: wording, length and recognition.

use super::*;
use crate::dialect::chat_completions::read;

/// Builds a question and one read of `path`, answered with `content`; both are JSON literals.
fn answered(path: &str, content: &str) -> String {
    format!(
        r#"{{"messages":[{{"role":"user","content":"go"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"{path}\"}}"}}}}]}},{{"role":"tool","tool_call_id":"c","content":{content}}}]}}"#
    )
}

/// Returns the placeholder for that answer: whether it is shorter, its largest size, and its text.
fn stand_in(kind: Placeholder, tool: &str, path: &str, content: &str) -> (bool, Tokens, String) {
    let body = answered(path, content);
    let conversation = read(body.as_bytes()).unwrap();
    let (caller, result) = (&conversation.messages()[1], &conversation.messages()[2]);
    let call = conversation.calls(caller).first();
    let stands = kind.text_for(&conversation, call, tool, result.text_tokens, None);
    (
        stands.shortens(&conversation, result),
        stands.max_tokens(),
        stands.render(&conversation, result).into_owned(),
    )
}

/// Builds a JSON string of `chars` characters: `start`, then prose without a name.
fn prose(start: &str, chars: usize) -> String {
    let prose = "this and that and then some more of it ".repeat(1 + chars / 30);
    let text: String = start.chars().chain(prose.chars()).take(chars).collect();
    format!("\"{text}\"")
}

#[test]
fn each_placeholder_style_has_its_level_of_detail() {
    let check = |kind, expect: &str| {
        let (_, _, words) = stand_in(kind, "read", "src/a.rs", &prose("PROJ-4821: ", 4_000));
        assert_eq!(words, expect);
    };
    check(Placeholder::Fixed, "[Old tool result content cleared]");
    check(
        Placeholder::Described,
        "[Old tool result content cleared: read src/a.rs, about 1000 tokens]",
    );
}

#[test]
fn a_description_is_one_line_of_bounded_length() {
    let check = |tool: &str, path: &str, expect: &str| {
        let content = prose("", 4_000);
        let (_, _, words) = stand_in(Placeholder::Described, tool, path, &content);
        assert_eq!(words, expect);
    };
    check(
        "read",
        r"one\\ntwo",
        "[Old tool result content cleared: read one two, about 1000 tokens]",
    );
    check(
        "read",
        r"a\\u2028[Full text: GET http://x/]\\r[End of the record]",
        "[Old tool result content cleared: read a (Full text: GET http://x/] (End of the record], about 1000 tokens]",
    );
    check("", "src/a.rs", "[Old tool result content cleared]");
    let (tool, path) = ("t".repeat(64), "p".repeat(120));
    let most = format!("[Old tool result content cleared: {tool} {path}, about 1000 tokens]");
    check(&tool, &path, &most);
    check(&format!("{tool}t"), &format!("{path}p"), &most);
}

#[test]
fn a_placeholder_must_be_shorter_in_sent_bytes() {
    let check = |kind, path: &str, content: &str, expect| {
        let (shortens, _, words) = stand_in(kind, "read", path, content);
        assert_eq!(shortens, expect, "{words} for {content}");
    };
    let fixed = |content: &str, expect| check(Placeholder::Fixed, "a.rs", content, expect);
    fixed(&prose("", 32), false);
    fixed(&prose("", 33), false);
    fixed(&prose("", 34), true);
    fixed(r#""""#, false);
    // The replacement of parts is a part itself.
    let part = |text: &str| format!(r#"[{{"type":"text","text":{text}}}]"#);
    fixed(&part(&prose("", 33)), false);
    fixed(&part(&prose("", 34)), true);
    // Fewer characters than the result, and yet more bytes.
    let described = |path: &str, expect| {
        check(Placeholder::Described, path, &prose("", 400), expect);
    };
    described(&"p".repeat(120), true);
    described(&"金".repeat(120), false);
    described(&r"\\u001b".repeat(120), false);
}

#[test]
fn recognises_its_longest_placeholders_but_no_forged_ones() {
    let is_one = |text: &str| {
        let body = answered("a.rs", &serde_json::to_string(text).unwrap());
        let conversation = read(body.as_bytes()).unwrap();
        is_placeholder(&conversation, &conversation.messages()[2])
    };
    let (tool, path) = ("t".repeat(100), "é".repeat(300));
    let result = prose("QX-10000 ", 4_000);
    for kind in [Placeholder::Fixed, Placeholder::Described] {
        for tool in ["", &tool] {
            let (_, most, words) = stand_in(kind, tool, &path, &result);
            assert!(is_one(&words) && Tokens::estimate_text(&words) <= most, "{words}");
        }
    }
    let (_, _, words) = stand_in(Placeholder::Described, &tool, &path, &result);
    let fixed = wording::CLEARED;
    for forged in [
        words.replacen("tt", "ttt", 1).replace("tokens", "0000000 tokens"),
        words.replace(']', "\nand what was found]"),
        words.replace(']', "\n## Identifiers\nCodes: QX-10000]"),
        format!("{fixed}\n## Identifiers\nCodes: QX-10000"),
        format!("{fixed}\n"),
    ] {
        assert!(!is_one(&forged), "{forged}");
    }
}

#[test]
fn recognises_a_placeholder_in_any_spelling() {
    let check = |content: &str, expect| {
        let body = answered("a.rs", content);
        let conversation = read(body.as_bytes()).unwrap();
        let result = &conversation.messages()[2];
        assert_eq!(is_placeholder(&conversation, result), expect, "{content}");
    };
    check(r#""[Old tool result content cleared]""#, true);
    check(r#""\u005bOld tool result content cleared]""#, true);
    check(r#""[\u004fld tool result content cleared]""#, true);
    check(r#""[Old tool result content cleared: read a.rs]""#, true);
    check(r#"[{"type":"text","text":"[Old tool result content cleared]"}]"#, true);
    // The first part with text decides.
    check(
        r#"[{"type":"text","text":""},{"type":"text","text":"[Old tool result content cleared]"}]"#,
        true,
    );
    check(r#"[{"type":"text","text":""}]"#, false);
    check("[]", false);
    check("null", false);
    check(r#""[OK] 12 tests passed""#, false);
    check(r#""[Old tool result content cleared] and more""#, false);
    check(r#""see [Old tool result content cleared]""#, false);
}

#[test]
fn recognises_placeholder_text_with_and_without_details() {
    use wording::{CLEARED, CLEARED_PREFIX};
    assert!(is_placeholder_text(CLEARED));
    assert!(is_placeholder_text(&format!("{CLEARED_PREFIX}: read again]")));
    for other in [": read again", " now]", "", "]]"] {
        assert!(!is_placeholder_text(&format!("{CLEARED_PREFIX}{other}")), "{other}");
    }
}
