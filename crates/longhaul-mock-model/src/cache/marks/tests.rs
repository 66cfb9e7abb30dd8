//! Marks store and find prefixes as documented for the Messages API.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;
use crate::request::Api;

/// A prompt of blocks of 1,000 tokens each, marked at these places.
fn prompt(blocks: usize, marks: &[usize]) -> MarkedPrompt {
    let content: Vec<Value> = (0..blocks).map(|at| block(at, marks.contains(&at))).collect();
    read(&json!({"model": "claude-sonnet-5", "messages": [{"role": "user", "content": content}]}))
}

fn block(at: usize, is_marked: bool) -> Value {
    let mut block = json!({"type": "text", "text": format!("{at:03}").repeat(1_100)});
    if is_marked {
        block[MARK] = json!({"type": "ephemeral"});
    }
    block
}

fn read(body: &Value) -> MarkedPrompt {
    let chat = ChatBody::parse_as(Api::Messages, body.to_string().as_bytes()).unwrap();
    MarkedPrompt::read(&chat, TokenDensity::STANDARD)
}

/// Plays the prompts in order and compares the tokens read and written of the last one.
fn check(prompts: &[MarkedPrompt], expect_read: u64, expect_written: u64) {
    let mut stored = HashSet::new();
    let mut cached = CachedTokens::default();
    for prompt in prompts {
        cached = prompt.cached(&stored);
        stored.extend(prompt.entries());
    }
    let expect = CachedTokens { read: expect_read, written: expect_written };
    assert_eq!(cached, expect, "{prompts:?}");
}

#[test]
fn a_prompt_without_marks_reads_and_stores_nothing() {
    check(&[prompt(3, &[]), prompt(3, &[])], 0, 0);
    check(&[prompt(3, &[]), prompt(3, &[2])], 0, 3_004);
    check(&[prompt(3, &[2]), prompt(3, &[])], 0, 0);
}

#[test]
fn a_mark_finds_what_an_earlier_mark_stored_within_twenty_positions() {
    check(&[prompt(3, &[2]), prompt(22, &[21])], 3_004, 19_000);
    check(&[prompt(3, &[2]), prompt(23, &[22])], 0, 23_004);
    check(&[prompt(3, &[2]), prompt(30, &[3, 29])], 3_004, 27_000);
}

#[test]
fn a_change_before_a_mark_loses_it() {
    let mut body = json!({"model": "claude-sonnet-5", "messages": [
        {"role": "user", "content": [block(0, false), block(1, true)]}]});
    let before = read(&body);
    body["messages"][0]["content"][0]["text"] = json!("x".repeat(3_300));
    check(&[before, read(&body)], 0, 2_004);
}

#[test]
fn a_run_of_results_is_one_position() {
    let result =
        |at: usize| json!({"type": "tool_result", "tool_use_id": format!("t{at}"), "content": "a"});
    let mut content = vec![block(0, true)];
    content.extend((0..40).map(result));
    content.push(block(1, true));
    let long =
        json!({"model": "claude-opus-5-5", "messages": [{"role": "user", "content": content}]});
    let first = json!({"model": "claude-opus-5-5", "messages":
        [{"role": "user", "content": [block(0, true)]}]});
    let read = read(&long).cached(&read(&first).entries().collect());
    assert_eq!(read.read, 1_004);
}

#[test]
fn a_prefix_below_the_minimum_of_its_model_is_not_stored() {
    for (model, expect) in
        [("claude-opus-5-5", 700), ("claude-sonnet-4-6", 0), ("claude-haiku-4-5", 0)]
    {
        let text = "a".repeat(696 * 33 / 10);
        let body = json!({"model": model, "cache_control": {"type": "ephemeral"},
            "messages": [{"role": "user", "content": text}]});
        let prompt = read(&body);
        let cached = prompt.cached(&prompt.entries().collect());
        assert_eq!(cached.read, expect, "{model}");
    }
}
