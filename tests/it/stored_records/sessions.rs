//! Sessions whose proxy is replaced repeatedly.

use longhaul::Config;
use longhaul::config::StoreLocation;
use longhaul_mock_model::{ModelOptions, TokenDensity};

use super::running_jobs::RunningJobs;
use super::{Place, summaries};
use crate::journey::{Journey, Step, bodies, digests, harmless, retries};
use crate::sessions::named;

/// The proxy restarts before every `EVERY`th request, so in all phases of a session.
const EVERY: usize = 7;

/// Plays the demo's session through one proxy or a series of them. Returns the steps and the cost
/// of summaries.
async fn play(
    options: ModelOptions,
    change: impl FnOnce(&mut Config),
    restarts: impl Fn(usize) -> bool,
) -> (Vec<Step>, usize) {
    let jobs = RunningJobs::watch();
    let place = Place::new();
    let mut journey = Journey::start(options, |config| {
        config.store.location = StoreLocation::File(place.file());
        change(config);
    })
    .await;
    let mut steps = Vec::new();
    for (at, body) in bodies(&named("cli-0018").replay()).enumerate() {
        if restarts(at) {
            journey.restart().await;
        }
        steps.push(journey.step(body).await);
        jobs.wait_until_none().await;
    }
    let cost = summaries(&journey.model.seen());
    (steps, cost)
}

/// Checks that the forwarded bytes and the cost do not depend on the number of restarts.
async fn check(options: ModelOptions, change: fn(&mut Config)) {
    let (whole, cost) = play(options.clone(), change, |_| false).await;
    let (parted, same) = play(options, change, |at| at > 0 && at % EVERY == 0).await;
    harmless("in many parts", &parted);
    assert_eq!(retries(&parted), retries(&whole));
    assert_eq!(parted.len(), whole.len());
    for (at, (one, other)) in whole.iter().zip(&parted).enumerate() {
        assert_eq!(one.forwarded().body, other.forwarded().body, "request {at}");
    }
    assert_eq!(same, cost);
}

#[tokio::test]
async fn restart_changes_no_byte_with_digests_and_a_learned_window() {
    let options =
        ModelOptions { density: TokenDensity::DENSE, ..ModelOptions::with_window(32_768) };
    check(options, digests).await;
}

#[tokio::test]
async fn a_restart_changes_no_byte_and_costs_no_summary() {
    // The hourly limit counts per process, so it is raised.
    check(ModelOptions::with_window(32_768), |config| {
        config.summary.max_per_hour = 100;
    })
    .await;
}
