//! Tests that user requests are forwarded verbatim, however long the session becomes.

use super::*;
use crate::planning::splice::Splice;
use crate::policy::SummaryBudgets;
use serde_json::{Value, json};

/// Number of steps: each is a call and its result, a fortieth of the window.
const STEPS: usize = 100;

/// Returns the forwarded text of `begins` and so many steps in this window, with its size.
fn forwarded(window: u32, begins: &[Value], steps: usize) -> (String, Tokens) {
    let mut messages = begins.to_vec();
    let result = "word ".repeat(window as usize / 40 * 4 / 5);
    for at in 0..steps {
        let call = json!({"id": format!("c{at}"), "function": {"name": "read", "arguments": "{}"}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("c{at}"), "content": result}));
    }
    let body = json!({"messages": messages}).to_string();
    let conversation = read(body.as_bytes()).unwrap();
    let settings = CompactionSettings { prune: false, ..CompactionSettings::default() };
    let policy = Policy::new(&settings, Tokens::new(window));
    let out = plan(&conversation, &policy, &PriorRecords::default(), SummarySource::Digest);
    let tokens = out.view.tokens(&conversation);
    let bytes = match out.view.replacements(&conversation) {
        None => body.into_bytes(),
        Some(plan) => Splice::new(&conversation, &plan).unwrap().apply(),
    };
    (String::from_utf8(bytes).unwrap(), tokens)
}

/// Builds a text of so many tokens in which every line is different.
fn task(tokens: u32) -> String {
    let lines = (0..tokens / 5).map(|at| format!("requirement {at:06}."));
    lines.collect::<Vec<_>>().join("\n")
}

fn says(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

/// Builds a request too large to be pinned, but within its budget in a summary.
fn large(window: u32) -> String {
    task(window / 9)
}

fn check(window: u32, begins: &[Value], asked: &[&str]) {
    let hard = Policy::new(&CompactionSettings::default(), Tokens::new(window)).thresholds.hard;
    let mut compacted = 0;
    for steps in (0..STEPS).step_by(13) {
        let (text, tokens) = forwarded(window, begins, steps);
        compacted += usize::from(text.contains("What the User Said"));
        for asked in asked {
            let asked = json!(asked).to_string();
            let asked = asked.trim_matches('"');
            assert!(text.contains(asked), "{window}, after {steps} steps");
        }
        assert!(tokens < hard, "{window}, after {steps} steps: {tokens}");
    }
    assert!(compacted > 3, "{window}: {compacted}");
}

#[test]
fn a_large_task_stays_verbatim_throughout_a_long_session() {
    for window in [4_000, 32_000, 200_000] {
        let task = large(window);
        check(window, &[says("system", "s"), says("user", &task)], &[&task]);
    }
}

#[test]
fn a_large_request_after_a_greeting_stays_verbatim_in_its_open_turn() {
    for window in [4_000, 32_000, 200_000] {
        let request = large(window);
        let begins =
            [says("user", "hi"), says("assistant", "what is there to do?"), says("user", &request)];
        check(window, &begins, &["hi", &request]);
    }
}

#[test]
fn the_first_and_the_newest_request_both_stay_verbatim() {
    for window in [4_000, 32_000, 200_000] {
        // Together they may take no more than a single one of the others.
        let (first, newest) = (task(window / 10 + 50), "do that again, ".repeat(10));
        let begins = [says("user", &first), says("assistant", "done"), says("user", &newest)];
        check(window, &begins, &[&first, &newest]);
    }
}

#[test]
fn digest_is_unchanged_by_later_messages() {
    let begins = [says("user", &large(32_000))];
    let stands = |steps| {
        let (text, _) = forwarded(32_000, &begins, steps);
        let (_, record) = text.split_once("condensed by longhaul").unwrap();
        record.split_once("[End of the record").unwrap().0.to_owned()
    };
    // Of ten requests, most find no new cut.
    let mut all: Vec<String> = (44..54).map(stands).collect();
    all.dedup();
    assert!(all.len() < 4, "{}", all.len());
}

#[test]
fn tool_schemas_leave_less_budget_for_a_text() {
    let policy = policy();
    let budgets = |schema: usize| {
        let description = "x".repeat(schema);
        let function = json!({"name": "f", "description": description});
        let tools = json!([{"type": "function", "function": function}]);
        let begins = [says("user", &large(8_000)), says("assistant", "a")];
        let body = json!({"tools": tools, "messages": begins}).to_string();
        let conversation = read(body.as_bytes()).unwrap();
        summary_budgets(&conversation, &policy, 0..2)
    };
    let (whole, some, least) = (policy.budgets, budgets(12_000), budgets(30_000));
    let each = |it: SummaryBudgets| {
        [it.prose, it.steps, it.file_activity, it.identifiers, it.user_messages]
    };
    for (some, whole) in each(some).into_iter().zip(each(whole)) {
        assert!(Tokens::ZERO < some && some < whole, "{some} {whole}");
    }
    // A quarter stays for what the user said.
    assert_eq!(least.user_messages, whole.user_messages.divided_by(4));
    assert_eq!(least, budgets(60_000));
}
