//! Random conversations: their events, and odd ways to write them as JSON.

use crate::oracle::pruner::Rule;
use crate::oracle::words::CLEARED;
use proptest::collection::vec;
use proptest::prelude::*;

mod asked;
mod writer;
pub(crate) use asked::wishes;
pub(crate) use writer::{render, render_doubled};

/// The number of cases: `usual`, or `PROPTEST_CASES` if set, which allows longer runs at night.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig::with_cases(asked.and_then(|cases| cases.parse().ok()).unwrap_or(usual))
}

/// A conversation, a way to write it, and a rule to prune it with.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) turns: Vec<Turn>,
    /// Seed for white space, key order, escapes and unknown keys.
    pub(crate) style: u64,
    /// Repetitions of every text.
    pub(crate) scale: usize,
    pub(crate) rule: Rule,
}

/// An event of the conversation.
#[derive(Clone, Debug)]
pub(crate) enum Turn {
    Says(&'static str, Said),
    Step(Step),
}

/// Calls, and the results that follow them, well-formed or not.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) asks: Asks,
    pub(crate) calls: Vec<(&'static str, &'static str)>,
    /// Results, each with the index of the call it answers; an index past the last call answers
    /// none.
    pub(crate) answers: Vec<(usize, Said)>,
}

/// Format of a step's calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    Legacy,
    Modern,
    /// Ids that earlier steps may have used.
    Reusing,
    /// Calls by an unknown role.
    Stranger,
}

/// Content of a message.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) shape: Shape,
    pub(crate) text: String,
}

/// Shape of a content.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    EmptyParts,
    Missing,
    Null,
    Parts { marks: bool, image: bool },
    Text,
}

/// Placeholders for an escaped lone surrogate, high and low.
pub(crate) const LONE: [char; 2] = ['\u{e000}', '\u{e001}'];

fn text() -> impl Strategy<Value = String> {
    const LETTERS: [char; 16] = [
        'a', 'b', ' ', '\n', '"', '\\', '/', '\u{1}', '\u{7f}', 'é', '漢', '😀', '{', ']', LONE[0],
        LONE[1],
    ];
    let plain = (0..500_usize, any::<u32>()).prop_map(|(length, seed)| {
        let mut pick = seed as usize;
        let mut next = || {
            pick = pick.wrapping_mul(25_214_903_917).wrapping_add(11);
            LETTERS[(pick >> 16) % LETTERS.len()]
        };
        (0..length).map(|_| next()).collect()
    });
    let dull = (0..500_usize).prop_map(|length| "x".repeat(length));
    let near = (28..44_usize).prop_map(|length| "y".repeat(length));
    let known = prop::sample::select(vec![
        String::new(),
        CLEARED.to_owned(),
        format!("{CLEARED} "),
        "[Old tool result content cleared: read a.rs, about 900 tokens]".to_owned(),
        "[Old tool result content cleared by hand, and it was long, see above]".to_owned(),
        "File unchanged since last read. Use the earlier result, it is still what it was.".into(),
        "File UNCHANGED SINCE last read".into(),
        "  Error: no such file, and a long tail to it so that it would be worth clearing".into(),
    ]);
    prop_oneof![4 => plain, 4 => dull, 2 => near, 2 => known]
}

fn said() -> impl Strategy<Value = Said> {
    let shape = prop_oneof![
        8 => Just(Shape::Text),
        3 => (any::<bool>(), any::<bool>())
            .prop_map(|(marks, image)| Shape::Parts { marks, image }),
        1 => prop::sample::select(vec![Shape::EmptyParts, Shape::Missing, Shape::Null]),
    ];
    (shape, text()).prop_map(|(shape, text)| Said { shape, text })
}

fn step() -> impl Strategy<Value = Step> {
    let asks = prop_oneof![
        8 => Just(Asks::Modern),
        1 => Just(Asks::Legacy),
        1 => Just(Asks::Reusing),
        1 => Just(Asks::Stranger),
    ];
    let call = (
        prop::sample::select(vec!["read", "bash", "keep", ""]),
        prop::sample::select(vec![
            r#"{"path":"a.rs"}"#,
            r#"{"path":"","file_path":"b.rs","limit":3}"#,
            "{\"command\":\"ls\\n-l \\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\"}",
            r#"{"z":"last","a":"first"}"#,
            "{broken",
            "",
        ]),
    );
    (asks, vec(call, 1..4)).prop_flat_map(|(asks, calls)| {
        let count = calls.len();
        let complete =
            || vec(said(), count).prop_map(|all| all.into_iter().enumerate().collect::<Vec<_>>());
        let reversed = complete().prop_map(|mut all| {
            all.reverse();
            all
        });
        let any_answers = vec((0..=count, said()), 0..5);
        let answers = prop_oneof![6 => complete(), 1 => reversed, 2 => any_answers];
        answers.prop_map(move |answers| Step { asks, calls: calls.clone(), answers })
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    let role = prop::sample::select(vec![
        "user",
        "user",
        "user",
        "assistant",
        "assistant",
        "system",
        "developer",
        "tool",
        "function",
        "critic",
    ]);
    prop_oneof![
        2 => (role, said()).prop_map(|(role, said)| Turn::Says(role, said)),
        3 => step().prop_map(Turn::Step),
    ]
}

/// Generates a rule, and the scale at which it fires often.
fn rule() -> impl Strategy<Value = (Rule, usize)> {
    let fixed = |protect, minimum| (Just(protect), Just(minimum), Just(2_usize)).boxed();
    let numbers = prop_oneof![
        16 => ((0..200_usize, 0..100_usize, 0..3_usize).boxed()).prop_map(|n| (n, 1)),
        3 => fixed(2_000, 500).prop_map(|n| (n, 10)),
        1 => fixed(40_000, 20_000).prop_map(|n| (n, 150)),
    ];
    (numbers, any::<[bool; 3]>()).prop_map(
        |(((protect, minimum, user_turns), scale), [exempt, keep_errors, described])| {
            let exempt_tools = if exempt { vec!["keep".to_owned()] } else { vec![] };
            let rule = Rule { protect, minimum, user_turns, exempt_tools, keep_errors, described };
            (rule, scale)
        },
    )
}

/// Generates a random conversation with a random rule.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    (vec(turn(), 0..24), any::<u64>(), rule()).prop_map(|(turns, style, (rule, scale))| Case {
        turns,
        style,
        scale,
        rule,
    })
}
