//! A history that fits, with an output limit that does not: the retry asks for less output, under
//! the same key.

use longhaul_core::units::tokens::Tokens;
use longhaul_mock_model::{ErrorFamily, ModelOptions, TokenDensity, Verdict};

use crate::journey::{Journey, Step, bodies, digests, harmless, retries};
use crate::recovery::undisturbed;
use crate::sessions::named;

async fn check(key: &str, family: ErrorFamily) {
    const ASKED: &str = "31000";
    let replay = named("cli-0237").replay().with_field(key, ASKED);
    let body = bodies(&replay).next().unwrap();
    let size = super::size(&body, TokenDensity::STANDARD).await;
    let options = ModelOptions::with_window(size + 20_000).refusing_as(family);
    let mut journey = Journey::start(options, digests).await;
    let step = journey.step(body).await;
    assert!(step.arrived.is_answer(), "{key}, {family:?}");
    assert_eq!(step.arrived.action(), "smaller-output");
    assert_eq!(step.upstream.len(), 2, "{key}, {family:?}");
    let forwarded = step.forwarded();
    assert_eq!(forwarded.verdict, Verdict::Accepted);
    let lowered = forwarded.max_output.unwrap();
    assert!((10_000..=20_000).contains(&lowered), "{lowered}");
    let sent = str::from_utf8(&step.sent).unwrap();
    let expect = sent.replace(&format!("\"{key}\": {ASKED}"), &format!("\"{key}\": {lowered}"));
    assert_eq!(forwarded.body, expect, "all else is as it was");
}

#[tokio::test]
async fn lowers_the_output_limit_under_the_key_the_client_used() {
    for key in ["max_tokens", "max_completion_tokens"] {
        for family in [ErrorFamily::OpenAi, ErrorFamily::Anthropic, ErrorFamily::OpenRouter] {
            check(key, family).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_limit_is_refused_and_lowered_only_once_in_a_session() {
    let replay = named("cli-0155").replay().with_field("max_tokens", "4000");
    let mut journey = Journey::start(ModelOptions::with_window(32_768), digests).await;
    let steps = journey.play(bodies(&replay)).await;
    harmless("a session that asks for an output", &steps);
    let lowered = |step: &&Step| step.arrived.action() == "smaller-output";
    assert_eq!(steps.iter().filter(lowered).count(), 1);
    assert_eq!(retries(&steps), 1);
}

#[tokio::test]
async fn a_stated_window_lowers_the_output_before_the_first_send() {
    // Whatever no model of this window writes goes, and else a small part. A server may not count the output, so
    // that a larger part waits for its refusal.
    for (output, refused) in [("4000", 1), ("64000", 0)] {
        let replay = named("cli-0155").replay().with_field("max_tokens", output);
        let options = ModelOptions::with_window(32_768);
        let mut journey = Journey::start(options, |config| {
            digests(config);
            config.window = Tokens::new(32_768);
            config.window_place = Some("a test".into());
        })
        .await;
        let steps = journey.play(bodies(&replay)).await;
        harmless("a session that asks for an output", &steps);
        let lowered = |step: &&Step| step.arrived.action().contains("smaller-output");
        assert!(steps.iter().any(|step| lowered(&step)), "{output}");
        assert_eq!(retries(&steps), refused, "{output}");
    }
}

#[tokio::test]
async fn compacts_history_if_too_little_output_would_remain() {
    let replay = named("cli-0164").replay().with_field("max_tokens", "8000");
    let body = bodies(&replay).nth(30).unwrap();
    let size = super::size(&body, TokenDensity::STANDARD).await;
    for (beside, expect) in [(1_100, "retry"), (1_500, "smaller-output")] {
        let options = ModelOptions::with_window(size + beside);
        let mut journey = Journey::start(options, |config| {
            digests(config);
            undisturbed(config);
        })
        .await;
        let step = journey.step(body.clone()).await;
        assert!(step.arrived.is_answer());
        let action = step.arrived.action();
        assert!(action.starts_with(expect), "{beside}: {action}");
    }
}

#[tokio::test]
async fn output_limit_is_not_lowered_to_the_thinking_budget() {
    for (thought, expect) in [(1_000, "smaller-output"), (5_000, "retry")] {
        let thinking = format!(r#"{{"type":"enabled","budget_tokens":{thought}}}"#);
        let replay = named("cli-0164").replay();
        let replay = replay.with_field("max_tokens", "8000");
        let replay = replay.with_field("thinking", &thinking);
        let body = bodies(&replay).nth(30).unwrap();
        let size = super::size(&body, TokenDensity::STANDARD).await;
        let mut journey = Journey::start(ModelOptions::with_window(size + 4_000), |config| {
            digests(config);
            undisturbed(config);
        })
        .await;
        let step = journey.step(body).await;
        assert!(step.arrived.is_answer());
        let action = step.arrived.action();
        assert!(action.starts_with(expect), "{thought}: {action}");
    }
}
