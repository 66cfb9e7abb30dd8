//! A proxy that ends mid-session and is replaced by another.

use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{ModelOptions, TokenDensity};

use crate::journey::{Journey, bodies, digests, harmless, retries};
use crate::sessions::named;

/// Number of requests before the restart; three digests exist by then.
const RESTART: usize = 70;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_changes_no_byte_if_the_window_is_configured() {
    let options = ModelOptions::with_window(32_768);
    let window_is_set = |config: &mut longhaul::Config| {
        digests(config);
        config.window = Tokens::new(26_000);
    };
    let replay = named("cli-0018").replay();
    let mut whole = Journey::start(options.clone(), window_is_set).await;
    let mut parted = Journey::start(options, window_is_set).await;
    let expect = whole.play(bodies(&replay)).await;
    let mut steps = parted.play(bodies(&replay).take(RESTART)).await;
    parted.restart().await;
    steps.extend(parted.play(bodies(&replay).skip(RESTART)).await);
    harmless("in two parts", &steps);
    assert_eq!(retries(&steps), 0);
    for (at, (one, other)) in expect.iter().zip(&steps).enumerate() {
        assert_eq!(one.forwarded().body, other.forwarded().body, "request {at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_proxy_learns_the_window_from_one_refusal() {
    let options =
        ModelOptions { density: TokenDensity::DENSE, ..ModelOptions::with_window(32_768) };
    let replay = named("cli-0018").replay();
    let mut journey = Journey::start(options, digests).await;
    let before = journey.play(bodies(&replay).take(RESTART)).await;
    journey.restart().await;
    let after = journey.play(bodies(&replay).skip(RESTART)).await;
    for steps in [&before, &after] {
        harmless("in two parts", steps);
        assert_eq!(retries(steps), 1);
    }
}
