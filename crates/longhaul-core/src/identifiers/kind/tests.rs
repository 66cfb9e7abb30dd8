//! Tests of the classification of words.

use super::forms::*;
use super::*;

fn check(word: &str, expect: Option<IdentifierKind>) {
    assert_eq!(classify(word), expect, "{word}");
}

/// Asserts the kind of each word.
fn check_all(expect: Option<IdentifierKind>, words: &[&str]) {
    for word in words {
        check(word, expect);
    }
}

#[test]
fn words_need_at_least_three_letters_or_digits() {
    check_all(None, &["", "QX", "a-1", "7/7", "__x9__"]);
    check_all(Some(IdentifierKind::Code), &["QX9", "Q-X9"]);
}

#[test]
fn distinguishes_codes_from_names() {
    let codes = [
        "QX-9917-ZETA",
        "FACT-83412",
        "violet-7731",
        "ERR_CONNECTION_REFUSED",
        "ALL-CAPS",
        "E0432",
        "k3v9q77",
        "12ghijk",
        "aBc77",
        "ABcde12",
        "abcd12",
        "aX-77-b-c-d-e",
        "3f2504e0-4f89-11d3-9a0c-0305e82c330g",
    ];
    check_all(Some(IdentifierKind::Code), &codes);
    let names = [
        "keep_recent",
        "parseBody",
        "one-two-three",
        "Well-Known",
        "os.path",
        "ABCDE",
        "parse_2",
        "UTF-8",
        "utf8Decoder",
        "qx9",
        "Qx9",
        "abcdef1",
        "aBcD77",
        "5a-line",
        "1-rc2",
        "aX-77-b-c-d-e-f",
    ];
    check_all(None, &names);
}

#[test]
fn ordinary_words_are_no_identifiers() {
    let words = [
        "well-known",
        "Well-known",
        "conversation",
        "the",
        "Parse",
        "ABCD",
        "a.bcde",
        ".hidden",
        ".env",
        "a+1bc",
        "#47a",
        r"src\main_1.rs",
    ];
    check_all(None, &words);
}

#[test]
fn numeric_words_are_classified_by_their_separators() {
    check_all(Some(IdentifierKind::Number), &["8443", "123", "#4711"]);
    check_all(Some(IdentifierKind::Location), &["10.0.3.17"]);
    let versions = ["1.2.3", "1.2.3.4.5", "2026-06-18"];
    check_all(None, &versions);
    let codes = ["555-0100-22", "123456-78901", "2026-6-18", "1-23-45"];
    check_all(Some(IdentifierKind::Code), &codes);
    let nothing = ["741-755", "12345-67890", "12.5", "1-2-34", "12.3-4", "+4711"];
    check_all(None, &nothing);
}

#[test]
fn classifies_hashes() {
    let digests = [
        "4f9c2ab7e1",
        "abcde12",
        "ABCDE12",
        "0xdeadbeef",
        "0xbeef",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    ];
    check_all(Some(IdentifierKind::Hash), &digests);
}

#[test]
fn versions_and_quantities_start_with_a_digit() {
    let versions =
        ["v1.12.0", "v12", "4500ms", "12abcd", "1.2.3-rc1", "0xbee", "55-line", "2026-06-18T10"];
    check_all(None, &versions);
}

#[test]
fn an_email_address_needs_a_user_and_a_dotted_host() {
    check("me@a.example", Some(IdentifierKind::Location));
    check_all(None, &["@a.example", "me@host"]);
}

#[test]
fn distinguishes_paths_from_alternatives() {
    let paths = [
        "src/rewrite/span.rs",
        "/usr/bin",
        "Cargo.toml",
        "~/abc",
        "./abc",
        "../abc",
        "@scope/package",
        "a/b/c",
        "src/my-module",
        "src/my_module",
        "a+b+c/x.rs",
    ];
    check_all(None, &paths);
    let none = ["and/or", "/usr", "a/b", "/1/2/ab", "a//b/c.rs", "a+b+c+d/x.rs", r"a/b/c\d.rs"];
    check_all(None, &none);
}

#[test]
fn a_constant_is_in_capitals() {
    for key in ["AB", "A_1", "GH_TOKEN"] {
        assert!(is_constant(key), "{key}");
    }
    for key in ["", "A", "1A", "_A", "Ab", "A-B"] {
        assert!(!is_constant(key), "{key}");
    }
}

#[test]
fn distinguishes_assignments_from_source_code() {
    for (key, value) in [
        ("ORION_TOKEN", "violet-7731"),
        ("retries", "5"),
        ("NAME", "x"),
        ("name", "a1"),
        ("_a", "5"),
        ("a_b.c-d", "5"),
    ] {
        assert!(is_assignment(key, value), "{key}={value}");
    }
    for (key, value) in [
        ("x", "5"),
        ("left", "right"),
        ("NAME", ""),
        ("NAME", "5=6"),
        ("1a", "5"),
        ("-a", "5"),
        ("a(b", "5"),
    ] {
        assert!(!is_assignment(key, value), "{key}={value}");
    }
}

#[test]
fn distinguishes_endpoints_from_file_line_numbers() {
    for (host, port) in [
        ("localhost", "80"),
        ("a.b.example", "80"),
        ("10.0.0.1", "80"),
        ("db", "5432"),
        ("my-db", "54321"),
        ("a.example", "8080"),
    ] {
        assert!(is_endpoint(host, port), "{host}:{port}");
    }
    for (host, port) in [
        ("localhost", "8"),
        ("localhost", "123456"),
        ("localhost", "80a"),
        ("db", "80"),
        ("a.example", "80"),
        ("main.rs", "1204"),
        ("my_db", "5432"),
        ("d", "5432"),
        ("10", "5432"),
    ] {
        assert!(!is_endpoint(host, port), "{host}:{port}");
    }
}

#[test]
fn identifiers_with_colons_inside_are_distinguished_from_places_and_times() {
    for run in ["urn:isbn:0451450523", "00:1b:44:11:3a:b7", "arn:aws:iam:key-12"] {
        assert!(is_joined_by_colons(run), "{run}");
    }
    for run in ["main.rs:12:5", "app:12:5", "12:30:45", "a:b12", "a:b:c", "a::b12", "x:y:/z12"] {
        assert!(!is_joined_by_colons(run), "{run}");
    }
}

#[test]
fn each_character_is_counted_in_its_classes() {
    let counts = CharCounts::from_word("aB9.f/-_@\\G");
    assert_eq!((counts.digits, counts.lower, counts.upper), (1, 2, 2));
    assert_eq!((counts.hex, counts.letters()), (4, 4));
    assert_eq!((counts.dots, counts.slashes), (1, 1));
    assert_eq!((counts.joiners, counts.others), (2, 2));
}
