//! Changes that alter the key of a prefix, and changes that do not.

use super::*;
use crate::conversation::parse_cache::ParseCache;
use crate::dialect::Dialect;
use crate::dialect::chat_completions::read;
use crate::policy::cut_point::tests::body;

mod joined;

fn scope(number: u8) -> Scope {
    Scope::new(&[number; 32], &[])
}

/// The key of a whole conversation of these messages.
fn key(messages: &str) -> RecordKey {
    let body = format!(r#"{{"model":"m","messages":[{messages}]}}"#);
    let conversation = read(body.as_bytes()).unwrap();
    let (messages, key) = PrefixKeys::new(&conversation, scope(0)).newest().unwrap();
    assert_eq!(messages, conversation.messages().len(), "{body}");
    key
}

#[track_caller]
fn check_same(one: &str, other: &str) {
    assert!(key(one) == key(other), "{one}\nis not\n{other}");
}

#[track_caller]
fn check_different(one: &str, other: &str) {
    assert!(key(one) != key(other), "{one}\nis taken for\n{other}");
}

const USER: &str = r#"{"role":"user","content":"hello"}"#;
const IMAGE: &str = r#"{"role":"user","content":[
    {"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}"#;

/// An assistant's step with one call and its result.
fn step(id: &str, name: &str, arguments: &str, result: &str) -> String {
    format!(
        r#"{USER},{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function",
           "function":{{"name":"{name}","arguments":"{arguments}"}}}}]}},
           {{"role":"tool","tool_call_id":"{id}","content":"{result}"}}"#
    )
}

#[test]
fn a_string_hashes_like_a_single_text_part() {
    check_same(USER, r#"{"role":"user","content":[{"type":"text","text":"hello"}]}"#);
    check_same(
        r#"{"role":"user","content":""}"#,
        r#"{"role":"user","content":[{"type":"text","text":""}]}"#,
    );
    check_different(
        r#"{"role":"user","content":"ab"}"#,
        r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
    );
}

#[test]
fn cache_marks_do_not_change_the_key() {
    check_same(
        USER,
        r#"{"role":"user","content":[
            {"type":"text","text":"hello","cache_control":{"type":"ephemeral"}}]}"#,
    );
    check_same(USER, r#"{"role":"user","content":"hello","cache_control":{"type":"ephemeral"}}"#);
    check_same(
        IMAGE,
        r#"{"role":"user","content":[{"type":"image_url","cache_control":{"type":"ephemeral"},
            "image_url":{"url":"data:image/png;base64,AAAA"}}]}"#,
    );
}

#[test]
fn call_ids_count_only_by_position() {
    check_same(&step("call_1", "read", "{}", "x"), &step("call_2", "read", "{}", "x"));
    let two = |first: &str, second: &str| {
        let call = |id| format!(r#"{{"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}}}"#);
        let result = |id| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"r"}}"#);
        format!(
            r#"{USER},{{"role":"assistant","tool_calls":[{},{}]}},{},{}"#,
            call("a"),
            call("b"),
            result(first),
            result(second)
        )
    };
    check_different(&two("a", "b"), &two("b", "a"));
}

