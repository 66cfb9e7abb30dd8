//! Recorded sessions of the Responses API over forks, undone steps, restarts, lost records and several
//! processes. The strict model checks that each reasoning item keeps its pair. The client sees no
//! refusal, and nothing is sent more than twice.

use std::fs;

use longhaul::Config;
use longhaul::config::{StoreConfig, StoreLocation};
use longhaul_mock_model::{Model, ModelOptions, RequestKind, Verdict};
use serde_json::json;

use super::RecordedInput;
use super::served::{PATH, is_answer};
use crate::caller::Caller;
use crate::harness::Proxy;
use crate::redis_server::RedisServer;

/// Sessions played unless the environment variable `LONGHAUL_SESSIONS` is `all`.
const SESSIONS: [&str; 3] = ["mise-70705592", "mise-a3fd10d1", "session-bridge-58645bc8"];
const WINDOW: u64 = 60_000;

fn wanted() -> Vec<RecordedInput> {
    let mut sessions = RecordedInput::all();
    if std::env::var("LONGHAUL_SESSIONS").is_ok_and(|wanted| wanted == "all") {
        return sessions;
    }
    let is_wanted = |it: &RecordedInput| SESSIONS.iter().any(|name| it.name.starts_with(name));
    sessions.retain(is_wanted);
    sessions
}

/// Returns the store of these settings.
fn store(settings: &[(&str, &str)]) -> StoreConfig {
    let base = ("upstream.base", "http://127.0.0.1:9/v1");
    let settings = settings.iter().copied().chain([base]);
    Config::default_with(settings).unwrap().store
}

async fn start(config: &Config, processes: usize) -> Vec<Proxy> {
    let mut proxies = Vec::new();
    for _ in 0..processes {
        proxies.push(Proxy::with(config.clone()).await);
    }
    proxies
}

async fn stop(proxies: Vec<Proxy>) {
    for proxy in proxies {
        proxy.stop().await;
    }
}

async fn play(session: &mut RecordedInput, processes: usize, store: StoreConfig) {
    let model = Model::start(ModelOptions::with_window(WINDOW)).await.unwrap();
    let base = model.url();
    let settings =
        [("upstream.base", base.as_str()), ("window", "60000"), ("summary.model", "none")];
    let mut config = Config::default_with(settings).unwrap();
    config.store = store.clone();
    let mut proxies = start(&config, processes).await;
    let count = session.points().len();
    let (mut at, mut undone) = (0, false);
    while at < count {
        if at == count / 5 || at == 4 * count / 5 {
            stop(proxies).await;
            if let (StoreLocation::File(file), true) = (&store.location, at > count / 2) {
                fs::remove_file(file).unwrap();
            }
            proxies = start(&config, processes).await;
        } else if at == 2 * count / 5 && !undone {
            (at, undone) = (at - 3, true);
        } else if at == 3 * count / 5 {
            let end = session.points()[at];
            let words = json!({"type": "message", "role": "user", "content": "Go back."});
            let items = session.body["input"].as_array_mut().unwrap();
            items.insert(end, words);
        }
        let point = session.points()[at];
        let before = model.seen().len();
        let caller = Caller::of(proxies[at % 3 % processes].address);
        let reply = caller.ask_at(PATH, &[], session.request(point)).await;
        let mut seen = model.seen().split_off(before);
        seen.retain(|it| it.kind == RequestKind::Chat);
        let sent: Vec<Verdict> = seen.iter().map(|it| it.verdict).collect();
        let name = format!("{} {at}: {sent:?}", session.name);
        assert!(is_answer(&reply), "{name} {:?}", reply.body);
        assert!((1..=2).contains(&sent.len()), "{name}");
        assert!(!sent.iter().any(|it| matches!(it, Verdict::Broken(_))), "{name}");
        at += 1;
    }
    stop(proxies).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_responses_session_in_memory_show_no_refusal_to_the_client() {
    for mut session in wanted() {
        play(&mut session, 1, store(&[])).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_responses_session_with_a_file_show_no_refusal_to_the_client() {
    for mut session in wanted() {
        let place = tempfile::tempdir().unwrap();
        let at = format!("file:{}", place.path().join("store").display());
        play(&mut session, 1, store(&[("store.at", &at)])).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_responses_session_on_two_processes_that_share_nothing_shows_no_refusal() {
    for mut session in wanted() {
        play(&mut session, 2, store(&[])).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn a_responses_session_on_replicas_with_one_server_shows_no_refusal() {
    for mut session in wanted() {
        let server = RedisServer::start();
        let url = server.url();
        let shared = store(&[
            ("store.at", &url),
            ("store.scope_secret", "a secret of thirty-two characters"),
            ("store.wait", "10s"),
        ]);
        play(&mut session, 2, shared).await;
    }
}
