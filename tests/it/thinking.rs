//! Signed thinking, end to end: recorded sessions whose thinking the strict model signs and checks.
//!
//! In each, the client sees no refusal, and nothing is sent more than twice.

mod agent;
mod changes;
mod processes;

use longhaul::Config;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{ModelOptions, ThinkingRules};

use agent::{Agent, Play, stale_refusals, unharmed};

/// A model that binds thinking to the bytes before it.
const BINDING: &str = "claude-opus-5-5";
/// A model with manual thinking.
const MANUAL: &str = "claude-haiku-4-5";
/// Sessions of people and of unattended agents.
const SESSIONS: [&str; 8] = [
    "agentv-0431",
    "agentv-0440",
    "cli-0018",
    "cli-0052",
    "cli-0077",
    "cli-0244",
    "oh-my-posh-0277",
    "oh-my-posh-0288",
];

/// Windows of the sessions above, and of all sessions: some do not fit a smaller one in any form.
const WINDOWS: [u64; 4] = [24_000, 32_768, 65_536, 131_072];
const WINDOWS_OF_ALL: [u64; 2] = [65_536, 131_072];

/// Returns the sessions and windows to play: all recorded sessions if the environment variable
/// `LONGHAUL_SESSIONS` is `all`.
fn wanted() -> (Vec<String>, &'static [u64]) {
    if std::env::var("LONGHAUL_SESSIONS").is_ok_and(|wanted| wanted == "all") {
        let sessions = crate::sessions::sessions();
        return (sessions.map(|it| it.name).collect(), &WINDOWS_OF_ALL);
    }
    (SESSIONS.map(str::to_owned).into(), &WINDOWS)
}

fn options(window: u64, thinking: ThinkingRules) -> ModelOptions {
    ModelOptions { thinking, ..ModelOptions::with_window(window) }
}

fn digests(config: &mut Config) {
    crate::journey::digests(config);
}

/// Configures digests and a window that needs no refusal to be known.
fn within(window: u64) -> impl Fn(&mut Config) + Copy {
    move |config| {
        digests(config);
        config.window = Tokens::new(u32::try_from(window * 3 / 4).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enforcing_model_refuses_at_most_one_edit_unseen_by_the_client() {
    let (sessions, windows) = wanted();
    for session in &sessions {
        for &window in windows {
            let name = format!("{session} at {window}");
            let play = Play::start(options(window, ThinkingRules::Bound), within(window)).await;
            let mut agent = Agent::new(session, BINDING);
            let steps = play.whole(&mut agent).await;
            unharmed(&name, &steps);
            assert!(stale_refusals(&steps) <= 1, "{name}: the rule is learned once");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_after_an_overflow_omits_stale_thinking_at_once() {
    for session in SESSIONS {
        let play = Play::start(options(32_768, ThinkingRules::Bound), digests).await;
        let steps = play.whole(&mut Agent::new(session, BINDING)).await;
        unharmed(session, &steps);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversation_with_summaries_shows_no_refusal_to_the_client() {
    let window = 32_768;
    let change = |config: &mut Config| config.window = Tokens::new(24_000);
    let play = Play::start(options(window, ThinkingRules::Bound), change).await;
    let steps = play.whole(&mut Agent::new("cli-0018", BINDING)).await;
    unharmed("with summaries", &steps);
    let written = steps.iter().any(|step| step.arrived.action().contains("summary"));
    assert!(written, "a summary was used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thinking_made_after_an_edit_stays() {
    let play = Play::start(options(32_768, ThinkingRules::Bound), within(32_768)).await;
    let steps = play.whole(&mut Agent::new("cli-0018", BINDING)).await;
    let removed = |step: &&crate::journey::Step| step.arrived.action().contains("without-thinking");
    assert!(steps.iter().any(|step| removed(&step)), "some thinking was removed");
    let last = steps.last().unwrap();
    let count = |body: &[u8]| {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        messages.iter().filter(|it| it.get("reasoning_details").is_some()).count()
    };
    let (sent, forwarded) = (count(&last.sent), count(&last.forwarded().body));
    assert!(forwarded > 0 && forwarded < sent, "{forwarded} of {sent}");
    // Most requests extend the one before, thinking included.
    let breaks = crate::journey::breaks(&steps);
    assert!(breaks * 4 < steps.len(), "{breaks} of {}", steps.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_enforcement_all_thinking_stays() {
    let play = Play::start(options(32_768, ThinkingRules::Unenforced), within(32_768)).await;
    let steps = play.whole(&mut Agent::new("cli-0018", BINDING)).await;
    unharmed("not enforced", &steps);
    for step in &steps {
        assert!(!step.arrived.action().contains("without-thinking"));
    }
    let edited = steps.iter().any(|step| step.arrived.action().contains("digest"));
    assert!(edited, "the conversation was edited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manual_thinking_of_the_current_turn_stays() {
    for session in SESSIONS {
        for window in [24_000, 32_768] {
            let name = format!("{session} at {window}");
            let play = Play::start(options(window, ThinkingRules::Manual), digests).await;
            let mut agent = Agent::new(session, MANUAL);
            agent.set("thinking", r#"{"type":"enabled","budget_tokens":2000}"#);
            let steps = play.whole(&mut agent).await;
            unharmed(&name, &steps);
            for step in &steps {
                assert!(!step.arrived.action().contains("without-thinking"), "{name}");
            }
        }
    }
}
