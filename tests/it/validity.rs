//! Forwarded bodies never break a rule of `fixtures/validity.json` that the request obeys, however
//! odd its history and wherever it is cut.

use longhaul_core::conversation::Conversation;
use longhaul_core::dialect::chat_completions::read;
use longhaul_core::planning::plan::{SummarySource, plan};
use longhaul_core::planning::recovery::{RecoveryDecision, plan_recovery};
use longhaul_core::planning::splice::Splice;
use longhaul_core::planning::view::ForwardedView;
use longhaul_core::policy::placement::Placement;
use longhaul_core::policy::record::PriorRecords;
use longhaul_core::policy::{CompactionSettings, Policy, ThresholdSetting};
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{RULES, ValidityRules};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::journey::STANDS_FOR_HISTORY;
use crate::oracle::reader;
use crate::script;

/// Rules about the order of speakers. A user message replaces history, next to the user messages
/// around it. An upstream that requires alternating turns refuses that, and the original is sent.
const TURN_TAKING: [&str; 4] =
    ["alternation", "anthropic-merge", "role-order-mistral", "tool-order-gemini"];

/// A random mix of events in a history; each number selects an event.
#[derive(Clone, Debug)]
struct History {
    draws: Vec<u32>,
    /// Whether to include unanswered calls, repeated ids and empty messages.
    broken: bool,
}

fn history() -> impl Strategy<Value = History> {
    let draws = prop::collection::vec(any::<u32>(), 4..60);
    (draws, any::<bool>()).prop_map(|(draws, broken)| History { draws, broken })
}

impl History {
    fn messages(&self) -> Vec<Value> {
        let mut messages = vec![json!({"role": "system", "content": "You are an agent."})];
        messages.push(json!({"role": "user", "content": "Begin."}));
        for (at, &draw) in self.draws.iter().enumerate() {
            let words = format!("{at} said {draw}. ").repeat((draw / 64 % 200) as usize + 1);
            let kinds = if self.broken { 12 } else { 8 };
            match draw % kinds {
                0 => messages.push(json!({"role": "user", "content": words})),
                1 => messages.push(json!({"role": "user", "content": [
                    {"type": "text", "text": words},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]})),
                2 => messages.push(json!({"role": "assistant", "content": words})),
                3..8 => messages.extend(step(at, draw, &words)),
                8 => messages.push(json!({"role": "system", "content": words})),
                9 => messages.push(json!({"role": "assistant", "content": ""})),
                10 => messages.push(step(at, draw, &words).swap_remove(0)),
                _ => {
                    let mut twice = step(at, draw, &words);
                    twice.extend(twice.last().cloned());
                    messages.extend(twice);
                }
            }
        }
        messages
    }

    fn body(&self) -> Vec<u8> {
        let tools = json!([{"type": "function", "function": {"name": "read", "parameters": {}}}]);
        json!({"model": "m", "messages": self.messages(), "tools": tools}).to_string().into()
    }
}

