//! The reader: from wire messages to messages, and everything that stays as it is.

use super::*;
use crate::conversation::Message;
use crate::conversation::PartKind;

const ASKS: &str = r#"{"role":"user","content":"port it"}"#;
const CALLS: &str = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"reading"},{"type":"tool_use","id":"a","name":"Read","input":{"file_path":"/x.rs"}},{"type":"tool_use","id":"b","name":"Bash","input":{"command":"ls"}}]}"#;
const RESULT_A: &str = r#"{"tool_use_id":"a","type":"tool_result","content":"fn x() {}"}"#;
const RESULT_B: &str = r#"{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"x.rs"}],"is_error":true}"#;
const REMINDER: &str =
    r#"{"type":"text","text":"<system-reminder>\nbe careful\n</system-reminder>"}"#;
const WORDS: &str = r#"{"type":"text","text":"and test it"}"#;
const SAYS: &str = r#"{"role":"assistant","content":[{"type":"text","text":"done"}]}"#;

fn user(blocks: &[&str]) -> String {
    format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(","))
}

fn body(messages: &[&str]) -> String {
    format!(r#"{{"messages":[{}]}}"#, messages.join(","))
}

/// Returns the roles of the messages, by their initials, and the boundaries.
fn shape(messages: &[&str]) -> (String, Vec<usize>) {
    let body = body(messages);
    let conversation = read(body.as_bytes()).unwrap();
    let initial = |message: &Message| message.role.label().chars().next();
    let roles = conversation.messages().iter().filter_map(initial).collect();
    (roles, conversation.boundaries().to_vec())
}

#[test]
fn results_reminders_and_user_blocks_become_separate_messages() {
    let results = user(&[RESULT_A, RESULT_B, REMINDER, WORDS, WORDS]);
    let (roles, boundaries) = shape(&[ASKS, CALLS, &results, SAYS]);
    assert_eq!(roles, "uattsua");
    assert_eq!(boundaries, [0, 1, 4, 5, 6, 7]);
}

#[test]
fn consecutive_user_blocks_are_one_message() {
    let (roles, boundaries) = shape(&[&user(&[WORDS, WORDS]), SAYS]);
    assert_eq!((&*roles, boundaries), ("ua", vec![0, 1, 2]));
}

#[test]
fn the_reminder_before_the_first_request_is_head() {
    let (roles, boundaries) = shape(&[&user(&[REMINDER, WORDS]), SAYS]);
    assert_eq!((&*roles, boundaries), ("sua", vec![1, 2, 3]));
    // A system message within the list belongs to the messages before it.
    let system = r#"{"role":"system","content":"900 tokens left"}"#;
    let (roles, boundaries) = shape(&[ASKS, CALLS, &user(&[RESULT_A, RESULT_B]), system, SAYS]);
    assert_eq!((&*roles, boundaries), ("uattsa", vec![0, 1, 4, 5, 6]));
}

#[test]
fn results_in_any_order_and_in_two_messages_answer_their_calls() {
    let (first, second) = (user(&[RESULT_B]), user(&[RESULT_A]));
    let body = body(&[ASKS, CALLS, &first, &second]);
    let conversation = read(body.as_bytes()).unwrap();
    let [batch] = conversation.batches() else {
        panic!("{:?}", conversation.batches());
    };
    assert_eq!(batch.complete_at, Some(4));
    let name = |at| conversation.call_for_result(batch, at).unwrap().name.unwrap();
    assert_eq!(name(2).decode(&body), "Bash");
    assert_eq!(name(3).decode(&body), "Read");
    assert_eq!(conversation.boundaries(), [0, 1, 4]);
}

#[test]
fn a_result_is_read_in_every_shape() {
    for (content, text, is_fixed, kinds) in [
        (r#","content":"a\nb""#, "a\nb", false, &[][..]),
        ("", "", false, &[]),
        (r#","content":null"#, "", false, &[]),
        (
            r#","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","data":"x"}},{"type":"document","source":{"type":"text","data":"d"}},{"type":"search_result","source":"s","title":"t","content":[]}]"#,
            "a",
            false,
            &[PartKind::Text, PartKind::Image, PartKind::File, PartKind::Other],
        ),
        (r#","content":[{"type":"tool_reference","tool_name":"X"}]"#, "", true, &[PartKind::Other]),
        (
            r#","content":[{"type":"text","text":"a"},{"type":"browser_state"}]"#,
            "a",
            true,
            &[PartKind::Text, PartKind::Other],
        ),
        (r#","content":[1]"#, "", true, &[]),
        (r#","content":{"type":"later"}"#, "", false, &[]),
    ] {
        let result = format!(r#"{{"type":"tool_result","tool_use_id":"a"{content}}}"#);
        let body = body(&[ASKS, CALLS, &user(&[&result])]);
        let conversation = read(body.as_bytes()).unwrap();
        let message = &conversation.messages()[2];
        assert_eq!(conversation.text(message), text, "{content}");
        assert_eq!(message.is_fixed, is_fixed, "{content}");
        let parts = conversation.parts(message).iter().map(|part| part.kind);
        assert_eq!(parts.collect::<Vec<_>>(), kinds, "{content}");
        assert_eq!(message.span.slice(&body), result);
    }
}

#[test]
fn an_assistant_message_stays_whole_with_its_calls_and_thinking() {
    let body = body(&[ASKS, CALLS]);
    let conversation = read(body.as_bytes()).unwrap();
    let message = &conversation.messages()[1];
    assert_eq!(message.span.slice(&body), CALLS);
    assert!(message.has_reasoning && message.bound_thinking.is_some());
    assert_eq!(conversation.text(message), "reading");
    let calls = conversation.calls(message);
    let arguments = calls[0].arguments.unwrap().decode(&body);
    assert_eq!(arguments, r#"{"file_path":"/x.rs"}"#);
    assert_eq!(calls.len(), 2);
}

#[test]
fn results_of_the_providers_tools_are_parts_of_the_assistants_message() {
    let search = r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","encrypted_content":"e"}]},{"type":"text","text":"found"}]}"#;
    let body = body(&[ASKS, search]);
    let conversation = read(body.as_bytes()).unwrap();
    let message = &conversation.messages()[1];
    assert_eq!(conversation.messages().len(), 2);
    let kinds = conversation.parts(message).iter().map(|part| part.kind);
    let expect = [PartKind::Other, PartKind::Other, PartKind::Text];
    assert_eq!(kinds.collect::<Vec<_>>(), expect);
    assert!(conversation.calls(message).is_empty());
}

#[test]
fn reads_instructions_tools_and_limits_beside_the_messages() {
    let body = format!(
        r#"{{"system":[{{"type":"text","text":"{}"}}],"tools":[{{"name":"f"}}],"messages":[{ASKS}],"max_tokens":900,"thinking":{{"type":"enabled","budget_tokens":500}},"stream":true,"model":"m"}}"#,
        "x".repeat(4_000)
    );
    let conversation = read(body.as_bytes()).unwrap();
    let params = conversation.params();
    assert!((1_000..1_050).contains(&params.tool_tokens.get()));
    assert_eq!(conversation.output_tokens(), Some(Tokens::new(900)));
    assert_eq!(params.reasoning_budget, Tokens::new(500));
    assert!(params.streaming);
    assert_eq!(conversation.model(), "m");
    let instructions = params.instructions.unwrap().decode(&body);
    assert!(instructions.starts_with(r#"[{"type":"text""#));
}

#[test]
fn detects_history_kept_or_compacted_by_the_provider() {
    use HistoryKeeper::{ClearingProvider, Client, Provider};
    let check = |members: &str, blocks: &[&str], expect| {
        let message = user(blocks);
        let body = format!(r#"{{{members}"messages":[{message}]}}"#);
        let conversation = read(body.as_bytes()).unwrap();
        assert_eq!(conversation.params().history, expect, "{body}");
    };
    check("", &[WORDS], Client);
    check(r#""thread":null,"compaction":null,"#, &[WORDS], Client);
    check(r#""thread":{"type":"create"},"#, &[WORDS], Provider);
    check(r#""compaction":{"type":"summarize"},"#, &[WORDS], Provider);
    check(
        r#""context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},"#,
        &[WORDS],
        ClearingProvider,
    );
    for block in [
        r#"{"type":"compaction","content":"s"}"#,
        r#"{"type":"cache_edits","edits":[]}"#,
        r#"{"type":"tool_result","tool_use_id":"a","content":"x","cache_reference":"r"}"#,
    ] {
        check("", &[block], Provider);
    }
}

#[test]
fn last_cache_mark_is_found_by_message() {
    let mark = |ttl: &str| format!(r#""cache_control":{{"type":"ephemeral","ttl":"{ttl}"}}"#);
    let result = format!(
        r#"{{"type":"tool_result","tool_use_id":"a","content":[{{"type":"text","text":"x",{}}}],{}}}"#,
        mark("1h"),
        mark("5m")
    );
    let body = body(&[ASKS, CALLS, &user(&[&result, WORDS])]);
    let conversation = read(body.as_bytes()).unwrap();
    let last = conversation.last_cache_mark(0..4).unwrap();
    assert_eq!(last, r#"{"type":"ephemeral","ttl":"5m"}"#);
    assert_eq!(conversation.last_cache_mark(0..2), None);
    assert_eq!(conversation.last_cache_mark(3..4), None);
}

#[test]
fn rejects_malformed_or_misshapen_bodies_and_duplicate_keys() {
    for (body, expect) in [
        ("{", Bypass::Malformed),
        ("[]", Bypass::Shape),
        (r#"{"model":"m"}"#, Bypass::Shape),
        (r#"{"messages":{}}"#, Bypass::Shape),
        (r#"{"messages":[1]}"#, Bypass::Shape),
        (r#"{"messages":[{"content":"x"}]}"#, Bypass::Shape),
        (r#"{"messages":[{"role":"user","content":1}]}"#, Bypass::Shape),
        (r#"{"messages":[{"role":"user","content":["x"]}]}"#, Bypass::Shape),
        (r#"{"messages":[],"messages":[]}"#, Bypass::Duplicate),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","t\u0065xt":"b"}]}]}"#,
            Bypass::Duplicate,
        ),
        (r#"{"messages":[{"role":"user","role":"user"}]}"#, Bypass::Duplicate),
    ] {
        assert_eq!(read(body.as_bytes()).err(), Some(expect), "{body}");
    }
}

#[test]
fn body_shape_identifies_the_dialect() {
    for (body, expect) in [
        (format!(r#"{{"system":"s","messages":[{ASKS}]}}"#), true),
        (body(&[ASKS, CALLS]), true),
        (body(&[ASKS, SAYS]), false),
        (r#"{"tools":[{"name":"f","input_schema":{}}],"messages":[]}"#.to_owned(), true),
        (r#"{"messages":[{"role":"user","content":"\"type\":\"tool_use\""}]}"#.to_owned(), false),
        (r#"{"messages":[{"role":"user","content":"tool_use"}]}"#.to_owned(), false),
    ] {
        assert_eq!(has_own_shape(body.as_bytes()), expect, "{body}");
        let dialect = Dialect::read_any(body.as_bytes()).unwrap().dialect();
        assert_eq!(dialect == Dialect::Messages, expect, "{body}");
    }
}

/// Describes a reading in full, but for the cache entries.
fn described(conversation: &Conversation<'_>) -> String {
    let messages = conversation.messages().iter().map(|message| {
        let parts = conversation.parts(message);
        let calls = conversation.calls(message);
        let message = Message { cached: None, parts: 0..0, calls: 0..0, ..message.clone() };
        format!("{message:?} {parts:?} {calls:?}")
    });
    let messages: Vec<String> = messages.collect();
    let containers: Vec<_> =
        (0..conversation.messages().len()).map(|at| conversation.object_span(at)).collect();
    let (boundaries, batches) = (conversation.boundaries(), conversation.batches());
    let history = conversation.params().history;
    let marks =
        (0..conversation.messages().len()).map(|at| conversation.last_cache_mark(at..at + 1));
    let marks: Vec<_> = marks.collect();
    format!("{messages:?} {containers:?} {boundaries:?} {batches:?} {history:?} {marks:?}")
}

#[test]
fn a_cached_reading_is_the_same_in_every_place() {
    let words = "word ".repeat(40);
    let result = |id: &str, more: &str| {
        format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"{words}"{more}}}"#)
    };
    let reminder = r#"{"type":"text","text":"<system-reminder>r</system-reminder>"}"#;
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let user = |blocks: &[&str]| format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(","));
    let late = format!(r#"{{"content":[{}],"role":"user"}}"#, result("a", ""));
    let calls = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"a","name":"f","input":{"p":1}},{"type":"tool_use","id":"b","name":"f","input":{}}]}"#;
    let (plain, marked) = (result("a", ""), result("b", mark));
    let (bare, fixed) = (result("b", ""), result("b", r#","is_error":true"#));
    let odd = r#"{"type":"tool_result","role":"user","tool_use_id":"a","content":"odd"}"#;
    let text = r#"{"type":"text","text":"and so on"}"#;
    let messages = [
        r#"{"role":"user","content":"go"}"#.to_owned(),
        calls.to_owned(),
        user(&[&plain, &marked, reminder, text]),
        user(&[&plain, &bare, reminder, text, text]),
        user(&[&fixed, &plain]),
        late,
        odd.to_owned(),
        user(&[odd]),
        format!(r#"{{"role":"assistant","content":[{reminder}]}}"#),
        user(&[r#"{"type":"compaction","content":"x"}"#, &plain]),
        r#"{"role":"system","content":"<total_tokens>9</total_tokens>"}"#.to_owned(),
    ];
    let cache = ParseCache::new(Scope::new(&[1; 32], &[b"secret"]));
    let scope = Scope::new(&[2; 32], &[]);
    // Each order is read twice: once to fill the cache, and once from it.
    for shift in 0..messages.len() {
        for spacing in ["", "  \n"] {
            for _ in 0..2 {
                let order = messages.iter().cycle().skip(shift).take(messages.len());
                let order: Vec<String> = order.map(|it| format!("{spacing}{it}")).collect();
                let body = format!(r#"{{"system":"s","messages":[{}]}}"#, order.join(","));
                let cached = read_with(body.as_bytes(), Some((scope, &cache))).unwrap();
                let fresh = read(body.as_bytes()).unwrap();
                assert_eq!(described(&cached), described(&fresh), "{shift}");
            }
        }
    }
    let again = format!(r#"{{"system":"s","messages":[{}]}}"#, messages[..4].join(","));
    read_with(again.as_bytes(), Some((scope, &cache))).unwrap();
    let cached = read_with(again.as_bytes(), Some((scope, &cache))).unwrap();
    let hits = cached.messages().iter().filter(|it| it.cached.is_some());
    // All but the marked result.
    assert_eq!(hits.count(), 9);
}

/// A conversation of `steps` calls, each with its result, and a reminder or two texts next to the result.
fn steps(steps: usize) -> Vec<String> {
    let step = |at: usize| {
        let call = format!(r#"{{"type":"tool_use","id":"c{at}","name":"f","input":{{}}}}"#);
        let result = RESULT_A.replace(r#""a""#, &format!(r#""c{at}""#));
        let words = [WORDS, WORDS].join(",");
        let beside = [REMINDER, &words][at % 2];
        let assistant = format!(r#"{{"role":"assistant","content":[{call}]}}"#);
        [assistant, user(&[&result, beside])]
    };
    [ASKS.to_owned()].into_iter().chain((0..steps).flat_map(step)).collect()
}

/// Reads `messages` with `cache` and without, and compares both. Returns whether the cache has a page
/// that begins with the first message.
#[track_caller]
fn begins_with_a_page(cache: &ParseCache, messages: &[String]) -> bool {
    let scope = Scope::new(&[2; 32], &[]);
    let body = format!(r#"{{"system":"s","messages":[{}]}}"#, messages.join(","));
    let mut cursor = cache.cursor(scope, Dialect::Messages);
    let ahead = body.split_once('[').unwrap().1;
    let hit = cursor.lookup(ahead).map_or(0, |hit| hit.len());
    let cached = read_with(body.as_bytes(), Some((scope, cache))).unwrap();
    let fresh = read(body.as_bytes()).unwrap();
    assert_eq!(described(&cached), described(&fresh));
    hit > messages[0].len()
}

#[test]
fn a_page_spans_objects_that_hold_several_messages() {
    let cache = ParseCache::new(Scope::new(&[1; 32], &[]));
    let messages = steps(40);
    assert!(!begins_with_a_page(&cache, &messages));
    assert!(!begins_with_a_page(&cache, &messages));
    assert!(begins_with_a_page(&cache, &messages));
    assert!(begins_with_a_page(&cache, &[&messages[..], &steps(3)].concat()));
}

#[test]
fn a_page_holds_no_cache_marks_and_no_objects_of_the_provider() {
    let mark = r#""cache_control":{"type":"ephemeral"},"type":"text""#;
    for odd in [
        WORDS.replace(r#""type":"text""#, mark),
        r#"{"type":"compaction","content":"x"}"#.to_owned(),
    ] {
        let cache = ParseCache::new(Scope::new(&[1; 32], &[]));
        let mut messages = steps(40);
        messages[8] = user(&[RESULT_A, &odd]);
        for _ in 0..3 {
            assert!(!begins_with_a_page(&cache, &messages), "{odd}");
        }
    }
}

#[test]
fn edits_within_a_page_are_read_as_without_a_cache() {
    let cache = ParseCache::new(Scope::new(&[1; 32], &[]));
    let messages = steps(40);
    for at in 0..messages.len() {
        let mut edited = messages.clone();
        match at % 4 {
            0 => edited[at].push(' '),
            1 => drop(edited.remove(at)),
            2 => edited[at] = edited[at].replace("fn x", "fn y"),
            _ => edited.insert(at, user(&[WORDS, RESULT_B, WORDS])),
        }
        for _ in 0..3 {
            begins_with_a_page(&cache, &edited);
            begins_with_a_page(&cache, &messages);
        }
    }
}
