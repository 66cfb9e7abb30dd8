//! Each recovery step, in sessions that need it.

use longhaul_mock_model::{ModelOptions, TokenDensity, Verdict};

use crate::journey::{Journey, bodies, breaks, digests, harmless, retries};
use crate::recovery::undisturbed;
use crate::sessions::named;

/// A recorded session, and the window that makes it need a certain recovery step.
struct Case {
    session: &'static str,
    /// Index of the first request sent to the proxy, counted from 0.
    from: usize,
    /// The model's window, as a percentage of that request's size.
    window_percent: u64,
    /// The action that the proxy reports for that request.
    action: &'static str,
}

/// Asserts that the first request overflows and takes the step, and that the next 20 overflow no more than once.
async fn check(case: Case) {
    let Case { session, from, window_percent, action } = case;
    let replay = named(session).replay();
    let mut journey = Journey::start(ModelOptions::with_window(10_000_000), |config| {
        digests(config);
        undisturbed(config);
    })
    .await;
    let all: Vec<Vec<u8>> = bodies(&replay).skip(from).take(21).collect();
    // Measured by a separate model, so that the proxy learns nothing from it.
    let size = crate::recovery::size(&all[0], TokenDensity::STANDARD).await;
    journey.model.change(|options| options.window = size * window_percent / 100);
    let steps = journey.play(all).await;
    harmless(session, &steps);
    assert_eq!(steps[0].arrived.action(), action, "{session}");
    assert_eq!(steps[0].upstream.len(), 2, "{session}");
    // The newest result is clipped no more than the window demands, so that one of the next is too long again.
    let overflows = if action == "retry, clip" { 2 } else { 1 };
    assert_eq!(retries(&steps), overflows, "{session}");
    assert_eq!(breaks(&steps), overflows - 1, "{session}: else a prefix that only grows");
}

#[tokio::test]
async fn retry_only_clears_if_old_results_are_large() {
    check(Case { session: "cli-0237", from: 15, window_percent: 95, action: "retry, prune" }).await;
}

#[tokio::test]
async fn retry_uses_a_digest_if_clearing_is_not_enough() {
    check(Case {
        session: "agentv-0434",
        from: 60,
        window_percent: 40,
        action: "retry, prune, digest",
    })
    .await;
}

#[tokio::test]
async fn retry_clips_the_newest_results_if_they_are_too_long() {
    check(Case { session: "cli-0077", from: 1, window_percent: 93, action: "retry, clip" }).await;
}

#[tokio::test]
async fn relays_the_refusal_if_nothing_would_fit() {
    // The agent's instructions alone are 50,000 bytes.
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
