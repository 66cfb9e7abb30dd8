//! Tests of the lexer: which words of a text are identifiers.

use super::values::MAX_QUOTED_BYTES;
use super::*;

/// Returns the identifiers of `text`; a cued identifier gets a trailing star.
fn found(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    scan(text, |word| {
        let cued = if word.cued { "*" } else { "" };
        found.push(format!("{}{cued}", word.text));
    });
    found
}

fn check(text: &str, expect: &[&str]) {
    assert_eq!(found(text), expect, "{text}");
}

#[test]
fn a_cue_reaches_three_words_of_its_line() {
    check("code QX-11", &["QX-11*"]);
    check("the code for it is QX-11", &["QX-11"]);
    check("code for it QX-11", &["QX-11*"]);
    check("code for it now QX-11", &["QX-11"]);
    check("code\nQX-11", &["QX-11"]);
    check("code for a token QX-11 and so on QX-22", &["QX-11*", "QX-22"]);
    // An ordinary word does not introduce anything.
    check("the QX-11", &["QX-11"]);
}

#[test]
fn a_number_is_kept_with_the_cue_directly_before_it() {
    check("port 8443", &["port 8443*"]);
    check("port: 8443.", &["port: 8443*"]);
    check("port is 8443", &["8443*"]);
    check("8443", &["8443"]);
}

#[test]
fn a_number_is_kept_with_the_name_before_a_colon() {
    check("qqnlr_grace: 266s.", &["qqnlr_grace: 266s"]);
    check("max_retries: 5, ok", &["max_retries: 5"]);
    check(
        r#"{"rdldcWindow": 472, "ok": true, 'max_age':30}"#,
        &[r#"rdldcWindow": 472"#, "max_age':30"],
    );
    check("Note: 472 files", &["472"]);
    check("max_retries: none, max_retries 5", &[]);
    check("src/main.rs: 12:5", &[]);
}

#[test]
fn an_amount_is_kept_with_its_currency() {
    check("spend 79,756.52 EUR.", &["79,756.52 EUR"]);
    check("$1,250, $20 and £1.50", &["$1,250", "$20", "£1.50"]);
    check("$.50 or .75 USD", &["$.50", ".75 USD"]);
    check("€4500 or 45 EUROS", &["€4500"]);
    check("pay in $ EUR or £ EUR", &[]);
    check("echo $1 and $12ab", &[]);
}

#[test]
fn networks_images_and_times_stay_whole() {
    for word in [
        "10.63.103.0/22",
        "registry.dock.example/tools/runner:0.5-slim",
        "tools/runner:v7",
        "requests==2.31.0",
    ] {
        check(word, &[word]);
    }
    check("2031-01-16T04:49Z 2031-01-16T04:49:07+02:00", &[]);
    check("2031-01-16T04:49Z:QX-11", &["2031-01-16T04:49Z:QX-11"]);
    check("src/bin/main:12", &[]);
    check("src/main.rs:v7-22", &["v7-22"]);
    check("10.63.103/22", &[]);
}

#[test]
fn an_overlong_run_is_skipped_unless_it_is_a_url() {
    let run = |length: usize| format!("{}-77", "x".repeat(length - 3));
    check(&run(MAX_RUN_BYTES), &[&run(MAX_RUN_BYTES)]);
    check(&run(MAX_RUN_BYTES + 1), &[]);
    let address = format!("https://a.example/{}", run(MAX_RUN_BYTES));
    check(&address, &[&address]);
    // Text after the run is scanned as usual.
    check(&format!("{} QX-11", run(MAX_RUN_BYTES + 1)), &["QX-11"]);
}

#[test]
fn an_overlong_run_with_a_misplaced_scheme_is_skipped() {
    // Without the limit, each of these parts would trigger a search of the whole rest.
    let parts = "a=".repeat(2_000_000);
    check(&format!("://{parts}:x"), &[]);
    check(&format!("{parts}x://"), &[]);
}

#[test]
fn a_quoted_value_is_kept_whole_behind_a_constant() {
    check("NAME=\"two words\" QX-11", &["NAME=\"two words\"", "QX-11"]);
    check("NAME='two words'", &["NAME='two words'"]);
    check("name=\"two words\"", &[]);
    check("NAME=\"\"", &[]);
    check("NAME=\"two\nwords\"", &[]);
    let value = |length: usize| format!("NAME=\"{}\"", "x y ".repeat(length / 4));
    check(&value(MAX_QUOTED_BYTES - 4), &[value(MAX_QUOTED_BYTES - 4).as_str()]);
    check(&value(MAX_QUOTED_BYTES), &[]);
}

#[test]
fn a_run_is_split_at_its_punctuation() {
    check("https://a.example/x?y=1,", &["https://a.example/x?y=1"]);
    check(r"https://a.example/x/10934.\n\n##", &["https://a.example/x/10934"]);
    check("://b a://bcd", &[]);
    check("a://bcde", &["a://bcde"]);
    check("--retries=5 a==QX-11", &["--retries=5", "QX-11"]);
    check("left=>QX-11", &["QX-11"]);
    check(
        "QX-11?QX-22&QX-33%QX-44*QX-55$QX-66",
        &["QX-11", "QX-22", "QX-33", "QX-44", "QX-55", "QX-66"],
    );
    check("db.internal:5432", &["db.internal:5432"]);
    check("a.rs:1204 QX-11:QX-22", &["1204", "QX-11", "QX-22"]);
}

#[test]
fn a_path_that_is_no_identifier_is_split_at_its_slashes() {
    check("QX1/and", &["QX1"]);
    check("QX-11\\QX-22", &["QX-11", "QX-22"]);
    check("/QX", &[]);
}

#[test]
fn names_and_paths_are_no_identifiers_of_a_list() {
    let names = "std::fmt::Display QX-1 parseBody keep_recent well-known UTF-8 ABCDE os.path";
    check(names, &[]);
    check("src/main.rs /usr/bin/a-1 src/parseBody/a.rs QX-1/a.rs", &[]);
    check(r"C:\src\main.rs:12 c:/src/main.rs", &[]);
    check(r"9:\QX-11", &["QX-11"]);
}
