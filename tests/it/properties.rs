//! Properties of every conversation, random, recorded or damaged, and of every sequence of tokens.

use crate::oracle::pruner::{self, Rule};
use crate::oracle::reader;
use crate::promises::{compacts_soundly, judged_rightly, prunes_by_the_rule, reads_alike};
use crate::script::{self, render, render_doubled};
use crate::{sessions::sessions, subject};
use longhaul_core::dialect::bypass::Bypass;
use longhaul_core::policy::Policy;
use longhaul_core::units::tokens::Tokens;
use proptest::prelude::*;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// The rules that every session is checked with.
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

/// Checks that a longer history clears everything that its prefix cleared, with identical text,
/// unless a pin restored it.
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

proptest! {
    #[test]
    fn pruning_follows_the_literal_rule_and_changes_nothing_else(case in script::case()) {
        prunes_by_the_rule(&render(&case), &case.rule);
    }

    #[test]
    fn longer_history_only_adds_cleared_results(case in script::case()) {
        prop_assume!(case.scale < 100);
        prefixes_agree(&render(&case), &case.rule, 1);
    }

    #[test]
    fn parser_agrees_with_the_tree_oracle_on_random_conversations(case in script::case()) {
        reads_alike(&render(&case));
    }

    #[test]
    fn damaged_bodies_are_judged_correctly_and_compacted_if_readable(
        case in script::case(),
        wishes in script::wishes(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), mutation()), 1..4),
    ) {
        prop_assume!(case.scale < 100);
        let mut body = render(&case).into_bytes();
        for (at, mutation) in edits {
            mutate(&mut body, at, &mutation);
        }
        let judged = judged_rightly(&body);
        let _ = subject::forwarded(&body, &case.rule);
        if judged.is_ok() && reader::holds_names(&body) {
            compacts_soundly(&body, &Policy::new(&wishes, Tokens::new(400)));
        }
    }

    #[test]
    fn detects_a_duplicate_member_in_any_object(
        case in script::case(),
        object: prop::sample::Index,
    ) {
        prop_assume!(case.scale < 100);
        let judged = judged_rightly(render_doubled(&case, object).as_bytes());
        prop_assert_eq!(judged, Err(Bypass::Duplicate));
    }

    #[test]
    fn validity_of_json_with_changed_tokens_agrees_with_serde(
        (mut tokens, at, out, token) in (
            value(),
            any::<prop::sample::Index>(),
            0..2_usize,
            prop::option::of(prop::sample::select(TOKENS)),
        ),
    ) {
        let at = at.index(tokens.len());
        tokens.splice(at..at + out, token);
        let inner = tokens.concat();
        for body in [inner.clone(), format!(r#"{{"messages":[],"x":{inner}}}"#)] {
            let _ = judged_rightly(body.as_bytes());
        }
    }

    #[test]
    fn validity_of_random_string_tokens_agrees_with_serde(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..12),
    ) {
        let inner = tokens.concat();
        let text = format!(r#"{{"messages":[{{"role":"user","content":"{inner}"}}]}}"#);
        let _ = judged_rightly(text.as_bytes());
    }
}

/// Generates the tokens of a JSON value, with white space.
fn value() -> impl Strategy<Value = Vec<&'static str>> {
    let numbers = vec![
        vec!["0"],
        vec!["-", "1", "0", "9"],
        vec!["-", "0", ".5", "E+", "1"],
        vec!["1", ".5", "e", "0", "0"],
    ];
    let strings = vec![
        vec!["\"\""],
        vec!["\"", "\\u", "00", "1", "e", "\""],
        vec!["\"", "\\ud83d", "\\ude00", "é", "\""],
        vec!["\"", "\\n", "/", "漢字漢字", "\u{7f}", "\""],
    ];
    let names = vec![vec!["true"], vec!["false"], vec!["null"]];
    let leaf = prop::sample::select([numbers, strings, names].concat());
    leaf.prop_recursive(4, 24, 4, |inner| {
        let space = || prop::sample::select(vec!["", " ", "\n", "\t"]);
        let spaced = (space(), inner, space()).prop_map(|(before, value, behind)| {
            let spaced = [vec![before], value, vec![behind]];
            spaced.concat()
        });
        let member = (0..3_usize, spaced.clone()).prop_map(|(key, value)| {
            let key = ["\"\"", "\"a\"", "\"messages\""][key];
            [vec![key, ":"], value].concat()
        });
        let between = |open, elements: Vec<Vec<&'static str>>, close| {
            [vec![open], elements.join(&","), vec![close]].concat()
        };
        let array = prop::collection::vec(spaced, 0..4);
        let object = prop::collection::vec(member, 0..4);
        prop_oneof![
            array.prop_map(move |elements| between("[", elements, "]")),
            object.prop_map(move |members| between("{", members, "}")),
        ]
    })
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

/// A small corruption of a body.
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
            prunes_by_the_rule(&body, &rule);
        }
    }
}

#[test]
fn parser_agrees_with_the_tree_oracle_on_recorded_sessions() {
    for session in sessions() {
        reads_alike(str::from_utf8(&session.body).unwrap());
    }
}

#[test]
fn growing_recorded_sessions_only_add_cleared_results() {
    for session in sessions() {
        let body = String::from_utf8(session.body).unwrap();
        let tree = reader::tree(body.as_bytes()).unwrap();
        let messages = tree["messages"].as_array().map_or(0, Vec::len);
        prefixes_agree(&body, &rules()[1], messages / 6);
    }
}
