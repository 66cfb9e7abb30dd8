//! Signed thinking of the Messages API over forks, undone steps, other models, restarts, lost records
//! and several processes. The client sees no refusal, and nothing is sent more than twice.

use longhaul::Config;
use longhaul::config::StoreLocation;
use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{RequestKind, ThinkingRules, Verdict};
use serde_json::{Value, json};

use super::proxied::Setup;
use super::thinking::{Agent, Keeps, SESSIONS};
use crate::redis_server::RedisServer;

/// Rules of an account and a model.
#[derive(Clone, Copy, Debug)]
enum Rules {
    /// A model from 5.1 on, enforced.
    Bound,
    /// A model up to 4.5 with a thinking budget.
    Manual,
    /// A model from 5.1 on, not enforced.
    Unenforced,
}

impl Rules {
    fn model(self) -> &'static str {
        match self {
            Self::Bound | Self::Unenforced => "claude-opus-5-5",
            Self::Manual => "claude-sonnet-4-5-20250929",
        }
    }

    fn other_model(self) -> &'static str {
        match self {
            Self::Bound | Self::Unenforced => "claude-fable-5-2",
            Self::Manual => "claude-haiku-4-5",
        }
    }

    fn thinking(self) -> Value {
        match self {
            Self::Bound | Self::Unenforced => json!({"type": "adaptive"}),
            Self::Manual => json!({"type": "enabled", "budget_tokens": 2_000}),
        }
    }

    fn of_the_model(self) -> ThinkingRules {
        match self {
            Self::Bound => ThinkingRules::Bound,
            // The validity rules check the loop of manual thinking.
            Self::Manual | Self::Unenforced => ThinkingRules::Unenforced,
        }
    }
}

/// Sends the request that ends at `end` through a process, and takes the thinking of the reply. Returns
/// the number of refusals that the client did not see.
async fn step(name: &str, setup: &Setup, agent: &mut Agent, end: usize, process: usize) -> usize {
    let before = setup.model.seen().len();
    let body = agent.request(end);
    let reply = setup.ask_through(process, &body).await;
    let mut seen = setup.model.seen().split_off(before);
    seen.retain(|it| it.kind == RequestKind::Chat);
    let sent: Vec<Verdict> = seen.iter().map(|it| it.verdict).collect();
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert_eq!(reply.status, 200, "{name} {end}: {sent:?} {text}");
    assert!((1..=2).contains(&sent.len()), "{name} {end}: {sent:?}");
    assert_eq!(sent.last(), Some(&Verdict::Accepted), "{name} {end}");
    let longest = seen.iter().map(|it| it.body.len()).max();
    assert!(longest.unwrap() <= body.to_string().len(), "{name} {end}");
    agent.take(end, &reply.body);
    sent.len() - 1
}

/// Plays a session with a restart, undone steps, a fork, requests to another model, and a purge of what
/// is stored.
async fn play(
    session: &str,
    rules: Rules,
    processes: usize,
    change: impl Fn(&mut Config),
) -> usize {
    let name = format!("{session} {rules:?}");
    let window = 56_000;
    let mut setup = Setup::start(window, |config| {
        config.window = Tokens::new(u32::try_from(window * 3 / 4).unwrap());
        change(config);
    })
    .await;
    let of_the_model = rules.of_the_model();
    setup.model.change(|options| options.thinking = of_the_model);
    for _ in 1..processes {
        setup.add_proxy().await;
    }
    let mut agent = Agent::new(session, rules.model(), rules.thinking(), Keeps::All);
    let ends = agent.ends.clone();
    let part = ends.len() / 6;
    let mut refused = 0;
    for (at, &end) in ends.iter().enumerate() {
        let process = usize::from(at % 3 == 2) % processes;
        if at == part {
            setup.restart().await;
        } else if at == 2 * part {
            for &undone in &ends[at - 3..at] {
                refused += step(&name, &setup, &mut agent, undone, process).await;
            }
        } else if at == 3 * part {
            agent.fork(end);
        } else if at == 4 * part {
            agent.set_model(rules.other_model());
        } else if at == 5 * part {
            agent.set_model(rules.model());
            setup.purge().await;
        }
        refused += step(&name, &setup, &mut agent, end, process).await;
    }
    refused
}

/// Returns two sessions from the one at `first` on, or all with `LONGHAUL_SESSIONS=all`. Every session is
/// played in memory.
fn half(first: usize) -> impl Iterator<Item = &'static str> {
    let is_all = std::env::var("LONGHAUL_SESSIONS").is_ok_and(|asked| asked == "all");
    let (first, count) = if is_all { (0, SESSIONS.len()) } else { (first, 2) };
    SESSIONS.into_iter().skip(first).take(count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_messages_session_in_memory_show_no_refusal_to_the_client() {
    for session in SESSIONS {
        for rules in [Rules::Bound, Rules::Manual, Rules::Unenforced] {
            play(session, rules, 1, |_| ()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_messages_session_with_a_file_show_no_refusal_to_the_client() {
    for session in half(0) {
        for rules in [Rules::Bound, Rules::Manual, Rules::Unenforced] {
            let place = tempfile::tempdir().unwrap();
            let file = place.path().join("store");
            let stored = |config: &mut Config| {
                config.store.location = StoreLocation::File(file.clone());
            };
            play(session, rules, 1, stored).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_messages_session_on_two_processes_that_share_nothing_shows_no_refusal() {
    for session in half(2) {
        for rules in [Rules::Bound, Rules::Manual, Rules::Unenforced] {
            play(session, rules, 2, |_| ()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn a_messages_session_on_replicas_with_one_server_shows_no_refusal() {
    for session in half(0) {
        for rules in [Rules::Bound, Rules::Manual, Rules::Unenforced] {
            let server = RedisServer::start();
            let url = server.url();
            let settings = [
                ("upstream.base", "http://127.0.0.1:9/v1"),
                ("store.at", url.as_str()),
                ("store.scope_secret", "a secret of thirty-two characters"),
                ("store.wait", "10s"),
            ];
            let store = Config::default_with(settings).unwrap().store;
            play(session, rules, 2, |config| config.store = store.clone()).await;
        }
    }
}