/// Builds a step of one to four calls with all their results, some with the model's reasoning.
fn step(at: usize, draw: u32, words: &str) -> Vec<Value> {
    let width = draw / 16 % 4 + 1;
    let id = |call: u32| format!("c{at:04}{call:04}");
    let calls: Vec<Value> = (0..width)
        .map(|call| {
            let arguments = json!({"path": format!("{at}/{call}.rs")}).to_string();
            json!({"id": id(call), "type": "function",
                "function": {"name": "read", "arguments": arguments}})
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    if (draw / 256).is_multiple_of(2) {
        message["reasoning_content"] = json!("I think that I should read it.");
    }
    let mut step = vec![message];
    for call in 0..width {
        let content = if (draw / 512).is_multiple_of(3) {
            json!([{"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}])
        } else {
            json!(words)
        };
        step.push(json!({"role": "tool", "tool_call_id": id(call), "content": content}));
    }
    step
}

fn forwarded(conversation: &Conversation<'_>, view: &ForwardedView) -> Option<Vec<u8>> {
    let plan = view.replacements(conversation)?;
    Some(Splice::new(conversation, &plan)?.apply())
}

/// Bodies sent under a window: as planned, and after a refusal of the plan.
struct Sent {
    planned: Option<Vec<u8>>,
    /// Whether the plan keeps only half as much because compaction alone was not enough.
    tightened: bool,
    recovered: Option<Vec<u8>>,
}

impl Sent {
    fn of(body: &[u8], policy: &Policy) -> Self {
        let conversation = read(body).unwrap();
        let known = PriorRecords::default();
        let planned = plan(&conversation, policy, &known, SummarySource::Digest).view;
        let recovered =
            plan_recovery(&conversation, policy, &known, &planned, SummarySource::Digest);
        let recovered = match recovered {
            RecoveryDecision::Retry(view, _) => forwarded(&conversation, &view),
            RecoveryDecision::Summarise(_) | RecoveryDecision::GiveUp => None,
        };
        Self {
            planned: forwarded(&conversation, &planned),
            tightened: planned.thrash().is_thrashing(),
            recovered,
        }
    }
}

/// Returns the rules that `before` obeys and `after` breaks.
fn newly_broken(before: &[u8], after: &[u8]) -> Vec<&'static str> {
    let broken = |id: &str, body: &[u8]| ValidityRules::only(id).unwrap().broken_by(body).is_some();
    let ids = RULES.iter().map(|rule| rule.id);
    ids.filter(|id| !TURN_TAKING.contains(id))
        .filter(|id| broken(id, after) && !broken(id, before))
        .collect()
}

fn role(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap();
    message["role"].as_str().unwrap_or_default().to_owned()
}

/// Returns the content of a user message as spelt in JSON, without quotes and brackets, so that it
/// can be found in a merged message.
fn content_of(message: &str) -> &str {
    let content = message.split_once(r#""content":"#).unwrap().1;
    content.trim_start_matches(['[', '"']).trim_end_matches(['}', ']', '"'])
}

fn reasons(message: &str) -> bool {
    message.contains("\"reasoning_content\"")
}

/// Returns the position in `before` of the message after the one that replaces history; `None` if
/// either is missing.
fn cut(before: &[&str], after: &[&str]) -> Option<usize> {
    let stands = after.iter().position(|text| text.contains(STANDS_FOR_HISTORY))?;
    let behind = after.len() - stands - 1;
    (behind > 0).then(|| before.len() - behind)
}

/// Upper bound of the estimate for messages: their bytes over four, and 1,200 for a picture.
fn tokens(messages: &[&str]) -> usize {
    let pictures = |text: &&str| text.matches(r#""type":"image_url""#).count();
    let weigh = |text: &&str| text.len() / 4 + 1_200 * pictures(text);
    messages.iter().map(weigh).sum()
}

/// Checks that a run of reasoning tool steps is whole after the cut, unless it exceeds `most`.
fn keeps_runs_whole(before: &[&str], cut: usize, most: Tokens) {
    if !(reasons(before[cut]) && role(before[cut - 1]) == "tool") {
        return;
    }
    let start = (0..cut)
        .rev()
        .take_while(|&at| role(before[at]) == "tool" || reasons(before[at]))
        .last()
        .unwrap();
    assert!(
        tokens(&before[start..]) > most.get() as usize || start <= 2,
        "the run from {start} is cut at {cut}"
    );
}

fn holds(body: &[u8], policy: &Policy) {
    let sent = Sent::of(body, policy);
    let merges = policy.settings.placement == Placement::Merged;
    for sent in [&sent.planned, &sent.recovered].into_iter().flatten() {
        assert_eq!(newly_broken(body, sent), [""; 0]);
        let (before, after) = (reader::messages(body), reader::messages(sent));
        assert_eq!(before[0], after[0], "the head");
        let first = if merges { content_of(before[1]) } else { before[1] };
        assert!(after[1].contains(first), "a small first message");
        let answered = before.iter().rposition(|text| role(text) == "assistant");
        let waiting = &before[answered.map_or(2, |at| at + 1)..];
        for user in waiting.iter().filter(|text| role(text) == "user") {
            let is_there = after.contains(user)
                || merges && after.iter().any(|text| text.contains(content_of(user)));
            assert!(is_there, "an unanswered user message is gone");
        }
    }
    // After a refusal, a run may have to be cut because nothing else fits.
    if let Some(planned) = &sent.planned {
        let before = reader::messages(body);
        let halves = if sent.tightened { 1 } else { 2 };
        // At most twice the retained part, and half of the usable window.
        let keeps = policy.keep_recent.percent(100 * halves);
        if let Some(cut) = cut(&before, &reader::messages(planned)) {
            keeps_runs_whole(&before, cut, keeps.min(policy.thresholds.capacity.divided_by(2)));
        }
    }
}

proptest! {
    #![proptest_config(script::cases(160))]

    #[test]
    fn forwarded_bodies_break_no_rule_that_the_request_obeyed(
        history in history(),
        wishes in script::wishes(),
        window in prop::sample::select(vec![4_000_u32, 8_000, 16_000, 32_000]),
    ) {
        holds(&history.body(), &Policy::new(&wishes, Tokens::new(window)));
    }
}

/// Regression: the part to keep exceeded the window, so nothing was kept and the current run was
/// cut.
#[test]
fn keeps_the_current_run_whole_if_the_kept_part_exceeds_the_window() {
    let draws = vec![
        3_278_943_915,
        3_520_303_726,
        1_047_243_639,
        521_182_755,
        1_046_778_647,
        551_851_103,
        10_144_035,
        139_995_555,
        3_044_591_127,
        16_172_245,
        0,
    ];
    let history = History { draws, broken: true };
    let wishes = CompactionSettings {
        user_turns: Some(2),
        keep_recent: Some(Tokens::new(7_416)),
        hard: ThresholdSetting::Percent(90),
        soft: ThresholdSetting::Percent(85),
        ..CompactionSettings::default()
    };
    holds(&history.body(), &Policy::new(&wishes, Tokens::new(4_000)));
}

/// Builds `count` reasoning steps, each of about `words` tokens.
fn run(from: usize, count: usize, words: usize) -> Vec<Value> {
    let steps = from..from + count;
    steps.flat_map(|at| step(at, 0, &"word".repeat(words))).collect()
}

/// Compacts a body under a window. Returns the forwarded body and the position of the cut.
fn compacted(messages_of: &[Value], window: u32) -> (Vec<u8>, usize) {
    let body: Vec<u8> = json!({"messages": messages_of}).to_string().into();
    let wishes = CompactionSettings { prune: false, ..CompactionSettings::default() };
    let policy = Policy::new(&wishes, Tokens::new(window));
    let sent = Sent::of(&body, &policy).planned.unwrap();
    let cut = cut(&reader::messages(&body), &reader::messages(&sent)).expect("it was compacted");
    (body, cut)
}

fn opening() -> Vec<Value> {
    let long = "word ".repeat(6_000);
    vec![
        json!({"role": "system", "content": "You are an agent."}),
        json!({"role": "user", "content": "Begin."}),
        json!({"role": "assistant", "content": long}),
        json!({"role": "user", "content": "Go on."}),
    ]
}

#[test]
fn cut_does_not_split_a_run_of_reasoning_steps() {
    let mut messages = opening();
    // More than is kept, but less than twice that.
    messages.extend(run(0, 5, 100));
    messages.push(json!({"role": "assistant", "content": "word ".repeat(400)}));
    messages.push(json!({"role": "user", "content": "And now?"}));
    let (body, cut) = compacted(&messages, 8_000);
    let sent = reader::messages(&body);
    assert!(!reasons(sent[cut]) || role(sent[cut - 1]) != "tool", "cut at {cut}");
}

#[test]
fn cut_splits_a_run_of_reasoning_steps_if_nothing_else_fits() {
    let mut messages = opening();
    messages.extend(run(0, 60, 100));
    let (body, cut) = compacted(&messages, 8_000);
    let sent = reader::messages(&body);
    assert!(reasons(sent[cut]) && role(sent[cut - 1]) == "tool", "cut at {cut}");
}

#[test]
fn large_first_user_message_is_summarised_with_the_rest() {
    let mut messages = opening();
    messages[1]["content"] = json!("word ".repeat(1_200));
    messages.extend(run(0, 20, 100));
    let (body, cut) = compacted(&messages, 8_000);
    let policy = Policy::new(&CompactionSettings::default(), Tokens::new(8_000));
    let sent = Sent::of(&body, &policy).planned.unwrap();
    assert!(cut > 2);
    assert!(reader::messages(&sent)[1].contains(STANDS_FOR_HISTORY));
}
