//! A conversation that is full again right after each compaction.

use longhaul_core::policy::Profile;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{Model, ModelOptions};
use serde_json::json;

use crate::caller::Caller;
use crate::journey::{Journey, STANDS_FOR_HISTORY, Step, digests, harmless};
use crate::oracle::reader::messages;
use crate::program::Program;

const HUGE: u64 = 10_000_000;
const WINDOW: u32 = 24_000;
/// Text of every result.
const CONTENT: &str = "hunter2";
const CLEARED: &str = "[Old tool result content cleared]";
const STEPS: usize = 24;
/// Words of a result, about 8,650 tokens and 700. Two of each are past the window's
/// mark; a single small one is less than half of the retained part.
const LARGE: usize = 4_325;
const SMALL: usize = 350;

/// Requests of an unattended agent that repeatedly reads a third of the window and examines it, one
/// request after each step.
fn bodies() -> Vec<Vec<u8>> {
    let mut messages = vec![
        json!({"role": "system", "content": "You are an agent."}),
        json!({"role": "user", "content": "Read all of it."}),
    ];
    let mut bodies = Vec::new();
    for at in 0..STEPS {
        let words = if at % 2 == 0 { LARGE } else { SMALL };
        let id = format!("call_{at}");
        let function =
            json!({"name": "read", "arguments": json!({"path": format!("{at}.rs")}).to_string()});
        messages.push(json!({"role": "assistant", "content": null,
            "tool_calls": [{"id": id, "type": "function", "function": function}]}));
        let content = format!("{CONTENT} ").repeat(words);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
        let tools = json!([{"type": "function", "function": {"name": "read"}}]);
        let body = json!({"model": "m", "messages": messages, "tools": tools});
        bodies.push(body.to_string().into_bytes());
    }
    bodies
}

/// Returns the text that replaces history in the forwarded body; empty if there is none.
fn digest(step: &Step) -> String {
    let found = messages(&step.forwarded().body);
    let found = found.iter().find(|text| text.contains(STANDS_FOR_HISTORY));
    found.map_or_else(String::new, |text| (*text).to_owned())
}

/// Returns the requests at which the text that replaces history changed.
fn compactions(steps: &[Step]) -> Vec<usize> {
    let texts: Vec<String> = steps.iter().map(digest).collect();
    (1..steps.len()).filter(|&at| texts[at] != texts[at - 1]).collect()
}

async fn play(prune: bool, restarts: &[usize]) -> Vec<Step> {
    let mut journey = Journey::start(ModelOptions::with_window(HUGE), |config| {
        digests(config);
        config.window = Tokens::new(WINDOW);
        config.compaction.profile = Profile::Standard;
        config.compaction.prune = prune;
    })
    .await;
    let mut steps = Vec::new();
    for (at, body) in bodies().into_iter().enumerate() {
        if restarts.contains(&at) {
            journey.restart().await;
        }
        steps.push(journey.step(body).await);
    }
    harmless("thrashing", &steps);
    steps
}

#[tokio::test]
async fn refilling_within_three_requests_twice_clears_all_old_results() {
    let steps = play(true, &[]).await;
    let made = compactions(&steps);
    assert!(made.len() >= 3, "{made:?}");
    assert!(made[1] - made[0] <= 3 && made[2] - made[1] <= 3, "{made:?}");
    let cleared = |step: &Step| {
        let body = String::from_utf8(step.forwarded().body.to_vec()).unwrap();
        body.contains(CLEARED)
    };
    // The rule of this profile protects more than the window can take.
    assert!(!steps[..made[2]].iter().any(cleared), "{made:?}");
    assert!(cleared(&steps[made[2]]), "{made:?}");
    let next = made.get(3).copied().unwrap_or(steps.len());
    let (before, after) = (made[2] - made[1], next - made[2]);
    assert!(after > before, "it lasts longer: {made:?}");
}

#[tokio::test]
async fn without_prune_repeated_refilling_clips_the_largest_result() {
    let steps = play(false, &[]).await;
    let made = compactions(&steps);
    let largest = |step: &Step| {
        let body = &step.forwarded().body;
        let results = messages(body);
        let results = results.iter().filter(|text| text.contains("\"tool\""));
        results.map(|text| text.len()).max().unwrap()
    };
    let whole = LARGE * (CONTENT.len() + 1);
    assert!(largest(&steps[made[1]]) > whole, "{made:?}");
    assert!(largest(&steps[made[2]]) < whole / 2, "{made:?}");
    let body = String::from_utf8(steps[made[2]].forwarded().body.to_vec()).unwrap();
    assert!(!body.contains(CLEARED));
}

#[tokio::test]
async fn thrash_handling_is_unaffected_by_restarts() {
    for prune in [true, false] {
        let expect = play(prune, &[]).await;
        let parted = play(prune, &[3, 5, 6, 9, 10, 11, 16]).await;
        for (at, (one, other)) in expect.iter().zip(&parted).enumerate() {
            assert_eq!(one.forwarded().body, other.forwarded().body, "request {at}");
        }
    }
}

#[tokio::test]
async fn warns_once_of_what_fills_the_window_without_quoting_it() {
    let model = Model::start(ModelOptions::with_window(HUGE)).await.unwrap();
    let environment = [
        ("LONGHAUL_WINDOW", "24000"),
        ("LONGHAUL_PROFILE", "standard"),
        ("LONGHAUL_SUMMARY_MODEL", "none"),
    ];
    let program = Program::told(&model.url(), &environment);
    let caller = Caller::of(program.address());
    for body in bodies() {
        assert_eq!(caller.ask(body).await.status, 200);
    }
    let log = program.ended();
    let told: Vec<&str> =
        log.lines().filter(|line| line.contains("fills its window again")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("WARN") && told[0].contains("kind=\"tool result\""));
    assert!(told[0].contains("tokens=8"), "{}", told[0]);
    assert!(!log.contains(CONTENT));
}
