//! What the index holds, and what it leaves out.

use super::*;
use crate::rewrite::chat_completions::read;
use serde_json::{Value, json};

fn check(messages: &Value, present: &str, budget: u32, expect: &[&str], refuse: &[&str]) {
    let count = messages.as_array().unwrap().len();
    let body = json!({ "messages": messages }).to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let index = index(&conversation, 0..count, 0..0, present, Tokens::new(budget));
    assert!(Tokens::of_text(&index) <= Tokens::new(budget), "{index}");
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
