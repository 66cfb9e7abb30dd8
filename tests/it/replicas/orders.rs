//! A session through several replicas is forwarded exactly as through a single process.

use bytes::Bytes;
use longhaul_mock_model::{ModelOptions, SessionRecording};

use super::fleet::{Fleet, forwarded, same};
use crate::journey::{bodies, harmless};
use crate::redis_server::RedisServer;

/// The client's choice of replica for each request, and the point at which all processes are
/// restarted.
struct Plan {
    name: &'static str,
    replicas: usize,
    /// Maps the index of a request to the index of its replica.
    chooses: fn(usize) -> usize,
    restarts_before: Option<usize>,
}

const ALONE: Plan =
    Plan { name: "one process", replicas: 1, chooses: |_| 0, restarts_before: None };

const PLANS: [Plan; 6] = [
    Plan { name: "two in turn", replicas: 2, chooses: |at| at % 2, ..ALONE },
    Plan { name: "three in turn", replicas: 3, chooses: |at| at % 3, ..ALONE },
    Plan { name: "three by chance", replicas: 3, chooses: by_chance, ..ALONE },
    Plan { name: "two, one after the other", replicas: 2, chooses: |at| at / 30 % 2, ..ALONE },
    Plan { name: "one that is started again", restarts_before: Some(70), ..ALONE },
    Plan {
        name: "three that are all started again",
        replicas: 3,
        chooses: |at| at % 3,
        restarts_before: Some(70),
    },
];

/// Chooses a replica pseudo-randomly, the same on every run.
fn by_chance(at: usize) -> usize {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize % 3
}

/// Plays the demo's session by a plan; returns the forwarded bodies and the number of summary
/// calls.
async fn play(
    plan: &Plan,
    replay: &SessionRecording,
    settings: &[(&str, &str)],
) -> (Vec<Vec<Bytes>>, usize) {
    play_beside(plan, replay, settings, None).await
}

async fn play_beside(
    plan: &Plan,
    replay: &SessionRecording,
    settings: &[(&str, &str)],
    expect: Option<&[Vec<Bytes>]>,
) -> (Vec<Vec<Bytes>>, usize) {
    let server = RedisServer::start();
    let options = ModelOptions::default();
    let mut fleet = Fleet::start(plan.replicas, options, &server.url(), settings).await;
    let mut steps = Vec::new();
    for (at, body) in bodies(replay).enumerate() {
        if plan.restarts_before == Some(at) {
            fleet.restart_all();
        }
        steps.push(fleet.step((plan.chooses)(at), body).await);
        fleet.settled(&server).await;
        fleet.counted(&server).await;
    }
    harmless(plan.name, &steps);
    if let Some(expect) = expect {
        same(plan.name, &steps, expect);
    }
    (forwarded(&steps), fleet.summaries())
}

/// Compares every plan with a single process; returns that process's number of summary calls.
async fn check(settings: &[(&str, &str)]) -> usize {
    let replay = longhaul_mock_model::session().unwrap();
    let (expect, summaries) = play(&ALONE, &replay, settings).await;
    for plan in &PLANS {
        let (_, asked) = play_beside(plan, &replay, settings, Some(&expect)).await;
        assert_eq!(asked, summaries, "{}", plan.name);
    }
    summaries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn replicas_forward_the_same_digests_as_one_process() {
    assert_eq!(check(&[("LONGHAUL_SUMMARY_MODEL", "none")]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn replicas_forward_the_same_summaries_as_one_process_at_no_extra_call() {
    assert!(check(&[]).await > 0);
}
