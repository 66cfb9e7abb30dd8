//! What holds of every conversation, random or recorded, and of every run of bytes.

use crate::oracle::pruner::{self, Rule};
use crate::oracle::reader::{self, Reading};
use crate::script::{self, render};
use crate::{sessions::sessions, subject};
use longhaul::rewrite::bypass::Bypass;
use longhaul::rewrite::chat_completions::read;
use longhaul::rewrite::conversation::Conversation;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The rules that every session is held to.
fn rules() -> Vec<Rule> {
    let rule = |protect, minimum, user_turns, described| Rule {
        protect,
        minimum,
        user_turns,
        exempt_tools: vec!["Edit".to_owned()],
        keep_errors: described,
        described,
    };
    vec![
        rule(40_000, 20_000, 2, false),
        rule(2_000, 500, 2, true),
        rule(3_200, 0, 0, false),
        rule(0, 0, 0, true),
    ]
}

/// Holds the product to the oracle, and what is forwarded to the promises.
pub(crate) fn holds(body: &str, rule: &Rule) {
    let outcome = pruner::prune(body, rule);
    let (cleared, restored) = subject::cleared(body, rule);
    let differ: Vec<_> = cleared
        .keys()
        .chain(outcome.cleared.keys())
        .map(|message| (message, cleared.get(message), outcome.cleared.get(message)))
        .filter(|(_, ours, oracles)| ours != oracles)
        .take(3)
        .collect();
    assert!(differ.is_empty(), "ours and the literal rule's: {differ:?}");
    assert_eq!(restored, outcome.restored, "restored reads");
    let forwarded = match subject::forwarded(body.as_bytes(), rule) {
        Err(why) => {
            assert_eq!(why, Bypass::Nothing);
            assert!(outcome.cleared.is_empty());
            return;
        }
        Ok(forwarded) => String::from_utf8(forwarded).unwrap(),
    };
    assert!(!outcome.cleared.is_empty());
    only_the_cuts_differ(body, &forwarded, &outcome);
    assert_eq!(
        reader::tree(forwarded.as_bytes()).unwrap(),
        pruner::expected(body, &outcome)
    );
    pairs_stay(body, &forwarded);
    planning_again_leaves_it(&forwarded, rule, &outcome);
}

/// Our own output is not cleared further. Where a read was restored it may be: at the point at which
/// the rule fired it counted among what is freed, and over our output, where all else is freed
/// already, it makes the rule fire later, with what has come since. It is kept then too.
fn planning_again_leaves_it(forwarded: &str, rule: &Rule, outcome: &pruner::Outcome) {
    let (again, _) = subject::cleared(forwarded, rule);
    if outcome.restored == 0 {
        let further: Vec<_> = again.keys().collect();
        assert!(further.is_empty(), "cleared further: {further:?}");
    }
    for pinned in &outcome.pinned {
        assert!(!again.contains_key(pinned), "{pinned} is pointed at");
    }
}

/// Walks both texts: equal up to each cut, one shorter JSON value there, equal behind the last.
fn only_the_cuts_differ(body: &str, forwarded: &str, outcome: &pruner::Outcome) {
    let contents = reader::contents(body);
    let (mut from, mut to) = (0, 0);
    for message in outcome.cleared.keys() {
        let content = contents[*message].unwrap();
        let start = content.as_ptr().addr() - body.as_ptr().addr();
        let kept = &body[from..start];
        assert!(forwarded[to..].starts_with(kept), "bytes before a cut");
        to += kept.len();
        let mut values = serde_json::Deserializer::from_str(&forwarded[to..]).into_iter::<Value>();
        values.next().unwrap().unwrap();
        let put = values.byte_offset();
        assert!(put < content.len(), "each cut shrinks");
        from = start + content.len();
        to += put;
    }
    assert_eq!(&forwarded[to..], &body[from..], "bytes behind the last cut");
}

