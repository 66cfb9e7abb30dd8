//! Keys of messages that are joined from several items or blocks, read from the cache.

use super::*;
use crate::dialect::Dialect;

const CALL: &str = r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#;
const OUTPUT: &str = r#"{"type":"function_call_output","call_id":"c","output":"done"}"#;

fn said(text: &str) -> String {
    format!(r#"{{"type":"message","role":"assistant","content":"{text}"}}"#)
}

fn items(items: &[&str]) -> String {
    format!(r#"{{"input":[{}]}}"#, items.join(","))
}

fn results(blocks: &[&str]) -> String {
    let result = r#"{"type":"tool_result","tool_use_id":"c","content":"done"}"#;
    format!(
        r#"{{"messages":[{USER},{{"role":"assistant","content":[{{"type":"tool_use","id":"c","name":"f",
        "input":{{}}}}]}},{{"role":"user","content":[{result},{}]}}]}}"#,
        blocks.join(",")
    )
}

/// Reads each body twice with one cache, and checks the keys. Returns the number of messages with a
/// memo in the last body.
#[track_caller]
fn check(dialect: Dialect, bodies: &[String]) -> usize {
    let cache = ParseCache::new(scope(9));
    let mut remembered = 0;
    for body in bodies {
        let fresh = dialect.read(body.as_bytes()).unwrap();
        let fresh = PrefixKeys::new(&fresh, scope(0));
        for _ in 0..2 {
            let conversation = dialect.read_cached(body.as_bytes(), scope(0), &cache);
            let conversation = conversation.unwrap();
            let keys = PrefixKeys::new(&conversation, scope(0));
            assert!(keys.newest_first().eq(fresh.newest_first()), "{body}");
            let messages = conversation.messages().iter();
            remembered = messages.filter(|it| it.memo().is_some()).count();
        }
    }
    remembered
}

#[test]
fn a_step_of_several_items_is_remembered_and_never_taken_for_another() {
    let (one, other) = (said("one"), said("other"));
    let (one, other) = (one.as_str(), other.as_str());
    let steps: [&[&str]; 6] = [
        &[one, CALL],
        &[other, CALL],
        &[one, other, CALL],
        &[other, one, CALL],
        &[CALL],
        &[one, CALL],
    ];
    let bodies = steps.map(|step| items(&[&[USER], step, &[OUTPUT]].concat()));
    assert_eq!(check(Dialect::Responses, &bodies), 3);
    // Spaces between items change neither the key nor what is remembered.
    let spaced = bodies.map(|body| body.replace("},{", "},  {"));
    assert_eq!(check(Dialect::Responses, &spaced), 3);
}

#[test]
fn instructions_within_a_step_are_part_of_it() {
    let developer = |text| format!(r#"{{"type":"message","role":"developer","content":"{text}"}}"#);
    let (one, other, last) = (developer("one"), developer("other"), developer("last"));
    // The cache finds `last` after other instructions, too.
    let bodies = [&one, &other].map(|before| items(&[USER, CALL, before, &last, OUTPUT]));
    assert_eq!(check(Dialect::Responses, &bodies[..1]), 3);
    assert_eq!(check(Dialect::Responses, &bodies), 2);
}

#[test]
fn blocks_of_a_user_are_remembered_beside_results() {
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    let (one, other) = (text("one"), text("other"));
    let (one, other) = (one.as_str(), other.as_str());
    let runs: [&[&str]; 5] = [&[one], &[one, other], &[other, other], &[other], &[one, other]];
    let bodies = runs.map(results);
    assert_eq!(check(Dialect::Messages, &bodies), 4);
}

#[test]
fn a_step_of_more_than_sixteen_items_is_hashed_each_time() {
    let words: Vec<String> = (0..17).map(|at| said(&format!("word {at}"))).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (many, few) = (items(&words), items(&words[1..]));
    assert_eq!(check(Dialect::Responses, &[many]), 0);
    assert_eq!(check(Dialect::Responses, &[few]), 1);
}
