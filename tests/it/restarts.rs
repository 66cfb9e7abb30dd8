//! Clearing is a function of the history: a restart with an empty store changes no byte.

use crate::caller::{Caller, talk};
use crate::journey::{Journey, STANDS_FOR_HISTORY, Step, bodies};
use crate::program::Program;
use crate::sessions::named;
use longhaul::Config;
use longhaul_core::policy::Profile;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{Model, ModelOptions};

/// Sessions with the most tool results.
const SESSIONS: [&str; 10] = [
    "agentv-0431",
    "agentv-0432",
    "agentv-0435",
    "cli-0018",
    "cli-0057",
    "cli-0077",
    "context-evaluator-0368",
    "oh-my-posh-0277",
    "oh-my-posh-0306",
    "pi-before-compaction-e1",
];
const CLEARED: &str = "[Old tool result content cleared]";
/// Requests between two restarts.
const INTERVAL: usize = 3;

/// Size in tokens from which a summary is due in a window of 48,000: slightly less than the hard mark,
/// since the replay rounds the head up.
const DUE: usize = 36_000;

/// Returns the size that longhaul reports, or that of an unchanged body.
fn size(step: &Step) -> usize {
    let reported = step.arrived.field("tokens-after");
    let reported = reported.map(|tokens| tokens.parse().unwrap());
    reported.unwrap_or_else(|| step.forwarded().body.len() / 4)
}

fn contains(step: &Step, text: &str) -> bool {
    let body = &step.forwarded().body;
    body.windows(text.len())
        .any(|bytes| bytes == text.as_bytes())
}

/// Plays `session` until something is summarised, once without a restart and once with a restart
/// before every third request. Returns the number of requests with a cleared result.
async fn compare(session: &str, change: fn(&mut Config)) -> usize {
    let options = ModelOptions::with_window(10_000_000);
    let mut steady = Journey::start(options.clone(), change).await;
    let mut restarted = Journey::start(options, change).await;
    let mut cleared = 0;
    for (at, body) in bodies(&named(session).replay()).enumerate() {
        if at % INTERVAL == INTERVAL - 1 {
            restarted.restart().await;
        }
        let one = steady.step(body.clone()).await;
        let other = restarted.step(body).await;
        if contains(&one, STANDS_FOR_HISTORY) {
            break;
        }
        // Once a summary is due, a process that has not seen the conversation takes a digest.
        if contains(&other, STANDS_FOR_HISTORY) {
            assert!(size(&one) >= DUE, "{session}, request {at}: {}", size(&one));
            break;
        }
        assert!(
            one.forwarded().body == other.forwarded().body,
            "{session}, request {at}"
        );
        cleared += usize::from(contains(&one, CLEARED));
    }
    cleared
}

#[tokio::test]
async fn rule_based_clearing_is_identical_after_restarts() {
    let mut cleared = 0;
    for session in SESSIONS {
        cleared += compare(session, |config| {
            config.window = Tokens::new(200_000);
            config.compaction.profile = Profile::Standard;
        })
        .await;
    }
    assert!(cleared > 100, "{cleared}");
}

#[tokio::test]
async fn clearing_at_the_mark_is_identical_after_restarts() {
    let mut cleared = 0;
    for session in SESSIONS {
        cleared += compare(session, |config| {
            config.window = Tokens::new(48_000);
        })
        .await;
    }
    assert!(cleared > 20, "{cleared}");
}

#[tokio::test]
async fn a_restarted_process_begins_with_the_windows_that_it_learned() {
    let model = Model::start(ModelOptions::with_window(32_768))
        .await
        .unwrap();
    let home = tempfile::tempdir().unwrap();
    let env = [
        ("HOME", home.path().to_str().unwrap()),
        ("LONGHAUL_SUMMARY_MODEL", "none"),
    ];
    let mut refusals = Vec::new();
    for tokens in [2_000, 2_100] {
        let program = Program::told(&model.url(), &env);
        let reply = Caller::of(program.address()).ask(talk(20, tokens)).await;
        assert_eq!(reply.status, 200);
        program.closed();
        let refused = model
            .seen()
            .iter()
            .filter(|seen| seen.status == 400)
            .count();
        refusals.push(refused);
    }
    assert_eq!(refusals, [1, 1], "the second process knows the window");
}