/// Every call and every result is still there, in order and under its id.
fn pairs_stay(body: &str, forwarded: &str) {
    let without_text = |body: &str| -> Reading {
        let tree = reader::tree(body.as_bytes()).unwrap();
        let mut reading = reader::reading(&tree).unwrap();
        for message in &mut reading.messages {
            if matches!(message.role.as_str(), "tool" | "function") {
                message.text.clear();
                message.chars = 0;
            }
        }
        reading
    };
    assert_eq!(without_text(body), without_text(forwarded));
}

/// What a history cleared, a longer one clears too, in the same words, unless a pin restored it.
fn prefixes_agree(body: &str, rule: &Rule, every: usize) {
    let top: HashMap<String, &RawValue> = serde_json::from_str(body).unwrap();
    let messages: Vec<&RawValue> = serde_json::from_str(top["messages"].get()).unwrap();
    let messages: Vec<&str> = messages.iter().map(|message| message.get()).collect();
    let whole = pruner::prune(body, rule);
    for end in (0..=messages.len()).step_by(every.max(1)) {
        let prefix = format!(r#"{{"messages":[{}]}}"#, messages[..end].join(","));
        let (cleared, _) = subject::cleared(&prefix, rule);
        for (message, text) in cleared {
            assert!(
                whole.cleared.get(&message) == Some(&text) || whole.pinned.contains(&message),
                "message {message}, cleared after {end}, is not in the end"
            );
        }
    }
}

/// The product reads what the oracle reads.
pub(crate) fn reads_alike(body: &str) {
    let conversation = read(body.as_bytes()).unwrap();
    let tree = reader::tree(body.as_bytes()).unwrap();
    let mut expected = reader::reading(&tree).unwrap();
    let roles = [
        "assistant",
        "developer",
        "function",
        "system",
        "tool",
        "user",
    ];
    for message in &mut expected.messages {
        if !roles.contains(&message.role.as_str()) {
            "?".clone_into(&mut message.role);
        }
    }
    assert_eq!(subject::reading(&conversation), expected);
    boundaries_part_no_unit(&conversation, &expected);
}

fn boundaries_part_no_unit(conversation: &Conversation<'_>, reading: &Reading) {
    let messages = &reading.messages;
    let answers = |at: usize| {
        let role = messages.get(at).map(|message| message.role.as_str());
        matches!(role, Some("tool" | "function"))
    };
    let boundaries = conversation.boundaries();
    assert!(boundaries.is_sorted_by(|one, next| one < next));
    assert_eq!(boundaries.first(), Some(&conversation.head()));
    for &at in &boundaries[1..] {
        let before = &messages[at - 1];
        assert!(!answers(at), "a result behind the boundary {at}");
        assert!(
            before.role != "assistant" || before.calls.is_empty(),
            "calls before the boundary {at} have no results"
        );
        let next = messages.get(at).map(|message| message.role.as_str());
        assert!(
            before.role != "user" || next != Some("user"),
            "user messages parted"
        );
    }
}

/// Whether the product reads exactly what is JSON of the right shape, and says why not otherwise.
pub(crate) fn judged_rightly(body: &[u8]) -> Result<(), Bypass> {
    let outcome = read(body).map(drop);
    let json = reader::is_json(body);
    match outcome {
        Ok(()) => assert!(json, "read, and is no JSON"),
        Err(Bypass::Malformed) => assert!(!json, "called malformed, and is JSON"),
        Err(Bypass::Duplicate) => {
            let text = std::str::from_utf8(body).unwrap();
            assert!(!json || reader::repeats_a_key(text), "no key comes twice");
        }
        Err(why) => assert_eq!(why, Bypass::Shape),
    }
    if json
        && outcome != Err(Bypass::Duplicate)
        && let Some(tree) = reader::tree(body)
    {
        let shaped = reader::reading(&tree).is_some();
        assert_eq!(outcome.is_ok(), shaped, "the shape of a chat completion");
        if shaped {
            reads_alike(std::str::from_utf8(body).unwrap());
        }
    }
    outcome
}

proptest! {
    #[test]
    fn pruning_is_the_literal_rule_and_touches_nothing_else(case in script::case()) {
        holds(&render(&case), &case.rule);
    }

    #[test]
    fn a_longer_history_only_adds_cuts(case in script::case()) {
        prop_assume!(case.scale < 100);
        prefixes_agree(&render(&case), &case.rule, 1);
    }

    #[test]
    fn random_conversations_are_read_as_a_tree_reads_them(case in script::case()) {
        reads_alike(&render(&case));
    }

    #[test]
    fn mutated_bodies_are_judged_rightly(
        case in script::case(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), mutation()), 1..4),
    ) {
        prop_assume!(case.scale < 100);
        let mut body = render(&case).into_bytes();
        for (at, mutation) in edits {
            mutate(&mut body, at, &mutation);
        }
        let _ = judged_rightly(&body);
        let _ = subject::forwarded(&body, &case.rule);
    }

    #[test]
    fn any_bytes_are_judged_rightly(body in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = judged_rightly(&body);
    }

    #[test]
    fn any_run_of_tokens_is_json_where_serde_says_so(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..12),
    ) {
        let inner = tokens.concat();
        for body in [inner.clone(), format!(r#"{{"messages":[],"x":{inner}}}"#)] {
            let _ = judged_rightly(body.as_bytes());
        }
        let text = format!(r#"{{"messages":[{{"role":"user","content":"{inner}"}}]}}"#);
        let _ = judged_rightly(text.as_bytes());
    }
}

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"\"",
    "\"a\"",
    "\"messages\"",
    "\\",
    "\\u",
    "\\ud83d",
    "\\ude00",
    "\\u00e9",
    "\\n",
    "\\x",
    "00",
    "0",
    "-",
    "1",
    ".5",
    "e",
    "E+",
    "999",
    "true",
    "false",
    "null",
    "tru",
    " ",
    "\n",
    "\t",
    "\u{b}",
    "\0",
    "é",
    "漢字漢字",
    "\u{feff}",
    "abcdefgh",
    "\u{7f}",
    "/",
];

