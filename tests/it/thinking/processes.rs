//! Restarts, lost records and several processes.

use std::fs;

use longhaul::Config;
use longhaul::config::StoreLocation;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::ThinkingRules;

use super::agent::{Agent, Play, stale_refusals, unharmed};
use super::{BINDING, options, within};
use crate::redis_server::RedisServer;

const WINDOW: u64 = 32_768;
/// Requests between two restarts.
const EVERY: usize = 17;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_without_stored_state_cost_at_most_one_retry_per_request() {
    for session in super::wanted().0 {
        let mut play = Play::start(options(WINDOW, ThinkingRules::Bound), within(WINDOW)).await;
        let mut agent = Agent::new(&session, BINDING);
        let mut steps = Vec::new();
        for request in 0..agent.len() {
            if request % EVERY == EVERY - 1 {
                play.restart().await;
            }
            steps.push(play.step(&mut agent, request, (0, &[])).await);
        }
        unharmed(&session, &steps);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_edits_cost_one_refusal_that_the_client_does_not_see() {
    let mut play = Play::start(options(WINDOW, ThinkingRules::Bound), within(WINDOW)).await;
    let mut agent = Agent::new("cli-0018", BINDING);
    let (most, whole) = (agent.len() * 3 / 4, agent.len());
    unharmed("before", &play.part(&mut agent, 0..most).await);
    // The new process has a window in which the whole conversation fits.
    play.model.change(|options| options.window = 10_000_000);
    play.config.window = Tokens::new(1_000_000);
    play.config.compaction.prune = false;
    play.restart().await;
    let steps = play.part(&mut agent, most..whole).await;
    unharmed("after", &steps);
    assert_eq!(stale_refusals(&steps), 1, "later requests repeat the removal");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_removals_survive_restarts_and_a_purge_costs_a_retry() {
    for session in super::wanted().0 {
        play_with_a_purge(&session).await;
    }
}

async fn play_with_a_purge(session: &str) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("store");
    let stored = |config: &mut Config| {
        within(WINDOW)(config);
        config.store.location = StoreLocation::File(file.clone());
    };
    let mut play = Play::start(options(WINDOW, ThinkingRules::Bound), stored).await;
    let mut agent = Agent::new(session, BINDING);
    let mut steps = Vec::new();
    let purge = agent.len() * 3 / 4;
    for request in 0..agent.len() {
        if request == purge {
            unharmed(session, &steps);
            assert!(stale_refusals(&steps) <= 1, "{session}: the store keeps what was learned");
            play.restart_after(|| fs::remove_file(&file).unwrap()).await;
        } else if request % EVERY == EVERY - 1 {
            play.restart().await;
        }
        steps.push(play.step(&mut agent, request, (0, &[])).await);
    }
    unharmed(session, &steps);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_that_share_nothing_never_show_a_refusal() {
    for session in super::wanted().0 {
        for rules in [ThinkingRules::Bound, ThinkingRules::Unenforced] {
            let mut play = Play::start(options(WINDOW, rules), within(WINDOW)).await;
            play.add_proxy().await;
            let mut agent = Agent::new(&session, BINDING);
            let mut steps = Vec::new();
            for request in 0..agent.len() {
                let proxy = usize::from(request % 3 == 2);
                steps.push(play.step(&mut agent, request, (proxy, &[])).await);
            }
            unharmed(&session, &steps);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn replicas_with_one_server_leave_out_the_same_thinking() {
    let server = RedisServer::start();
    let url = server.url();
    let secret = "5e".repeat(16);
    let settings = [
        ("upstream.base", "http://127.0.0.1:9/v1"),
        ("store.at", url.as_str()),
        ("store.scope_secret", secret.as_str()),
        ("store.wait", "10s"),
    ];
    let stored = Config::default_with(settings).unwrap().store;
    let shared = |config: &mut Config| {
        within(WINDOW)(config);
        config.store = stored.clone();
    };
    let mut play = Play::start(options(WINDOW, ThinkingRules::Bound), shared).await;
    play.add_proxy().await;
    let mut agent = Agent::new("cli-0018", BINDING);
    let mut steps = Vec::new();
    for request in 0..agent.len() {
        let proxy = usize::from(request % 3 == 2);
        steps.push(play.step(&mut agent, request, (proxy, &[])).await);
    }
    unharmed("one server", &steps);
    assert_eq!(stale_refusals(&steps), 1, "one replica learns for both");
}
