//! Literals, numbers and values, compared with `serde_json`.

use super::*;
use serde::de::IgnoredAny;

/// Reads `json` at every offset within a block and compares the result with `serde_json`.
fn check(json: &str) {
    let expect: Option<String> = serde_json::from_str(json).ok();
    for offset in 0..BLOCK_BYTES {
        let text = format!("{}{json}", " ".repeat(offset));
        let mut scanner = Scanner::new(&text);
        let literal = scanner.string().ok().filter(|_| scanner.finish().is_ok());
        let decoded = literal.map(|literal| literal.decode(&text).into_owned());
        assert_eq!(decoded, expect, "{json}");
        for limit in [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, usize::MAX] {
            let start = literal.map(|literal| literal.decode_start(&text, limit));
            let is_start =
                |all: &str| start.as_ref().is_some_and(|start| all.starts_with(&**start));
            assert!(expect.as_deref().is_none_or(is_start), "{json} {limit}");
            let is_long =
                |all: &str| start.as_ref().is_some_and(|it| it.len() >= all.len().min(limit / 12));
            assert!(expect.as_deref().is_none_or(is_long), "{json} {limit}");
        }
        let count = literal.map(|literal| literal.chars() as usize);
        assert_eq!(count, expect.as_ref().map(|text| text.chars().count()));
    }
}

#[test]
fn string_literals_decode_like_serde_json_at_any_offset_and_length() {
    for length in 0..2 * BLOCK_BYTES + 2 {
        let plain = "x".repeat(length);
        for special in [
            "",
            "é",
            "😀",
            "\\n",
            "\\\"",
            "\\\\",
            "\\u0041",
            "\\ud83d\\ude00",
            "\\x",
            "\\u12",
            "\n",
            "\u{1f}",
            "\"",
            "\u{7f}",
        ] {
            check(&format!("\"{plain}{special}\""));
            check(&format!("\"{special}{plain}\""));
            check(&format!("\"{plain}{special}"));
        }
    }
}

/// Compares with `serde_json` whether `json` is one value, and where it ends.
fn check_value(json: &str) {
    let expect = serde_json::from_str::<IgnoredAny>(json).is_ok();
    let mut scanner = Scanner::new(json);
    let found = scanner.value().ok().filter(|_| scanner.finish().is_ok());
    assert_eq!(found.is_some(), expect, "{json}");
    assert_eq!(found.map(|span| span.slice(json)), expect.then(|| json.trim()), "{json}");
}

#[test]
fn numbers_follow_the_json_grammar() {
    for sign in ["", "-", "+", "--"] {
        for whole in ["", "0", "7", "10", "01", "987"] {
            for fraction in ["", ".", ".0", ".25", ".2.5"] {
                for exponent in ["", "e", "e7", "E+07", "e-12", "e+-1", "e1.5", "ee1"] {
                    let number = format!("{sign}{whole}{fraction}{exponent}");
                    check_value(&number);
                    check_value(&format!("[{number},{number}]"));
                }
            }
        }
    }
}

#[test]
fn values_follow_the_json_grammar() {
    for value in [
        "",
        " ",
        "true",
        "tru",
        "truee",
        "false",
        "null",
        "nul",
        "{}",
        "[]",
        "[",
        "]",
        "{",
        "[]]",
        "[[],[[]],{}]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\":1}",
        " { \"a\" : [ 1 , { \"b\" : null } ] , \"c\" : \"]\" } ",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1]",
        "[1}",
        "1 1",
        "\"a\" \"b\"",
        "\"\\ud83d\\ude00\"",
        "\u{feff}1",
        "\u{a0}1",
        "\t\r\n 1 \n",
        "\u{b}1",
    ] {
        check_value(value);
    }
}

#[test]
fn detects_unicode_escapes() {
    assert!(has_unicode_escape(r"a\u0041"));
    assert!(!has_unicode_escape(r"a\n") && !has_unicode_escape("u"));
}

#[test]
fn a_literal_can_be_shifted() {
    let read = |text: &str, at| {
        let mut scanner = Scanner::new(text);
        scanner.advance(at).unwrap();
        scanner.string().unwrap()
    };
    let there = read("      \"caf\u{e9}\"", 6);
    assert_eq!(read("\"caf\u{e9}\"", 0).shifted(6), there);
    assert!(!there.is_escaped() && read(r#""\n""#, 0).is_escaped());
}

/// RFC 8259 does not define unpaired surrogates; `serde_json` rejects them.
#[test]
fn an_unpaired_surrogate_decodes_to_one_replacement_character() {
    for (json, expect) in [
        (r#""\ud83dabcdefgh""#, "\u{fffd}abcdefgh"),
        (r#""\ud83d\u0041x""#, "\u{fffd}Ax"),
        (r#""\u0041\ude00x""#, "A\u{fffd}x"),
        (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
    ] {
        let literal = Scanner::new(json).string().unwrap();
        assert_eq!(literal.decode(json), expect);
        assert_eq!(literal.chars() as usize, expect.chars().count(), "{json}");
    }
}