/// A small damage.
#[derive(Clone, Debug)]
enum Mutation {
    Cut,
    Delete,
    Flip(u8),
    Insert(Vec<u8>),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let token = prop::sample::select(TOKENS).prop_map(|token| token.as_bytes().to_vec());
    prop_oneof![
        1 => Just(Mutation::Cut),
        3 => Just(Mutation::Delete),
        3 => (0..8_u8).prop_map(Mutation::Flip),
        4 => token.prop_map(Mutation::Insert),
        1 => prop::collection::vec(any::<u8>(), 1..4).prop_map(Mutation::Insert),
    ]
}

fn mutate(body: &mut Vec<u8>, at: prop::sample::Index, mutation: &Mutation) {
    if body.is_empty() {
        return;
    }
    let at = at.index(body.len());
    match mutation {
        Mutation::Cut => body.truncate(at),
        Mutation::Delete => drop(body.remove(at)),
        Mutation::Flip(bit) => body[at] ^= 1 << bit,
        Mutation::Insert(bytes) => drop(body.splice(at..at, bytes.iter().copied())),
    }
}

#[test]
fn recorded_sessions_are_pruned_by_the_literal_rule() {
    for session in sessions() {
        let body = String::from_utf8(session.body).unwrap();
        for rule in rules() {
            eprintln!("{}: {rule:?}", session.name);
            holds(&body, &rule);
        }
    }
}

#[test]
fn recorded_sessions_are_read_as_a_tree_reads_them() {
    for session in sessions() {
        reads_alike(str::from_utf8(&session.body).unwrap());
    }
}

#[test]
fn recorded_sessions_only_add_cuts_as_they_grow() {
    for session in sessions() {
        let body = String::from_utf8(session.body).unwrap();
        let tree = reader::tree(body.as_bytes()).unwrap();
        let messages = tree["messages"].as_array().map_or(0, Vec::len);
        prefixes_agree(&body, &rules()[1], messages / 6);
    }
}
