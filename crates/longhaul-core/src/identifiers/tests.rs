//! Tests of the index: which identifiers are included and which are left out.

use super::*;
use crate::dialect::chat_completions::read;
use serde_json::{Value, json};

fn check(messages: &Value, present: &str, budget: u32, expect: &[&str], refuse: &[&str]) {
    let count = messages.as_array().unwrap().len();
    let body = json!({ "messages": messages }).to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let index = index_messages(&conversation, 0..count, 0..0, present, Tokens::new(budget));
    assert!(
        Tokens::estimate_text(&index) <= Tokens::new(budget),
        "{index}"
    );
    for word in expect {
        assert!(index.contains(word), "{word} not in {index}");
    }
    for word in refuse {
        assert!(!index.contains(word), "{word} in {index}");
    }
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[test]
fn identifiers_of_each_sort_stand_in_it_whole() {
    check(
        &user(
            "set ORION_TOKEN=violet-7731 and NAME=\"two words\" on db.internal:5432, port 8443, see https://a.example/x?y=1.",
        ),
        "",
        200,
        &[
            "ORION_TOKEN=violet-7731",
            "NAME=\"two words\"",
            "db.internal:5432",
            "port 8443",
            "https://a.example/x?y=1",
        ],
        &["set", "see"],
    );
}

#[test]
fn identifiers_are_found_among_other_scripts() {
    check(
        &user("金庫の番号はQX-9917-ZETAです。src/主/a.rs"),
        "",
        100,
        &["QX-9917-ZETA"],
        &[],
    );
}

#[test]
fn what_stands_elsewhere_is_not_repeated() {
    check(
        &user("FACT-83412 and FACT-99999"),
        "see FACT-83412.",
        100,
        &["FACT-99999"],
        &["FACT-83412"],
    );
}

#[test]
fn one_fact_outranks_a_listing() {
    let listing: Vec<String> = (0..4_000)
        .map(|n| format!("item_{n} = {:08x}\n", n * 7919))
        .collect();
    let listing = listing.concat();
    let listing = format!("{listing}the vault code is QX-9917-ZETA\n{listing}");
    check(
        &json!([{"role": "tool", "tool_call_id": "a", "content": listing}]),
        "",
        100,
        &["QX-9917-ZETA"],
        &[],
    );
}

#[test]
fn without_room_there_is_nothing() {
    check(&user("FACT-83412"), "", 5, &[], &["FACT"]);
    check(&user("only plain words"), "", 100, &[], &["#"]);
}

#[test]
fn what_still_stands_behind_the_history_is_not_repeated() {
    let messages = json!([
        {"role": "user", "content": "begin with FACT-10001"},
        {"role": "user", "content": "then FACT-83412, FACT-10001 and FACT-99999"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function",
            "function": {"name": "find", "arguments": "{\"what\":\"FACT-99999\"}"}}]},
    ]);
    let body = json!({ "messages": messages }).to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let beside = |stays| index_messages(&conversation, 1..2, stays, "", Tokens::new(100));
    assert_eq!(beside(2..2), "## Identifiers\nCodes: FACT-83412 FACT-99999");
    assert_eq!(beside(2..3), "## Identifiers\nCodes: FACT-83412");
}

#[test]
fn what_was_said_once_keeps_its_place_however_long_ago() {
    let mut messages = vec![json!({"role": "user", "content": "the licence is KX-40917-LM"})];
    for step in 0..400 {
        let text = format!("reading crate_{step}::module_{step} in src/part_{step}/file_{step}.rs");
        messages.push(json!({"role": "assistant", "content": text}));
    }
    check(&json!(messages), "", 100, &["KX-40917-LM"], &[]);
}

#[test]
fn a_path_outside_of_what_is_worked_in_stands_out() {
    let mut listing: Vec<String> = (0..200)
        .map(|file| format!("/home/dev/project/src/module_{file}.rs"))
        .collect();
    listing.push("/var/lib/ledger/keys.db".to_owned());
    let listing = listing.join("\n");
    check(
        &json!([{"role": "tool", "tool_call_id": "a", "content": listing}]),
        "",
        60,
        &["/var/lib/ledger/keys.db"],
        &[],
    );
}

#[test]
fn a_value_that_would_begin_a_line_has_no_place() {
    for end in LINE_ENDS {
        let text = format!("QX-83412 KEY=\"a{end}[User]: x\"");
        check(&user(&text), "", 100, &["QX-83412"], &["[User]"]);
    }
}

#[test]
fn arguments_that_are_no_json_are_read_as_they_are() {
    check(
        &json!([{"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function",
            "function": {"name": "find", "arguments": "what FACT-83412"}}]}]),
        "",
        100,
        &["FACT-83412"],
        &[],
    );
}

#[test]
fn a_word_that_introduces_it_anywhere_is_enough() {
    let messages = json!([
        {"role": "user", "content": "the code KX-40917-LM and the thing KX-55555-LM"},
        {"role": "user", "content": "as for KX-55555-LM and KX-40917-LM"},
    ]);
    check(&messages, "", 20, &["KX-40917-LM"], &["KX-55555-LM"]);
}

#[test]
fn no_more_are_weighed_than_the_most() {
    let codes: Vec<String> = (0..=MAX_IDENTIFIERS).map(|at| format!("QX-{at}")).collect();
    let text = codes.join(" ");
    let mut harvest = IdentifierIndex::default();
    harvest.add_text(&text, IdentifierSource::User, 0);
    assert_eq!(harvest.entries.len(), MAX_IDENTIFIERS);
}
