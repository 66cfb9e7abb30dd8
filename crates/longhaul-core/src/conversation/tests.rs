//! Structure of a conversation: batches, and the boundaries between units.

use super::*;
use crate::conversation::parse_cache::ParseCache;
use crate::dialect::Dialect;
use crate::dialect::chat_completions::read;
use crate::units::scope::Scope;

const SYSTEM: &str = r#"{"role":"system","content":"be brief"}"#;
const USER: &str = r#"{"role":"user","content":"port the parser"}"#;
const SAYS: &str = r#"{"role":"assistant","content":"ported"}"#;
const CALLS: &str = r#"{"role":"assistant","content":"reading","tool_calls":[
    {"id":"a","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
const CALLS_TWICE: &str = r#"{"role":"assistant","content":"reading","tool_calls":[
    {"id":"a","type":"function","function":{"name":"read","arguments":"{}"}},
    {"id":"b","type":"function","function":{"name":"read","arguments":"{}"}}]}"#;
const RESULT: &str = r#"{"role":"tool","tool_call_id":"a","content":"fn parse() {}"}"#;
const OTHER_RESULT: &str = r#"{"role":"tool","tool_call_id":"b","content":"fn lex() {}"}"#;
/// A call in the legacy spelling, which has no ids.
const FUNCTION_CALL: &str =
    r#"{"role":"assistant","content":null,"function_call":{"name":"read","arguments":"{}"}}"#;
const FUNCTION_RESULT: &str = r#"{"role":"function","name":"read","content":"fn parse() {}"}"#;
const RESULT_OF_NOTHING: &str = r#"{"role":"tool","content":"fn parse() {}"}"#;

