//! Each rung of the ladder, in sessions that need it.

use longhaul::demo::{ModelOptions, TokenDensity, Verdict};

use crate::journey::{Journey, bodies, breaks, digests, harmless, retries};
use crate::recovery::undisturbed;
use crate::sessions::named;

/// A real session, and the model that leads it to a rung.
struct Case {
    session: &'static str,
    /// The request that is the first to reach the proxy, counted from 0.
    from: usize,
    /// The model's window, in hundredths of what that request comes to.
    window_percent: u64,
    /// What the proxy says of it.
    action: &'static str,
}

/// The first request overflows and takes the rung; the next 20 need no other.
async fn check(case: Case) {
    let Case {
        session,
        from,
        window_percent,
        action,
    } = case;
    let replay = named(session).replay();
    let mut journey = Journey::start(ModelOptions::with_window(10_000_000), |config| {
        digests(config);
        undisturbed(config);
    })
    .await;
    let all: Vec<Vec<u8>> = bodies(&replay).skip(from).take(21).collect();
    // Asked first for its size alone, as another caller's, who shares nothing with this one.
    let size = crate::recovery::size(&all[0], TokenDensity::STANDARD).await;
    journey
        .model
        .change(|options| options.window = size * window_percent / 100);
    let steps = journey.play(all).await;
    harmless(session, &steps);
    assert_eq!(steps[0].arrived.action(), action, "{session}");
    assert_eq!(steps[0].upstream.len(), 2, "{session}");
    assert_eq!(retries(&steps), 1, "{session}: one overflow");
    assert_eq!(breaks(&steps), 0, "{session}: a prefix that only grows");
}

#[tokio::test]
async fn clearing_is_enough_where_old_results_are_much() {
    check(Case {
        session: "cli-0237",
        from: 15,
        window_percent: 95,
        action: "retry, prune",
    })
    .await;
}

#[tokio::test]
async fn a_digest_stands_for_history_where_clearing_is_not_enough() {
    check(Case {
        session: "cli-0018",
        from: 60,
        window_percent: 45,
        action: "retry, digest",
    })
    .await;
}

#[tokio::test]
async fn the_newest_results_are_clipped_where_they_are_what_is_too_long() {
    check(Case {
        session: "cli-0077",
        from: 1,
        window_percent: 93,
        action: "retry, clip",
    })
    .await;
}

#[tokio::test]
async fn where_nothing_would_fit_the_refusal_arrives_as_it_came() {
    // What the agent is told before it begins is 50,000 bytes.
    let options = ModelOptions::with_window(12_000);
    let mut journey = Journey::start(options.clone(), digests).await;
    let body = bodies(&named("agentv-0432").replay()).nth(20).unwrap();
    let step = journey.step(body).await;
    assert_eq!(step.arrived.action(), "gave-up");
    assert_eq!(step.upstream.len(), 1);
    assert_eq!(step.upstream[0].verdict, Verdict::Overflowed);
    assert_eq!(step.upstream[0].body, step.sent);
    let direct = crate::recovery::directly(options, &step.sent).await;
    let (status, body) = (step.arrived.status, &step.arrived.body);
    assert_eq!((status, body), (direct.status, &direct.body));
}
