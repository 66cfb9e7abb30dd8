//! A summary that several replicas need is made only once.

use longhaul_mock_model::{
    ModelOptions, ReplyCompletion, RequestKind, SeenRequest, SummaryBehaviour,
};
use tokio::task::JoinSet;

use super::fleet::{Fleet, NOW, summaries};
use crate::caller::{Caller, talk};
use crate::journey::bodies;
use crate::redis_server::RedisServer;
use crate::sessions::named;
use crate::time_limit::bounded;

/// Builds a conversation long enough to summarise.
fn long() -> Vec<u8> {
    talk(24, 2_000)
}

/// Returns the options of a model that accepts any size.
fn boundless() -> ModelOptions {
    ModelOptions::with_window(10_000_000)
}

fn pending(seen: &[SeenRequest]) -> bool {
    let pending = |seen: &SeenRequest| {
        seen.kind == RequestKind::Summary && seen.ended == ReplyCompletion::Pending
    };
    seen.iter().any(pending)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn fifty_equal_requests_over_three_replicas_make_one_summary() {
    let server = RedisServer::start();
    let fleet = Fleet::start(3, boundless(), &server.url(), &[]).await;
    let mut asking = JoinSet::new();
    for at in 0..50 {
        let caller = fleet.caller(at % 3);
        asking.spawn(async move {
            let arrived = caller.ask_with(&[NOW], long()).await;
            (arrived.status, arrived.action().to_owned())
        });
    }
    for came in asking.join_all().await {
        assert_eq!(came, (200, "summary".to_owned()));
    }
    let mut seen = fleet.model.seen();
    assert_eq!(summaries(&seen), 1);
    seen.retain(|seen| seen.kind == RequestKind::Chat);
    assert_eq!(seen.len(), 50);
    assert!(seen.iter().all(|one| one.body == seen[0].body));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn fifty_equal_overflowing_requests_make_one_summary() {
    let server = RedisServer::start();
    // A summary prepared in the background after a reply would cover more history and count as
    // another one.
    let settings = [("DISABLE_AUTOCOMPACT", "1"), ("DISABLE_PRUNE", "1")];
    let fleet = Fleet::start(3, ModelOptions::default(), &server.url(), &settings).await;
    let body = bodies(&named("cli-0018").replay()).nth(80).unwrap();
    let mut asking = JoinSet::new();
    for at in 0..50 {
        let (caller, body) = (fleet.caller(at % 3), body.clone());
        asking.spawn(async move { caller.ask(body).await.status });
    }
    assert!(asking.join_all().await.iter().all(|status| *status == 200));
    assert_eq!(fleet.summaries(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn a_replica_that_dies_in_mid_summary_costs_one_more_call() {
    let server = RedisServer::start();
    let hangs = ModelOptions { summary: SummaryBehaviour::Hangs, ..boundless() };
    let mut fleet = Fleet::start(3, hangs, &server.url(), &[]).await;
    let doomed = fleet.caller(0);
    let asked = tokio::spawn(async move { ask_in_vain(&doomed).await });
    bounded(fleet.model.wait_for(pending)).await;
    fleet.model.change(|options| options.summary = SummaryBehaviour::Faithful);
    let others: Vec<_> = [1, 2]
        .map(|replica| {
            let caller = fleet.caller(replica);
            tokio::spawn(async move {
                let arrived = caller.ask_with(&[NOW], long()).await;
                (arrived.status, arrived.action().to_owned())
            })
        })
        .into();
    fleet.restart(0);
    for other in others {
        assert_eq!(other.await.unwrap(), (200, "summary".to_owned()));
    }
    assert_eq!(fleet.summaries(), 2);
    // The replacement replica uses the summary, too.
    let arrived = fleet.caller(0).ask(long()).await;
    assert_eq!((arrived.status, arrived.action()), (200, "summary"));
    assert_eq!(fleet.summaries(), 2);
    asked.abort();
}

/// Sends a request to a replica that is killed before it replies.
async fn ask_in_vain(caller: &Caller) {
    caller.ask_with(&[NOW], long()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn replica_uses_a_digest_if_anothers_summary_takes_too_long() {
    let server = RedisServer::start();
    let hangs = ModelOptions { summary: SummaryBehaviour::Hangs, ..boundless() };
    let brief = [("LONGHAUL_SUMMARY_WAIT", "2s")];
    let fleet = Fleet::start(2, hangs, &server.url(), &brief).await;
    let (one, other) = (fleet.caller(0), fleet.caller(1));
    let later = async {
        bounded(fleet.model.wait_for(pending)).await;
        other.ask_with(&[NOW], long()).await
    };
    let (one, other) = tokio::join!(one.ask_with(&[NOW], long()), later);
    for arrived in [one, other] {
        assert_eq!((arrived.status, arrived.action()), (200, "digest"));
    }
    let seen = fleet.model.seen();
    assert_eq!(summaries(&seen), 1);
    let chats: Vec<&SeenRequest> =
        seen.iter().filter(|seen| seen.kind == RequestKind::Chat).collect();
    assert_eq!(chats[0].body, chats[1].body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn keeps_preparing_summaries_that_another_replica_uses() {
    let server = RedisServer::start();
    let settings = [("LONGHAUL_WINDOW", "32768")];
    let mut fleet = Fleet::start(2, boundless(), &server.url(), &settings).await;
    let (mut turns, mut before) = (0, 0);
    // More rounds than the limit of three unused summaries.
    for round in 1..=4 {
        let prepared = |fleet: &Fleet| fleet.replicas[0].said().matches("preparing a").count();
        while prepared(&fleet) < round {
            turns += 1;
            let step = fleet.step(0, talk(turns, 1_000)).await;
            before = step.forwarded().body.len();
            fleet.settled(&server).await;
            let waited = fleet.replicas[0].said().contains("compacting …");
            assert!(!waited, "none is prepared after {}", round - 1);
        }
        loop {
            turns += 1;
            assert!(turns < 200, "nothing is used");
            let step = fleet.step(1, talk(turns, 1_000)).await;
            let forwarded = step.forwarded().body.len();
            if forwarded < before {
                break;
            }
            before = forwarded;
            fleet.settled(&server).await;
        }
    }
}