fn body(messages: &[&str]) -> String {
    format!(r#"{{"messages":[{}]}}"#, messages.join(","))
}

/// Checks the boundaries of these messages.
#[track_caller]
fn check(messages: &[&str], expect: &[usize]) {
    let body = body(messages);
    let conversation = read(body.as_bytes()).unwrap();
    assert_eq!(conversation.boundaries(), expect, "{messages:?}");
}

#[test]
fn boundaries_lie_after_the_head_and_between_units() {
    check(&[], &[0]);
    check(&[SYSTEM, SYSTEM], &[2]);
    check(&[SYSTEM, USER, CALLS, RESULT, SAYS, USER], &[1, 2, 4, 5, 6]);
    check(&[USER, SYSTEM, SAYS], &[0, 1, 2, 3]);
}

#[test]
fn consecutive_user_messages_are_one_unit() {
    check(&[USER, USER, SAYS, USER, USER], &[0, 2, 3, 5]);
}

#[test]
fn a_call_and_all_its_results_are_one_unit() {
    check(&[USER, CALLS_TWICE, RESULT, OTHER_RESULT, SAYS], &[0, 1, 4, 5]);
    // Answered twice.
    check(&[USER, CALLS, RESULT, RESULT, SAYS], &[0, 1, 4, 5]);
    check(&[USER, FUNCTION_CALL, FUNCTION_RESULT, SAYS], &[0, 1, 3, 4]);
}

#[test]
fn an_aborted_step_joins_the_unit_after_it() {
    check(&[USER, CALLS, USER], &[0, 1, 3]);
    check(&[USER, CALLS_TWICE, RESULT, USER, SAYS], &[0, 1, 4, 5]);
    check(&[USER, CALLS, OTHER_RESULT, USER], &[0, 1, 4]);
    check(&[USER, FUNCTION_CALL, RESULT_OF_NOTHING, SAYS], &[0, 1, 4]);
    check(&[USER, CALLS, FUNCTION_RESULT, SAYS], &[0, 1, 4]);
}

#[test]
fn no_boundary_lies_beside_a_result_without_a_call() {
    check(&[USER, RESULT, SAYS], &[0, 3]);
    check(&[SAYS, RESULT, USER], &[0, 3]);
}

#[test]
fn an_empty_assistant_message_ends_no_unit() {
    let assistant = |content: &str| format!(r#"{{"role":"assistant"{content}}}"#);
    for nothing in ["", r#","content":null"#, r#","content":"""#, r#","content":[]"#] {
        check(&[USER, &assistant(nothing), USER], &[0, 1, 3]);
    }
    for something in [r#","content":"a""#, r#","content":[{"type":"text","text":"a"}]"#] {
        check(&[USER, &assistant(something), USER], &[0, 1, 2, 3]);
    }
}

#[test]
fn batch_is_a_run_of_results_complete_when_all_calls_are_answered() {
    let batches = |messages: &[&str]| {
        let body = body(messages);
        let conversation = read(body.as_bytes()).unwrap();
        let batches = conversation.batches().iter();
        batches.map(|batch| (batch.results.clone(), batch.complete_at)).collect::<Vec<_>>()
    };
    assert_eq!(batches(&[USER, SAYS, USER]), []);
    assert_eq!(
        batches(&[USER, CALLS, RESULT, CALLS_TWICE, OTHER_RESULT, RESULT, SAYS]),
        [(2..3, Some(3)), (4..6, Some(6))]
    );
    assert_eq!(
        batches(&[CALLS, RESULT, RESULT, USER, CALLS_TWICE, RESULT]),
        [(1..3, Some(2)), (5..6, None)]
    );
    assert_eq!(
        batches(&[FUNCTION_CALL, FUNCTION_RESULT, FUNCTION_CALL, RESULT_OF_NOTHING]),
        [(1..2, Some(2)), (3..4, None)]
    );
}

#[test]
fn each_result_is_matched_to_its_call() {
    let places = |messages: &[&str]| {
        let body = body(messages);
        let conversation = read(body.as_bytes()).unwrap();
        let batch = &conversation.batches()[0];
        let results = batch.results.clone();
        results.map(|at| batch.call_index(at)).collect::<Vec<_>>()
    };
    let (first, second) = (RESULT, OTHER_RESULT);
    assert_eq!(places(&[CALLS_TWICE, first, second]), [Some(0), Some(1)]);
    assert_eq!(
        places(&[CALLS_TWICE, second, RESULT_OF_NOTHING, first, second]),
        [Some(1), None, Some(0), Some(1)]
    );
    assert_eq!(places(&[FUNCTION_CALL, FUNCTION_RESULT]), [Some(0)]);
    assert_eq!(places(&[USER, first]), [None]);
}

#[test]
fn model_name_is_unescaped_and_empty_if_absent() {
    let model = |body: &str| read(body.as_bytes()).unwrap().model().into_owned();
    assert_eq!(model(r#"{"model":"openai\/gpt-5","messages":[]}"#), "openai/gpt-5");
    assert_eq!(model(r#"{"model":null,"messages":[]}"#), "");
    assert_eq!(model(r#"{"messages":[]}"#), "");
}

#[test]
fn role_labels_are_distinct() {
    let roles = [
        Role::Assistant,
        Role::Developer,
        Role::Function,
        Role::Other,
        Role::System,
        Role::Tool,
        Role::User,
    ];
    let mut kinds = roles.map(Role::label);
    assert!(kinds.contains(&"tool result") && kinds.contains(&"user"));
    kinds.sort_unstable();
    assert!(kinds.windows(2).all(|pair| pair[0] != pair[1]), "{kinds:?}");
}

#[test]
fn memo_of_a_message_survives_into_the_next_request() {
    let scope = Scope::new(&[1; 32], &[]);
    let cache = ParseCache::new(scope);
    let body = body(&[USER, SAYS]);
    let points = |note: Option<bool>| {
        let conversation =
            Dialect::ChatCompletions.read_cached(body.as_bytes(), scope, &cache).unwrap();
        let points = &conversation.messages()[1].memo().unwrap().is_reference;
        if let Some(note) = note {
            points.set(note).unwrap();
        }
        points.get().copied()
    };
    assert_eq!(points(None), None);
    assert_eq!(points(Some(true)), Some(true));
    assert_eq!(points(None), Some(true));
    let unremembered = read(body.as_bytes()).unwrap();
    assert!(unremembered.messages()[1].memo().is_none());
}