#[test]
fn reasoning_does_not_change_the_key() {
    let with =
        |reasoning: &str| format!(r#"{USER},{{"role":"assistant",{reasoning}"content":"yes"}}"#);
    for reasoning in [
        r#""reasoning":"because","#,
        r#""reasoning_content":"because","#,
        r#""reasoning_details":[{"type":"reasoning.text","text":"because"}],"#,
    ] {
        check_same(&with(""), &with(reasoning));
    }
}

#[test]
fn member_order_and_unknown_members_do_not_change_the_key() {
    check_same(USER, r#"{ "content" : "hello" , "role":"user"}"#);
    check_same(
        USER,
        r#"{"role":"user","id":"msg_1","timestamp":17,"content":"hello","odd":{"a":[1]}}"#,
    );
    check_same(
        r#"{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}"#,
        r#"{"role":"user","content":[{"file":{"file_id":"f"},"type":"file"}]}"#,
    );
}

#[test]
fn content_roles_calls_and_results_change_the_key() {
    check_different(USER, r#"{"role":"user","content":"hallo"}"#);
    check_different(USER, r#"{"role":"assistant","content":"hello"}"#);
    check_different(USER, r#"{"role":"user","name":"ann","content":"hello"}"#);
    check_different(IMAGE, &IMAGE.replace("AAAA", "AAAB"));
    let step = |name, arguments, result| step("c", name, arguments, result);
    let one = step("read", "{}", "x");
    check_different(&one, &step("write", "{}", "x"));
    check_different(&one, &step("read", r#"{\"a\":1}"#, "x"));
    check_different(&one, &step("read", "{}", "y"));
}

#[test]
fn text_moved_between_messages_changes_the_key() {
    let said = |one: &str, other: &str| {
        format!(r#"{{"role":"user","content":"{one}"}},{{"role":"assistant","content":"{other}"}}"#)
    };
    check_different(&said("ab", "c"), &said("a", "bc"));
}

#[test]
fn leading_instructions_do_not_change_the_key() {
    let with = |head: &str| format!("{head}{USER}");
    let system = r#"{"role":"system","content":"It is Monday."},"#;
    let other = system.replace("Monday", "Tuesday");
    check_same(&with(system), &with(&other));
    let developer = system.replace("system", "developer");
    check_same(&with(system), &with(&format!("{developer}{system}")));
    // After the head, an instruction is part of the history.
    let late = |day: &str| {
        format!(r#"{USER},{{"role":"system","content":"{day}"}},{{"role":"user","content":"x"}}"#)
    };
    check_different(&late("Monday"), &late("Tuesday"));
}

#[test]
fn two_scopes_share_no_key() {
    let body = format!(r#"{{"messages":[{USER}]}}"#);
    let conversation = read(body.as_bytes()).unwrap();
    let of = |number| PrefixKeys::new(&conversation, scope(number)).newest();
    assert_ne!(of(1), of(2));
    let secret = [0; 32];
    let caller = |parts: &[&[u8]]| Scope::new(&secret, parts);
    assert_ne!(caller(&[b"ab", b"c"]), caller(&[b"a", b"bc"]));
}

#[test]
fn a_longer_history_keeps_the_keys_of_its_prefixes() {
    let messages: Vec<String> = (0..9)
        .map(|at| {
            let role = ["user", "assistant"][at % 2];
            format!(r#"{{"role":"{role}","content":"{at}"}}"#)
        })
        .collect();
    let prefix_keys = |upto: usize| {
        let body = format!(r#"{{"messages":[{}]}}"#, messages[..upto].join(","));
        PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope(0))
    };
    let whole = prefix_keys(9);
    for upto in 1..9 {
        let (at, key) = prefix_keys(upto).newest().unwrap();
        assert_eq!((at, whole.key_at(at)), (upto, Some(key)));
    }
    let newest: Vec<usize> = whole.newest_first().map(|(at, _)| at).collect();
    assert_eq!(newest, (1..=9).rev().collect::<Vec<_>>());
}

#[test]
fn cached_messages_have_the_same_keys_as_fresh_ones() {
    let recall = ParseCache::new(scope(9));
    let long = "word ".repeat(50);
    let said = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let twice = step("c", "read", &long, &long);
    // The parse cache finds a message after any instructions; the prefix hash differs.
    let behind = |instructions: &str| {
        let instructions = said(instructions).replace("user", "system");
        format!("{},{instructions},{}", said("go"), said(&long))
    };
    for messages in [
        behind("one"),
        behind("two"),
        twice.clone(),
        twice.replace(r#""c""#, r#""d""#),
        format!("{},{}", said(&long), twice),
        format!("{twice},{},{}", said(&long), said(&long)),
    ] {
        let body = format!(r#"{{"messages":[{messages}]}}"#);
        for caller in [scope(0), scope(1)] {
            let fresh = PrefixKeys::new(&read(body.as_bytes()).unwrap(), caller);
            for _ in 0..2 {
                let conversation =
                    Dialect::ChatCompletions.read_cached(body.as_bytes(), caller, &recall).unwrap();
                let recalled = PrefixKeys::new(&conversation, caller);
                assert!(recalled.newest_first().eq(fresh.newest_first()), "{body}");
            }
        }
    }
}

#[test]
fn key_of_a_cached_result_depends_on_the_call_it_answers() {
    let recall = ParseCache::new(scope(9));
    let long = "word ".repeat(50);
    let keys = |first: &str, second: &str| {
        let call = |id| format!(r#"{{"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}}}"#);
        let body = format!(
            r#"{{"messages":[{USER},{{"role":"assistant","tool_calls":[{},{}]}},
               {{"role":"tool","tool_call_id":"a","content":"{long}"}},
               {{"role":"tool","tool_call_id":"b","content":"{long}"}}]}}"#,
            call(first),
            call(second),
        );
        let conversation =
            Dialect::ChatCompletions.read_cached(body.as_bytes(), scope(0), &recall).unwrap();
        PrefixKeys::new(&conversation, scope(0)).newest()
    };
    assert_ne!(keys("a", "b"), keys("b", "a"));
}

#[test]
fn looks_up_at_most_512_prefixes() {
    let answer = USER.replace("user", "assistant");
    let turns = [USER, &answer].repeat(300).join(",");
    let body = format!(r#"{{"messages":[{turns}]}}"#);
    let prefix_keys = PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope(0));
    let looked_up: Vec<usize> = prefix_keys.newest_first().map(|(at, _)| at).collect();
    assert_eq!((looked_up.len(), looked_up[0]), (512, 600));
}

#[test]
fn a_key_round_trips_as_bytes_with_its_scope_first() {
    let key = key(USER);
    let bytes = key.to_bytes();
    assert_eq!(RecordKey::from_bytes(&bytes), Some(key));
    assert_eq!((bytes.len(), &bytes[..8]), (40, &key.scope().0[..]));
    assert_eq!(key.scope(), scope(0).tag());
    let longer = [&bytes[..], &[0]].concat();
    for wrong in [&bytes[..39], &bytes[..7], &[], &longer] {
        assert_eq!(RecordKey::from_bytes(wrong), None);
    }
}

/// The keys of a conversation with one message per letter.
fn chains_of(letters: &str) -> PrefixKeys {
    let body = body(letters);
    PrefixKeys::new(&read(body.as_bytes()).unwrap(), scope(0))
}

#[test]
fn prefixes_have_keys_only_at_unit_boundaries() {
    let letters = "ssuctctua";
    let prefix_keys = chains_of(letters);
    assert_eq!(prefix_keys.head_len(), 2);
    assert_eq!(chains_of("uctct").head_len(), 0);
    let ends = [3, 5, 7, 8, 9];
    let all: Vec<usize> = prefix_keys.newest_first().map(|(at, _)| at).collect();
    assert!(all.iter().rev().eq(&ends));
    for messages in 0..=letters.len() + 1 {
        let key = prefix_keys.key_at(messages);
        assert_eq!(key.is_some(), ends.contains(&messages), "{messages}");
        let at_least = ends.into_iter().find(|&end| end >= messages);
        let reaching = prefix_keys.first_at_least(messages);
        assert_eq!(reaching.map(|(end, _)| end), at_least, "{messages}");
        if let Some((end, key)) = reaching {
            assert_eq!(prefix_keys.key_at(end), Some(key));
        }
    }
    assert_eq!(prefix_keys.first_key(), prefix_keys.key_at(3));
    assert_eq!(prefix_keys.newest(), Some((9, prefix_keys.key_at(9).unwrap())));
    assert_eq!(chains_of("ss").first_key(), None);
}

#[test]
fn stable_prefix_ends_before_the_newest_user_messages() {
    for (letters, lasts) in [
        ("suau", 3),
        ("suaus", 3),
        ("suauus", 3),
        ("suaua", 3),
        ("suct", 4),
        ("suctctt", 7),
        ("sucts", 4),
        ("suctuu", 4),
        // A call without its result ends no unit.
        ("suacu", 3),
        // No reply yet.
        ("su", 2),
        ("suu", 3),
        ("us", 2),
    ] {
        let prefix_keys = chains_of(letters);
        let key = prefix_keys.key_at(lasts).unwrap();
        assert_eq!(prefix_keys.stable_prefix(), Some((lasts, key)), "{letters}");
    }
    assert_eq!(chains_of("s").stable_prefix(), None);
    // The stable prefix if it is longer than the given one, or else the longest.
    let prefix_keys = chains_of("suauau");
    let behind = [3, 4, 5, 6].map(|at| prefix_keys.longer_than(at));
    let [lasting, newest] = [5, 6].map(|at| prefix_keys.key_at(at));
    assert_eq!(behind, [lasting, lasting, newest, None]);
}

#[test]
fn conversation_key_is_that_of_the_first_reply() {
    for (letters, begun) in [
        ("suuau", 4),
        ("suuauua", 4),
        ("suctctua", 4),
        // No reply yet.
        ("suu", 3),
    ] {
        let prefix_keys = chains_of(letters);
        let key = prefix_keys.key_at(begun);
        assert!(key.is_some() && prefix_keys.conversation_key() == key, "{letters}");
    }
    assert_eq!(chains_of("s").conversation_key(), None);
}

#[test]
fn a_prefix_past_half_the_look_up_range_gets_a_closer_one() {
    let prefix_keys = chains_of(&"ua".repeat(150));
    let lasting = prefix_keys.key_at(298);
    for (messages, nearer) in [(0, lasting), (43, lasting), (44, None), (300, None)] {
        assert_eq!(prefix_keys.renewal_key(messages), nearer, "{messages}");
    }
    // After nothing but reminders, no closer prefix exists.
    let prefix_keys = chains_of(&format!("ua{}", "us".repeat(300)));
    assert_eq!(prefix_keys.renewal_key(1), prefix_keys.key_at(2));
    assert_eq!(prefix_keys.renewal_key(2), None);
    assert_eq!(chains_of("s").renewal_key(0), None);
}
